"""Reads what is stored of an attempt for its ledger: slots, times, and the rows of its steps."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from sqlalchemy import or_, select
from sqlalchemy.orm import Session, aliased

from muster.series_rules import STEP_MAX
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    EventRow,
    ExperimentRow,
    LedgerRow,
    ModelVersionRow,
    NodeSampleRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.db.sight import SEES_ALL
from muster_server.domain.goodput import ledger
from muster_server.domain.goodput.efficiency import RunSample
from muster_server.domain.goodput.ledger import (
    AttemptHistory,
    Days,
    End,
    Held,
    StepRows,
    Tally,
    Usual,
)
from muster_server.domain.goodput.survival import (
    LaterAttempt,
    StepCount,
    count_of,
    is_abandoned,
    start_step,
    survived,
)
from muster_server.domain.metrics import MEASURED_GROUPS
from muster_server.domain.quota.budgets import Holding
from muster_server.domain.states import (
    TERMINAL_TRIAL,
    AttemptState,
    TrialState,
)

from ..metrics import loading
from ..metrics.curves import CurveSegment

ROWS_MAX = 100 * ledger.BLOCK_ROWS
"""Rows that are read at once."""
_ROWS_BEFORE = 20
SAMPLES_MAX = 1_000
"""Newest samples of a node that are looked at."""
NODES_MAX = 16
"""Nodes of a run whose samples are read for its efficiency card."""
IDLE_BELOW_PCT = 5.0
"""Use of a device below which it does nothing for its job."""
RESTORE = "time/restore_ms"
_ENDS = {
    AttemptState.SUCCEEDED: End.ITSELF,
    AttemptState.WINDING_DOWN: End.ITSELF,
    AttemptState.FAILED: End.FAILURE,
    AttemptState.LOST: End.FAILURE,
    AttemptState.PREEMPTED: End.REQUEST,
    AttemptState.RESIZED: End.REQUEST,
    AttemptState.CANCELED: End.REQUEST,
}


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """The ledger of an attempt, and what has to be kept for the next time."""

    attempt_id: int
    project_id: int
    owner_id: int | None
    pool: str
    price_per_slot_hour: float
    num_slots: int
    committed: Tally
    """After the whole blocks of rows."""
    tally: Tally
    """After all rows."""
    kept_step: int | None
    is_abandoned: bool
    days: Days
    until: dt.datetime
    is_over: bool
    """Whether all its slots are free."""
    is_trial_over: bool


def account(
    session: Session, attempt: AttemptRow, known: LedgerRow | None, *, now: dt.datetime
) -> Accounted | None:
    """Account for an attempt from what is stored and, of `known`, what was counted before. None: it
    has held no slots yet."""
    trial = session.get_one(TrialRow, attempt.trial_id)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    allocations = session.scalars(
        select(AllocationRow).where(AllocationRow.attempt_id == attempt.id)
    ).all()
    if not allocations:
        return None
    workers = session.scalars(
        select(WorkerRow).where(WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == attempt.no)
    ).all()
    held = Held([_holding(a) for a in allocations], now)
    started_at = min((w.started_at for w in workers), default=attempt.started_at)
    started_s = max(started_at.timestamp() if started_at else held.until, held.since)

    series = _series(session, trial.id, attempt.no)
    committed = tally = _tally(known) or Tally(last_step=attempt.resume_step)
    for rows in _read(session, series, committed.last_step if committed.num_rows else None):
        committed, tally = ledger.advance(committed, rows, held, started_s=started_s)
    history = AttemptHistory(
        holdings=[_holding(a) for a in allocations],
        started_at=started_at,
        noticed_at=_noticed_at(session, trial, attempt, workers),
        end=_ENDS.get(attempt.state, End.REQUEST if attempt.yield_at else End.NONE),
        is_measured=any(worker.reports for worker in workers),
        idle_share=_idle_share(session, allocations) if not series else 0.0,
        restore_s=_restore_s(session, trial.id, attempt.no),
        is_last_step=trial.num_steps_planned is not None
        and tally.last_step >= trial.num_steps_planned,
    )
    found = ledger.account(history, tally, now=now)
    found_later = survived(_later(session, attempt, experiment.config.trainer is not None))
    kept = found_later.kept_step
    days = found.days if found_later.is_known else ledger.doubt(found.days)
    if kept is not None and tally.num_rows and kept < tally.last_step:
        after = tally
        if kept > attempt.resume_step:
            after = _after(session, series, tally, held, kept, started_s)
        days = ledger.lose(days, ledger.productive_of(after.days))
    abandoned = is_abandoned(
        TrialState(trial.state), has_used_checkpoint=_is_used(session, trial.id)
    )
    return Accounted(
        attempt_id=attempt.id,
        project_id=experiment.project_id,
        owner_id=experiment.owner_id,
        pool=experiment.config.resources.pool,
        price_per_slot_hour=allocations[0].price_per_slot_hour,
        num_slots=sum(len(a.slots) for a in allocations),
        committed=committed,
        tally=tally,
        kept_step=kept,
        is_abandoned=abandoned,
        days=ledger.abandon(days) if abandoned else days,
        until=found.until,
        is_over=all(a.ended_at is not None for a in allocations),
        is_trial_over=trial.state in TERMINAL_TRIAL,
    )


def _holding(allocation: AllocationRow) -> Holding:
    return Holding(
        since=allocation.created_at,
        until=allocation.ended_at,
        slots=len(allocation.slots),
        price_per_slot_hour=allocation.price_per_slot_hour,
    )


def _noticed_at(
    session: Session, trial: TrialRow, attempt: AttemptRow, workers: Sequence[WorkerRow]
) -> dt.datetime | None:
    """Return the first sign of the attempt's end that somebody saw."""
    failed = [w for w in workers if w.exit_code or w.signal]
    ended = failed if attempt.state == AttemptState.FAILED and failed else workers
    stopping = session.scalars(
        select(EventRow).where(
            EventRow.trial_id == trial.id,
            EventRow.attempt_no == attempt.no,
            EventRow.type == "trial.state",
        )
    )
    signs = [
        attempt.ended_at,
        attempt.yield_at,
        attempt.stuck_at if attempt.state == AttemptState.FAILED else None,
        *(worker.ended_at for worker in ended),
        *(e.at for e in stopping if e.data.get("after") == TrialState.STOPPING),
    ]
    return min((sign for sign in signs if sign is not None), default=None)


