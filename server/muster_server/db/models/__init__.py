"""All tables. A row class ends in `Row`; what the domain sees and what REST shows are other classes."""

from .base import Base, Json, UtcDateTime
from .budgets import BudgetAlertRow, PoolRow, SpendingRow
from .cluster import ControllerLeaseRow, NodeRow, NodeSlotRow, PreflightRow
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
from .experiments import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    EvaluationRow,
    EventRow,
    ExperimentRow,
    ProcessGroupRow,
    ProjectRow,
    SearchEventRow,
    TrialRow,
    WorkerRow,
)
from .identity import (
    ApiTokenRow,
    AuditRow,
    IdempotencyRow,
    JoinTokenRow,
    OneTimeTokenRow,
    SessionRow,
    UserRow,
)
from .storage import ClusterIdentityRow, FileDeletionRow

__all__ = [
    "AllocationRow",
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
    "EvaluationRow",
    "EventRow",
    "ExperimentRow",
    "FileDeletionRow",
    "IdempotencyRow",
    "JoinTokenRow",
    "Json",
    "LogChunkRow",
    "LogStreamRow",
    "MetricBatchRow",
    "MetricBlockRow",
    "MetricSeriesRow",
    "MetricSpanRow",
    "NodeRow",
    "NodeSlotRow",
    "OneTimeTokenRow",
    "PoolRow",
    "PreflightRow",
    "ProcessGroupRow",
    "ProjectRow",
    "SearchEventRow",
    "SessionRow",
    "SpendingRow",
    "TrialRow",
    "UserRow",
    "UtcDateTime",
    "WorkerRow",
]
