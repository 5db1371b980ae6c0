"""Curves of many trials in one answer, along any x axis."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import TrialRow
from muster_server.db.queries.metrics import chunked
from muster_server.errors import InvalidRequest
from muster_server.schemas.data import Curve, CurvesReply, Series

from .curves import CurveGroup, lowest_ranks, shown_groups
from .series import SERIES_MAX, read_groups

Axis = Literal["step", "time", "relative", "epoch", "metric"]

ENTRIES_MAX = 60_000
"""Points or buckets in one answer, over all curves: 200 curves have 300 each, about what a chart
is wide."""
POINTS_MIN = 10


class _Trial(NamedTuple):
    id: int
    no: int
    experiment_id: int
    started_at: dt.datetime | None
    step: int
    epoch: float | None


def curves(
    session: Session,
    trial_ids: Sequence[int],
    *,
    names: Sequence[str],
    ranks: Sequence[int] | None,
    from_step: int | None,
    to_step: int | None,
    max_points: int,
    axis: Axis,
    x_name: str | None,
) -> CurvesReply:
    """Return the visible curves of these names of these trials in a window of steps.

    ranks: None takes the lowest that reports a name. At most SERIES_MAX curves, together of at most
    ENTRIES_MAX entries; the answer says what was cut. x_name: of the metric that lies along the x
    axis; between two of its points in a straight line. Raises InvalidRequest for
    `axis` "metric" without it, or a name without that axis.
    """
    if (axis == "metric") != (x_name is not None):
        raise InvalidRequest(
            "series.x_name",
            "x_name names the metric for x=metric: give both, or neither.",
        )
    trials = _trials(session, trial_ids)
    groups = shown_groups(session, list(trials), names, ranks)
    if ranks is None:
        groups = lowest_ranks(groups)
    place = {trial_id: at for at, trial_id in reversed(list(enumerate(trial_ids)))}
    groups.sort(key=lambda g: (place[g.trial_id], names.index(g.name), g.rank))
    having = {group.trial_id for group in groups}
    shown = groups[:SERIES_MAX]
    points = max(POINTS_MIN, min(max_points, ENTRIES_MAX // max(1, len(shown))))
    read = read_groups(session, shown, from_step, to_step, points)
    along: list[list[float | None] | None] = [None] * len(shown)
    if axis == "epoch":
        along = [_epochs(trials[g.trial_id], s) for g, s in zip(shown, read, strict=True)]
    elif x_name is not None:
        along = _along(session, shown, read, x_name, (from_step, to_step), points)
    return CurvesReply.model_construct(
        items=[
            Curve.model_construct(
                trial_id=g.trial_id,
                trial_no=trials[g.trial_id].no,
                experiment_id=trials[g.trial_id].experiment_id,
                start_ms=_ms(trials[g.trial_id].started_at),
                series=s,
                x=x,
            )
            for g, s, x in zip(shown, read, along, strict=True)
        ],
        max_points=points,
        num_matching=len(groups),
        missing=[t for t in dict.fromkeys(trial_ids) if t not in having],
    )


def _trials(session: Session, trial_ids: Sequence[int]) -> dict[int, _Trial]:
    found: dict[int, _Trial] = {}
    columns = [getattr(TrialRow, name) for name in _Trial._fields]
    for chunk in chunked(dict.fromkeys(trial_ids)):
        for row in session.execute(select(*columns).where(TrialRow.id.in_(chunk))):
            found[row.id] = _Trial(*row)
    return found


def _epochs(trial: _Trial, series: Series) -> list[float | None] | None:
    """Return the epoch at each step; steps per epoch are taken as constant, as for searches."""
    if trial.epoch is None or trial.step <= 0:
        return None
    return [round(trial.epoch * step / trial.step, 6) for step in series.step]


def _along(
    session: Session,
    groups: Sequence[CurveGroup],
    read: Sequence[Series],
    x_name: str,
    window: tuple[int | None, int | None],
    max_points: int,
) -> list[list[float | None] | None]:
    """Return per curve the values of the metric `x_name`: of its own rank, else of the lowest."""
    trial_ids = list(dict.fromkeys(g.trial_id for g in groups))
    x_groups = shown_groups(session, trial_ids, [x_name], None)
    x_read = read_groups(session, x_groups, *window, max_points)
    by_rank = {(g.trial_id, g.rank): s for g, s in zip(x_groups, x_read, strict=True)}
    lowest = {g.trial_id: by_rank[g.trial_id, g.rank] for g in lowest_ranks(x_groups)}
    found: list[list[float | None] | None] = []
    for group, series in zip(groups, read, strict=True):
        x_series = by_rank.get((group.trial_id, group.rank)) or lowest.get(group.trial_id)
        found.append(None if x_series is None else _values_at(series.step, x_series))
    return found


def _values_at(steps: Sequence[int], series: Series) -> list[float | None] | None:
    """Return the metric at these steps: in a straight line between those known, its last value
    after them, None before them."""
    known = [(s, v) for s, v in zip(series.step, series.last, strict=True) if math.isfinite(v)]
    if not known:
        return None
    at, values = zip(*known, strict=True)
    x = np.interp(steps, at, values, left=math.nan).tolist()
    return [None if math.isnan(v) else v for v in x]


def _ms(at: dt.datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)
