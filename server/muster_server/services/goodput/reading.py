"""Where slot-seconds went, for people: of a trial, and summed over the cluster."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.byte_sizes import parse_size
from muster_server.db.models import (
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    LedgerDayRow,
    LedgerRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.db.queries.metrics import chunked
from muster_server.domain.goodput.efficiency import efficiency
from muster_server.domain.goodput.ledger import (
    CLASSES,
    LOST,
    PARTS,
    TimeClass,
    allocated_s,
    summed,
)
from muster_server.domain.goodput.summary import (
    SaveInterval,
    SavingFacts,
    best_save_interval,
    headline,
)
from muster_server.domain.messages import AnyMessage
from muster_server.domain.states import TERMINAL_TRIAL, TERMINATIONS, AttemptState, RetryClass
from muster_server.schemas.analysis.goodput import (
    AttemptLedgerOut,
    EfficiencyOut,
    GoodputDayOut,
    GoodputGroupOut,
    GoodputOut,
    LosingTrialOut,
    LossOut,
    RunAdviceOut,
    SaveIntervalOut,
    TrialGoodputOut,
    UseFigureOut,
)
from muster_server.schemas.base import parts_out

from ..checkpoints import continuation
from ..core.lookup import get_trial
from ..metrics.export import without_formula
from .curves import compare_curve
from .loading import Accounted, account, run_samples

By = Literal["project", "pool", "user"]
ATTEMPTS_MAX = 100
GROUPS_MAX = 100
LOSSES_MAX = 5
TRIALS_MAX = 10
FAILURE_DAYS = 30
"""Days of a pool's past from which its rate of failures is taken."""
EXPORT_ROWS_MAX = 100_000
NAMES = tuple(str(name) for name in (*CLASSES, *PARTS))
_SUMS = [func.sum(getattr(LedgerDayRow, name)).label(name) for name in NAMES]
_HELD = sum((getattr(LedgerDayRow, str(name)) for name in CLASSES[1:]), LedgerDayRow.preparing)
_LOSS = sum((getattr(LedgerDayRow, str(name)) for name in LOST[1:]), LedgerDayRow.preparing)
_COST = func.sum(_HELD * LedgerDayRow.price_per_slot_hour / 3600.0).label("cost")
_INFRA = [t.value for t, (_, retry) in TERMINATIONS.items() if retry == RetryClass.INFRA]


def trial_goodput(session: Session, trial_id: int, *, now: dt.datetime) -> TrialGoodputOut:
    """Return where the slot-seconds of a trial went, until now: attempts that are not over are counted
    here. Raises NotFound."""
    trial = get_trial(session, trial_id)
    attempts = session.scalars(
        select(AttemptRow)
        .where(AttemptRow.trial_id == trial_id)
        .order_by(AttemptRow.no.desc())
        .limit(ATTEMPTS_MAX)
    ).all()[::-1]
    items: list[AttemptLedgerOut] = []
    newest: Accounted | None = None
    for attempt in attempts:
        known = session.get(LedgerRow, attempt.id)
        found = account(session, attempt, known, now=now)
        if found is None:
            continue
        newest = found
        totals = summed(found.days.values())
        waited = known.queued_s if known is not None else None
        items.append(
            AttemptLedgerOut(
                no=attempt.no,
                queued_s=waited,
                allocated_s=allocated_s(totals),
                classes=_only(totals, CLASSES),
                parts=_only(totals, PARTS),
                kept_step=found.kept_step,
                until=found.until,
            )
        )
    classes = summed(item.classes for item in items)
    said = headline(classes, num_restarts=max(trial.attempt_no - 1, 0))
    advice = None if newest is None else _save_interval(session, trial, newest, classes, now)
    return TrialGoodputOut(
        trial_id=trial_id,
        allocated_s=allocated_s(classes),
        queued_s=sum(item.queued_s or 0.0 for item in items),
        classes=classes,
        parts=summed(item.parts for item in items),
        headline=None if said is None else said.english,
        headline_parts=_parts(said),
        save_interval=_save_interval_out(advice),
        continuation=continuation.continuation_out(
            continuation.load(session, trial), compare_curve(session, trial)
        ),
        efficiency=_efficiency(session, trial, classes) if trial.state in TERMINAL_TRIAL else None,
        attempts=items,
    )


def _efficiency(session: Session, trial: TrialRow, classes: Mapping[str, float]) -> EfficiencyOut:
    resources = session.get_one(ExperimentRow, trial.experiment_id).config.resources
    found = efficiency(
        slots=resources.slots,
        memory_bytes=parse_size(resources.memory) if resources.memory else None,
        samples=run_samples(session, trial),
        classes=classes,
    )
    return EfficiencyOut.from_row(
        found,
        used=[UseFigureOut.from_row(one) for one in found.used],
        advice=[RunAdviceOut(text=one.english, parts=parts_out(one)) for one in found.advice],
    )


