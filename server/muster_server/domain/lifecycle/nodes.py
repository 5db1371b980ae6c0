"""Leases of nodes, and what lost ones leave behind."""

from __future__ import annotations

import datetime as dt

from ..states import NODE_TRANSITIONS
from .actions import SetAllocation, SetNode, Step, require_legal
from .views import LifecyclePolicy, LifecycleSnapshot, LostAllocation, NodeLease


def heartbeat_interval_s(num_nodes: int, *, least_s: float) -> float:
    """Seconds between two heartbeats of one agent: at most 50 a second from all of them."""
    return max(least_s, num_nodes / 50.0)


def decide_node(
    node: NodeLease,
    snapshot: LifecycleSnapshot,
    *,
    clean: bool,
    now: dt.datetime,
    policy: LifecyclePolicy,
) -> list[Step]:
    interval_s = heartbeat_interval_s(len(snapshot.nodes), least_s=policy.heartbeat_s)
    # A controller that just took over knows nothing about the time before: everybody gets a
    # fresh lease, and for a while nobody is given up.
    silent_s = (now - max(node.last_seen_at, snapshot.leader_since)).total_seconds()
    is_late = silent_s > policy.suspect_missed * interval_s
    may_lose = (now - snapshot.leader_since).total_seconds() >= policy.takeover_grace_s
    is_gone = silent_s > policy.node_lost_s and may_lose
    after, reason = node.state, ""
    if node.state == "ONLINE" and is_late:
        after, reason = "SUSPECT", f"not heard for {silent_s:.0f} s"
    elif node.state == "SUSPECT" and not is_late:
        after, reason = "ONLINE", "heard again in time"
    elif node.state in ("SUSPECT", "RECONCILING") and is_gone:
        after, reason = "LOST", f"not heard for {silent_s:.0f} s"
    elif node.state == "RECONCILING" and clean and not is_late:
        after, reason = "ONLINE", "everything it ran is adopted or confirmed dead"
    if after == node.state:
        return []
    require_legal(NODE_TRANSITIONS, node.state, after, f"node {node.name}")
    action = SetNode(node_id=node.id, before=node.state, after=after, reason=reason)
    return [Step(subject=f"node:{node.id}", actions=(action,))]


def decide_lost(
    allocation: LostAllocation,
    node: NodeLease | None,
    *,
    now: dt.datetime,
    policy: LifecyclePolicy,
) -> list[Step]:
    if node is None:
        reason = "its node was removed"
    elif (
        node.state in ("RECONCILING", "ONLINE")
        and (now - node.registered_at).total_seconds() > policy.reconcile_grace_s
    ):
        reason = "its node is back and was told to forget it"
    else:
        return []
    action = SetAllocation(
        allocation_id=allocation.id, before="LOST", after="CLEANED", reason=reason
    )
    return [Step(subject=f"allocation:{allocation.id}", actions=(action,))]
