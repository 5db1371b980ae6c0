"""Where the time of a trial's steps goes: reads the newest rows of its ranks and has them judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy.orm import Session

from muster_server.db.queries import metrics as queries
from muster_server.db.queries.metrics import SeriesRecord
from muster_server.domain.insight.bottleneck import bottleneck
from muster_server.domain.insight.step_rows import Rows
from muster_server.domain.insight.steps import PARTS, StepAnalysis, analyse
from muster_server.schemas.base import parts_out
from muster_server.schemas.performance import BottleneckOut, PerformanceOut
from muster_server.services.runtime.process_groups import process_groups

from ..core.lookup import get_trial
from ..metrics import loading

RANKS_MAX = 256
"""Ranks that are read for one answer; a trial of more is judged by the first ones."""
_NAMES = frozenset(
    {
        *PARTS,
        "time/step_ms",
        "comm/overlapped_ms",
        "comm/interference_ms",
        "comm/recorded_pct",
        "pipeline/stage",
    }
)
_ROWS_PER_BUCKET = 5
"""Where a row is several steps, ranks do not end them at the same ones."""


def trial_performance(
    session: Session, trial_id: int, *, attempt_no: int | None, num_rows: int
) -> PerformanceOut:
    """Return where the steps of an attempt spend their time, over about the newest `num_rows` rows
    of each rank.

    attempt_no: None for the current attempt. The lists are empty if nothing was measured. Raises
    NotFound.
    """
    trial = get_trial(session, trial_id)
    attempt = trial.attempt_no if attempt_no is None else attempt_no
    rows = newest_rows(session, trial_id, attempt, num_rows)
    groups = process_groups(session, trial_id, attempt)
    found = analyse(rows.ranks, groups, bucket_steps=rows.bucket_steps)
    return PerformanceOut.model_validate(
        {
            **asdict(found),
            "bottleneck": _bottleneck_out(found),
            "trial_id": trial_id,
            "attempt_no": attempt,
            "first_step": rows.first_step,
            "last_step": rows.last_step,
            "bucket_steps": rows.bucket_steps,
            "num_ranks": rows.num_ranks,
        }
    )


def _bottleneck_out(found: StepAnalysis) -> BottleneckOut | None:
    bound = bottleneck(found)
    if bound is None:
        return None
    fields = {name: value for name, value in vars(bound).items() if name != "reason"}
    return BottleneckOut(
        **fields, reason=bound.reason.english, reason_parts=parts_out(bound.reason)
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredRows:
    """What the ranks of an attempt have measured of their steps."""

    ranks: dict[int, Rows]
    first_step: int | None
    """First step of the window that was read; None if nothing was measured."""
    last_step: int | None
    bucket_steps: int
    num_ranks: int
    """Ranks that have measured parts; at most RANKS_MAX of them were read."""


def newest_rows(
    session: Session,
    trial_id: int,
    attempt: int,
    num_rows: int,
    *,
    also: frozenset[str] = frozenset(),
) -> MeasuredRows:
    """About the newest `num_rows` rows of each rank: parts of the step, what is measured by group,
    and the metrics of `also`."""
    names = _NAMES | also
    records = [
        r
        for r in queries.find_series(session, [trial_id])
        if r.attempt_no == attempt and (r.name in names or _is_of_a_group(r.name))
    ]
    having = sorted({r.rank for r in records if r.name == "time/forward_ms"})
    records = [r for r in records if r.rank in set(having[:RANKS_MAX])]
    first, last, bucket = _window(records, num_rows)
    ranks: dict[int, Rows] = {}
    if last is not None and first is not None:
        points = loading.points_of(session, records, first, last)
        for record, values in zip(records, points, strict=True):
            ranks[record.rank] = {**ranks.get(record.rank, {}), record.name: values}
    return MeasuredRows(
        ranks=ranks,
        first_step=first,
        last_step=last,
        bucket_steps=bucket,
        num_ranks=len(having),
    )


def _is_of_a_group(name: str) -> bool:
    return name.startswith("comm/") and name.count("/") >= 2


def _window(records: Sequence[SeriesRecord], num_rows: int) -> tuple[int | None, int | None, int]:
    """(first step, last step, steps per bucket) of about the newest rows with parts."""
    measured = [r for r in records if r.name == "time/forward_ms"]
    if not measured:
        return None, None, 1
    last = max(r.last_step for r in measured)
    steps_per_row = max((r.last_step - r.first_step + 1) / r.count for r in measured)
    first = max(last - math.ceil(num_rows * steps_per_row) + 1, 0)
    bucket = 1 if steps_per_row <= 1 else math.ceil(_ROWS_PER_BUCKET * steps_per_row)
    return first, last, bucket
