"""A node's health in its row: what its agent finds, what it failed at, and who released it.

`health` and `health_reason` are always what domain.nodes.health makes of `problems` and
`quarantine_reason`; every change that matters to people is an event of the node.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import NodeProblem
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, NodeRow, NodeSlotRow, TrialRow
from muster_server.domain.nodes.availability import USED, on_node
from muster_server.domain.nodes.health import (
    MAX_MESSAGE_CHARS,
    MAX_PROBLEMS,
    assess,
    from_plain,
    keeps_off,
    kinds,
    quarantine_after,
    to_plain,
)

from ..core import audit
from ..core.events import add_event
from ..core.slot_problems import DEVICE_SHARED, hold_back


def note_problems(
    session: Session, node: NodeRow, found: Sequence[NodeProblem], *, now: dt.datetime
) -> None:
    """Store the problems that the agent's checks find now.

    An event is added only if the kinds of problems have changed, not for each new figure.
    """
    problems = _problems(found)
    if to_plain(problems) == node.problems:
        return
    node = _lock(session, node.id)
    before = from_plain(node.problems)
    node.problems = to_plain(problems)
    hold_back(session, node)
    _assess(session, node)
    _tell_of_health(session, node, before, problems, now=now)
    _tell_of_use(session, node, before, problems, now=now)


def _tell_of_health(
    session: Session,
    node: NodeRow,
    before: Sequence[NodeProblem],
    now_found: Sequence[NodeProblem],
    *,
    now: dt.datetime,
) -> None:
    old, problems = ([p for p in found if p.kind != USED] for found in (before, now_found))
    if kinds(old) == kinds(problems):
        return
    add_event(
        session,
        "node.health",
        f"{node.name} is degraded: {assess(problems, '').reason}{keeps_off(problems)}."
        if problems
        else f"{node.name} has no problems any more.",
        now=now,
        level="warning" if problems else "info",
        node_id=node.id,
        data={"kinds": sorted({p.kind for p in problems})},
    )


def _tell_of_use(
    session: Session,
    node: NodeRow,
    before: Sequence[NodeProblem],
    now_found: Sequence[NodeProblem],
    *,
    now: dt.datetime,
) -> None:
    """Add an event for each device that somebody began or ceased to use outside Muster."""
    old, used = ({p.slot: p for p in found if p.kind == USED} for found in (before, now_found))
    for slot in sorted({*old, *used}, key=str):
        if (slot in old) == (slot in used):
            continue
        message = (
            f"{used[slot].message}."
            if slot in used
            else f"Nobody uses GPU {slot} outside Muster any more."
        )
        add_event(session, "node.used", message, now=now, node_id=node.id, data={"slot": slot})
        if slot in used and slot is not None:
            _tell_holder(session, node, slot, used[slot].message, now=now)


def _tell_holder(
    session: Session, node: NodeRow, slot: int, message: str, *, now: dt.datetime
) -> None:
    """Tell the trial that holds a slot who has begun to use its device. It goes on."""
    holder = session.execute(
        select(AllocationRow.trial_id, AllocationRow.attempt_no, TrialRow.experiment_id)
        .join(NodeSlotRow, NodeSlotRow.allocation_id == AllocationRow.id)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .where(NodeSlotRow.node_id == node.id, NodeSlotRow.idx == slot)
    ).first()
    if holder is None:
        return
    add_event(
        session,
        DEVICE_SHARED,
        f"{on_node(message, slot=slot, node=node.name)}.",
        now=now,
        level="warning",
        experiment_id=holder.experiment_id,
        trial_id=holder.trial_id,
        attempt_no=holder.attempt_no,
        node_id=node.id,
        data={"slot": slot},
    )
    touch(session, f"trial:{holder.trial_id}")


def are_known(known: Sequence[Any], found: Sequence[NodeProblem]) -> bool:
    """Return whether `note_problems` would change nothing.

    known: the problems stored in the node's row.
    """
    return to_plain(_problems(found)) == known


def _problems(found: Sequence[NodeProblem]) -> list[NodeProblem]:
    return [
        replace(p, kind=p.kind[:32], message=p.message[:MAX_MESSAGE_CHARS])
        for p in found[:MAX_PROBLEMS]
    ]


def note_strike(session: Session, node_id: str, reason: str, *, now: dt.datetime) -> None:
    """It could not prepare, by its own fault. Quarantined when that happens again and again."""
    node = _lock(session, node_id)
    node.strikes += 1
    node.strike_reason = reason[:MAX_MESSAGE_CHARS]
    because = quarantine_after(node.strikes, node.strike_reason)
    if because:
        _quarantine(session, node_id, because, now=now)


def _quarantine(session: Session, node_id: str, reason: str, *, now: dt.datetime) -> None:
    """Nothing is placed on it until it is released. The first reason stands."""
    node = _lock(session, node_id)
    if node.quarantine_reason:
        return
    node.quarantine_reason = reason
    _assess(session, node)
    add_event(
        session,
        "node.quarantined",
        f"Quarantined: {reason}.",
        now=now,
        level="error",
        node_id=node_id,
    )


def release(session: Session, node_id: str, *, actor: str, now: dt.datetime) -> bool:
    """Lift a quarantine and forget the failures that led to it; whether there was any. What the
    checks find goes on to count."""
    node = _lock(session, node_id)
    if not (node.quarantine_reason or node.strikes):
        return False
    was = node.quarantine_reason
    clear(session, node)
    if was:
        audit.record(
            session, "node.release", f"node:{node.name}", audit.Author(actor, now), {"reason": was}
        )
        add_event(
            session,
            "node.released",
            f"{node.name} was released from quarantine by {actor}.",
            now=now,
            node_id=node_id,
        )
    return True


def clear(session: Session, node: NodeRow) -> None:
    """No quarantine and no failures any more, after a reboot or when somebody says so."""
    node.quarantine_reason, node.strikes, node.strike_reason = "", 0, ""
    _assess(session, node)


def _lock(session: Session, node_id: str) -> NodeRow:
    session.flush()
    return session.get_one(NodeRow, node_id, with_for_update=True, populate_existing=True)


def _assess(session: Session, node: NodeRow) -> None:
    health = assess(from_plain(node.problems), node.quarantine_reason)
    node.health, node.health_reason = health.state, health.reason
    session.flush()
    touch(session, "cluster", f"node:{node.id}", "loops")
