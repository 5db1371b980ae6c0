"""Where what was expected of a trial and what it measured are far apart, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...messages import Message
from .memory import PlannedTraining

LOWEST, HIGHEST = 0.7, 1.4
"""Ratios of expected to measured in between need no words."""
FEW_ROWS = 20
"""Steps whose first ones, which load and allocate, weigh in the mean."""
EXCHANGES = 3
"""Rare exchanges that should have been measured before their mean says something."""
POWERSGD_EXACT_STEPS = 3
"""Steps whose gradients powersgd sends as they are."""

About = Literal["memory", "bytes", "step"]


@dataclass(frozen=True, kw_only=True)
class Remark:
    about: About
    ratio: float
    """Expected over measured."""
    text: Message


def remarks_on(
    pairs: Mapping[About, tuple[float, float]], job: PlannedTraining, num_rows: int
) -> tuple[Remark, ...]:
    """Return a remark for each pair (expected, measured) whose ratio is outside LOWEST to HIGHEST,
    with what explains it, or that nothing known does. Pairs without a measured value have none.

    num_rows: number of steps behind the measurements.
    """
    found = []
    for about, (expected, measured) in pairs.items():
        if measured <= 0:
            continue
        ratio = expected / measured
        if not LOWEST <= ratio <= HIGHEST:
            found.append(Remark(about=about, ratio=ratio, text=_why(about, ratio, job, num_rows)))
    return tuple(found)


def _why(about: About, ratio: float, job: PlannedTraining, num_rows: int) -> Message:
    if about == "bytes":
        return _why_bytes(job, num_rows)
    if about == "memory" and ratio < LOWEST:
        return Message("plan.memory_more")
    if about == "step" and num_rows < FEW_ROWS:
        return Message("plan.few_steps", rows=num_rows)
    if about == "step":
        return Message("plan.step_differs")
    return _unexplained()


def _why_bytes(job: PlannedTraining, num_rows: int) -> Message:
    options = job.options
    if job.kind in ("local_sgd", "diloco") and num_rows < EXCHANGES * options.sync_every:
        return Message(
            "plan.rare_exchange",
            every=options.sync_every,
            rows=num_rows,
        )
    if options.compression == "powersgd" and num_rows < FEW_ROWS:
        return Message(
            "plan.powersgd_start",
            exact=POWERSGD_EXACT_STEPS,
            rows=num_rows,
        )
    if job.kind == "ps" and options.staleness != 0:
        return Message("plan.stale_pulls")
    return _unexplained()


def _unexplained() -> Message:
    return Message("plan.unexplained")
