"""Reservations of nodes as administrators make and cancel them, and as everybody sees them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import ColumnElement, exists, func, select, union, update
from sqlalchemy.orm import Session

from muster.nearest import nearest
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    GroupMemberRow,
    NodeReservationRow,
    NodeRow,
    NodeSlotRow,
    ProjectMemberRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.db.sight import SEES_ALL
from muster_server.domain.messages import Message
from muster_server.domain.nodes.periods import PeriodTurn
from muster_server.domain.nodes.reservations import (
    NodeReservation,
    ReservableNode,
    choose,
    overlapping,
)
from muster_server.domain.states import NodeState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.maintenance import (
    ReservationIn,
    ReservationListOut,
    ReservationOut,
    ReservationPatch,
    ReservedFromOut,
)

from ..core.callers import Caller, record
from ..core.events import add_event
from ..core.outbox import notify
from ..core.periods import load_reservation, load_reservations, open_reservations
from ..core.writes import require_one
from .maintenance import moment_of, pool_names, unknown_names

MAX_OPEN = 200
"""Active and planned reservations."""
MAX_TAKEN_FROM = 100
"""Trials that are listed of those from which a reservation takes slots."""
ANY_RESERVATION = exists().where(NodeReservationRow.ended_at.is_(None))
"""Whether any reservation is open."""


def list_reservations(session: Session, *, now: dt.datetime) -> ReservationListOut:
    """Return the active and planned reservations that the caller sees, the first to start first."""
    seen = {*session.scalars(select(NodeReservationRow.id).where(~_HAS_ENDED))}
    found = [(row, one) for row, one in open_reservations(session) if one.ends_at > now]
    return ReservationListOut(
        items=[_out(session, row, one, now) for row, one in found if row.id in seen]
    )


def get(session: Session, number: int, *, now: dt.datetime) -> ReservationOut:
    """Return a reservation, which may have ended. Raises NotFound."""
    row = _find(session, number)
    return _out(session, row, load_reservation(session, row), now)


def create(session: Session, wish: ReservationIn, by: Caller) -> ReservationOut:
    """Reserve nodes. Raises InvalidRequest for times, names and numbers that cannot work, and Conflict for
    nodes that are reserved then, or too many reservations."""
    now = by.now
    problems: list[FieldProblem] = []
    starts_at, ends_at = _times(wish, now, now, problems)
    user_id, project_id = _beneficiary(session, wish, problems)
    problems += _wrong_nodes(session, wish)
    if problems:
        raise _invalid(problems)
    _lock(session, NodeRow.pool == wish.pool if wish.pool else NodeRow.name.in_(wish.nodes))
    others = load_reservations(session, now=now)
    if len(others) >= MAX_OPEN:
        raise Conflict(
            "reservations.too_many",
            f"There are {MAX_OPEN} active and planned reservations, the most there may be.",
            hint="Cancel one that is not needed: muster reservation list",
        )
    if wish.pool:
        names = _choose(session, wish, (starts_at, ends_at), others, user_id, project_id)
    else:
        names = tuple(sorted(set(wish.nodes)))
        _refuse_overlaps(names, starts_at, ends_at, others)
    row = NodeReservationRow(
        starts_at=starts_at,
        ends_at=ends_at,
        nodes=list(names),
        user_id=user_id,
        project_id=project_id,
        reason=wish.reason,
        created_by=by.principal.actor[:160],
        created_at=now,
    )
    session.add(row)
    session.flush()
    made = load_reservation(session, row)
    detail = {
        "starts_at": starts_at.isoformat(),
        "ends_at": ends_at.isoformat(),
        "nodes": list(names),
        **wish.model_dump(include={"user", "project", "reason"}),
    }
    record(session, "reservation.create", f"reservation:{row.id}", by, detail)
    _tell(session, made, "reservation.planned", made.planned, now)
    _warn_others(session, made, now)
    return _out(session, row, made, now)


def change(session: Session, number: int, wish: ReservationPatch, by: Caller) -> ReservationOut:
    """Change the times, nodes or reason of a reservation. Raises NotFound, InvalidRequest for times and names
    that cannot work, and Conflict for one that has ended, or nodes that are reserved then."""
    row = _find_open(session, number, by.now)
    changes = wish.model_dump(exclude_none=True)
    has_begun = row.starts_at <= by.now
    problems = unknown_names("nodes", wish.nodes or (), _node_names(session))
    if not changes:
        problems.append(FieldProblem("ends_at", "nothing is to change", "name what is to change"))
    if has_begun and wish.starts_at is not None:
        began = f"it began at {row.starts_at:%Y-%m-%d %H:%M} UTC"
        problems.append(FieldProblem("starts_at", began, "leave it out"))
    given = wish.model_copy(update={"starts_at": None}) if has_begun else wish
    starts_at, ends_at = _times(given, by.now, row.starts_at, problems, until=row.ends_at)
    if problems:
        raise _invalid(problems)
    names = tuple(sorted(set(wish.nodes or row.nodes)))
    _lock(session, NodeRow.name.in_(names))
    others = [one for one in load_reservations(session, now=by.now) if one.id != number]
    _refuse_overlaps(names, starts_at, ends_at, others)
    is_longer = starts_at < row.starts_at or ends_at > row.ends_at
    takes_more = is_longer or not {*names} <= {*row.nodes}
    row.starts_at, row.ends_at, row.nodes = starts_at, ends_at, list(names)
    if wish.reason is not None:
        row.reason = wish.reason
    session.flush()
    one = load_reservation(session, row)
    record(session, "reservation.change", f"reservation:{number}", by, changes)
    _tell(session, one, "reservation.changed", one.changed, by.now)
    if takes_more:
        _warn_others(session, one, by.now)
    return _out(session, row, one, by.now)


def cancel(session: Session, number: int, by: Caller) -> ReservationOut:
    """End an active reservation, or take a planned one back: its nodes are open to everybody at once.
    Raises NotFound, and Conflict for one that has ended."""
    row = _find_open(session, number, by.now)
    row.ended_at, row.ended_by = by.now, by.principal.actor[:160]
    session.flush()
    was_active = row.starts_at <= by.now
    record(session, "reservation.cancel", f"reservation:{number}", by, {"was_active": was_active})
    one = load_reservation(session, row)
    _tell(session, one, "reservation.cancelled", one.cancelled, by.now)
    return _out(session, row, one, by.now)


def apply_turn(session: Session, turn: PeriodTurn, *, now: dt.datetime) -> None:
    """Tell of a reservation that has begun, or close one whose time is over. Raises Outdated, and then
    nothing must be committed, when somebody has done so."""
    query = update(NodeReservationRow).where(
        NodeReservationRow.id == turn.period_id, NodeReservationRow.ended_at.is_(None)
    )
    if turn.event == "started":
        query = query.where(NodeReservationRow.announced.is_(False)).values(announced=True)
        require_one(session, query, f"reservation {turn.period_id} is not about to start")
    else:
        query = query.values(ended_at=NodeReservationRow.ends_at)
        require_one(session, query, f"reservation {turn.period_id} has ended")
    row = session.get_one(NodeReservationRow, turn.period_id, populate_existing=True)
    event = "reservation.started" if turn.event == "started" else "reservation.ended"
    _tell(session, load_reservation(session, row), event, turn.reason, now)


_HAS_ENDED = NodeReservationRow.ended_at.is_not(None)


def _find(session: Session, number: int, *, locks: bool = False) -> NodeReservationRow:
    query = select(NodeReservationRow).where(NodeReservationRow.id == number)
    row = session.scalar(query.with_for_update() if locks else query)
    if row is None:
        raise NotFound(
            "reservations.not_found",
            f"There is no reservation {number}.",
            hint="See them all: muster reservation list",
        )
    return row


def _find_open(session: Session, number: int, now: dt.datetime) -> NodeReservationRow:
    """Return a reservation that has not ended, locked. Raises NotFound and Conflict."""
    row = _find(session, number, locks=True)
    if row.ended_at is not None or row.ends_at <= now:
        raise Conflict(
            "reservations.ended",
            f"Reservation {number} ended at {row.ended_at or row.ends_at:%Y-%m-%d %H:%M} UTC.",
        )
    return row


def _times(
    wish: ReservationIn | ReservationPatch,
    now: dt.datetime,
    start: dt.datetime,
    problems: list[FieldProblem],
    *,
    until: dt.datetime | None = None,
) -> tuple[dt.datetime, dt.datetime]:
    """Return when a reservation begins and ends; without a wish at `start` and `until`."""
    starts_at = moment_of("starts_at", wish.starts_at, now, problems) or start
    ends_at = moment_of("ends_at", wish.ends_at, starts_at, problems) or until or starts_at
    if wish.starts_at is not None and starts_at < now:
        hint = "leave it out to start now" if until is None else "write a later moment"
        problems.append(FieldProblem("starts_at", Message("field.past"), hint))
    elif ends_at <= starts_at and not problems:
        problems.append(
            FieldProblem(
                "ends_at",
                f"must be after the start, {starts_at:%Y-%m-%d %H:%M} UTC",
                "write a length of time such as 2h, or a later moment",
            )
        )
    elif ends_at <= now and not problems:
        hint = "write a later moment; `muster reservation cancel` ends it now"
        problems.append(FieldProblem("ends_at", Message("field.past"), hint))
    return starts_at, ends_at


def _lock(session: Session, scope: ColumnElement[bool]) -> None:
    """Have reservations of nodes that are made at once wait for each other, so that no node is promised
    twice. Rows of nodes are always locked in the order of their ids."""
    session.execute(select(NodeRow.id).where(scope).order_by(NodeRow.id).with_for_update()).all()


def _node_names(session: Session) -> Iterable[str]:
    return session.scalars(select(NodeRow.name).where(NodeRow.state != NodeState.REMOVED))


def _invalid(problems: Sequence[FieldProblem]) -> InvalidRequest:
    return InvalidRequest("reservations.invalid", "The reservation is not valid.", fields=problems)


def _beneficiary(
    session: Session, wish: ReservationIn, problems: list[FieldProblem]
) -> tuple[int | None, int | None]:
    """Return the ids of the user and the project that a reservation is for."""
    if (wish.user is None) == (wish.project is None):
        problems.append(
            FieldProblem(
                "user" if wish.project is None else "project",
                "names no beneficiary" if wish.project is None else "is given beside a user",
                "name either a user or a project",
            )
        )
        return None, None
    field, name = ("user", wish.user) if wish.user is not None else ("project", wish.project)
    assert name is not None
    known = (
        select(UserRow.username, UserRow.id)
        if field == "user"
        else select(ProjectRow.name, ProjectRow.id)
    )
    names = {row[0]: row[1] for row in session.execute(known)}
    if name not in names:
        near = nearest(name, names)
        hint = f"did you mean {near!r}?" if near else None
        problems.append(FieldProblem(field, f"there is no {field} {name!r}", hint))
        return None, None
    return (names[name], None) if field == "user" else (None, names[name])


def _wrong_nodes(session: Session, wish: ReservationIn) -> list[FieldProblem]:
    """Return what is wrong with the way in which nodes are named or counted."""
    counts = [wish.num_nodes, wish.num_slots]
    if wish.pool is None:
        for name, value in (("num_nodes", wish.num_nodes), ("num_slots", wish.num_slots)):
            if value is not None:
                return [FieldProblem(name, f"is {value} without a pool", "name the pool")]
        if not wish.nodes:
            return [FieldProblem("nodes", "names no node", "name nodes, or a pool and how many")]
        return unknown_names("nodes", wish.nodes, _node_names(session))
    if wish.nodes:
        return [FieldProblem("pool", "is given beside nodes", "name either nodes or a pool")]
    if counts.count(None) != 1:
        problem = "says not how many" if counts.count(None) == 2 else "counts nodes and slots"
        return [FieldProblem("pool", problem, "give either num_nodes or num_slots")]
    known = sorted(pool_names(session))
    if wish.pool not in known:
        near = nearest(wish.pool, known)
        hint = f"did you mean {near!r}?" if near else None
        return [FieldProblem("pool", f"there is no pool {wish.pool!r}", hint)]
    return []


def _choose(
    session: Session,
    wish: ReservationIn,
    times: tuple[dt.datetime, dt.datetime],
    others: Sequence[NodeReservation],
    user_id: int | None,
    project_id: int | None,
) -> tuple[str, ...]:
    slots = func.count(NodeSlotRow.idx)
    rows = session.execute(
        select(NodeRow.name, NodeRow.state, NodeRow.scheduling, slots)
        .outerjoin(NodeSlotRow, (NodeSlotRow.node_id == NodeRow.id) & ~NodeSlotRow.is_gone)
        .where(NodeRow.pool == wish.pool, NodeRow.state != NodeState.REMOVED, ~NodeRow.is_pilot)
        .group_by(NodeRow.id)
    ).all()
    free = [row for row in rows if overlapping(row[0], *times, others) is None]
    held: dict[str, int] = defaultdict(int)
    names = [row[0] for row in free]
    for node, *_, num in _held_by_others(session, names, user_id, project_id, sees_all=True):
        held[node] += num
    nodes = [
        ReservableNode(
            name=name,
            slots=num,
            takes_work=state == NodeState.ONLINE and scheduling == "open",
            num_held=held[name],
        )
        for name, state, scheduling, num in free
    ]
    chosen = choose(nodes, num_nodes=wish.num_nodes, num_slots=wish.num_slots)
    if chosen is None:
        total = sum(node.slots for node in nodes)
        field = "num_nodes" if wish.num_nodes is not None else "num_slots"
        number = wish.num_nodes or wish.num_slots
        has = (
            f"is {number}, and pool {wish.pool} has {len(nodes)} nodes with {total} slots that are "
            "not reserved then"
        )
        raise _invalid([FieldProblem(field, has, "ask for fewer, or another time")])
    return chosen


def _refuse_overlaps(
    names: Sequence[str],
    starts_at: dt.datetime,
    ends_at: dt.datetime,
    others: Sequence[NodeReservation],
) -> None:
    for name in names:
        if (other := overlapping(name, starts_at, ends_at, others)) is not None:
            raise Conflict(
                "reservations.overlap",
                f"Node {name} is reserved then: reservation {other.id} for {other.label}.",
                hint=f"Choose another node or time, or cancel it: muster reservation cancel {other.id}",
            )


def _held_by_others(
    session: Session,
    names: Collection[str],
    user_id: int | None,
    project_id: int | None,
    *,
    sees_all: bool = False,
) -> list[tuple[str, int, int, int, int | None, str | None, int]]:
    """Return (node, experiment, trial, its number, owner, their name, slots) of what runs on nodes and is
    not for a beneficiary. sees_all: whether to count what the caller must not see."""
    mine = (
        ExperimentRow.project_id == project_id
        if project_id is not None
        else func.coalesce(ExperimentRow.owner_id, 0) == user_id
    )
    query = (
        select(
            NodeRow.name,
            ExperimentRow.id,
            TrialRow.id,
            TrialRow.no,
            ExperimentRow.owner_id,
            UserRow.username,
            func.count(NodeSlotRow.idx),
        )
        .join(NodeSlotRow, NodeSlotRow.node_id == NodeRow.id)
        .join(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(NodeRow.name.in_(names), ~mine)
        .group_by(NodeRow.name, ExperimentRow.id, TrialRow.id, TrialRow.no, UserRow.username)
        .order_by(ExperimentRow.id, TrialRow.no, NodeRow.name)
    )
    options = SEES_ALL if sees_all else {}
    return [
        (node, experiment_id, trial_id, no, owner_id, owner, num)
        for node, experiment_id, trial_id, no, owner_id, owner, num in session.execute(
            query, execution_options=options
        )
    ]


def _tell(
    session: Session, one: NodeReservation, event: str, message: str, now: dt.datetime
) -> None:
    """Tell everybody who looks, and notify the beneficiary: a user, or the members of a project."""
    add_event(session, event, message, now=now, data={"reservation_id": one.id})
    users = {one.user_id} if one.user_id is not None else _members(session, one.project_id)
    for user_id in sorted(users):
        notify(session, "nodes.reserved", message, now=now, level="info", owner_id=user_id)
    touch(session, "reservations", "cluster", "loops")


def _members(session: Session, project_id: int | None) -> set[int]:
    of_project = ProjectMemberRow.project_id == project_id
    named = select(ProjectMemberRow.user_id).where(
        of_project, ProjectMemberRow.user_id.is_not(None)
    )
    in_groups = (
        select(GroupMemberRow.user_id)
        .join(ProjectMemberRow, ProjectMemberRow.group_id == GroupMemberRow.group_id)
        .where(of_project)
    )
    return {*session.scalars(union(named, in_groups))}


def _warn_others(session: Session, one: NodeReservation, now: dt.datetime) -> None:
    """Tell the trials from which slots will be taken, and notify their owners."""
    trials: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    found = _held_by_others(session, one.nodes, one.user_id, one.project_id, sees_all=True)
    for _, experiment_id, trial_id, no, owner_id, _, _ in found:
        trials[owner_id or 0][f"{experiment_id}.{no}"] = experiment_id, trial_id
    for owner_id, names in sorted(trials.items()):
        for name, (experiment_id, trial_id) in names.items():
            add_event(
                session,
                "trial.reserved",
                one.takes_from([name]),
                now=now,
                experiment_id=experiment_id,
                trial_id=trial_id,
                data={"reservation_id": one.id},
            )
            touch(session, f"trial:{trial_id}")
        if owner_id:
            text = one.takes_from(list(names))
            notify(session, "nodes.reserved", text, now=now, level="warning", owner_id=owner_id)


def _out(
    session: Session, row: NodeReservationRow, one: NodeReservation, now: dt.datetime
) -> ReservationOut:
    taken: dict[int, ReservedFromOut] = {}
    is_open = row.ended_at is None and one.ends_at > now
    held = _held_by_others(session, one.nodes, one.user_id, one.project_id) if is_open else []
    for node, experiment_id, trial_id, no, _, owner, _ in held:
        trial = taken.setdefault(
            trial_id,
            ReservedFromOut(
                experiment_id=experiment_id, trial_id=trial_id, trial_no=no, owner=owner, nodes=[]
            ),
        )
        trial.nodes.append(node)
    project = select(ProjectRow.name).where(ProjectRow.id == row.project_id)
    user = select(UserRow.username).where(UserRow.id == row.user_id)
    return ReservationOut.from_row(
        row,
        is_active=is_open and one.is_active(now),
        user=session.scalar(user),
        project=session.scalar(project),
        taken_from=list(taken.values())[:MAX_TAKEN_FROM],
        num_taken_from=len(taken),
    )
