"""What the scheduler looks at: the trials that wait, the trials that run, and whose they are.

Nodes and trials are compared by identity: that is how the scheduler finds what has changed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_server.domain.messages import Message
from muster_server.domain.scheduling.resources import NodeView, Request

GroupKey = tuple[str, str]
"""(pool, slot type): slots of one group can stand in for each other, those of two never."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueuedTrial:
    """A trial that waits for slots."""

    trial_id: int
    trial_no: int
    experiment_id: int
    priority: int
    """Higher is more important."""
    queued_at: dt.datetime
    request: Request
    project_id: int = 0
    preemptible: bool = True
    waiting_since: dt.datetime | None = None
    """Time since which it has been waiting without a break; None for `queued_at`."""
    queue_no: float | None = None
    """Its place among the trials of its project and priority, smaller first. A restart or a
    preemption keeps it, people may change it. None: when it was queued, in seconds since 1970."""
    expected_s: float | None = None
    """Expected run time in seconds; None if unknown."""
    preferred_host: str | None = None
    """Where its newest checkpoint lies, or without one its work folder; taken when it costs no extra
    node."""
    files_on: tuple[str, ...] = ()
    """Names of the nodes of its last attempt by rank, while the storage lacks the last files of one of
    them: it starts on just these nodes, where its files are, or waits. Empty: it may start anywhere."""
    promised_since: dt.datetime | None = None
    """Since when slots have been promised to it (`Wait.is_promised` of every pass since then). It
    goes before those of its priority that have no such promise, so that slots once kept for a gang
    are not given away when shares change. None: nothing is promised."""
    resize_slots: int | None = None
    """It was stopped to come back with this many slots: it goes first in its priority, and takes
    no more. None: it was not."""
    lost_slots: int | None = None
    """Slots of its last attempt, if that lost a node of a pool with spares: it may use spares for as
    many, and goes first in its priority. None: it did not."""
    is_returning: bool = False
    """Whether that attempt has only just ended, so that it cannot start yet: what it needs is reserved,
    and no reason is worked out."""

    @property
    def group(self) -> GroupKey:
        return self.request.pool, self.request.slot_type

    @property
    def place(self) -> float:
        return self.queued_at.timestamp() if self.queue_no is None else self.queue_no

    @property
    def waits_since(self) -> dt.datetime:
        return self.queued_at if self.waiting_since is None else self.waiting_since


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningTrial:
    """A trial that holds slots."""

    trial_id: int
    trial_no: int
    attempt_no: int
    experiment_id: int
    project_id: int
    priority: int
    request: Request
    shares: Mapping[str, int]
    """Node id → slots it holds there."""
    started_at: dt.datetime
    preemptible: bool = True
    queue_no: float | None = None
    """Queue number as in QueuedTrial; None to use the time it started."""
    expected_end_at: dt.datetime | None = None
    """Time at which it is expected to give up its slots; None if unknown."""
    last_checkpoint_at: dt.datetime | None = None
    """Time of its last checkpoint, since which work would be lost if it were killed now; None
    without a checkpoint."""
    is_ending: bool = False
    """Its training is done, and it gives up its slots by itself."""
    yielding: bool = False
    """It has been asked to give up its slots and has not done so yet."""

    @property
    def key(self) -> tuple[int, int]:
        """Tells it from an earlier attempt of the same trial whose slots are not free yet."""
        return self.trial_id, self.attempt_no

    @property
    def slots(self) -> int:
        return sum(self.shares.values())

    @property
    def group(self) -> GroupKey:
        return self.request.pool, self.request.slot_type

    @property
    def place(self) -> float:
        return self.started_at.timestamp() if self.queue_no is None else self.queue_no

    @property
    def safe_at(self) -> dt.datetime:
        """Since when its work would be lost, were it killed now. A checkpoint of an earlier attempt
        is older than this one's start, and no work was done in between."""
        return max(self.last_checkpoint_at or self.started_at, self.started_at)


@dataclass(frozen=True, kw_only=True)
class ProjectView:
    id: int
    name: str
    weight: float = 1.0
    """Its part of what several projects want, relative to the others'; > 0."""
    quotas: Mapping[GroupKey, int] = field(default_factory=dict)
    """(pool, slot type) → most slots its trials may hold at once; absent: no limit."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSnapshot:
    nodes: tuple[NodeView, ...]
    queue: tuple[QueuedTrial, ...]
    running: tuple[RunningTrial, ...] = ()
    projects: tuple[ProjectView, ...] = ()
    """A project that is not listed has weight 1 and no quotas."""
    supplies: Mapping[int, Message] = field(default_factory=dict)
    """Trial → what the provider of its pool does for it (domain.providers)."""


@dataclass(frozen=True, kw_only=True)
class SchedulerPolicy:
    max_placements: int = 200
    """Per pass and group, so that a pass stays short; the rest comes with the next one."""
    preempt: bool = True
    """Whether a trial may stop preemptible trials of lower priority for their slots."""
    max_preemptions: int = 50
    """Trials asked to give up slots per pass and group."""
    max_reservations: int = 4
    """Waiting trials per group for which free slots are kept until they can start."""
    age_after_s: float = 3600.0
    """The first trial of a project goes ahead of fair share after waiting so long without any
    trial ahead of it in its project having started."""
    max_estimates: int = 100
    """Trials per group, from the front of the queue, whose start is estimated."""
    grow_after_s: float = 300.0
    """Slots must have been free, and the trial running, for this long before it grows into them."""