def _start_step(
    session: Session, later: AttemptRow, is_built_in: bool, count: StepCount | None
) -> int | None:
    """Return the step that `later` goes on from, as an attempt that counts as in `count` times it."""
    logged = queries.first_logged_step(session, later.trial_id, later.no)
    found = start_step(
        resume_step=later.resume_step, first_logged_step=logged, is_built_in=is_built_in
    )
    if not found or later.resume_step or count is None:
        return found
    mine = _step_count(session, later)
    return count.timed(found if mine is None else min(found, mine.begun_after))


def _step_count(session: Session, attempt: AttemptRow) -> StepCount | None:
    """Return how the steps that an attempt timed relate to those that its script logged; None if it did
    only one of the two."""
    series = _series(session, attempt.trial_id, attempt.no)
    if not series or _clock(series).name != ledger.STEP:
        return None
    timed = _clock(series)
    of_script = [
        record
        for record in queries.find_series(
            session, [attempt.trial_id], attempt_no=attempt.no, ranks=[timed.rank]
        )
        if not record.name.startswith((*MEASURED_GROUPS, "memory/"))
    ]
    if not of_script:
        return None
    logged = max(of_script, key=lambda r: (r.count, r.name))
    steps, values = next(_read(session, [timed], None)), next(_read(session, [logged], None))
    return count_of(values.steps, values.times_s, steps.steps, steps.times_s)


def _idle_share(session: Session, allocations: Sequence[AllocationRow]) -> float:
    """Return the share of the newest samples in which no GPU of an attempt was used; 0 without GPUs."""
    num = num_idle = 0
    for allocation in allocations:
        if allocation.spec.get("slot_type") == "cpu":
            continue
        for usage in _samples(session, allocation):
            gpus = [g for g in usage.get("gpus") or () if g.get("index") in allocation.slots]
            use = [g["use_pct"] for g in gpus if g.get("use_pct") is not None]
            if use:
                num += 1
                num_idle += max(use) < IDLE_BELOW_PCT
    return num_idle / num if num else 0.0


