"""States and, for each state machine, one table of transitions with their causes.

The diagrams in docs/concepts/states.md are tested against these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ExperimentState(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


class TrialState(StrEnum):
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    PAUSED = "PAUSED"
    RETRY_WAIT = "RETRY_WAIT"
    COMPLETED = "COMPLETED"
    STOPPED_EARLY = "STOPPED_EARLY"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class AttemptState(StrEnum):
    PLANNED = "PLANNED"
    PREPARING = "PREPARING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    WINDING_DOWN = "WINDING_DOWN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PREEMPTED = "PREEMPTED"
    LOST = "LOST"
    CANCELED = "CANCELED"
    RESIZED = "RESIZED"


class AllocationState(StrEnum):
    ASSIGNED = "ASSIGNED"
    PREPARING = "PREPARING"
    READY = "READY"
    PREPARE_FAILED = "PREPARE_FAILED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    EXITED = "EXITED"
    CLEANED = "CLEANED"
    UNKNOWN = "UNKNOWN"
    LOST = "LOST"


class NodeState(StrEnum):
    JOINING = "JOINING"
    ONLINE = "ONLINE"
    SUSPECT = "SUSPECT"
    LOST = "LOST"
    RECONCILING = "RECONCILING"
    REMOVED = "REMOVED"


class YieldKind(StrEnum):
    """Reason for which an attempt is asked to release its slots, with a checkpoint, before its
    training ends."""

    PREEMPT = "preempt"
    RESIZE = "resize"
    PAUSE = "pause"
    DRAIN = "drain"
    BUDGET = "budget"
    TIME_LIMIT = "time_limit"
    GUARD = "guard"


class RetryClass(StrEnum):
    """Restart budget to which a failure is charged."""

    USER = "user"
    INFRA = "infra"
    PREEMPTION = "preemption"
    NONE = "none"


class Termination(StrEnum):
    """Reason why an attempt or trial ended. `TERMINATIONS` maps each to its final state and retry
    class."""

    SUCCESS = "success"
    STOPPED_EARLY = "stopped_early"
    CANCELED = "canceled"
    USER_ERROR = "user_error"
    INVALID_HPARAMS = "invalid_hparams"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    LIMIT_EXCEEDED = "limit_exceeded"
    """It used more than its document, or its node, lets it use: no restart helps."""
    KILLED_BY_SIGNAL = "killed_by_signal"
    WORKER_KILLED = "worker_killed"
    """Ended by SIGKILL, which no program sends itself, and not for want of memory."""
    PREPARE_FAILED = "prepare_failed"
    NOT_ON_NODE = "not_on_node"
    """Something that it needs is missing on a node, and may exist on another one."""
    CANNOT_RUN = "cannot_run"
    """Something that it needs exists nowhere: no restart helps."""
    VERSIONS_DIFFER = "versions_differ"
    PREFLIGHT_FAILED = "preflight_failed"
    START_TIMEOUT = "start_timeout"
    LAUNCHER_FAILED = "launcher_failed"
    PORT_IN_USE = "port_in_use"
    NODE_LOST = "node_lost"
    NODE_REBOOTED = "node_rebooted"
    SHIM_LOST = "shim_lost"
    UNKILLABLE = "unkillable"
    """Agents of before have said so where a process had outlived SIGKILL."""
    STUCK = "stuck"
    PREEMPTED = "preempted"
    RESIZED = "resized"
    PAUSED = "paused"
    DRAINED = "drained"
    GUARD = "guard"
    """A guard of its document restarts it from a checkpoint."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    TIME_LIMIT = "time_limit"
    """It has run for as long as its document allows."""
    NO_PROGRESS = "no_progress"


