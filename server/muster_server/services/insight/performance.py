"""Where the time of a trial's steps goes: reads the newest rows of its ranks and has them judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import TrialRow
from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.domain.insight.bottleneck import bottleneck, late_reason
from muster_server.domain.insight.figures import STEP, figures, source_note
from muster_server.domain.insight.step_rows import PARTS_KNOWN, Rows
from muster_server.domain.insight.steps import StepAnalysis, analyse
from muster_server.domain.metrics import MEASURED_GROUPS
from muster_server.schemas.analysis.performance import (
    BottleneckOut,
    FiguresOut,
    PerformanceOut,
)
from muster_server.schemas.base import Page, parts_out
from muster_server.services.runtime.process_groups import process_groups

from ..core.lookup import get_experiment, get_trial
from ..core.paging import read_page
from ..metrics import loading
from .foreign_use import foreign_uses

ROWS = 100
"""Newest rows of each rank behind every figure, unless a request says how many."""
TRIALS_MAX = 20
"""Trials whose figures one answer has: each is worked out from what its ranks have measured."""
RANKS_MAX = 256
"""Ranks that are read for one answer; a trial of more is judged by the first ones."""
_ROWS_READ_MAX = 20_000
"""Rows of each rank that are looked through for such with parts, which windows of the profiler make rare."""
_ROWS_PER_BUCKET = 5
"""Where a row is several steps, ranks do not end them at the same ones."""
_NEARLY_ONE = 1.5
"""Steps per row up to which steps are compared one by one, as far as each is a row of its own on all
ranks."""


def trial_performance(
    session: Session, trial_id: int, *, attempt_no: int | None, num_rows: int
) -> PerformanceOut:
    """Return where the steps of an attempt spend their time, over the newest `num_rows` rows of each
    rank.

    attempt_no: None for the current attempt. The lists are empty if nothing was measured. Raises
    NotFound.
    """
    trial = get_trial(session, trial_id)
    attempt = trial.attempt_no if attempt_no is None else attempt_no
    rows = newest_rows(session, trial_id, attempt, num_rows)
    shown = figures(rows.ranks)
    groups = process_groups(session, trial_id, attempt)
    found = analyse(rows.ranks, groups, bucket_steps=rows.bucket_steps)
    source = source_note(rows.ranks)
    return PerformanceOut.model_validate(
        {
            "figures": shown.values,
            "num_rows": shown.num_rows,
            "ranks": found.ranks,
            "traffic": found.traffic,
            "culprit": _culprit_out(found),
            "bottleneck": _bottleneck_out(found),
            "stages": found.stages,
            "imbalance": found.imbalance,
            "trial_id": trial_id,
            "attempt_no": attempt,
            "first_step": rows.first_step,
            "last_step": rows.last_step,
            "bucket_steps": rows.bucket_steps,
            "num_ranks": rows.num_ranks,
            "source": None if source is None else source.english,
            "foreign": foreign_uses(session, trial_id, attempt),
            "source_parts": [] if source is None else parts_out(source),
        }
    )


def list_figures(
    session: Session,
    experiment_id: int,
    *,
    nos: Sequence[int],
    cursor: str | None,
    limit: int,
) -> Page[FiguresOut]:
    """Return the figures of an experiment's trials by number, over the newest ROWS of the current
    attempt.

    nos: numbers of trials; none for all. Raises NotFound, and InvalidRequest for a bad cursor.
    """
    get_experiment(session, experiment_id)
    query = select(TrialRow).where(TrialRow.experiment_id == experiment_id)
    if nos:
        query = query.where(TrialRow.no.in_(nos))
    trials, following = read_page(session, query, TrialRow.no, cursor=cursor, limit=limit)
    found = [
        (trial, figures(newest_rows(session, trial.id, trial.attempt_no, ROWS).ranks))
        for trial in trials
    ]
    items = [
        FiguresOut(
            trial_id=trial.id,
            attempt_no=trial.attempt_no,
            figures=shown.values,
            num_rows=shown.num_rows,
        )
        for trial, shown in found
    ]
    return Page(items=items, next=following)


def _bottleneck_out(found: StepAnalysis) -> BottleneckOut | None:
    bound = bottleneck(found)
    if bound is None:
        return None
    fields = {n: v for n, v in vars(bound).items() if n not in ("headline", "reason", "costs")}
    return BottleneckOut(
        **fields,
        costs=list(bound.costs),
        headline=bound.headline.english,
        headline_parts=parts_out(bound.headline),
        reason=bound.reason.english,
        reason_parts=parts_out(bound.reason),
    )


def _culprit_out(found: StepAnalysis) -> dict[str, Any] | None:
    if found.culprit is None:
        return None
    reason = late_reason(found.culprit, found.bucket_steps)
    fields = {n: v for n, v in asdict(found.culprit).items() if n != "stands_out"}
    return {**fields, "reason": reason.english, "reason_parts": parts_out(reason)}


@dataclass(frozen=True, kw_only=True)
class MeasuredRows:
    """What the ranks of an attempt have measured of their steps."""

    ranks: dict[int, Rows]
    first_step: int | None
    """Step of the oldest row; None if nothing was measured."""
    last_step: int | None
    bucket_steps: int
    num_ranks: int
    """Ranks that have measured parts; at most RANKS_MAX of them were read."""


def newest_rows(session: Session, trial_id: int, attempt: int, num_rows: int) -> MeasuredRows:
    """Return the newest `num_rows` rows of each rank: all that is measured of its steps."""
    records = queries.find_series(session, [trial_id], attempt_no=attempt, prefixes=MEASURED_GROUPS)
    counted = _counted(records)
    read = set(sorted(counted)[:RANKS_MAX])
    records = [r for r in records if r.rank in read]
    ranks = _rows_of(session, records, {rank: counted[rank] for rank in read}, num_rows)
    steps = [step for rank, rows in ranks.items() for step in rows.get(counted[rank].name, {})]
    return MeasuredRows(
        ranks=ranks,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        bucket_steps=_bucket_steps(
            [r for r in records if r.name == "time/step_ms"] or list(counted.values())
        ),
        num_ranks=sum(r.name == PARTS_KNOWN for r in counted.values()),
    )


def _counted(records: Sequence[SeriesRecord]) -> dict[int, SeriesRecord]:
    """Return rank → the series whose values are its rows: of the parts of the step, else of its
    time, else of a rate. Ranks without it are left out."""
    for beginning in (PARTS_KNOWN, "time/step_ms", "throughput/"):
        found = {r.rank: r for r in records if r.name.startswith(beginning)}
        if found:
            return found
    return {}


def _rows_of(
    session: Session,
    records: Sequence[SeriesRecord],
    counted: Mapping[int, SeriesRecord],
    num_rows: int,
) -> dict[int, Rows]:
    """Return rank → its newest `num_rows` rows, read from where they begin if they are as far apart
    as all rows are, then from further back until there are as many."""
    if not counted:
        return {}
    last = max(r.last_step for r in counted.values())
    apart = max((r.last_step - r.first_step + 1) / r.count for r in counted.values())
    every_row = [r for r in records if r.name == STEP] or list(counted.values())
    furthest = _ROWS_READ_MAX * max((r.last_step - r.first_step + 1) / r.count for r in every_row)
    reach = num_rows * apart
    while True:
        reach = min(reach, furthest)
        first = max(last - math.ceil(reach) + 1, 0)
        ranks: dict[int, dict[str, dict[int, float]]] = {rank: {} for rank in counted}
        points = loading.points_of(session, records, first, last)
        for record, values in zip(records, points, strict=True):
            ranks[record.rank][record.name] = values
        steps = {rank: sorted(ranks[rank][r.name])[-num_rows:] for rank, r in counted.items()}
        is_all = reach >= furthest or first <= min(r.first_step for r in counted.values())
        if is_all or all(len(steps[rank]) >= min(num_rows, r.count) for rank, r in counted.items()):
            break
        reach *= 2
    return {
        rank: {
            name: {step: value for step, value in series.items() if step >= steps[rank][0]}
            for name, series in of_rank.items()
        }
        for rank, of_rank in ranks.items()
        if steps[rank]
    }


def _bucket_steps(counted: Sequence[SeriesRecord]) -> int:
    """Return within how many steps rows of different ranks are compared.

    counted: of each rank a series that every row has. Parts are known of the recorded steps alone,
    and a row of one step is of one step wherever the next one with parts is.
    """
    apart = max(((r.last_step - r.first_step + 1) / r.count for r in counted), default=1.0)
    return 1 if apart <= _NEARLY_ONE else math.ceil(_ROWS_PER_BUCKET * apart)
