"""All tables. A row class ends in `Row`; what the domain sees and what REST shows are other classes."""

from .base import Base, Json, UtcDateTime
from .budgets import BudgetAlertRow, PoolRow, SpendingRow
from .cluster import (
    ApiServerRow,
    ControllerLeaseRow,
    NodeRow,
    NodeSampleRow,
    NodeSlotRow,
    PreflightRow,
)
from .data import (
    BlobChunkRow,
    BlobRow,
    LogChunkRow,
    LogStreamRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
    MetricSpanRow,
)
from .deployments import DeploymentReplicaRow, DeploymentRevisionRow, DeploymentRow
from .diagnoses import DiagnosisRow
from .experiments import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    EvaluationRow,
    EventRow,
    ExperimentRow,
    ProcessGroupRow,
    ProjectRow,
    ScheduleRow,
    SearchEventRow,
    StacksRow,
    TrialRow,
    WorkerRow,
)
from .exports import ExportChunkRow, ExportRow
from .identity import (
    ApiTokenRow,
    AuditRow,
    IdempotencyRow,
    JoinTokenRow,
    OneTimeTokenRow,
    SessionRow,
    UserRow,
)
from .layer_tables import LayerTableRow
from .media import MediaDropsRow, MediaRow
from .notifications import (
    DeliveryRow,
    InboxRow,
    NotificationRow,
    NotificationRuleRow,
    NotificationRuleTargetRow,
    NotificationTargetRow,
    OutboxRow,
)
from .outputs import TrialOutputsRow
from .predictions import PredictionRow, PredictionShardRow
from .profiles import ProfilePieceRow, ProfileRow
from .providers import PilotRow, PoolProviderRow
from .registry import (
    ModelAliasMoveRow,
    ModelAliasRow,
    ModelBlobChunkRow,
    ModelBlobRow,
    ModelFileRow,
    ModelPromotionRow,
    ModelRow,
    ModelUseRow,
    ModelVersionRow,
)
from .scaling import ScalingReportRow
from .secrets import SecretRow
from .storage import ClusterIdentityRow, FileDeletionRow
from .tracking import (
    LoggedModelRow,
    RunArtifactChunkRow,
    RunArtifactRow,
    TrackedRunRow,
    TrackingExperimentRow,
    UnmanagedRunRow,
)
from .tunnels import TunnelRow
from .views import DismissalRow, PanelRow, SavedViewRow

__all__ = [
    "AllocationRow",
    "ApiServerRow",
    "ApiTokenRow",
    "AttemptRow",
    "AuditRow",
    "Base",
    "BlobChunkRow",
    "BlobRow",
    "BudgetAlertRow",
    "CheckpointRow",
    "ClusterIdentityRow",
    "ControllerLeaseRow",
    "DeliveryRow",
    "DeploymentReplicaRow",
    "DeploymentRevisionRow",
    "DeploymentRow",
    "DiagnosisRow",
    "DismissalRow",
    "EvaluationRow",
    "EventRow",
    "ExperimentRow",
    "ExportChunkRow",
    "ExportRow",
    "FileDeletionRow",
    "IdempotencyRow",
    "InboxRow",
    "JoinTokenRow",
    "Json",
    "LayerTableRow",
    "LogChunkRow",
    "LogStreamRow",
    "LoggedModelRow",
    "MediaDropsRow",
    "MediaRow",
    "MetricBatchRow",
    "MetricBlockRow",
    "MetricSeriesRow",
    "MetricSpanRow",
    "ModelAliasMoveRow",
    "ModelAliasRow",
    "ModelBlobChunkRow",
    "ModelBlobRow",
    "ModelFileRow",
    "ModelPromotionRow",
    "ModelRow",
    "ModelUseRow",
    "ModelVersionRow",
    "NodeRow",
    "NodeSampleRow",
    "NodeSlotRow",
    "NotificationRow",
    "NotificationRuleRow",
    "NotificationRuleTargetRow",
    "NotificationTargetRow",
    "OneTimeTokenRow",
    "OutboxRow",
    "PanelRow",
    "PilotRow",
    "PoolProviderRow",
    "PoolRow",
    "PredictionRow",
    "PredictionShardRow",
    "PreflightRow",
    "ProcessGroupRow",
    "ProfilePieceRow",
    "ProfileRow",
    "ProjectRow",
    "RunArtifactChunkRow",
    "RunArtifactRow",
    "SavedViewRow",
    "ScalingReportRow",
    "ScheduleRow",
    "SearchEventRow",
    "SecretRow",
    "SessionRow",
    "SpendingRow",
    "StacksRow",
    "TrackedRunRow",
    "TrackingExperimentRow",
    "TrialOutputsRow",
    "TrialRow",
    "TunnelRow",
    "UnmanagedRunRow",
    "UserRow",
    "UtcDateTime",
    "WorkerRow",
]
