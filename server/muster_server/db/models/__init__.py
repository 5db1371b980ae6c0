"""All tables. A row class ends in `Row`; what the domain sees and what REST shows are other classes."""

from .base import Base, Json, UtcDateTime
from .cluster import ControllerLeaseRow, NodeRow, NodeSlotRow
from .data import (
    BlobChunkRow,
    BlobRow,
    LogChunkRow,
    LogStreamRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
)
from .experiments import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
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

__all__ = [
    "AllocationRow",
    "ApiTokenRow",
    "AttemptRow",
    "AuditRow",
    "Base",
    "BlobChunkRow",
    "BlobRow",
    "CheckpointRow",
    "ControllerLeaseRow",
    "EventRow",
    "ExperimentRow",
    "IdempotencyRow",
    "JoinTokenRow",
    "Json",
    "LogChunkRow",
    "LogStreamRow",
    "MetricBatchRow",
    "MetricBlockRow",
    "MetricSeriesRow",
    "NodeRow",
    "NodeSlotRow",
    "OneTimeTokenRow",
    "ProcessGroupRow",
    "ProjectRow",
    "SearchEventRow",
    "SessionRow",
    "TrialRow",
    "UserRow",
    "UtcDateTime",
    "WorkerRow",
]
