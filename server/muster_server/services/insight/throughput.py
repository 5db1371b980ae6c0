"""How many samples per second a trial has trained on."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from sqlalchemy.orm import Session

from muster_server.db.models import TrialRow
from muster_server.domain.insight.diagnosis.planning import MIN_STEPS, WARM_UP_STEPS

from .performance import newest_rows

NAME = "throughput/samples_per_s"
ROWS_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class Rate:
    value: float
    num_rows: int


def samples_per_s(session: Session, trial: TrialRow) -> Rate | None:
    """Return the throughput of all workers together, over the newest rows of the current attempt
    without its warm-up steps.

    It is the median of the rows, so that validations and checkpoints between steps, which probes do
    not have, do not count. None with fewer than MIN_STEPS - WARM_UP_STEPS rows.
    """
    if trial.attempt_no == 0:
        return None
    rows = newest_rows(session, trial.id, trial.attempt_no, ROWS_MAX)
    series = rows.ranks.get(0, {}).get(NAME, {})
    values = [v for step, v in series.items() if step > WARM_UP_STEPS and v > 0]
    if len(values) < MIN_STEPS - WARM_UP_STEPS:
        return None
    return Rate(value=statistics.median(values), num_rows=len(values))
