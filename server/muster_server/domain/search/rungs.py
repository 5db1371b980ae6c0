"""The training lengths at which asynchronous successive halving judges trials, and the cut.

Stopping variant: a trial that reaches a rung goes on if it is among the best
max(floor(n / divisor), 1) of the n that have reached it so far, itself included; otherwise it is
stopped. Nothing waits and nothing is paused.
"""

from __future__ import annotations

import bisect
import math


def floor_log(value: int, base: int) -> int:
    """The greatest k with base**k <= value, for value >= 1 and base >= 2.

    Multiplies integers: floor(log(243) / log(3)) is 4 in floating point, one rung too few.
    """
    if value < 1 or base < 2:
        raise ValueError(f"floor_log needs value >= 1 and base >= 2, got {value} and {base}")
    k, power = 0, base
    while power <= value:
        k += 1
        power *= base
    return k


def rung_units(max_units: int, *, divisor: int, max_rungs: int, trials: int) -> list[int]:
    """Training lengths of the rungs, ascending; the last one is `max_units`.

    There are min(max_rungs, floor(log_divisor(max_units)) + 1, floor(log_divisor(trials)) + 1) of
    them: more rungs than the trials can fill would only mean that nobody reaches the top. Rung i
    of n lies at max(floor(max_units / divisor**(n-1-i)), 1).
    """
    count = min(max_rungs, floor_log(max_units, divisor) + 1, floor_log(trials, divisor) + 1)
    return [max(max_units // divisor ** (count - 1 - i), 1) for i in range(count)]


def quota(num_entries: int, divisor: int) -> int:
    """How many of `num_entries` trials at a rung may go on."""
    return max(num_entries // divisor, 1)


def score(value: float | None, goal: str) -> float:
    """Sort key of a metric value, lower is better. None, NaN and infinities rank last."""
    if value is None or not math.isfinite(value):
        return math.inf
    return -value if goal == "max" else value


class Ladder:
    """Entries of one rung, ordered by (score, trial number): the order is total, ties included."""

    def __init__(self) -> None:
        self._keys: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, entry_score: float, trial_no: int) -> int:
        """Insert and return the rank, 0 = best."""
        key = (entry_score, trial_no)
        rank = bisect.bisect_left(self._keys, key)
        self._keys.insert(rank, key)
        return rank

    def next_cutoff_score(self, divisor: int) -> float | None:
        """The score the next arrival must reach to go on; None while any finite one would do."""
        needed = quota(len(self._keys) + 1, divisor)
        if len(self._keys) < needed:
            return None
        worst_kept = self._keys[needed - 1][0]
        return worst_kept if math.isfinite(worst_kept) else None
