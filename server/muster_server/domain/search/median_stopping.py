"""The median stopping rule (Golovin et al. 2017, Google Vizier, section 3.2.2)."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass


@dataclass
class ValueCurve:
    """What one trial has reported so far, as scores (lower is better)."""

    num: int = 0
    sum: float = 0.0
    best: float = math.inf

    def add(self, score: float) -> None:
        self.num += 1
        self.sum += score
        self.best = min(self.best, score)

    @property
    def mean(self) -> float:
        """Running mean; infinite once a value was not finite."""
        return self.sum / self.num if self.num else math.inf


class Medians:
    """Per mark, the running means of the trials that have reached it."""

    def __init__(self, num_marks: int) -> None:
        self.means: list[list[float]] = [[] for _ in range(num_marks)]

    def median(self, mark: int) -> float | None:
        """Return the median of the means at a mark; None if there are none."""
        means = self.means[mark]
        if not means:
            return None
        half = len(means) // 2
        if len(means) % 2:
            return means[half]
        return (means[half - 1] + means[half]) / 2

    def add(self, mark: int, mean: float) -> None:
        bisect.insort(self.means[mark], mean)
