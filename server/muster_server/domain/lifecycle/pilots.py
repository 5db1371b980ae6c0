"""Pilots: nodes whose agent ends at a known time, and that leave the cluster with it.

The agent announces its end itself (services.nodes.leaving). What is decided here is what nobody
announces: the end of the wall time draws near, or a pilot was killed and says nothing any more.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from ..messages import Message
from ..states import NODE_TRANSITIONS, NodeState
from .actions import Action, DrainNode, LifecycleStep, RemoveNode, SetNode, require_legal
from .silence import Hearing, moment
from .views import NodeLease, TrialView

_SILENT = (NodeState.SUSPECT, NodeState.RECONCILING)


def grace_by_node(trials: Iterable[TrialView]) -> dict[str, float]:
    """Return the longest stop grace, in seconds, of what runs on each node. Nodes on which nothing
    runs are absent."""
    longest: dict[str, float] = {}
    for trial in trials:
        for member in trial.attempt.allocations if trial.attempt is not None else ():
            longest[member.node_id] = max(longest.get(member.node_id, 0.0), trial.stop_grace_s)
    return longest


def decide_pilot(node: NodeLease, hearing: Hearing, *, grace_s: float) -> list[LifecycleStep]:
    """Return what a pilot's end, or its silence, means for its node; empty for nothing special.

    grace_s: longest stop grace of what runs there. A pilot is drained before its end, so that its
    trials save a checkpoint and go on elsewhere at nobody's expense. After its end its batch system
    has killed it: then its silence counts whoever could have heard it. A pilot that is LOST is
    removed once its job has ended, or after a while, so that nothing waits for it.
    """
    action = _give_up(node, hearing) or _remove(node, hearing) or _drain(node, hearing, grace_s)
    if action is None:
        return []
    return [LifecycleStep(subject=f"node:{node.id}", actions=(action,))]


def _drain(node: NodeLease, hearing: Hearing, grace_s: float) -> Action | None:
    if node.ends_at is None or node.scheduling == "draining" or node.state == NodeState.LOST:
        return None
    notice = dt.timedelta(seconds=hearing.policy.pilot_notice_s + grace_s)
    if hearing.now < node.ends_at - notice:
        return None
    reason = Message("node.pilot_ends", at=moment(node.ends_at))
    return DrainNode(node_id=node.id, before=node.scheduling, reason=reason)


def _give_up(node: NodeLease, hearing: Hearing) -> Action | None:
    if node.ends_at is None or node.state not in _SILENT or hearing.is_new:
        return None
    over_s = (hearing.now - max(node.ends_at, node.last_seen_at)).total_seconds()
    if over_s <= hearing.policy.node_lost_s:
        return None
    require_legal(NODE_TRANSITIONS, node.state, NodeState.LOST, f"node {node.name}")
    reason = Message("node.pilot_ended", at=moment(node.ends_at))
    return SetNode(node_id=node.id, before=node.state, after=NodeState.LOST, reason=reason)


def _remove(node: NodeLease, hearing: Hearing) -> Action | None:
    if node.state != NodeState.LOST or hearing.is_new:
        return None
    silent_s = (hearing.now - node.last_seen_at).total_seconds()
    is_over = node.ends_at is not None and hearing.now >= node.ends_at
    if silent_s <= hearing.policy.pilot_forgotten_s and not (is_over or node.job_has_ended):
        return None
    require_legal(NODE_TRANSITIONS, node.state, NodeState.REMOVED, f"node {node.name}")
    reason = Message("node.pilot_gone", at=moment(node.last_seen_at))
    return RemoveNode(node_id=node.id, before=node.state, reason=reason)