TERMINATIONS: Mapping[Termination, tuple[TrialState, RetryClass]] = {
    Termination.SUCCESS: (TrialState.COMPLETED, RetryClass.NONE),
    Termination.STOPPED_EARLY: (TrialState.STOPPED_EARLY, RetryClass.NONE),
    Termination.CANCELED: (TrialState.CANCELED, RetryClass.NONE),
    Termination.USER_ERROR: (TrialState.FAILED, RetryClass.USER),
    Termination.INVALID_HPARAMS: (TrialState.FAILED, RetryClass.NONE),
    Termination.OUT_OF_MEMORY: (TrialState.FAILED, RetryClass.USER),
    Termination.DISK_FULL: (TrialState.FAILED, RetryClass.INFRA),
    Termination.LIMIT_EXCEEDED: (TrialState.FAILED, RetryClass.NONE),
    Termination.KILLED_BY_SIGNAL: (TrialState.FAILED, RetryClass.USER),
    Termination.WORKER_KILLED: (TrialState.FAILED, RetryClass.INFRA),
    Termination.PREPARE_FAILED: (TrialState.FAILED, RetryClass.INFRA),
    Termination.NOT_ON_NODE: (TrialState.FAILED, RetryClass.INFRA),
    Termination.CANNOT_RUN: (TrialState.FAILED, RetryClass.NONE),
    Termination.VERSIONS_DIFFER: (TrialState.FAILED, RetryClass.INFRA),
    Termination.PREFLIGHT_FAILED: (TrialState.FAILED, RetryClass.INFRA),
    Termination.START_TIMEOUT: (TrialState.FAILED, RetryClass.INFRA),
    Termination.LAUNCHER_FAILED: (TrialState.FAILED, RetryClass.INFRA),
    Termination.PORT_IN_USE: (TrialState.FAILED, RetryClass.INFRA),
    Termination.NODE_LOST: (TrialState.FAILED, RetryClass.INFRA),
    Termination.NODE_REBOOTED: (TrialState.FAILED, RetryClass.INFRA),
    Termination.SHIM_LOST: (TrialState.FAILED, RetryClass.INFRA),
    Termination.UNKILLABLE: (TrialState.FAILED, RetryClass.INFRA),
    Termination.STUCK: (TrialState.FAILED, RetryClass.INFRA),
    Termination.PREEMPTED: (TrialState.CANCELED, RetryClass.PREEMPTION),
    Termination.RESIZED: (TrialState.CANCELED, RetryClass.PREEMPTION),
    Termination.PAUSED: (TrialState.CANCELED, RetryClass.PREEMPTION),
    Termination.DRAINED: (TrialState.CANCELED, RetryClass.PREEMPTION),
    Termination.GUARD: (TrialState.CANCELED, RetryClass.PREEMPTION),
    Termination.BUDGET_EXHAUSTED: (TrialState.CANCELED, RetryClass.NONE),
    Termination.TIME_LIMIT: (TrialState.CANCELED, RetryClass.NONE),
    Termination.NO_PROGRESS: (TrialState.FAILED, RetryClass.NONE),
}

YIELD_ENDS: Mapping[YieldKind, tuple[AttemptState, Termination]] = {
    YieldKind.PREEMPT: (AttemptState.PREEMPTED, Termination.PREEMPTED),
    YieldKind.RESIZE: (AttemptState.RESIZED, Termination.RESIZED),
    YieldKind.PAUSE: (AttemptState.PREEMPTED, Termination.PAUSED),
    YieldKind.DRAIN: (AttemptState.PREEMPTED, Termination.DRAINED),
    YieldKind.GUARD: (AttemptState.PREEMPTED, Termination.GUARD),
    YieldKind.BUDGET: (AttemptState.CANCELED, Termination.BUDGET_EXHAUSTED),
    YieldKind.TIME_LIMIT: (AttemptState.CANCELED, Termination.TIME_LIMIT),
}
"""Final state of an attempt that released its slots as requested."""

Transitions = Mapping[tuple[str, str], str]
"""Cause of each transition, by (from, to)."""

EXPERIMENT_TRANSITIONS: Transitions = {
    ("QUEUED", "RUNNING"): "its first trial started",
    ("QUEUED", "PAUSED"): "paused by a user before anything ran",
    ("QUEUED", "STOPPING"): "stop requested, or its budget is used up",
    ("QUEUED", "FAILED"): "the searcher could not create a single trial",
    ("RUNNING", "PAUSED"): "paused by a user; its trials have checkpointed and stopped",
    ("PAUSED", "QUEUED"): "resumed by a user",
    ("PAUSED", "STOPPING"): "stop requested while paused, or its trials were stopped one by one",
    ("RUNNING", "STOPPING"): "stop requested, or its budget is used up",
    ("RUNNING", "COMPLETED"): "the searcher is finished and every trial is terminal",
    (
        "RUNNING",
        "FAILED",
    ): "no trial ended well and no restart is left, or none reported the search's metric",
    ("STOPPING", "CANCELED"): "every trial is terminal after a stop",
    ("STOPPING", "COMPLETED"): "everything had finished by itself before the stop took effect",
    ("COMPLETED", "QUEUED"): "continued by a user",
    ("CANCELED", "QUEUED"): "continued by a user",
    ("FAILED", "QUEUED"): "continued by a user",
}

