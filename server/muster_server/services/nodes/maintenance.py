"""Maintenance windows as administrators plan, start and end them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from sqlalchemy import exists, select, union, update
from sqlalchemy.orm import Session

from muster.nearest import nearest
from muster_server.db.engine import touch
from muster_server.db.models import MaintenanceWindowRow, NodeRow, PoolProviderRow, PoolRow
from muster_server.domain.durations import EXAMPLES, InvalidMoment, parse_deadline
from muster_server.domain.messages import Message
from muster_server.domain.nodes.maintenance import Schedule
from muster_server.domain.nodes.periods import PeriodTurn
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.maintenance import MaintenanceIn, MaintenanceListOut, MaintenanceOut

from ..core import audit
from ..core.events import add_event
from ..core.periods import open_windows, window_of
from ..core.writes import require_one

MAX_OPEN = 100
"""Active and planned windows."""
ANY_WINDOW = exists().where(MaintenanceWindowRow.ended_at.is_(None))
"""Whether any window is open."""


def list_windows(session: Session, *, now: dt.datetime) -> MaintenanceListOut:
    """Return the active and planned windows, the first to start first."""
    rows = {row.id: row for row in open_windows(session)}
    schedule = Schedule(map(window_of, rows.values()), now)
    left = {window.id for window in (*schedule.active, *schedule.planned)}
    return MaintenanceListOut(items=[_out(row, now) for id_, row in rows.items() if id_ in left])


def create(
    session: Session, wish: MaintenanceIn, *, actor: str, remote_addr: str, now: dt.datetime
) -> MaintenanceOut:
    """Plan a window, or start one now. Raises InvalidRequest for times and names that cannot work, and
    Conflict when there are too many."""
    problems: list[FieldProblem] = []
    starts_at = moment_of("starts_at", wish.starts_at, now, problems) or now
    ends_at = moment_of("ends_at", wish.ends_at, starts_at, problems)
    if starts_at < now:
        problems.append(
            FieldProblem("starts_at", Message("field.past"), "leave it out to start now")
        )
    elif ends_at is not None and ends_at <= starts_at:
        problems.append(
            FieldProblem(
                "ends_at",
                f"must be after the start, {starts_at:%Y-%m-%d %H:%M} UTC",
                "write a length of time such as 2h, or a later moment",
            )
        )
    problems += unknown_names("pools", wish.pools, pool_names(session))
    problems += unknown_names("nodes", wish.nodes, session.scalars(select(NodeRow.name)))
    if problems:
        raise InvalidRequest(
            "maintenance.invalid", "The maintenance window is not valid.", fields=problems
        )
    if len(open_windows(session)) >= MAX_OPEN:
        raise Conflict(
            "maintenance.too_many",
            f"There are {MAX_OPEN} active and planned maintenance windows, the most there may be.",
            hint="End one that is not needed: muster maintenance list",
        )
    row = MaintenanceWindowRow(
        starts_at=starts_at,
        ends_at=ends_at,
        pools=sorted(set(wish.pools)),
        nodes=sorted(set(wish.nodes)),
        reason=wish.reason,
        running=wish.running,
        created_by=actor[:160],
        created_at=now,
    )
    session.add(row)
    session.flush()
    is_planned = starts_at > now
    audit.record(
        session,
        "maintenance.plan" if is_planned else "maintenance.start",
        f"maintenance:{row.id}",
        audit.Author(actor, now, remote_addr),
        {
            "starts_at": starts_at.isoformat(),
            "ends_at": None if ends_at is None else ends_at.isoformat(),
            **wish.model_dump(include={"pools", "nodes", "reason", "running"}),
        },
    )
    if is_planned:
        add_event(session, "maintenance.planned", window_of(row).planned, now=now)
    _announce(session)
    return _out(row, now)


def end(
    session: Session, window_id: int, *, actor: str, remote_addr: str, now: dt.datetime
) -> MaintenanceOut:
    """End an active window, or take a planned one back. Raises NotFound, and Conflict for one that has
    ended."""
    row = session.get(MaintenanceWindowRow, window_id, with_for_update=True)
    if row is None:
        raise NotFound("maintenance.not_found", f"There is no maintenance window {window_id}.")
    if row.ended_at is not None or (row.ends_at is not None and row.ends_at <= now):
        raise Conflict(
            "maintenance.ended",
            f"Maintenance window {window_id} ended at {row.ended_at or row.ends_at:%Y-%m-%d %H:%M} UTC.",
        )
    row.ended_at, row.ended_by = now, actor[:160]
    audit.record(
        session,
        "maintenance.end",
        f"maintenance:{row.id}",
        audit.Author(actor, now, remote_addr),
        {"was_active": row.starts_at <= now, "reason": row.reason},
    )
    window = window_of(row)
    told = f"{window.ended} {actor} ended it." if row.starts_at <= now else window.called_off
    add_event(session, "maintenance.ended", told, now=now)
    session.flush()
    _announce(session)
    return _out(row, now)


def apply_turn(session: Session, turn: PeriodTurn, *, now: dt.datetime) -> None:
    """Tell of a window that has begun, or close one whose time is over. Raises Outdated, and then
    nothing must be committed, when somebody has done so."""
    query = update(MaintenanceWindowRow).where(
        MaintenanceWindowRow.id == turn.period_id, MaintenanceWindowRow.ended_at.is_(None)
    )
    if turn.event == "started":
        query = query.where(MaintenanceWindowRow.announced.is_(False)).values(announced=True)
        require_one(session, query, f"window {turn.period_id} is not about to start")
        add_event(session, "maintenance.started", turn.reason, now=now)
    else:
        query = query.values(ended_at=MaintenanceWindowRow.ends_at)
        require_one(session, query, f"window {turn.period_id} has ended")
        add_event(session, "maintenance.ended", turn.reason, now=now)
    _announce(session)


def _announce(session: Session) -> None:
    touch(session, "maintenance", "cluster", "loops")


def moment_of(
    path: str, text: str | None, start: dt.datetime, problems: list[FieldProblem]
) -> dt.datetime | None:
    """Return the moment that a field names, a length of time counting from `start`."""
    if text is None:
        return None
    try:
        return parse_deadline(text, start)
    except InvalidMoment as error:
        problems.append(FieldProblem(path, error.problem, EXAMPLES))
        return None


def pool_names(session: Session) -> Iterable[str]:
    """Return the names of the pools that have nodes, settings or a provider."""
    names = union(select(NodeRow.pool), select(PoolRow.name), select(PoolProviderRow.pool))
    return session.scalars(names)


def unknown_names(path: str, wanted: Sequence[str], known: Iterable[str]) -> list[FieldProblem]:
    """Return a problem for each name of a list that nothing has."""
    if not wanted:
        return []
    names = sorted(known)
    return [
        FieldProblem(
            f"{path}[{index}]",
            f"there is no {path[:-1]} {name!r}",
            f"did you mean {near!r}?" if (near := nearest(name, names)) else None,
        )
        for index, name in enumerate(wanted)
        if name not in names
    ]


def _out(row: MaintenanceWindowRow, now: dt.datetime) -> MaintenanceOut:
    is_active = row.ended_at is None and window_of(row).is_active(now)
    return MaintenanceOut.from_row(row, is_active=is_active)
