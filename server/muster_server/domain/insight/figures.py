"""The figures of a training that every place shows: each a sum over a sum. Pure.

The page, lists, the command line, REST and Prometheus show what is worked out here; nowhere else is a
mean of measured rows made. A row is the mean over the steps since the row before, so a mean over rows
would count slow steps too often, and a mean of rates or shares is no rate or share.

| figure | sum of | over the sum of |
| --- | --- | --- |
| times (`…_ms`), `comm/bytes`, `comm/count` | that time, bytes, collectives | steps |
| `comm/overhead_ratio` | `comm/exposed_ms` of the steps | `time/step_ms` of the steps |
| `time/instrumentation_pct` | time of measuring | time of the steps |
| `throughput/…_per_s` | samples, rows, tokens | time of the steps |
| `throughput/model_tflops_per_device` | operations of a device | time of the steps |
| `throughput/mfu` | operations of a device | time of the steps × its peak |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..messages import AnyMessage, Message, sentences
from .step_rows import RECORDER, RankRows, Rows
from .steps import PARTS

STEP = "time/step_ms"
_OVER_TIME = ("throughput/", "time/instrumentation_pct", "comm/overhead_ratio")
"""Beginnings of names whose rows are something over the time of the steps. All others are per step."""
_OF_ALL = ("throughput/", "time/instrumentation_pct")
TIMELINE = "comm/timeline_steps"
"""Number of steps of a row that a window of the profiler has seen; only in rows that have any."""
_NO_FIGURES = ("comm/recorded_pct", TIMELINE, RECORDER, "pipeline/stage")
"""What describes a row or a rank, not the training."""


class Figures(NamedTuple):
    """Means over the newest rows of all ranks."""

    values: dict[str, float]
    """Metric → figure, of what is measured of a training as a whole; see the table above."""
    num_rows: int
    """Rows of the rank that has the fewest of them."""


def figures(ranks: Mapping[int, Rows]) -> Figures:
    """Return the figures of a window of steps.

    ranks: rank → its rows. Where the parts of the step are known, only rows with parts count, so
    that the parts add up to the step and shares are shares of it. Ranks take part in the same steps,
    so each counts alike; a part that some rank does not have is 0 there.
    """
    measured = [RankRows(rows, width=1) for rows in ranks.values()]
    having = [m for m in measured if m.with_parts] or [m for m in measured if m.names]
    names = {name for rows in having for name in rows.names if name.count("/") == 1}
    values = {
        name: value
        for name in sorted(names.difference(_NO_FIGURES))
        if (value := _figure(name, having)) is not None
    }
    return Figures(values, min((_num_rows(rows) for rows in having), default=0))


def source_note(ranks: Mapping[int, Rows]) -> AnyMessage | None:
    """Return where the figures of communication come from, and of how many steps they are; None where
    it is measured as it happens."""
    notes = [note for note in (_timeline_note(ranks), _recorder_note(ranks)) if note is not None]
    return sentences(*notes) if notes else None


def _recorder_note(ranks: Mapping[int, Rows]) -> Message | None:
    nums = [sum(of[RECORDER].values()) for of in ranks.values() if of.get(RECORDER)]
    return Message("measured.recorder", steps=round(min(nums))) if nums else None


def _timeline_note(ranks: Mapping[int, Rows]) -> Message | None:
    samples = [
        (sum(of[TIMELINE].values()), max(of.get(STEP) or of[TIMELINE]) - min(of[TIMELINE]) + 1)
        for of in ranks.values()
        if of.get(TIMELINE)
    ]
    if not samples:
        return None
    num, num_steps = min(samples)
    return Message("measured.timeline", num=round(num), steps=num_steps)


def _figure(name: str, ranks: Sequence[RankRows]) -> float | None:
    sums = [found for rows in ranks if (found := _sums(name, rows)) is not None]
    divisor = math.fsum(below for _, below in sums)
    if name in PARTS:
        divisor += len(ranks) - len(sums)
    return math.fsum(above for above, _ in sums) / divisor if divisor > 0 else None


def _sums(name: str, rows: RankRows) -> tuple[float, float] | None:
    """Return the two sums of one rank, each per step; None without a value."""
    series = rows.series(name)
    # Windows of the profiler slow down the few steps that have parts.
    is_of_all = TIMELINE in rows and (name == STEP or name.startswith(_OF_ALL))
    if not is_of_all:
        series = {step: v for step, v in series.items() if step in rows.with_parts} or series
    times = rows.series(STEP)
    known = rows.num_steps if times or rows.with_parts else {}
    weights = {step: known.get(step, 1.0) for step in series}
    num_steps = math.fsum(weights.values())
    if num_steps <= 0:
        return None
    if times and name.startswith(_OVER_TIME):
        weights = {step: num * times.get(step, 0.0) for step, num in weights.items()}
    above = math.fsum(value * weights[step] for step, value in series.items())
    return above / num_steps, math.fsum(weights.values()) / num_steps


def _num_rows(rows: RankRows) -> int:
    return len(rows.with_parts) or max(rows.num_rows_with(name) for name in rows.names)