TRIAL_TRANSITIONS: Transitions = {
    ("QUEUED", "STARTING"): "a gang was placed: an attempt exists",
    ("QUEUED", "RUNNING"): "requested by an external runner",
    ("QUEUED", "CANCELED"): "stopped by a user before it ran",
    ("QUEUED", "STOPPED_EARLY"): "stopped by the searcher before it ran",
    ("QUEUED", "PAUSED"): "paused by a user before it ran",
    ("STARTING", "RUNNING"): "every allocation of the attempt runs",
    ("STARTING", "STOPPING"): "stop requested",
    ("STARTING", "RETRY_WAIT"): "the attempt failed and its restart budget is not used up",
    ("STARTING", "QUEUED"): "the attempt released its slots before it ran",
    ("STARTING", "PAUSED"): "paused by a user before it ran",
    ("STARTING", "COMPLETED"): "it finished before its first report",
    ("STARTING", "FAILED"): "the attempt failed and no restart is left",
    ("RUNNING", "STOPPING"): "stop requested by a user or the searcher, or its budget is used up",
    ("RUNNING", "PAUSED"): "paused by a user after a checkpoint",
    ("RUNNING", "RETRY_WAIT"): "the attempt failed and its restart budget is not used up",
    (
        "RUNNING",
        "QUEUED",
    ): "the attempt released its slots: preempted, resized, drained or restarted by a guard",
    ("RUNNING", "COMPLETED"): "every worker exited with 0 and the log tail is complete",
    ("RUNNING", "FAILED"): "the attempt failed and no restart is left",
    (
        "STOPPING",
        "CANCELED",
    ): "stopped by a user or at the end of its budget; none of its processes runs",
    ("STOPPING", "STOPPED_EARLY"): "stopped on the searcher's request; none of its processes runs",
    ("STOPPING", "COMPLETED"): "it finished by itself while being stopped",
    ("STOPPING", "FAILED"): "it failed while being stopped",
    ("RETRY_WAIT", "QUEUED"): "its back-off is over",
    ("RETRY_WAIT", "PAUSED"): "paused by a user while waiting to restart",
    ("RETRY_WAIT", "CANCELED"): "stopped by a user while waiting to restart",
    ("RETRY_WAIT", "STOPPED_EARLY"): "stopped by the searcher while waiting to restart",
    ("PAUSED", "QUEUED"): "resumed",
    ("PAUSED", "RETRY_WAIT"): "resumed before its back-off was over",
    ("PAUSED", "CANCELED"): "stopped by a user while paused",
    ("PAUSED", "STOPPED_EARLY"): "stopped by the searcher while paused",
    ("COMPLETED", "QUEUED"): "continued by a user",
    ("STOPPED_EARLY", "QUEUED"): "continued by a user",
    ("FAILED", "QUEUED"): "continued by a user",
    ("CANCELED", "QUEUED"): "continued by a user",
}