def run_samples(session: Session, trial: TrialRow) -> list[RunSample]:
    """Return how busy the nodes of a trial's newest attempt were, SAMPLES_MAX samples of each at most."""
    found: list[RunSample] = []
    allocations = session.scalars(
        select(AllocationRow)
        .where(AllocationRow.trial_id == trial.id, AllocationRow.attempt_no == trial.attempt_no)
        .order_by(AllocationRow.node_rank)
        .limit(NODES_MAX)
    ).all()
    for mine in allocations:
        other = aliased(AllocationRow)
        until = [other.created_at < mine.ended_at] if mine.ended_at else []
        is_shared = session.scalar(
            select(other.id)
            .where(
                other.node_id == mine.node_id,
                other.id != mine.id,
                or_(other.ended_at.is_(None), other.ended_at > mine.created_at),
                *until,
            )
            .limit(1),
            execution_options=SEES_ALL,
        )
        for usage in _samples(session, mine):
            gpus = [g for g in usage.get("gpus") or () if g.get("index") in mine.slots]
            if mine.spec.get("slot_type") == "cpu":
                gpus = []
            use = [g["use_pct"] for g in gpus if g.get("use_pct") is not None]
            full = [
                100.0 * g["memory_used_bytes"] / g["memory_total_bytes"]
                for g in gpus
                if g.get("memory_total_bytes")
            ]
            found.append(
                RunSample(
                    cpu_pct=None if is_shared else usage.get("cpu_pct"),
                    memory_bytes=None if is_shared else usage.get("memory_used_bytes"),
                    gpu_pct=fmean(use) if use else None,
                    gpu_memory_pct=max(full, default=None),
                )
            )
    return found


def _samples(session: Session, allocation: AllocationRow) -> Sequence[dict[str, Any]]:
    """Return the newest samples of a node while an allocation held slots of it."""
    return session.scalars(
        select(NodeSampleRow.usage)
        .where(
            NodeSampleRow.node_id == allocation.node_id,
            NodeSampleRow.at >= allocation.created_at,
            *([NodeSampleRow.at <= allocation.ended_at] if allocation.ended_at else []),
        )
        .order_by(NodeSampleRow.at.desc())
        .limit(SAMPLES_MAX)
    ).all()


def _later(session: Session, attempt: AttemptRow, is_built_in: bool) -> list[LaterAttempt]:
    attempts = session.execute(
        select(AttemptRow, LedgerRow.num_rows)
        .outerjoin(LedgerRow, LedgerRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.trial_id == attempt.trial_id, AttemptRow.no > attempt.no)
    )
    later = [(row, bool(num_rows)) for row, num_rows in attempts]
    is_told = is_built_in or all(row.resume_step for row, _ in later)
    count = None if is_told else _step_count(session, attempt)
    return [
        LaterAttempt(start_step=_start_step(session, row, is_built_in, count), has_rows=has_rows)
        for row, has_rows in later
    ]


def _is_used(session: Session, trial_id: int) -> bool:
    """Return whether another trial or a model was made from a checkpoint of the trial."""
    mine = select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id)
    used = select(CheckpointRow.id).where(
        CheckpointRow.trial_id == trial_id,
        or_(
            select(TrialRow.id).where(TrialRow.source_checkpoint_id.in_(mine)).exists(),
            select(ModelVersionRow.id).where(ModelVersionRow.checkpoint_id.in_(mine)).exists(),
        ),
    )
    return session.scalar(used.limit(1), execution_options=SEES_ALL) is not None


# ---------------------------------------------------------------- steps


def _after(
    session: Session,
    series: Sequence[SeriesRecord],
    tally: Tally,
    held: Held,
    kept: int,
    started_s: float,
) -> Tally:
    """Return the tally of the steps after `kept` alone."""
    found: Tally | None = None
    committed = Tally()
    # From a few rows before it on, so that the number of steps in the next row is known.
    for rows in _read(session, series, kept - math.ceil(_ROWS_BEFORE * _steps_per_row(series))):
        if found is None:
            committed, rows = ledger.restart(tally, rows, kept)
        committed, found = ledger.advance(
            committed, rows, held, started_s=started_s, kept_step=kept
        )
    return found or committed


