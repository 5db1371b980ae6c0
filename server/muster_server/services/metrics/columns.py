"""Records of metrics as columns: what of them can be stored, and several records as one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from muster.series_rules import NAME_RULE, STEP_MAX, is_valid_name, storable
from muster.wire import MetricsRecord, Number, SeriesPoints, decode_number
from muster_server.domain.metrics import Summary, summarize


@dataclass(frozen=True)
class Column:
    name: str
    steps: Sequence[int]
    times_ms: Sequence[int]
    values: Sequence[float]
    summary: Summary


Part = tuple[MetricsRecord, SeriesPoints]
"""What one record says of one series."""


@dataclass(frozen=True)
class Columns:
    """What records of one rank report, put together by name."""

    columns: list[Column]
    """Their points in the order they were reported."""
    parts: dict[str, list[Part]]
    """Parts that these columns were put together from, by name."""
    refused: dict[str, str]
    """Name → why at least one point of it cannot be stored."""


def read_columns(records: Iterable[MetricsRecord]) -> Columns:
    """Return the columns of several records, oldest first; what cannot be stored is left out."""
    parts: dict[str, list[Part]] = {}
    refused: dict[str, str] = {}
    for record in records:
        seen: set[str] = set()
        for s in record.series:
            if not is_valid_name(s.name):
                refused[s.name[:80]] = f"a metric name is {NAME_RULE}"
            elif s.name in seen:
                refused[s.name] = "it occurs twice in one record"
            elif not len(s.steps) == len(s.times_ms) == len(s.values):
                refused[s.name] = "its columns differ in length"
            else:
                seen.add(s.name)
                points, problem = _storable(s)
                if problem:
                    refused[s.name] = problem
                if points.steps:
                    parts.setdefault(s.name, []).append((record, points))
    return Columns([_column(name, of_name) for name, of_name in parts.items()], parts, refused)


def values_of(part: Part) -> Sequence[float]:
    """Return the values of a part that is in Columns."""
    values = _floats(part[1].values)
    assert values is not None
    return values


def _storable(points: SeriesPoints) -> tuple[SeriesPoints, str]:
    """Return the points that can be stored, and why the first other one cannot."""
    if not points.steps or (
        0 <= min(points.steps) <= max(points.steps) <= STEP_MAX
        and 0 <= min(points.times_ms) <= max(points.times_ms) <= STEP_MAX
        and _floats(points.values) is not None
    ):
        return points, ""
    steps, times_ms, values, problem = storable(points.steps, points.times_ms, points.values)
    kept = SeriesPoints(
        name=points.name, steps=list(steps), times_ms=list(times_ms), values=list(values)
    )
    return kept, problem


def _column(name: str, parts: Sequence[Part]) -> Column:
    """Return parts of storable points as one."""
    steps: Sequence[int]
    if len(parts) == 1:
        points = parts[0][1]
        steps, times_ms, values = points.steps, points.times_ms, values_of(parts[0])
    else:
        steps = [step for _, s in parts for step in s.steps]
        times_ms = [time_ms for _, s in parts for time_ms in s.times_ms]
        values = [value for part in parts for value in values_of(part)]
    return Column(name, steps, times_ms, values, summarize(steps, times_ms, values))


def _floats(values: Sequence[Number]) -> Sequence[float] | None:
    """Return the values as floats; None when one is not a number of the wire format."""
    try:
        return array("d", cast("Sequence[float]", values)).tolist()  # a string raises TypeError
    except TypeError:
        pass
    except OverflowError:
        return None
    try:
        return [decode_number(v) for v in values]
    except (ValueError, OverflowError):
        return None
