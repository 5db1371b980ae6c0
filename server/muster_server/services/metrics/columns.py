"""Records of metrics as columns: what of them can be stored, and several records as one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from muster.wire import MetricsRecord, Number, SeriesPoints, decode_number
from muster_server.domain.metrics import NAME_RULE, STEP_MAX, Summary, is_valid_name, summarize


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
    """Name → why at least one part of it cannot be stored."""


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
            elif s.steps:
                seen.add(s.name)
                parts.setdefault(s.name, []).append((record, s))
    columns: list[Column] = []
    for name, of_name in parts.items():
        column = _column(name, of_name)
        if isinstance(column, str):
            refused[name] = column
            parts[name] = [p for p in of_name if isinstance(_column(name, [p]), Column)]
            if not parts[name]:
                continue
            column = _column(name, parts[name])
        assert isinstance(column, Column)
        columns.append(column)
    return Columns(columns, parts, refused)


def values_of(part: Part) -> Sequence[float]:
    """Return the values of a part that is in Columns."""
    values = _floats(part[1].values)
    assert values is not None
    return values


def _column(name: str, parts: Sequence[Part]) -> Column | str:
    """Return the parts as one, or why at least one of them cannot be stored."""
    if len(parts) == 1:
        points = parts[0][1]
        steps, times_ms, numbers = points.steps, points.times_ms, points.values
    else:
        steps = [step for _, s in parts for step in s.steps]
        times_ms = [time_ms for _, s in parts for time_ms in s.times_ms]
        numbers = [value for _, s in parts for value in s.values]
    if min(steps) < 0 or max(steps) > STEP_MAX:
        return f"steps are 0 to {STEP_MAX}"
    if min(times_ms) < 0 or max(times_ms) > STEP_MAX:
        return f"times are 0 to {STEP_MAX} ms"
    values = _floats(numbers)
    if values is None:
        return 'values are numbers, "NaN", "Infinity" or "-Infinity"'
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
