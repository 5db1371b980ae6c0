"""How benchmarks take times: each figure with how many runs it is of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def timed(call: Callable[[], object], repeat: int) -> tuple[float, float]:
    """(median, 95th percentile) in ms of `repeat` calls, at least 2."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return of(seconds)


def of(seconds: list[float]) -> tuple[float, float]:
    """(median, 95th percentile) in ms of times that were taken, at least 2 of them."""
    # Of few values the percentile is the largest, and never beyond it.
    return 1e3 * statistics.median(seconds), 1e3 * statistics.quantiles(
        seconds, n=20, method="inclusive"
    )[-1]
