"""Keeps the ledgers: counts attempts as they run and once more when they, or their trials, have ended."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Sequence

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database, touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    LedgerDayRow,
    LedgerRow,
    TrialRow,
)
from muster_server.domain.goodput.ledger import CLASSES, PARTS
from muster_server.domain.states import TERMINAL_TRIAL

from .loading import Accounted, account, plain_of

log = logging.getLogger(__name__)

RUNNING_EVERY = dt.timedelta(seconds=60)
"""How often a running attempt is counted."""
RETRY_AFTER = dt.timedelta(minutes=10)
"""When an attempt that could not be counted is tried again."""
ATTEMPTS_MAX = 200
"""Attempts that are looked up at once."""
_RECENT = 1_000
"""Numbers below the newest one counted among which an attempt may be new: transactions do not end in the
order of the numbers they took."""


def update_due(database: Database, now: dt.datetime, *, budget_s: float) -> int:
    """Count attempts that are due until all are done or the time is up, each in a transaction of its
    own; return how many were counted. What is left is due the next time."""
    ends_at = time.monotonic() + budget_s
    num = 0
    tried: set[int] = set()
    while time.monotonic() < ends_at:
        with database.read() as session:
            due = [attempt_id for attempt_id in _due(session, now) if attempt_id not in tried]
        if not due:
            break
        for attempt_id in due:
            tried.add(attempt_id)
            num += _count(database, attempt_id, now)
            if time.monotonic() >= ends_at:
                break
    return num


def _due(session: Session, now: dt.datetime) -> Sequence[int]:
    newest = session.scalar(select(func.max(LedgerRow.attempt_id))) or 0
    new = session.scalars(
        select(AttemptRow.id)
        .outerjoin(LedgerRow, LedgerRow.attempt_id == AttemptRow.id)
        .where(
            AttemptRow.id > newest - _RECENT,
            LedgerRow.attempt_id.is_(None),
            # Those reported from outside hold no slots.
            select(AllocationRow.id).where(AllocationRow.attempt_id == AttemptRow.id).exists(),
        )
        .order_by(AttemptRow.id)
        .limit(ATTEMPTS_MAX)
    ).all()
    known = session.scalars(
        select(LedgerRow.attempt_id)
        .join(TrialRow, TrialRow.id == LedgerRow.trial_id)
        .where(
            or_(
                LedgerRow.due_at <= now,
                LedgerRow.is_open & TrialRow.state.in_(sorted(TERMINAL_TRIAL)),
            )
        )
        .order_by(LedgerRow.due_at, LedgerRow.attempt_id)
        .limit(ATTEMPTS_MAX)
    ).all()
    return [*new, *known]


def _count(database: Database, attempt_id: int, now: dt.datetime) -> bool:
    """Count one attempt. One that cannot be counted must not keep the others from it."""
    try:
        with database.read() as session:
            attempt = session.get(AttemptRow, attempt_id)
            known = session.get(LedgerRow, attempt_id)
            if attempt is None:
                return False
            found = account(session, attempt, known, now=now)
        if found is None:
            return False
        with database.transaction() as session:
            _write(session, found, known, now)
    except Exception:
        log.exception("ledger_failed", extra={"attempt_id": attempt_id})
        with database.transaction() as session:
            session.execute(
                update(LedgerRow)
                .where(LedgerRow.attempt_id == attempt_id)
                .values(due_at=now + RETRY_AFTER)
            )
        return False
    return True


def _write(session: Session, found: Accounted, known: LedgerRow | None, now: dt.datetime) -> None:
    attempt = session.get(AttemptRow, found.attempt_id)
    if attempt is None:
        return
    values = {
        "tally": plain_of(found.committed),
        "num_rows": found.tally.num_rows,
        "kept_step": found.kept_step,
        "is_abandoned": found.is_abandoned,
        "until": found.until,
        "is_open": not found.is_trial_over,
        "due_at": None if found.is_over else now + RUNNING_EVERY,
    }
    row = session.get(LedgerRow, attempt.id, with_for_update=True)
    if row is None:
        trial = session.get_one(TrialRow, attempt.trial_id)
        session.add(
            LedgerRow(
                attempt_id=attempt.id,
                trial_id=trial.id,
                attempt_no=attempt.no,
                queued_s=_queued_s(trial, attempt),
                **values,
            )
        )
        _count_again(session, trial, attempt.no, now)
    else:
        if not row.num_rows and found.tally.num_rows:
            _count_again(session, session.get_one(TrialRow, row.trial_id), row.attempt_no, now)
        for name, value in values.items():
            setattr(row, name, value)
    session.execute(delete(LedgerDayRow).where(LedgerDayRow.attempt_id == attempt.id))
    session.add_all(
        LedgerDayRow(
            attempt_id=attempt.id,
            day=day,
            project_id=found.project_id,
            owner_id=found.owner_id,
            pool=found.pool,
            price_per_slot_hour=found.price_per_slot_hour,
            **{str(name): of.get(name, 0.0) for name in (*CLASSES, *PARTS)},
        )
        for day, of in found.days.items()
    )
    touch(session, f"trial:{attempt.trial_id}")


def _queued_s(trial: TrialRow, attempt: AttemptRow) -> float | None:
    if attempt.no == trial.attempt_no and trial.waiting_since <= attempt.created_at:
        return (attempt.created_at - trial.waiting_since).total_seconds()
    if attempt.no == 1:
        return (attempt.created_at - trial.queued_at).total_seconds()
    return None


def _count_again(session: Session, trial: TrialRow, attempt_no: int, now: dt.datetime) -> None:
    """Have counted again what an attempt changes by going on from somewhere: the earlier attempts of its
    trial, and the trial that its checkpoint is from."""
    source = select(CheckpointRow.trial_id).where(CheckpointRow.id == trial.source_checkpoint_id)
    session.execute(
        update(LedgerRow)
        .where(
            or_(
                (LedgerRow.trial_id == trial.id) & (LedgerRow.attempt_no < attempt_no),
                LedgerRow.trial_id == source.scalar_subquery(),
            )
        )
        .values(due_at=now)
        .execution_options(synchronize_session=False)
    )
