"""The training lengths at which successive halving judges trials, brackets of them, and the cut.

stopping: a trial that reaches a rung goes on if it is among the best max(floor(n / divisor), 1) of
the n that have reached it so far, itself included; otherwise it is stopped. Nothing is paused.
promotion: a trial that reaches a rung waits there; whenever there is room, the best waiting one
that is among the best floor(n / divisor) goes on, highest rung first (Li et al. 2020, ASHA,
algorithm 2).
synchronous: nobody goes on before everybody of the bracket has reached the rung or failed; then the
best floor(n / divisor) do and the others are stopped (Li et al. 2018, Hyperband, algorithm 1).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Breadth = Literal["aggressive", "standard", "conservative"]


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """Trials that compete with each other, and where."""

    trials: int
    rungs: tuple[int, ...]
    """Units at which they are judged, ascending."""


def floor_log(value: int, base: int) -> int:
    """Return the greatest k with base**k <= value, for value >= 1 and base >= 2.

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


def asha_brackets(
    max_units: int, *, divisor: int, max_rungs: int, trials: int, breadth: Breadth = "aggressive"
) -> tuple[Bracket, ...]:
    """Brackets of an asynchronous search, the one with most rungs first.

    With m rungs in all (see `rung_units`): aggressive is one bracket of m, standard those of m down
    to (m - 1) // 2 + 1 rungs, conservative those of m down to 1. A bracket of k rungs gets a share
    of the trials in proportion to divisor**(k-1) / k, rounded down and at least 1; the first gets
    what is left over. Brackets for which no trial is left are dropped.
    """
    top = len(rung_units(max_units, divisor=divisor, max_rungs=max_rungs, trials=trials))
    lowest = {"aggressive": top, "standard": (top - 1) // 2 + 1, "conservative": 1}[breadth]
    counts = list(range(top, lowest - 1, -1))
    shares = bracket_trials(trials, divisor=divisor, rungs=counts)
    return tuple(
        Bracket(
            trials=share,
            rungs=tuple(max(max_units // divisor ** (count - 1 - i), 1) for i in range(count)),
        )
        for count, share in zip(counts, shares, strict=True)
        if share > 0
    )


def bracket_trials(trials: int, *, divisor: int, rungs: Sequence[int]) -> list[int]:
    """Return the share of `trials` that each bracket gets; rungs: number of rungs per bracket."""
    # Over a common denominator, in integers: a share of exactly 12 must not become 11.
    common = math.lcm(*rungs)
    weights = [divisor ** (k - 1) * (common // k) for k in rungs]
    shares: list[int] = []
    left = trials
    for weight in weights[1:]:
        share = min(max(trials * weight // sum(weights), 1), left - 1)
        shares.append(share)
        left -= share
    return [left, *shares]


def hyperband_brackets(max_units: int, *, divisor: int) -> tuple[Bracket, ...]:
    """Return the brackets of Hyperband's algorithm 1, the one that stops most first.

    For s from s_max = floor(log_divisor(R)) down to 0: n = ceil((s_max + 1) * divisor**s / (s + 1))
    trials, with rungs at R / divisor**s ... R, rounded down.
    """
    top = floor_log(max_units, divisor)
    return tuple(
        Bracket(
            trials=-(-(top + 1) * divisor**s // (s + 1)),
            rungs=tuple(max_units // divisor ** (s - i) for i in range(s + 1)),
        )
        for s in range(top, -1, -1)
    )


def quota(num_entries: int, divisor: int) -> int:
    """Return how many of `num_entries` trials at a rung may go on, at least 1."""
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

    def rank(self, entry_score: float, trial_no: int) -> int:
        """Return the number of better entries; 0 means best."""
        return bisect.bisect_left(self._keys, (entry_score, trial_no))

    def cutoff_score(self, kept: int) -> float | None:
        """Return the score of the last of the best `kept`; None where that is none or not
        finite."""
        if not 1 <= kept <= len(self._keys) or not math.isfinite(self._keys[kept - 1][0]):
            return None
        return self._keys[kept - 1][0]

    def next_cutoff_score(self, divisor: int) -> float | None:
        """Return the score the next arrival must reach to go on; None while any finite one would
        do."""
        needed = quota(len(self._keys) + 1, divisor)
        if len(self._keys) < needed:
            return None
        worst_kept = self._keys[needed - 1][0]
        return worst_kept if math.isfinite(worst_kept) else None
