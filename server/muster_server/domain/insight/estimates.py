"""Estimates with 95 % intervals from a few repeats.

Step times of repeats differ by a factor rather than by an amount, so they are compared as
logarithms, and how much one repeat differs from the next is taken to be the same for all kinds of
probes (pooled variance, as in the analysis of variance): three repeats of five kinds then give ten
degrees of freedom and not two. Intervals are Student's t.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5% quantiles of Student's t for 1, 2, … degrees of freedom."""
_NORMAL_975 = 1.960


@dataclass(frozen=True, kw_only=True)
class IntervalEstimate:
    """A value with its two-sided 95 % interval (Student's t)."""

    value: float
    low: float
    high: float
    num: int
    """Number of repeats behind the value."""

    def through(self, function: Callable[[float], float], *more: float) -> IntervalEstimate:
        """Return the estimate of a monotonic function; `more`: inner points at which it turns
        around."""
        ends = [function(x) for x in (self.low, self.high, *more)]
        value = function(self.value)
        return IntervalEstimate(
            value=value, low=min(*ends, value), high=max(*ends, value), num=self.num
        )


def t_975(df: int) -> float:
    """Student's t with 97.5 % below it. Beyond 30 degrees of freedom a little too wide: 30's until
    120, then the normal one, which is 1 % too narrow."""
    if df < 1:
        raise ValueError(f"{df} degrees of freedom")
    if df <= len(_T_975):
        return _T_975[df - 1]
    return _T_975[-1] if df < 120 else _NORMAL_975


def mean_of(values: Sequence[float]) -> IntervalEstimate | None:
    """Return the mean of repeats by their own variance. None of fewer than two."""
    return pooled_mean(values, ())


def pooled_mean(
    values: Sequence[float], others: Sequence[Sequence[float]]
) -> IntervalEstimate | None:
    """Return the mean of repeats, by the variance that they and those of other kinds have within
    their kind. None of fewer than two."""
    if len(values) < 2:
        return None
    groups = [g for g in (values, *others) if len(g) > 1]
    df = sum(len(g) - 1 for g in groups)
    spread = math.sqrt(sum((x - statistics.fmean(g)) ** 2 for g in groups for x in g) / df)
    mean, half = statistics.fmean(values), t_975(df) * spread / math.sqrt(len(values))
    return IntervalEstimate(value=mean, low=mean - half, high=mean + half, num=len(values))


NUM_BLOCKS = 10


def block_means(
    values: Iterable[float], weights: Iterable[float], num: int = NUM_BLOCKS
) -> list[float]:
    """Return the weighted means of at most `num` blocks of consecutive values.

    Neighbouring steps are alike, and what happens in one step of ten is no chance: means of blocks
    that hold a period or more differ by chance alone, where single steps do not.
    """
    pairs = list(zip(values, weights, strict=True))
    num = min(num, len(pairs))
    edges = [len(pairs) * i // num for i in range(num + 1)] if num else []
    return [
        statistics.fmean([v for v, _ in pairs[a:b]], [w for _, w in pairs[a:b]])
        for a, b in itertools.pairwise(edges)
    ]


class StepTimes:
    """Step times of the repeats of several probes, > 0, in any unit."""

    def __init__(self, times: Mapping[str, Sequence[float]]) -> None:
        self._logs = {name: [math.log(t) for t in values] for name, values in times.items()}
        self._df = sum(len(v) - 1 for v in self._logs.values() if v)
        squares = sum((x - statistics.fmean(v)) ** 2 for v in self._logs.values() if v for x in v)
        self.spread = math.sqrt(squares / self._df) if self._df else math.nan
        """How much a repeat differs from the mean of its probe, as a share of it; NaN without
        repeats."""

    def num(self, name: str) -> int:
        return len(self._logs.get(name, ()))

    def time(self, name: str) -> IntervalEstimate | None:
        """Return the (geometric) mean. None of a probe without two repeats."""
        if self.num(name) < 2:
            return None
        logs = self._logs[name]
        mean = statistics.fmean(logs)
        half = t_975(self._df) * self.spread / math.sqrt(len(logs))
        return IntervalEstimate(
            value=math.exp(mean),
            low=math.exp(mean - half),
            high=math.exp(mean + half),
            num=len(logs),
        )

    def ratio(self, name: str, to: str) -> IntervalEstimate | None:
        """Return the time of one probe over that of another. None without two repeats of both."""
        num = min(self.num(name), self.num(to))
        if num < 2:
            return None
        mean = statistics.fmean(self._logs[name]) - statistics.fmean(self._logs[to])
        wide = math.sqrt(1 / self.num(name) + 1 / self.num(to))
        half = t_975(self._df) * self.spread * wide
        return IntervalEstimate(
            value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), num=num
        )
