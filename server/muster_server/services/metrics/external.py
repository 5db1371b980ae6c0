"""Metrics of trials that run outside: told one value at a time, with no worker or attempt behind them.

They are stored like those of workers, as of rank 0 of attempt 0, so that curves, exports and retention
know no difference.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.series_rules import NAME_RULE, is_valid_name
from muster_server.db.engine import touch
from muster_server.db.models import MetricBatchRow, TrialRow
from muster_server.db.queries import metrics as queries
from muster_server.domain.metrics import summarize
from muster_server.errors import FieldProblem, InvalidRequest
from muster_server.services.metrics.columns import Column
from muster_server.settings import get_settings

from .ingest import Origin, series_row, store_batch

ATTEMPT_NO = 0


def store_told(
    session: Session, trial: TrialRow, *, step: int, values: Mapping[str, float], at: dt.datetime
) -> None:
    """A point of each of `values` (name → value, may be NaN or infinite) at `step`.

    `trial` is locked. Raises InvalidRequest for a name that cannot be stored, and for one more than
    `series_max_per_trial`.
    """
    if not values:
        return
    refused = sorted(name for name in values if not is_valid_name(name))
    if refused:
        raise InvalidRequest(
            "search.metric_name",
            "A metric has a name that cannot be stored.",
            fields=[FieldProblem(f"metrics.{refused[0]!r}", "is no name", f"use {NAME_RULE}")],
        )
    time_ms = int(at.timestamp() * 1000)
    columns = [
        Column(name, [step], [time_ms], [value], summarize([step], [time_ms], [value]))
        for name, value in sorted(values.items())
    ]
    store_columns(session, trial.id, columns, at=at)


def store_columns(
    session: Session, trial_id: int, columns: Sequence[Column], *, at: dt.datetime
) -> set[str]:
    """Store points of series with valid names; return the names that are new.

    The trial is locked. Raises InvalidRequest for one series more than `series_max_per_trial`.
    """
    known = queries.first_steps(session, trial_id, ATTEMPT_NO, 0).keys()
    limit = get_settings().series_max_per_trial
    new = sorted({column.name for column in columns} - known)
    if len(known) + len(new) > limit:
        raise InvalidRequest(
            "search.too_many_metrics",
            f"A trial has at most {limit:,} metrics.",
            fields=[
                FieldProblem(f"metrics.{new[-1]}", "is one too many", "tell fewer names per trial")
            ],
        )
    origin = Origin(id=f"told:{trial_id}", trial_id=trial_id, attempt_no=ATTEMPT_NO)
    last = session.scalar(
        select(func.max(MetricBatchRow.seq)).where(MetricBatchRow.allocation_id == origin.id)
    )
    store_batch(session, origin, (last or 0) + 1, 0, columns, at)
    rows = [series_row(origin, 0, column) for column in sorted(columns, key=lambda c: c.name)]
    queries.merge_series(session, rows)
    touch(session, f"trial:{trial_id}", f"trial:{trial_id}:metrics")
    return set(new)
