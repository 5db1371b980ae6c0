"""The next actions on this node, from desired and observed state. Pure.

Level-triggered: the whole desired set is compared with everything on disk each time, so a lost,
repeated or reordered answer of the server changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from muster.wire import Assignment, Observed, ProfileOrder, Rendezvous, ShardOrders

TERMINAL: frozenset[Observed] = frozenset({"EXITED", "PREPARE_FAILED"})


@dataclass(frozen=True, kw_only=True)
class Local:
    """An allocation on this node's disk."""

    allocation_id: str
    observed: Observed
    shim: Literal["starting", "alive", "dead", "rebooted"]
    """State of the shim; "rebooted" means that it was started before this machine booted."""
    asked: frozenset[Literal["start", "stop", "kill"]] = frozenset()
    """Commands the shim has taken. They are never sent twice."""
    is_busy: bool = False
    """Whether an action on it is in progress."""
    is_superseded: bool = False
    """Whether the server answered that a newer attempt exists."""
    stacks_no: int = 0
    """Number of the last request for stacks that its shim has taken."""
    profile_no: int = 0
    """Number of the last profiler window that its shim has taken."""
    shards_no: int = 0
    """Number of the last orders of batch inference that its shim has taken."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Create the folder and start the shim."""

    assignment: Assignment
    reason: str = "assigned to this node"


@dataclass(frozen=True, kw_only=True)
class StartAllocation:
    allocation_id: str
    rendezvous: Rendezvous | None
    addresses: Mapping[str, str] = field(default_factory=dict)
    """wire.Assignment.addresses."""
    reason: str = "every member of the gang is ready"


@dataclass(frozen=True, kw_only=True)
class Stop:
    allocation_id: str
    reason: str
    kind: str = ""
    """One of wire.STOP_KINDS, for the workers to read."""
    grace_s: float | None = None
    """Grace period in seconds in place of the spec's, without notice before SIGTERM."""


@dataclass(frozen=True, kw_only=True)
class Kill:
    allocation_id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class TakeStacks:
    allocation_id: str
    no: int
    reason: str = "somebody asked where its workers are"


@dataclass(frozen=True, kw_only=True)
class Profile:
    allocation_id: str
    order: ProfileOrder
    reason: str = "somebody asked for a window of the profiler"


@dataclass(frozen=True, kw_only=True)
class GiveShards:
    allocation_id: str
    orders: ShardOrders
    reason: str = "its workers hold other shards"


@dataclass(frozen=True, kw_only=True)
class Settle:
    """Record the end of an allocation that never began here."""

    assignment: Assignment
    reason: str


@dataclass(frozen=True, kw_only=True)
class DeclareLost:
    """Kill what a shim without an exit record left, then write the record for it."""

    allocation_id: str
    cause: Literal["shim_lost", "node_rebooted"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Forget:
    """Kill whatever is left and delete the folder."""

    allocation_id: str
    reason: str = "the server does not want it any more"


Action = (
    Prepare
    | StartAllocation
    | Stop
    | Kill
    | TakeStacks
    | Profile
    | GiveShards
    | Settle
    | DeclareLost
    | Forget
)


def plan(desired: Mapping[str, Assignment] | None, local: Sequence[Local]) -> list[Action]:
    """Return the actions that bring `local` to `desired`, at most one per allocation.

    desired: None while the server has not been heard: then nothing is started, stopped or
        forgotten, and only what died by itself is recorded.
    """
    actions: list[Action] = []
    present = set()
    for item in local:
        present.add(item.allocation_id)
        action = None if item.is_busy else _next_action(desired, item)
        if action is not None:
            actions.append(action)
    for allocation_id, assignment in (desired or {}).items():
        if allocation_id in present:
            continue
        if assignment.desired in ("prepare", "start"):
            actions.append(Prepare(assignment=assignment))
        else:
            reason = assignment.stop_reason or "stopped before it began"
            actions.append(Settle(assignment=assignment, reason=reason))
    return actions


def _next_action(desired: Mapping[str, Assignment] | None, item: Local) -> Action | None:
    if desired is not None and item.allocation_id not in desired:
        return Forget(allocation_id=item.allocation_id)
    if item.observed in TERMINAL:
        return None
    if item.shim == "rebooted":
        return DeclareLost(
            allocation_id=item.allocation_id,
            cause="node_rebooted",
            reason="the node rebooted while it ran",
        )
    if item.shim == "dead":
        return DeclareLost(
            allocation_id=item.allocation_id,
            cause="shim_lost",
            reason="the process that supervised it on this node was killed",
        )
    if item.shim == "starting" or desired is None:
        return None
    wanted = desired[item.allocation_id]
    if item.is_superseded:
        return _kill(item, "a newer attempt of this trial exists")
    if wanted.desired == "kill":
        return _kill(item, wanted.stop_reason or "killed by the control plane")
    if "kill" in item.asked:
        return None
    if wanted.desired == "stop":
        if "stop" in item.asked:
            return None
        reason = wanted.stop_reason or "stopped by the control plane"
        return Stop(
            allocation_id=item.allocation_id,
            reason=reason,
            kind=wanted.stop_kind,
            grace_s=wanted.stop_grace_s,
        )
    if wanted.desired == "start" and item.observed == "READY" and "start" not in item.asked:
        needs_rendezvous = wanted.spec.num_nodes > 1
        if needs_rendezvous and wanted.rendezvous is None:
            return None
        return StartAllocation(
            allocation_id=item.allocation_id,
            rendezvous=wanted.rendezvous,
            addresses=wanted.addresses,
        )
    if item.observed == "RUNNING" and wanted.stacks_no > item.stacks_no:
        return TakeStacks(allocation_id=item.allocation_id, no=wanted.stacks_no)
    order = wanted.profile
    if item.observed == "RUNNING" and order is not None and order.no > item.profile_no:
        return Profile(allocation_id=item.allocation_id, order=order)
    orders = wanted.shards
    if orders is not None and orders.no > item.shards_no and "start" in item.asked:
        return GiveShards(allocation_id=item.allocation_id, orders=orders)
    return None


def _kill(item: Local, reason: str) -> Kill | None:
    if "kill" in item.asked:
        return None
    return Kill(allocation_id=item.allocation_id, reason=reason)
