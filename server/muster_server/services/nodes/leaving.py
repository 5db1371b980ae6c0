"""A node leaves the cluster: a pilot announces its end step by step, and its row goes with it.

Its events, allocations and the logs of its trials stay, under its id.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from muster.wire import ExitInfo, LeaveReply, LeaveRequest, leaving_problem
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, AttemptRow, NodeRow, NodeSlotRow, TrialRow
from muster_server.domain.states import (
    TERMINAL_ALLOCATION,
    AllocationState,
    AttemptState,
    NodeState,
    YieldKind,
)
from muster_server.errors import Conflict

from ..core.assignments import bump_assignments, lock_nodes
from ..core.events import add_event
from ..scheduling.allocations import lock_what_may_be_freed
from ..scheduling.preemption import MAY_YIELD, ask_to_yield
from .health import note_problems
from .sessions import require_session

_ENDED = (
    AllocationState.EXITED,
    AllocationState.PREPARE_FAILED,
    AllocationState.LOST,
    AllocationState.CLEANED,
)
_ALL = frozenset(AllocationState) - TERMINAL_ALLOCATION
_RUNS = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.WINDING_DOWN)
MAX_REASON_CHARS = 200


def leave(session: Session, request: LeaveRequest, *, now: dt.datetime) -> LeaveReply:
    """Take a step in which a pilot leaves. Safe to repeat.

    After `closing` nothing new is placed on the node; while the reply counts open allocations, what
    was placed just before is still to be run. With `draining` the attempts that run there are asked
    for a checkpoint and their slots in the same transaction, so whatever they report afterwards is
    charged to nobody. With `gone` what has not ended is settled, and the row of the node is deleted.
    A node that is no pilot is there again when its agent is: it only drains, and takes no new work until then.
    Raises Superseded for an older session, and Conflict for what only a pilot does.
    """
    held = lock_what_may_be_freed(session, [request.node_id], states=_ALL)
    node = require_session(session, request.node_id, request.session_epoch)
    if not node.is_pilot and request.stage != "draining":
        raise Conflict(
            "agent.not_a_pilot",
            f"{node.name} did not register as a pilot, so it does not leave with its agent.",
            hint="Start its agent with --once, --idle-exit, --ends-at or --provider-ref.",
        )
    rows = _allocations(session, held)
    reason = request.reason[:MAX_REASON_CHARS]
    if request.stage == "draining":
        _empty(session, node, rows, reason, now=now)
    lock_nodes(session, [node.id])  # After attempts, as everybody does.
    if request.stage == "gone":
        for row in rows:
            _settle(session, node, row, now)
        remove_row(session, node, f"{node.name} has left the cluster: {reason}.", now=now)
        return LeaveReply(num_open=0)
    if node.is_pilot:
        _keep_off(session, node, request.stage, reason, now=now)
    else:
        note_problems(session, node, [leaving_problem(reason)], now=now)
    session.flush()
    bump_assignments(session, [node.id])
    touch(session, "cluster", f"node:{node.id}", "loops")
    return LeaveReply(num_open=sum(row.observed not in _ENDED for row in rows))


def remove_row(session: Session, node: NodeRow, message: str, *, now: dt.datetime) -> None:
    """Delete a node with its slots; its credential is void from now on. The lifecycle ends what is
    still held there."""
    add_event(
        session,
        "node.state",
        message,
        now=now,
        node_id=node.id,
        data={"before": node.state, "after": NodeState.REMOVED},
    )
    session.flush()
    session.execute(delete(NodeSlotRow).where(NodeSlotRow.node_id == node.id))
    session.execute(delete(NodeRow).where(NodeRow.id == node.id))
    touch(session, "cluster", f"node:{node.id}", "loops")


def _allocations(session: Session, ids: Collection[str]) -> Sequence[AllocationRow]:
    return session.scalars(
        select(AllocationRow)
        .where(AllocationRow.id.in_(ids))
        .order_by(AllocationRow.id)
        .execution_options(populate_existing=True)
    ).all()


def _keep_off(
    session: Session, node: NodeRow, stage: str, reason: str, *, now: dt.datetime
) -> None:
    after = "draining" if stage == "draining" else "cordoned"
    if node.scheduling == after or node.scheduling == "draining":
        return
    node.scheduling = after
    add_event(
        session,
        "node.scheduling",
        f"{node.name} is {after}: {reason}.",
        now=now,
        node_id=node.id,
    )


def _empty(
    session: Session, node: NodeRow, rows: Sequence[AllocationRow], reason: str, *, now: dt.datetime
) -> None:
    """Ask the attempts on the node for their slots, and tell its own allocations to stop."""
    why = f"{node.name} leaves: {reason}"
    found = session.execute(
        select(AttemptRow, TrialRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(AttemptRow.id.in_({row.attempt_id for row in rows if row.observed not in _ENDED}))
        .order_by(AttemptRow.id)
    ).all()
    leaving = set()
    for attempt, trial in found:
        if attempt.no != trial.attempt_no:
            continue
        if attempt.yield_kind is None and attempt.state in MAY_YIELD:
            ask_to_yield(session, attempt.id, kind=YieldKind.DRAIN, reason=why, now=now)
            leaving.add(attempt.id)
        elif attempt.yield_kind is not None:
            leaving.add(attempt.id)
    runs = {attempt.id for attempt, _ in found if attempt.state in _RUNS}
    for row in rows:
        if row.observed in _ENDED or row.attempt_id not in leaving & runs:
            continue
        if row.desired == "start":
            row.desired, row.stop_reason, row.stop_kind = "stop", why, YieldKind.DRAIN.value
    session.flush()


def _settle(session: Session, node: NodeRow, row: AllocationRow, now: dt.datetime) -> None:
    """Record the end of an allocation that its agent did not report: nothing of it runs any more."""
    was_asked = row.desired in ("stop", "kill")
    row.desired = "forget"
    if row.observed in _ENDED:
        return
    info = ExitInfo(
        cause="stopped" if was_asked else "shim_lost",
        message=f"{node.name} left the cluster before it had reported how this ended",
    )
    row.observed, row.state_since = AllocationState.EXITED, now
    row.exit, row.message = dataclasses.asdict(info), info.message
    touch(session, f"trial:{row.trial_id}", "loops")
