"""The values that clients report: told apart from those that are known, and stored.

Single values come by the thousand, so rows are read and written without their classes: as objects, they
took ten times as long as the statements.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from muster.run_names import RunNames
from muster.series_rules import clean_name, is_valid_name
from muster.tracking import TrackedPoint, invalid, sane_time, series_name
from muster.wire import decode_number, encode_number
from muster_server.db.models import ExperimentRow, TrackedRunRow, TrialRow, UnmanagedRunRow
from muster_server.db.queries.metrics import table_of
from muster_server.domain.metrics import summarize

from ..core.ownership import OwnedExperiment
from ..metrics.columns import Column
from ..metrics.export import stored_points
from ..metrics.external import store_columns
from ..metrics.ingest import merged_summary


@dataclass(frozen=True)
class MetricProgress:
    """How far a metric has come, in which run of the client's script."""

    last: int
    """Last step of its newest run."""
    newest_ms: int
    """Time of its newest point."""
    owner: int = 1
    """Number of the run whose series has the name as it is."""
    number: int = 1
    """Number of its newest run."""
    first: int = 0
    """First step of that."""

    @classmethod
    def of(cls, saved: Sequence[Any]) -> MetricProgress:
        """Return what a row keeps of a metric."""
        step, time_ms, _, *more = saved
        if not more:  # As it was kept before runs were told apart.
            return cls(last=step, newest_ms=time_ms, first=step)
        newest_ms, owner, number, first, last = more
        return cls(last=last, newest_ms=newest_ms, owner=owner, number=number, first=first)


@dataclass
class KeptRun:
    """What is kept of a run's metrics."""

    trial_id: int
    experiment: OwnedExperiment
    archived_at: dt.datetime | None
    started_at: dt.datetime
    progress_at: dt.datetime | None
    step: int
    summary: dict[str, Any]
    latest: dict[str, Any]
    """Like `UnmanagedRunRow.latest`."""

    @property
    def started_ms(self) -> int:
        return round(self.started_at.timestamp() * 1000)


_RUNS, _TRACKED = table_of(UnmanagedRunRow), table_of(TrackedRunRow)
_TRIALS, _EXPERIMENTS = table_of(TrialRow), table_of(ExperimentRow)
_KEPT = (
    select(
        _TRIALS.c.id,
        _EXPERIMENTS.c.id,
        _EXPERIMENTS.c.project_id,
        _EXPERIMENTS.c.owner_id,
        _EXPERIMENTS.c.archived_at,
        _TRACKED.c.started_at,
        _TRIALS.c.progress_at,
        _TRIALS.c.step,
        _TRIALS.c.summary,
        _RUNS.c.latest,
    )
    .join_from(_RUNS, _TRIALS, _TRIALS.c.id == _RUNS.c.trial_id)
    .join(_TRACKED, _TRACKED.c.trial_id == _RUNS.c.trial_id)
    .join(_EXPERIMENTS, _EXPERIMENTS.c.id == _TRIALS.c.experiment_id)
    .where(_RUNS.c.run_id == bindparam("run"), _EXPERIMENTS.c.deleting_at.is_(None))
    # The trial first: the order in which everybody locks.
    .with_for_update(of=(_TRIALS, _RUNS))
)
_SAVE_TRIAL = (
    update(_TRIALS)
    .where(_TRIALS.c.id == bindparam("trial"))
    .values({name: bindparam(name) for name in ("summary", "step", "progress_at", "heard_at")})
)
_SAVE_RUN = (
    update(_RUNS).where(_RUNS.c.trial_id == bindparam("trial")).values(latest=bindparam("latest"))
)


def locked(session: Session, run_id: str) -> KeptRun | None:
    """Return what is kept of a run, locked until the commit, whoever may see it; None if there is none."""
    row = session.connection().execute(_KEPT, {"run": run_id}).one_or_none()
    if row is None:
        return None
    trial_id, experiment_id, project_id, owner_id, *rest = row
    return KeptRun(trial_id, OwnedExperiment(experiment_id, project_id, owner_id), *rest)


