"""Leases of nodes, and what lost ones leave behind."""

from __future__ import annotations

from ..messages import Message
from ..states import NODE_TRANSITIONS, AllocationState, NodeState
from .actions import LifecycleStep, SetAllocation, SetNode, require_legal
from .silence import Hearing
from .views import LostAllocation, NodeLease


def heartbeat_interval_s(num_nodes: int, *, least_s: float) -> float:
    """Return the seconds between two heartbeats of one agent: at most 50 a second from all of
    them."""
    return max(least_s, num_nodes / 50.0)


def decide_node(
    node: NodeLease,
    hearing: Hearing,
    *,
    num_nodes: int,
    clean: bool,
) -> list[LifecycleStep]:
    """Return what silence, or a heartbeat after it, means for one node.

    It becomes SUSPECT by the silence itself, whoever could have heard it, but LOST only by silence
    that counts.
    """
    now, policy = hearing.now, hearing.policy
    interval_s = heartbeat_interval_s(num_nodes, least_s=policy.heartbeat_s)
    # A controller that just took over knows nothing about the time before: every node gets a
    # fresh lease, and for a while none is given up.
    silent_s = (now - max(node.last_seen_at, hearing.leader_since)).total_seconds()
    is_late = silent_s > policy.suspect_missed * interval_s
    is_gone = is_late and hearing.counted_s(node) > policy.node_lost_s and not hearing.is_new
    is_heard = node.last_seen_at > hearing.leader_since  # not just given a fresh lease
    after = node.state
    reason: Message | None = None
    if node.state == NodeState.ONLINE and is_late:
        after, reason = NodeState.SUSPECT, hearing.why_silent(node)
    elif node.state == NodeState.SUSPECT and not is_late and is_heard:
        after, reason = NodeState.ONLINE, Message("node.heard_again")
    elif node.state in (NodeState.SUSPECT, NodeState.RECONCILING) and is_gone:
        after, reason = NodeState.LOST, hearing.why_lost(node)
    elif node.state == NodeState.RECONCILING and clean and not is_late:
        after, reason = NodeState.ONLINE, Message("node.reconciled")
    elif node.state == NodeState.SUSPECT and is_late:
        reason = hearing.why_silent(node)
        if reason.code == node.reason_code:
            return []
    if reason is None:
        return []
    require_legal(NODE_TRANSITIONS, node.state, after, f"node {node.name}")
    action = SetNode(node_id=node.id, before=node.state, after=after, reason=reason)
    return [LifecycleStep(subject=f"node:{node.id}", actions=(action,))]


def decide_lost(
    allocation: LostAllocation, node: NodeLease | None, hearing: Hearing
) -> list[LifecycleStep]:
    if node is None:
        reason = "its node was removed"
    elif (
        node.state in (NodeState.RECONCILING, NodeState.ONLINE)
        and hearing.waited_s(node.registered_at, [node]) > hearing.policy.reconcile_grace_s
    ):
        reason = "its node is back and was told to forget it"
    else:
        return []
    action = SetAllocation(
        allocation_id=allocation.id,
        before=AllocationState.LOST,
        after=AllocationState.CLEANED,
        reason=reason,
    )
    return [LifecycleStep(subject=f"allocation:{allocation.id}", actions=(action,))]