ATTEMPT_TRANSITIONS: Transitions = {
    ("PLANNED", "PREPARING"): "its slots are reserved and its nodes notified",
    ("PREPARING", "STARTING"): "every allocation is READY",
    ("PREPARING", "FAILED"): "a node could not prepare, or was too slow, or its nodes do not match",
    ("PREPARING", "LOST"): "a node was lost",
    ("PREPARING", "CANCELED"): "stop requested",
    ("PREPARING", "PREEMPTED"): "asked to release its slots before it ran",
    ("PREPARING", "RESIZED"): "another world size was requested before it ran",
    ("STARTING", "RUNNING"): "every allocation runs its workers",
    ("STARTING", "WINDING_DOWN"): "a first member exited with 0",
    ("STARTING", "SUCCEEDED"): "all members exited with 0",
    ("STARTING", "FAILED"): "a member failed, or did not start in time",
    ("STARTING", "LOST"): "a node was lost",
    ("STARTING", "CANCELED"): "stop requested",
    ("STARTING", "PREEMPTED"): "asked to release its slots while it started",
    ("STARTING", "RESIZED"): "another world size was requested while it started",
    ("RUNNING", "WINDING_DOWN"): "a first member exited with 0",
    ("RUNNING", "SUCCEEDED"): "all members exited with 0",
    ("RUNNING", "FAILED"): "a member failed; the others are stopped at once",
    ("RUNNING", "LOST"): "a node was lost",
    ("RUNNING", "CANCELED"): "stopped on request",
    ("RUNNING", "PREEMPTED"): "released its slots after a checkpoint",
    ("RUNNING", "RESIZED"): "stopped to continue at another world size",
    ("WINDING_DOWN", "SUCCEEDED"): "all members exited with 0",
    ("WINDING_DOWN", "FAILED"): "a member failed, or did not end in time",
    ("WINDING_DOWN", "LOST"): "a node was lost",
    ("WINDING_DOWN", "CANCELED"): "stopped on request",
    ("WINDING_DOWN", "PREEMPTED"): "asked to release its slots just before its first member ended",
    (
        "WINDING_DOWN",
        "RESIZED",
    ): "another world size was requested just before its first member ended",
}

ALLOCATION_TRANSITIONS: Transitions = {
    ("ASSIGNED", "PREPARING"): "the agent started a shim",
    ("PREPARING", "READY"): "code, environment and checks are in place",
    ("PREPARING", "PREPARE_FAILED"): "one of them failed; the message says which",
    ("READY", "STARTING"): "start requested",
    ("STARTING", "RUNNING"): "all its workers are alive",
    ("RUNNING", "STOPPING"): "stop requested",
    ("STARTING", "STOPPING"): "stop requested",
    ("ASSIGNED", "EXITED"): "stopped before anything ran",
    ("PREPARING", "EXITED"): "stopped while preparing",
    ("READY", "EXITED"): "stopped before the start",
    ("STARTING", "EXITED"): "its processes ended before all were up",
    ("RUNNING", "EXITED"): "its processes ended",
    ("STOPPING", "EXITED"): "its processes ended after a stop",
    ("PREPARE_FAILED", "CLEANED"): "slots released",
    ("EXITED", "CLEANED"): "log tail complete, slots released",
    ("ASSIGNED", "LOST"): "node lost",
    ("PREPARING", "LOST"): "node lost",
    ("READY", "LOST"): "node lost",
    ("STARTING", "LOST"): "node lost",
    ("RUNNING", "LOST"): "node lost",
    ("STOPPING", "LOST"): "node lost",
    ("LOST", "CLEANED"): "the node is back and confirmed that nothing of it runs, or was removed",
}

NODE_TRANSITIONS: Transitions = {
    ("JOINING", "ONLINE"): "first registration complete",
    ("ONLINE", "SUSPECT"): "three heartbeats missed",
    ("SUSPECT", "ONLINE"): "heard again in time",
    ("SUSPECT", "LOST"): "silent for node_lost_s",
    ("LOST", "RECONCILING"): "registered again",
    ("RECONCILING", "ONLINE"): "everything it ran is adopted or confirmed dead",
    ("RECONCILING", "LOST"): "silent for node_lost_s while reconciling",
    ("LOST", "REMOVED"): "removed by an administrator, or a pilot that does not come back",
    ("ONLINE", "REMOVED"): "removed by an administrator, or a pilot that has left",
    ("SUSPECT", "REMOVED"): "removed by an administrator",
}

TERMINAL_EXPERIMENT = frozenset({"COMPLETED", "CANCELED", "FAILED"})
TERMINAL_TRIAL = frozenset({"COMPLETED", "STOPPED_EARLY", "FAILED", "CANCELED"})
TERMINAL_ATTEMPT = frozenset({"SUCCEEDED", "FAILED", "PREEMPTED", "LOST", "CANCELED", "RESIZED"})
TERMINAL_ALLOCATION = frozenset({"CLEANED"})
"""States in which an allocation's slots are free again (or when a lost node is removed)."""


def is_legal(transitions: Transitions, before: str, after: str) -> bool:
    """Return whether a machine may go from `before` to `after` (staying is always legal)."""
    return before == after or (before, after) in transitions