def _only(totals: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    return {str(name): totals[name] for name in names if totals.get(name, 0.0) > 0}


def _parts(message: AnyMessage | None) -> list[Any]:
    return [] if message is None else parts_out(message)


def _save_interval(
    session: Session,
    trial: TrialRow,
    newest: Accounted,
    classes: Mapping[str, float],
    now: dt.datetime,
) -> SaveInterval | None:
    """Return a better checkpoint interval, from what this trial's saves cost and how often attempts in
    its pool have failed."""
    num_saves = session.scalar(
        select(func.count()).select_from(CheckpointRow).where(CheckpointRow.trial_id == trial.id)
    )
    usual = newest.tally.usual
    slots = newest.num_slots
    if not num_saves or usual is None or not slots:
        return None
    since = now - dt.timedelta(days=FAILURE_DAYS)
    pool_slot_s = session.scalar(
        select(func.sum(_HELD)).where(
            LedgerDayRow.pool == newest.pool, LedgerDayRow.day >= since.date()
        )
    )
    failures = session.scalar(
        select(func.count(AttemptRow.id.distinct()))
        .join(LedgerDayRow, LedgerDayRow.attempt_id == AttemptRow.id)
        .where(
            LedgerDayRow.pool == newest.pool,
            LedgerDayRow.day >= since.date(),
            AttemptRow.state.in_((AttemptState.FAILED, AttemptState.LOST)),
            AttemptRow.termination.in_(_INFRA),
        )
    )
    stepped = sum(
        classes.get(k, 0.0) for k in (TimeClass.PRODUCTIVE, TimeClass.REPEATED, TimeClass.ABANDONED)
    )
    return best_save_interval(
        SavingFacts(
            save_s=classes.get(TimeClass.SAVING, 0.0) / slots / num_saves,
            interval_s=stepped / slots / num_saves,
            step_s=usual.step_s,
            num_slots=slots,
            pool_slot_s=pool_slot_s or 0.0,
            pool_failures=failures or 0,
        )
    )


def _save_interval_out(found: SaveInterval | None) -> SaveIntervalOut | None:
    if found is None:
        return None
    fields = {n: v for n, v in vars(found).items() if n != "reason"}
    return SaveIntervalOut(
        **fields, reason=found.reason.english, reason_parts=parts_out(found.reason)
    )


# ---------------------------------------------------------------- the cluster


def cluster_goodput(
    session: Session,
    *,
    days: int,
    by: By,
    project: str | None,
    pool: str | None,
    user: str | None,
    currency: str,
    now: dt.datetime,
) -> GoodputOut:
    """Return the sums of the last `days` days (UTC), today included."""
    since = now.date() - dt.timedelta(days=days - 1)
    where = [LedgerDayRow.day >= since, *_filters(project, pool, user)]
    key = {
        "project": LedgerDayRow.project_id,
        "pool": LedgerDayRow.pool,
        "user": LedgerDayRow.owner_id,
    }[by]
    # One look at the rows; what is shown are sums of these, of which there are few.
    price = LedgerDayRow.price_per_slot_hour
    rows = session.execute(
        select(LedgerDayRow.day, key.label("key"), price.label("price"), *_SUMS)
        .where(*where)
        .group_by(LedgerDayRow.day, key, price)
        .order_by(LedgerDayRow.day)
    ).all()
    by_day: dict[dt.date, dict[str, float]] = {}
    by_key: dict[Any, dict[str, float]] = {}
    totals: dict[str, float] = {}
    for row in rows:
        sums = _sums(row)
        costs = {_cost_of(name): value * row.price / 3600.0 for name, value in sums.items()}
        for found in (
            by_day.setdefault(row.day, {}),
            by_key.setdefault(row.key, {}),
            totals,
        ):
            _add(found, sums)
            _add(found, costs)
    names = _names(session, by, by_key)
    whole = allocated_s(totals)
    losses = sorted((k for k in LOST if totals.get(k)), key=lambda k: -totals[k])[:LOSSES_MAX]
    largest = sorted(by_key.items(), key=lambda item: -allocated_s(item[1]))
    said = headline(totals, num_restarts=None)
    return GoodputOut(
        days=days,
        since=since,
        counted_until=session.scalar(
            select(func.min(LedgerRow.until)).where(LedgerRow.due_at.is_not(None))
        ),
        currency=currency,
        allocated_s=whole,
        cost=_cost(totals),
        classes=_only(totals, CLASSES),
        parts=_only(totals, PARTS),
        headline=None if said is None else said.english,
        headline_parts=_parts(said),
        losses=[
            LossOut(
                kind=kind,
                slot_s=totals[kind],
                share=totals[kind] / whole,
                cost=totals[_cost_of(kind)],
            )
            for kind in losses
        ],
        groups=[
            GoodputGroupOut(
                name=names.get(key, ""),
                allocated_s=allocated_s(sums),
                cost=_cost(sums),
                classes=_only(sums, CLASSES),
                parts=_only(sums, PARTS),
            )
            for key, sums in largest[:GROUPS_MAX]
        ],
        num_groups=len(largest),
        trend=[
            GoodputDayOut(day=day, allocated_s=allocated_s(sums), classes=_only(sums, CLASSES))
            for day, sums in by_day.items()
        ],
        trials=_losing(session, where),
    )


def _add(to: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        to[name] = to.get(name, 0.0) + value


def _cost_of(name: str) -> str:
    return f"cost of {name}"


def _cost(sums: Mapping[str, float]) -> float:
    return sum(sums.get(_cost_of(kind), 0.0) for kind in CLASSES)


def _names(session: Session, by: By, keys: Iterable[Any]) -> dict[Any, str]:
    """Return the names of projects, pools or people; those that are gone are missing."""
    if by == "pool":
        return {key: key for key in keys}
    table, name = (ProjectRow, ProjectRow.name) if by == "project" else (UserRow, UserRow.username)
    found: dict[Any, str] = {}
    for some in chunked(key for key in keys if key is not None):
        found.update(session.execute(select(table.id, name).where(table.id.in_(some))).all())
    return found


def slot_seconds_of_days(session: Session, *, days: int, now: dt.datetime) -> dict[str, float]:
    """Return the slot-seconds of the last `days` days (UTC), today included, by class."""
    since = now.date() - dt.timedelta(days=days - 1)
    row = session.execute(select(*_SUMS).where(LedgerDayRow.day >= since)).one()
    sums = _sums(row)
    return {str(kind): sums[kind] for kind in CLASSES}


def _filters(project: str | None, pool: str | None, user: str | None) -> list[Any]:
    found: list[Any] = []
    if project is not None:
        named = select(ProjectRow.id).where(ProjectRow.name == project)
        found.append(LedgerDayRow.project_id.in_(named))
    if pool is not None:
        found.append(LedgerDayRow.pool == pool)
    if user is not None:
        found.append(LedgerDayRow.owner_id.in_(select(UserRow.id).where(UserRow.username == user)))
    return found


def _sums(row: Any) -> dict[str, float]:
    return {name: row._mapping[name] or 0.0 for name in NAMES}


def _losing(session: Session, where: list[Any]) -> list[LosingTrialOut]:
    rows = session.execute(
        select(
            TrialRow.id,
            func.sum(_LOSS).label("lost"),
            func.sum(_HELD).label("held"),
            *(func.sum(getattr(LedgerDayRow, str(k))).label(str(k)) for k in LOST),
        )
        .select_from(LedgerDayRow)
        .join(AttemptRow, AttemptRow.id == LedgerDayRow.attempt_id)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(*where)
        .group_by(TrialRow.id)
        .having(func.sum(_LOSS) > 0)
        .order_by(func.sum(_LOSS).desc())
        .limit(TRIALS_MAX)
    ).all()
    found = []
    for row in rows:
        trial = session.get_one(TrialRow, row.id)
        experiment = session.get_one(ExperimentRow, trial.experiment_id)
        found.append(
            LosingTrialOut(
                trial_id=trial.id,
                address=trial.address,
                name=experiment.name,
                lost_s=row.lost,
                allocated_s=row.held,
                largest=max(LOST, key=lambda k: row._mapping[str(k)] or 0.0),
            )
        )
    return found


def export(session: Session, *, days: int, now: dt.datetime) -> str:
    """Return the sums by day, project, person and pool as CSV, in slot-hours, for charging costs; at
    most EXPORT_ROWS_MAX rows, the newest ones."""
    since = now.date() - dt.timedelta(days=days - 1)
    rows = session.execute(
        select(
            LedgerDayRow.day,
            func.max(ProjectRow.name).label("project"),
            func.max(UserRow.username).label("user"),
            LedgerDayRow.pool,
            *_SUMS,
            _COST,
        )
        .outerjoin(ProjectRow, ProjectRow.id == LedgerDayRow.project_id)
        .outerjoin(UserRow, UserRow.id == LedgerDayRow.owner_id)
        .where(LedgerDayRow.day >= since)
        .group_by(
            LedgerDayRow.day, LedgerDayRow.project_id, LedgerDayRow.owner_id, LedgerDayRow.pool
        )
        .order_by(LedgerDayRow.day.desc(), LedgerDayRow.project_id, LedgerDayRow.pool)
        .limit(EXPORT_ROWS_MAX)
    )
    text = io.StringIO()
    writer = csv.writer(text)
    hours = [f"{name}_slot_hours" for name in NAMES]
    writer.writerow(["day", "project", "user", "pool", "allocated_slot_hours", *hours, "cost"])
    for row in rows:
        sums = _sums(row)
        writer.writerow(
            [
                row.day.isoformat(),
                *(without_formula(name or "") for name in (row.project, row.user, row.pool)),
                f"{allocated_s(sums) / 3600:.6f}",
                *(f"{sums[name] / 3600:.6f}" for name in NAMES),
                f"{row.cost or 0.0:.4f}",
            ]
        )
    return text.getvalue()
