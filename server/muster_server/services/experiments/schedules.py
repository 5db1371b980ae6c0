"""Experiments that start at the times of a cron expression: kept, changed, and started by the loop."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import CronScheduleRow, ExperimentRow, ProjectRow, UserRow
from muster_server.db.sight import SEES_ALL
from muster_server.domain.experiments.schedules import (
    DueSchedule,
    InvalidSchedule,
    ScheduleTurn,
    check,
    in_words,
    next_after,
    times_after,
)
from muster_server.domain.messages import Message, from_columns, parts, to_columns
from muster_server.domain.states import TERMINAL_EXPERIMENT
from muster_server.errors import (
    Conflict,
    FieldProblem,
    Forbidden,
    InvalidRequest,
    MusterError,
    NotFound,
)
from muster_server.schemas.base import PartOut
from muster_server.schemas.experiments import ExperimentIn
from muster_server.schemas.schedules import ScheduleIn, ScheduleListOut, ScheduleOut, SchedulePatch
from muster_server.security.principal import Principal

from ..core import access
from ..core.callers import Caller, record
from ..core.events import add_event
from ..core.outbox import notify
from ..core.ownership import is_in_charge, say_whose
from ..core.writes import require_one
from ..quota import projects
from . import operations
from .submission import create_experiment, invalid_document, resolve_submission

SCHEDULES_MAX = 500
"""Schedules of all projects together."""
UPCOMING = 3
"""Coming times that are shown."""
_ACTIVE = CronScheduleRow.is_paused.is_(False) & CronScheduleRow.next_at.is_not(None)
ANY_SCHEDULE = exists().where(_ACTIVE)
"""Whether any schedule is active."""


def list_schedules(session: Session, *, now: dt.datetime) -> ScheduleListOut:
    """Return all schedules that the caller sees, the next to start first."""
    query = select(CronScheduleRow).order_by(
        CronScheduleRow.is_paused,
        CronScheduleRow.next_at.is_(None),
        CronScheduleRow.next_at,
        CronScheduleRow.id,
    )
    return ScheduleListOut(items=[_out(session, row, now) for row in session.scalars(query)])


def create(session: Session, wish: ScheduleIn, by: Caller) -> ScheduleOut:
    """Keep a submission and the times at which it is made. Raises InvalidRequest for times, a document or
    code that cannot work, Forbidden for a project that the caller may not submit to, and Conflict when
    there are too many schedules."""
    _check(wish.cron, wish.timezone, by.now)
    principal = by.principal
    resolved = resolve_submission(
        session, wish.experiment, user_id=principal.user_id, role=principal.role, now=by.now
    )
    if resolved.config is None:
        raise invalid_document(
            [replace(problem, path=f"experiment.{problem.path}") for problem in resolved.problems]
        )
    num = session.scalar(select(func.count(CronScheduleRow.id)), execution_options=SEES_ALL) or 0
    if num >= SCHEDULES_MAX:
        raise Conflict(
            "schedules.too_many",
            f"There are {num} schedules, the most there may be.",
            hint="Delete one that is not needed: muster schedule list",
        )
    row = CronScheduleRow(
        project_id=projects.find_or_make(
            session, resolved.config.project, by.now, user_id=principal.user_id
        ),
        owner_id=principal.user_id,
        name=resolved.config.name,
        submission=wish.experiment.model_dump(mode="json"),
        blob_sha256=wish.experiment.blob_sha256,
        cron=wish.cron,
        timezone=wish.timezone,
        overlap=wish.overlap,
        next_at=next_after(wish.cron, wish.timezone, by.now),
        created_at=by.now,
    )
    session.add(row)
    session.flush()
    _note(session, "create", row, by)
    return _out(session, row, by.now)


def change(session: Session, schedule_id: int, wish: SchedulePatch, by: Caller) -> ScheduleOut:
    """Change its times, or pause it. Times that passed while it was paused are not made up for. Raises
    NotFound, Forbidden and InvalidRequest."""
    row = _own(session, schedule_id, by.principal)
    cron, timezone = wish.cron or row.cron, wish.timezone or row.timezone
    _check(cron, timezone, by.now)
    was_paused, is_moved = row.is_paused, (cron, timezone) != (row.cron, row.timezone)
    row.cron, row.timezone = cron, timezone
    row.overlap = wish.overlap or row.overlap
    row.is_paused = row.is_paused if wish.is_paused is None else wish.is_paused
    if is_moved or (was_paused and not row.is_paused):
        row.next_at = next_after(cron, timezone, by.now)
    session.flush()
    _note(session, "change", row, by)
    return _out(session, row, by.now)


def delete(session: Session, schedule_id: int, by: Caller) -> None:
    """Delete a schedule; what it has started stays. Raises NotFound and Forbidden."""
    row = _own(session, schedule_id, by.principal)
    _note(session, "delete", row, by)
    session.delete(row)


def start_now(session: Session, schedule_id: int, by: Caller) -> ScheduleOut:
    """Start its experiment once, beside what runs; its times stay. Raises NotFound and Forbidden, and what a
    submission raises."""
    row = _own(session, schedule_id, by.principal)
    owner = session.get(UserRow, row.owner_id) if row.owner_id is not None else None
    if (obstacle := _obstacle(owner)) is not None or owner is None:
        raise Conflict("schedules.no_owner", (obstacle or Message("schedule.no_owner")).english)
    _start(session, row, owner, by.now)
    row.last_at, (row.last_reason, row.last_reason_parts) = (
        by.now,
        to_columns(Message("schedule.by_hand", name=by.principal.name)),
    )
    session.flush()
    _note(session, "run", row, by)
    return _out(session, row, by.now)


def load_due(session: Session, now: dt.datetime) -> list[DueSchedule]:
    """Return the schedules whose time has come."""
    query = (
        select(CronScheduleRow, UserRow, ExperimentRow.id)
        .outerjoin(UserRow, UserRow.id == CronScheduleRow.owner_id)
        .outerjoin(
            ExperimentRow,
            (ExperimentRow.id == CronScheduleRow.last_experiment_id)
            & ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
        )
        .where(_ACTIVE, CronScheduleRow.next_at <= now)
        .order_by(CronScheduleRow.next_at, CronScheduleRow.id)
    )
    return [
        DueSchedule(
            id=row.id,
            cron=row.cron,
            timezone=row.timezone,
            overlap=row.overlap,
            next_at=row.next_at,
            running_id=running_id,
            obstacle=_obstacle(owner),
        )
        for row, owner, running_id in session.execute(query)
        if row.next_at is not None
    ]


def apply_turn(session: Session, turn: ScheduleTurn, *, now: dt.datetime) -> None:
    """Carry out what a schedule does at a time. Raises Outdated, and then nothing must be committed, when it
    was changed since."""
    require_one(
        session,
        update(CronScheduleRow)
        .where(
            CronScheduleRow.id == turn.schedule_id, CronScheduleRow.next_at == turn.due_at, _ACTIVE
        )
        .values(next_at=turn.next_at, last_at=now),
        f"schedule {turn.schedule_id} is not due any more",
    )
    row = session.get_one(CronScheduleRow, turn.schedule_id)
    owner = session.get(UserRow, row.owner_id) if row.owner_id is not None else None
    reason = _obstacle(owner) or turn.reason
    is_refused = reason.code in ("schedule.no_owner", "schedule.owner_inactive")
    if turn.starts and owner is not None and not is_refused:
        try:
            with session.begin_nested():
                if turn.stops_id is not None:
                    caller = Caller(principal=_principal(owner), now=now)
                    operations.run(session, operations.STOP, turn.stops_id, caller)
                _start(session, row, owner, now)
        except MusterError as error:
            said = "; ".join(f"{p.path} {_english(p)}" for p in error.fields) or error.message
            reason, is_refused = Message("schedule.refused", problem=said), True
    if is_refused and row.last_reason != reason.english:
        notify(
            session,
            "schedule.failed",
            f"Schedule {row.id} ({row.name}): {reason.english}",
            now=now,
            level="error",
            project_id=row.project_id,
            owner_id=row.owner_id,
        )
    row.last_reason, row.last_reason_parts = to_columns(reason)
    _announce(session)


def _start(session: Session, row: CronScheduleRow, owner: UserRow, now: dt.datetime) -> None:
    made = create_experiment(
        session,
        ExperimentIn.model_validate(row.submission),
        user_id=owner.id,
        user_name=owner.username,
        now=now,
    )
    row.last_experiment_id = made.experiment_id
    add_event(
        session,
        "experiment.scheduled",
        f"Started by schedule {row.id} ({row.cron}, {row.timezone}).",
        now=now,
        experiment_id=made.experiment_id,
        data={"schedule_id": row.id},
    )


def _english(problem: FieldProblem) -> str:
    return problem.message if isinstance(problem.message, str) else problem.message.english


def _principal(owner: UserRow) -> Principal:
    return Principal(kind="user", name=owner.username, role=cast(Any, owner.role), user_id=owner.id)


def _obstacle(owner: UserRow | None) -> Message | None:
    if owner is None:
        return Message("schedule.no_owner")
    return None if owner.may_act else Message("schedule.owner_inactive", name=owner.username)


def _check(cron: str, timezone: str, now: dt.datetime) -> None:
    try:
        check(cron, timezone, now=now)
    except InvalidSchedule as error:
        raise InvalidRequest(
            "schedules.invalid",
            "The schedule is not valid.",
            fields=[FieldProblem(error.field, error.problem, error.hint)],
        ) from None


def _own(session: Session, schedule_id: int, principal: Principal) -> CronScheduleRow:
    """Return a schedule that the caller may change. Raises NotFound and Forbidden."""
    row = session.scalar(
        select(CronScheduleRow).where(CronScheduleRow.id == schedule_id).with_for_update()
    )
    if row is None:
        raise NotFound("schedules.not_found", f"There is no schedule {schedule_id}.")
    if not is_in_charge(principal, row.owner_id):
        raise Forbidden(
            "schedules.not_yours",
            f"Schedule {row.id} {say_whose(session, row.owner_id)}; its owner and administrators may change it.",
        )
    access.require(session, session.get_one(ProjectRow, row.project_id), "submit", principal)
    return row


def _note(session: Session, action: str, row: CronScheduleRow, by: Caller) -> None:
    record(
        session,
        f"schedules.{action}",
        f"schedule:{row.id}",
        by,
        {"name": row.name, "cron": row.cron, "timezone": row.timezone, "paused": row.is_paused},
    )
    _announce(session)


def _announce(session: Session) -> None:
    touch(session, "schedules", "loops")


def _out(session: Session, row: CronScheduleRow, now: dt.datetime) -> ScheduleOut:
    owner = session.get(UserRow, row.owner_id) if row.owner_id is not None else None
    said = from_columns(row.last_reason, row.last_reason_parts)
    coming: Sequence[dt.datetime] = ()
    if not row.is_paused and row.next_at is not None:
        coming = [
            row.next_at,
            *islice(times_after(row.cron, row.timezone, row.next_at), UPCOMING - 1),
        ]
    return ScheduleOut.from_row(
        row,
        project=session.get_one(ProjectRow, row.project_id).name,
        owner=owner.username if owner is not None else None,
        cron_in_words=in_words(row.cron),
        upcoming=coming,
        last_reason_parts=[] if said is None else [PartOut(**part) for part in parts(said)],
    )
