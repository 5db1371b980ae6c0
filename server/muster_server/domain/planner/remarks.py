"""Where what was expected of a trial and what it measured are far apart, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..saying import Said, say
from .memory import Job

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
    text: Said


def remarks_on(
    pairs: Mapping[About, tuple[float, float]], job: Job, num_rows: int
) -> tuple[Remark, ...]:
    """Of each pair (expected, measured) whose ratio is outside LOWEST to HIGHEST: what explains it,
    or that nothing known does. Nothing of a pair without a measured value.

    num_rows: steps behind what was measured.
    """
    found = []
    for about, (expected, measured) in pairs.items():
        if measured <= 0:
            continue
        ratio = expected / measured
        if not LOWEST <= ratio <= HIGHEST:
            found.append(Remark(about=about, ratio=ratio, text=_why(about, ratio, job, num_rows)))
    return tuple(found)


def _why(about: About, ratio: float, job: Job, num_rows: int) -> Said:
    if about == "bytes":
        return _why_bytes(job, num_rows)
    if about == "memory" and ratio < LOWEST:
        return say(
            "plan.memory_more",
            "It took more than its tensors need: on devices the workspaces of libraries and what the "
            "allocator cannot use come on top. If a slot gets tight, lower batch_size.",
        )
    if about == "step" and num_rows < FEW_ROWS:
        return say(
            "plan.few_steps",
            f"Only {num_rows} steps were measured, and the first ones take longer: wait for more.",
            rows=num_rows,
        )
    if about == "step":
        return say(
            "plan.step_differs",
            "The machines or the network were busier or quieter than when the scaling report was "
            "made: make a new report to plan with.",
        )
    return _unexplained()


def _why_bytes(job: Job, num_rows: int) -> Said:
    options = job.options
    if job.kind in ("local_sgd", "diloco") and num_rows < EXCHANGES * options.sync_every:
        return say(
            "plan.rare_exchange",
            f"Parameters are exchanged every {options.sync_every} steps, and only {num_rows} steps "
            "were measured: wait for more.",
            every=options.sync_every,
            rows=num_rows,
        )
    if options.compression == "powersgd" and num_rows < FEW_ROWS:
        return say(
            "plan.powersgd_start",
            f"PowerSGD sends the first {POWERSGD_EXACT_STEPS} steps uncompressed, and only "
            f"{num_rows} steps were measured: wait for more.",
            exact=POWERSGD_EXACT_STEPS,
            rows=num_rows,
        )
    if job.kind == "ps" and options.staleness != 0:
        return say(
            "plan.stale_pulls",
            "Workers of an asynchronous parameter server are not in step, so what one of them sends "
            "per step varies: compare the mean of all workers.",
        )
    return _unexplained()


def _unexplained() -> Said:
    return say(
        "plan.unexplained",
        "Nothing known explains the difference: do not rely on the expected value, and report it "
        "with the document.",
    )