def store(
    session: Session,
    run: KeptRun,
    points: Iterable[TrackedPoint],
    *,
    at: dt.datetime,
    warn: Callable[[str], None],
) -> None:
    """Store the points that are new, and what is kept of the run. Raises TrackingError."""
    before = {key: MetricProgress.of(saved) for key, saved in run.latest.items()}
    names = RunNames.restored(
        {series_name("", key): (p.owner, p.number, p.first, p.last) for key, p in before.items()}
    )
    newest = {key: progress.newest_ms for key, progress in before.items()}
    by_series: dict[tuple[str, str], list[TrackedPoint]] = {}
    for point in points:
        key = point.key
        name = series_name("", key)
        if not is_valid_name(name):
            raise invalid(f"{key!r} is no name of a metric that Muster can keep")
        is_late = point.time_ms <= newest.get(key, -1)
        shown = clean_name(names.name("", name, point.step, is_late=is_late))
        newest[key] = max(point.time_ms, newest.get(key, point.time_ms))
        if shown != name and (key, shown) not in by_series and shown not in run.summary:
            warn(
                f"The steps of {key!r} begin again at {point.step}: from there on its values are "
                f"those of another run, {shown!r}."
            )
        by_series.setdefault((key, shown), []).append(point)
    columns = []
    highest: dict[str, TrackedPoint] = {}
    for (key, shown), reported in by_series.items():
        progress = before.get(key) if shown in run.summary else None
        new = _unknown(session, run, shown, reported, progress)
        if not new:
            continue
        known = [highest[key]] if key in highest else _latest(run, key)
        highest[key] = max([*known, *new], key=_order)
        steps = [p.step for p in new]
        times = [sane_time(p.time_ms, run.started_ms) for p in new]
        values = [p.value for p in new]
        columns.append(Column(shown, steps, times, values, summarize(steps, times, values)))
    if columns:
        new_names = store_columns(session, run.trial_id, columns, at=at)
        run.summary = merged_summary(run.summary, columns, new_names=new_names)
        run.progress_at = at
        run.step = max(run.step, *(c.summary.last_step for c in columns))
        run.latest = run.latest | {
            key: [
                *(point.step, point.time_ms, encode_number(point.value), newest[key]),
                *(names.saved(series_name("", key)) or (1, 1, point.step, point.step)),
            ]
            for key, point in highest.items()
        }
        changes = {"trial": run.trial_id, "latest": run.latest}
        session.connection().execute(_SAVE_RUN, changes)
    changes = {
        "trial": run.trial_id,
        "summary": run.summary,
        "step": run.step,
        "progress_at": run.progress_at,
        "heard_at": at,
    }
    session.connection().execute(_SAVE_TRIAL, changes)


def _latest(run: KeptRun, key: str) -> list[TrackedPoint]:
    if key not in run.latest:
        return []
    step, time_ms, value, *_ = run.latest[key]
    return [TrackedPoint(key, int(step), int(time_ms), decode_number(value))]


def _unknown(
    session: Session,
    run: KeptRun,
    name: str,
    points: list[TrackedPoint],
    progress: MetricProgress | None,
) -> list[TrackedPoint]:
    """Return the points that are new: of one step, the series keeps the value of the latest time.

    Only a point that is no later than the latest one can be known already, so a client that goes
    on costs no look at the series.
    """
    known: dict[int, int] = {}
    if progress is not None:
        at = (progress.last, progress.newest_ms)
        old = [p.step for p in points if (p.step, p.time_ms) <= at]
        if old:
            for part in stored_points(
                session, run.trial_id, name, from_step=min(old), to_step=max(old)
            ):
                known |= {step: time_ms for step, time_ms, _ in rows_of(part)}
    distinct = {_mark(point): point for point in points}.values()
    new = [
        p
        for p in distinct
        if p.step not in known or sane_time(p.time_ms, run.started_ms) > known[p.step]
    ]
    # Of one step, the last one written counts.
    return sorted(new, key=lambda point: point[1:3])


def rows_of(part: Any) -> Iterator[tuple[int, int, float]]:
    """Yield (step, time in ms, value) of the points of a part of a series."""
    return zip(part.steps.tolist(), part.times_ms.tolist(), part.values.tolist(), strict=True)


def _order(point: TrackedPoint) -> tuple[int, int, float]:
    """Return what makes a point the latest of a metric; NaN comes before any number."""
    return point.step, point.time_ms, -math.inf if math.isnan(point.value) else point.value


def _mark(point: TrackedPoint) -> tuple[int, int, Any]:
    return point.step, point.time_ms, encode_number(point.value)  # NaN is not equal to itself.
