"""Values of a worker at a step. Pure."""

from __future__ import annotations

from typing import NamedTuple

MEASURED = ("time/", "comm/", "throughput/", "memory/", "pipeline/", "progress/", "network/")
"""Prefixes of the names of metrics that Muster measures by itself."""


class Row(NamedTuple):
    """Values of one worker at one step."""

    step: int
    time_ms: int
    """Unix time in milliseconds."""
    values: dict[str, float]
    """May hold NaN and infinities: a diverged loss is data."""
    epoch: float | None = None
    num_steps_planned: int | None = None
    axis: str = ""
    """What the step counts, where that is not what most steps count. A record has rows of one."""
