"""Evaluations that can be compared, ranked. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

PRIMARY: Sequence[tuple[str, Literal["min", "max"]]] = (
    ("bits_per_byte", "min"),
    ("accuracy", "max"),
    ("rmse", "min"),
)
"""Metrics to rank by: the first that an evaluation has. Language models have an accuracy, too."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An evaluation of a version."""

    use_id: int
    """Ids grow: of two of one version the higher is the newer."""
    version_id: int
    data: str
    split: str
    data_digest: str
    metrics_version: int
    metrics: Mapping[str, float]
    """May be NaN or infinite."""


@dataclass(frozen=True, kw_only=True)
class Comparable:
    """What evaluations must have in common to be ranked together."""

    data: str
    split: str
    data_digest: str
    metrics_version: int


@dataclass(frozen=True, kw_only=True)
class RankedEvaluation:
    evaluation: Evaluated
    rank: int | None
    """Starts at 1; equal values share one. None for a value that is missing or not finite."""


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    key: Comparable
    metric: str
    """Metric that ranks; "" if none is known."""
    goal: Literal["min", "max"]
    rows: Sequence[RankedEvaluation]
    """One row for each version, its newest evaluation; the best first."""


def leaderboards(evaluations: Sequence[Evaluated]) -> list[Leaderboard]:
    """Return a leaderboard for each set of comparable evaluations, that of the newest evaluation
    first."""
    groups: dict[Comparable, list[Evaluated]] = defaultdict(list)
    for each in sorted(evaluations, key=lambda e: e.use_id, reverse=True):
        key = Comparable(
            data=each.data,
            split=each.split,
            data_digest=each.data_digest,
            metrics_version=each.metrics_version,
        )
        if all(other.version_id != each.version_id for other in groups[key]):
            groups[key].append(each)
    return [_ranked(key, found) for key, found in groups.items()]


def _ranked(key: Comparable, found: Sequence[Evaluated]) -> Leaderboard:
    metric, goal = primary_metric(found[0].metrics)
    sign = 1 if goal == "min" else -1

    def value(each: Evaluated) -> float | None:
        given = each.metrics.get(metric)
        return None if given is None or not math.isfinite(given) else sign * given

    known = sorted(v for each in found if (v := value(each)) is not None)
    rows = [
        RankedEvaluation(
            evaluation=each, rank=None if (v := value(each)) is None else known.index(v) + 1
        )
        for each in found
    ]
    rows.sort(key=lambda row: (row.rank is None, row.rank or 0, row.evaluation.use_id))
    return Leaderboard(key=key, metric=metric, goal=goal, rows=rows)


def primary_metric(metrics: Mapping[str, float]) -> tuple[str, Literal["min", "max"]]:
    """Return the metric by which evaluations with these metrics are ranked, and which values are
    better; ("", "max") for none that is known."""
    return next((each for each in PRIMARY if each[0] in metrics), ("", "max"))
