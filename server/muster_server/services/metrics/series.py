"""Reading metrics: the visible curves of trials as points or as buckets, and lists of series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.db.queries.metrics_codec import Entries, bucketed, means
from muster_server.domain.metrics import is_measured
from muster_server.errors import NotFound
from muster_server.schemas.data import (
    CurveAttempt,
    ExperimentSeriesReply,
    Series,
    SeriesInfo,
    SeriesList,
    SeriesReply,
    TrialSeries,
)

from .curves import CurveGroup, lowest_ranks, segments_of, shown_groups, width_for
from .loading import LoadedSegment, draw, joined, load
from .summaries import summaries_of

SERIES_MAX = 200
"""Series in one answer; more are cut, and the answer says so."""


def list_series(session: Session, trial_id: int, *, non_finite: bool = False) -> SeriesList:
    """Return every series of a trial with its summary over the visible curve; non_finite: of the
    series only those that hold NaN or infinities.

    Reads summaries only, except for series that a restart has cut and that no compaction has
    visited since. Raises NotFound.
    """
    get_trial(session, trial_id)
    groups = shown_groups(session, [trial_id], None, None)
    summaries = summaries_of(session, groups)
    return SeriesList(
        items=[
            SeriesInfo.from_row(s, name=group.name, rank=group.rank)
            for group, s in summaries
            if s.num_non_finite or not non_finite
        ],
        names=sorted({group.name for group, _ in summaries}),
        ranks=sorted({group.rank for group, _ in summaries}),
    )


def series(
    session: Session,
    trial_id: int,
    *,
    names: Sequence[str] | None,
    ranks: Sequence[int] | None,
    from_step: int | None = None,
    to_step: int | None = None,
    max_points: int = 1000,
) -> SeriesReply:
    """Return the visible curve of these names (None: all) and ranks (None: all) in a window of
    steps.

    Raises NotFound for an unknown trial; a name nobody reports is simply not in the answer.
    The models in the answer are made without validation: see `schemas.data.Series`.
    """
    trial = get_trial(session, trial_id)
    groups = shown_groups(session, [trial_id], names, ranks)
    shown = groups[:SERIES_MAX]
    return SeriesReply.model_construct(
        trial_id=trial_id,
        attempt_no=trial.attempt_no,
        series=read_groups(session, shown, from_step, to_step, max_points),
        truncated=len(groups) > len(shown),
        num_matching=len(groups),
    )


def experiment_series(
    session: Session, experiment_id: int, *, name: str, max_points: int, max_trials: int
) -> ExperimentSeriesReply:
    """Return one metric over the trials of an experiment, each by the lowest rank that reports it.

    When there are more than max_trials, those with the best search metric are shown, then the
    newest. Raises NotFound.
    """
    experiment = session.get(ExperimentRow, experiment_id)
    if experiment is None:
        raise NotFound("experiments.not_found", f"There is no experiment {experiment_id}.")
    trials = session.execute(
        select(TrialRow.id, TrialRow.no, TrialRow.metric).where(
            TrialRow.experiment_id == experiment_id
        )
    ).all()
    groups = lowest_ranks(shown_groups(session, [t.id for t in trials], [name], None))
    having = {group.trial_id: group for group in groups}
    sign = -1.0 if experiment.metric_goal == "max" else 1.0

    def preference(trial: Any) -> tuple[bool, float, int]:
        return (trial.metric is None, sign * (trial.metric or 0.0), -trial.no)

    chosen = sorted((t for t in trials if t.id in having), key=preference)[:max_trials]
    chosen.sort(key=lambda t: t.no)
    read = read_groups(session, [having[t.id] for t in chosen], None, None, max_points)
    return ExperimentSeriesReply.model_construct(
        experiment_id=experiment_id,
        name=name,
        items=[
            TrialSeries.model_construct(trial_id=t.id, trial_no=t.no, series=s)
            for t, s in zip(chosen, read, strict=True)
        ],
        num_trials=len(having),
    )


def get_trial(session: Session, trial_id: int) -> TrialRow:
    trial = session.get(TrialRow, trial_id)
    if trial is None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    return trial


# ---------------------------------------------------------------- curves


def read_groups(
    session: Session,
    groups: Sequence[CurveGroup],
    from_step: int | None,
    to_step: int | None,
    max_points: int,
) -> list[Series]:
    """Return these curves in a window of steps, each as at most `max_points` points or buckets."""
    by_group = [segments_of(group, from_step, to_step) for group in groups]
    widths = [width_for(group, from_step, to_step, max_points) for group in groups]
    loaded = iter(
        load(
            session,
            [segment for members in by_group for segment in members],
            [w for w, members in zip(widths, by_group, strict=True) for _ in members],
        )
    )
    return [
        _read_group(session, group, [next(loaded) for _ in members], width, max_points)
        for group, members, width in zip(groups, by_group, widths, strict=True)
    ]


def _read_group(
    session: Session, group: CurveGroup, parts: Sequence[LoadedSegment], width: int, max_points: int
) -> Series:
    num_points = sum(p.num_points for p in parts)
    raw = num_points <= max_points
    drawn = [draw(session, p, 1 if raw else width) for p in parts]
    kept_width = max((d.kept_width for d in drawn), default=0)
    entries = joined([d.entries for d in drawn])
    if raw and not kept_width:
        return _to_series(group, entries, raw=True, width=1, num_points=num_points)
    # All buckets of a curve are equally wide: nobody could read it otherwise.
    width = max(1 if raw else width, kept_width)
    return _to_series(
        group,
        bucketed(entries, width),
        raw=False,
        width=width,
        num_points=num_points,
        is_downsampled=kept_width > 0,
    )


def _to_series(
    group: CurveGroup,
    entries: Entries,
    *,
    raw: bool,
    width: int,
    num_points: int,
    is_downsampled: bool = False,
) -> Series:
    last = _floats(entries["last"])
    if raw:
        low = high = mean = cast("list[float | None]", last)
    else:
        low, high, mean = (
            _or_none(entries["min"]),
            _or_none(entries["max"]),
            _or_none(means(entries)),
        )
    return Series.model_construct(
        name=group.name,
        rank=group.rank,
        attempts=[
            CurveAttempt.model_construct(no=r.attempt_no, first_step=r.first_step)
            for r in group.records
        ],
        raw=raw,
        bucket_steps=width,
        num_points=num_points,
        num_steps=_num_steps(group.name, entries) if raw else None,
        downsampled=is_downsampled,
        step=entries["step"].tolist(),
        time_ms=entries["time_ms"].tolist(),
        min=low,
        max=high,
        mean=mean,
        last=last,
        count=entries["count"].tolist(),
    )


def _num_steps(name: str, entries: Entries) -> int | None:
    steps = entries["step"]
    if not is_measured(name) or len(steps) == 0:
        return None
    return int(steps[-1]) - int(steps[0]) + 1


def _floats(column: Any) -> list[float]:
    return cast("list[float]", column.tolist())


def _or_none(column: Any) -> list[float | None]:
    values = cast("list[float | None]", column.tolist())
    for at in np.flatnonzero(np.isnan(column)).tolist():
        values[at] = None
    return values
