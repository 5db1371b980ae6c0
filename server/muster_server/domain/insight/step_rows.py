"""The rows of one rank: how many steps each stands for, and means that count every step once. Pure.

A row is the mean of the steps since the row before. Where steps are fast it is of many and where they
are slow of one, so a mean over rows would count slow steps too often. And a collective that a row does
not name did not happen in its steps: there its figures are 0, not unknown.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

Rows = Mapping[str, Mapping[int, float]]
"""Metric → step → value, of one rank."""

PARTS_KNOWN = "time/forward_ms"
"""Metric that every row with parts has."""
_STEP = "time/step_ms"
_RECORDED = "comm/recorded_pct"
RECORDER = "comm/recorder_steps"
"""Steps whose collectives torch's flight recorder has counted; of those alone is the row's count of
collectives and their bytes."""
_VALIDATION = "time/validation_ms"
_MAX_GAP = 10
"""A row stands for at most so many times the steps of the median one: step numbers that a script
leaves out are not steps."""


class RankRows:
    """What one rank has measured in a window of steps.

    rows: without NaN. width: rows of different ranks are compared within buckets of so many steps;
        1 where nearly every step is a row.
    ends: of `common_ends`; then rows are compared within these instead.
    """

    def __init__(self, rows: Rows, *, width: int, ends: Sequence[int] = ()) -> None:
        self._rows = rows
        self._width = width
        self._ends = ends

    def __contains__(self, name: str) -> bool:
        return bool(self._rows.get(name))

    @property
    def is_by_step(self) -> bool:
        return self._width <= 1

    @property
    def names(self) -> list[str]:
        """Metrics with at least one value."""
        return [name for name, series in self._rows.items() if series]

    @cached_property
    def with_parts(self) -> Mapping[int, float]:
        """Steps of the rows whose parts are known. Empty: none are."""
        return self._rows.get(PARTS_KNOWN, {})

    @cached_property
    def with_comm(self) -> Mapping[int, float]:
        """Steps of the rows in which communication was measured."""
        return self._rows.get("comm/exposed_ms") or self.with_parts

    @cached_property
    def num_steps(self) -> dict[int, float]:
        """Step of a row → how many steps its figures are of. Those of the first row are not known;
        it is taken to be like the median one."""
        steps = sorted(self._rows.get(_STEP) or self.with_parts)
        gaps = [b - a for a, b in itertools.pairwise(steps)]
        median = statistics.median(gaps) if gaps else 1
        recorded = self._rows.get(_RECORDED, {})
        return {
            step: min(gap, _MAX_GAP * median) * recorded.get(step, 100.0) / 100.0
            for step, gap in zip(steps, [median, *gaps], strict=True)
        }

    @cached_property
    def weights(self) -> dict[int, float]:
        """Bucket → how many steps the figures of its rows with parts are of."""
        found: dict[int, float] = {}
        for step in self.with_parts:
            bucket = self._bucket(step)
            if bucket is not None:
                found[bucket] = found.get(bucket, 0.0) + (self.num_steps.get(step) or 1.0)
        return found

    def _bucket(self, step: int) -> int | None:
        """Return the bucket that a row belongs to; None after the last common end."""
        if not self._ends:
            return step // max(self._width, 1)
        at = bisect_left(self._ends, step)
        return self._ends[at] if at < len(self._ends) else None

    def series(self, name: str) -> Mapping[int, float]:
        """Return the values of a metric; of a process group's collectives, and of validation, with 0
        in the rows where there were none. Empty when there is no value at all."""
        found = self._rows.get(name, {})
        if found and name == _VALIDATION:
            return {**dict.fromkeys(self._rows.get(_STEP, {}), 0.0), **found}
        if not found or not _is_of_a_group(name):
            return found
        recorded = self._rows.get(RECORDER, {}) if _is_counted(name) else {}
        return {**dict.fromkeys(self.with_comm, 0.0), **dict.fromkeys(recorded, 0.0), **found}

    def num_rows_with(self, name: str) -> int:
        """Return the number of rows that have a value of a metric."""
        return len(self._rows.get(name, {}))

    def mean(self, name: str, of: Mapping[int, float] | None = None) -> float | None:
        """Return the mean of a metric per step, over the rows that are also in `of`. None when
        there is none."""
        series = {s: v for s, v in self.series(name).items() if of is None or s in of}
        counted = self._rows.get(RECORDER, {}) if _is_counted(name) else {}
        return self._mean(series, counted)

    def mean_with(self, name: str) -> float | None:
        """Return the mean over only those rows that have a value of the metric; None if there are
        none."""
        return self._mean(self._rows.get(name, {}))

    def buckets(self, name: str) -> dict[int, float]:
        """Bucket → mean per step of its rows. {} when there is no value at all."""
        series = self.series(name)
        if self._width <= 1 and not self._ends:
            return dict(series)
        members: dict[int, dict[int, float]] = {}
        for step, value in series.items():
            bucket = self._bucket(step)
            if bucket is not None:
                members.setdefault(bucket, {})[step] = value
        return {bucket: self._mean(rows) or 0.0 for bucket, rows in members.items()}

    def _mean(
        self, series: Mapping[int, float], counted: Mapping[int, float] | None = None
    ) -> float | None:
        """Return the mean per step; None without a value.

        counted: step of a row → steps that it stands for, where that is not as for others."""
        if not series:
            return None
        known = {**self.num_steps, **(counted or {})}
        weights = [known.get(step, 1.0) for step in series]
        if sum(weights) <= 0:
            return statistics.fmean(series.values())
        return statistics.fmean(series.values(), weights)


def common_ends(ranks: Iterable[Rows]) -> list[int]:
    """Return the steps that end a row on every rank, in order: rows between two of them are of the
    same steps on all ranks. Empty without any."""
    steps = [set(rows.get(_STEP, ())) for rows in ranks]
    return sorted(set.intersection(*steps)) if steps else []


def _is_of_a_group(name: str) -> bool:
    return name.startswith("comm/") and name.count("/") >= 2


def _is_counted(name: str) -> bool:
    return _is_of_a_group(name) and name.endswith(("/count", "/bytes"))
