"""What the lifecycle wants done: each action names the state it starts from."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

from ..messages import Message
from ..nodes.preflight import NextStage, Verdict
from ..states import (
    AllocationState,
    AttemptState,
    ExperimentState,
    NodeState,
    Termination,
    Transitions,
    TrialState,
    YieldKind,
    is_legal,
)
from .avoidance import Avoided


@dataclass(frozen=True, kw_only=True)
class SetNode:
    """`before == after` only says why it is in that state."""

    node_id: str
    before: NodeState
    after: NodeState
    reason: Message


@dataclass(frozen=True, kw_only=True)
class DrainNode:
    """Keep new work off a node whose `scheduling` is `before`, and ask what runs there to leave."""

    node_id: str
    before: str
    reason: Message


@dataclass(frozen=True, kw_only=True)
class RemoveNode:
    """Delete a node in state `before`. Its history stays."""

    node_id: str
    before: NodeState
    reason: Message


@dataclass(frozen=True, kw_only=True)
class SetAllocation:
    """`after` CLEANED also frees the slots and drops it from its node's set."""

    allocation_id: str
    before: AllocationState
    after: AllocationState
    reason: str


@dataclass(frozen=True, kw_only=True)
class SetDesired:
    allocation_id: str
    node_id: str
    before: str
    after: Literal["start", "stop", "kill"]
    reason: str
    kind: str = ""
    """Kind of a stop or kill, one of wire.STOP_KINDS, for the workers to read."""
    grace_s: float | None = None
    """Time in seconds in which a stop must end; None for the document's."""


@dataclass(frozen=True, kw_only=True)
class SetYield:
    """Ask an attempt in `before`, which is not asked yet, to give up its slots."""

    attempt_id: int
    before: AttemptState
    kind: YieldKind
    reason: str


@dataclass(frozen=True, kw_only=True)
class SetAttempt:
    """`before == after` only sharpens why it ended."""

    attempt_id: int
    before: AttemptState
    after: AttemptState
    reason: str
    termination: Termination | None = None
    root_rank: int | None = None
    root_log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SetTrial:
    trial_id: int
    before: TrialState
    after: TrialState
    reason: str
    termination: Termination | None = None
    not_before: dt.datetime | None = None
    failures_user: int | None = None
    failures_infra: int | None = None
    no_progress: int | None = None
    """Counters: None leaves them."""
    avoided: tuple[Avoided, ...] | None = None
    """None leaves them."""
    logs_complete: bool = False


@dataclass(frozen=True, kw_only=True)
class SetFlags:
    trial_id: int
    flags: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Warn:
    """Tell people something about an attempt that changes nothing."""

    trial_id: int
    attempt_no: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class BeginPreflight:
    """Let the nodes of an attempt in `before`, PREPARING or STARTING, try each other."""

    attempt_id: int
    before: AttemptState
    reason: str


@dataclass(frozen=True, kw_only=True)
class AdvancePreflight:
    """Step that advances a preflight at `stage`."""

    preflight_id: int
    stage: str
    decision: NextStage | Verdict

    @property
    def reason(self) -> str:
        return self.decision.reason


@dataclass(frozen=True, kw_only=True)
class SetExperiment:
    experiment_id: int
    before: ExperimentState
    after: ExperimentState
    reason: str
    termination: Termination | None = None
    """Where it ends for one reason as a whole."""


Action = (
    SetNode
    | DrainNode
    | RemoveNode
    | SetAllocation
    | SetDesired
    | SetYield
    | SetAttempt
    | SetTrial
    | SetFlags
    | Warn
    | BeginPreflight
    | AdvancePreflight
    | SetExperiment
)


@dataclass(frozen=True, kw_only=True)
class LifecycleStep:
    subject: str
    """ "node:ab12", "trial:57", "experiment:12", "allocation:…"."""
    actions: tuple[Action, ...]


def require_legal(transitions: Transitions, before: str, after: str, subject: str) -> None:
    """Raise ValueError when a decision would leave the table."""
    if not is_legal(transitions, before, after):
        raise ValueError(f"{subject} may not go from {before} to {after}")