def _series(session: Session, trial_id: int, attempt_no: int) -> list[SeriesRecord]:
    """Return the series of the lowest rank that times its steps; of a script that only logs values, the
    longest series of the lowest rank. Empty if nothing was reported."""
    records = queries.find_series(session, [trial_id], attempt_no=attempt_no, names=ledger.READ)
    timed = [r.rank for r in records if r.name == ledger.STEP]
    if timed:
        return [r for r in records if r.rank == min(timed)]
    lowest = queries.lowest_rank(session, trial_id, attempt_no)
    if lowest is None:
        return []
    mine = queries.find_series(session, [trial_id], attempt_no=attempt_no, ranks=[lowest])
    return [max(mine, key=lambda r: (r.count, r.name))] if mine else []


def _clock(series: Sequence[SeriesRecord]) -> SeriesRecord:
    """Return the series whose points are the rows."""
    return next((r for r in series if r.name == ledger.STEP), series[0])


def _steps_per_row(series: Sequence[SeriesRecord]) -> float:
    clock = _clock(series)
    return max(1.0, (clock.last_step - clock.first_step + 1) / max(clock.count, 1))


def _read(
    session: Session, series: Sequence[SeriesRecord], after: int | None
) -> Iterator[StepRows]:
    """Yield all rows after a step, at most ROWS_MAX at once."""
    if not series:
        return
    clock, apart = _clock(series), _steps_per_row(series)
    first = clock.first_step if after is None else after + 1
    while first <= STEP_MAX:
        last = min(STEP_MAX, first + math.ceil(apart * ROWS_MAX) - 1)
        rows = _rows(session, series, first, last)
        if len(rows):
            yield rows
        # Once a restart has hidden steps, the last one stored with a series is the last that is visible.
        elif first > clock.last_step:
            return
        first = last + 1


def _rows(session: Session, series: Sequence[SeriesRecord], first: int, last: int) -> StepRows:
    segments = [CurveSegment(record, first, last) for record in series]
    loaded = loading.load(session, segments, [1] * len(segments))
    entries = {
        record.name: loading.entries_of(session, parts, 1)
        for record, parts in zip(series, loaded, strict=True)
    }
    clock = entries[_clock(series).name]
    steps = clock["step"].astype(np.int64)
    ms = {}
    for name in ledger.READ:
        if name in entries:
            mine = entries[name]
            values = np.full(len(steps), np.nan)
            at = np.searchsorted(steps, mine["step"])
            is_row = (at < len(steps)) & (steps[np.minimum(at, len(steps) - 1)] == mine["step"])
            values[at[is_row]] = mine["last"][is_row]
            ms[name] = values
    return StepRows(steps=steps, times_s=clock["time_ms"] / 1000.0, ms=ms)


def _restore_s(session: Session, trial_id: int, attempt_no: int) -> float:
    """Return how long the slowest rank took to load its checkpoint; 0 if none was timed."""
    found = queries.find_series(session, [trial_id], attempt_no=attempt_no, names=[RESTORE])
    return max((r.last for r in found if math.isfinite(r.last)), default=0.0) / 1000.0


# ---------------------------------------------------------------- what was counted before


def _tally(known: LedgerRow | None) -> Tally | None:
    """Return the stored tally; None without one."""
    if known is None or not known.tally or not known.num_rows:
        return None  # Before the first row an attempt may fall back to an earlier checkpoint.
    values = dict(known.tally)
    usual = values.pop("usual")
    days = {dt.date.fromisoformat(day): of for day, of in values.pop("days").items()}
    return Tally(**values, usual=usual and Usual(**usual), days=days)


def plain_of(tally: Tally) -> dict[str, Any]:
    """Return a tally as JSON, as LedgerRow keeps it."""
    values = dataclasses.asdict(tally)
    return {**values, "days": {day.isoformat(): dict(of) for day, of in tally.days.items()}}
