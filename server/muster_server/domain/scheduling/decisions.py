"""What the scheduler decides. Each decision carries the reason that people read."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from muster.document.roles import RoleMember
from muster_server.domain.messages import Message


@dataclass(frozen=True, kw_only=True)
class NodeShare:
    node_id: str
    node_name: str
    node_rank: int
    rank_offset: int
    slots: tuple[int, ...]
    """Indexes of the node's slots."""
    member: RoleMember | None = None
    """Member of a gang of roles; None for a gang of one kind."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Start the trial on these slots, all at once."""

    trial_id: int
    shares: tuple[NodeShare, ...]
    reason: Message


@dataclass(frozen=True, kw_only=True)
class Preempt:
    """Ask a running attempt to save a checkpoint and give up its slots."""

    trial_id: int
    attempt_no: int
    for_trial_id: int | None
    """Who needs them; None for a reservation."""
    reason: Message
    for_reservation: int | None = None
    """Number of the reservation that takes a node from it; None if a trial needs its slots."""


@dataclass(frozen=True, kw_only=True)
class Resize:
    """Ask a running elastic attempt to save a checkpoint and come back with `slots` slots."""

    trial_id: int
    attempt_no: int
    slots: int
    """More than it holds: grow into idle slots. Fewer: shrink, so that others can start. As many: move
    off reserved nodes."""
    reason: Message
    for_reservation: int | None = None
    """Number of the reservation that takes a node from it; None for any other cause."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    trial_id: int
    position: int
    """Among those who wait for slots of the same type in the same pool; 1 is next."""
    reason: Message
    is_promised: bool = False
    """Slots are kept for it, or will be as they come free. To be remembered for the next pass, see
    QueuedTrial.promised_since."""
    estimated_start_at: dt.datetime | None = None
    """Expected start if nothing else is submitted; None if there is no reliable estimate."""


Decision = Placement | Preempt | Resize | Wait
