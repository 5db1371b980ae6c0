"""What follows from counts of right and wrong predictions. Pure, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

METRICS_VERSION = 1
"""Raised whenever a metric is computed differently: results of two versions are not compared."""
ECE_BINS = 15
_Z_95 = 1.959963984540054


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """Scores of one class. Shares are 0 to 1, and None (null in JSON) without a sample to judge by.

    With the samples of the class that were recognised (tp), those of others taken for it (fp) and
    those of it taken for others (fn): precision tp / (tp + fp), recall tp / (tp + fn), f1 their
    harmonic mean, 2 tp / (2 tp + fp + fn).
    """

    name: str
    num_samples: int
    """Number of samples of this class."""
    num_predicted: int
    """Number of samples predicted as this class."""
    precision: float | None
    recall: float | None
    f1: float | None


def class_scores(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> list[ClassScore]:
    """Scores of each class, in order.

    confusion: [true class][predicted class] → number of samples, square, as large as `names`.
    """
    scores = []
    for i, name in enumerate(names):
        right, num_samples = confusion[i][i], sum(confusion[i])
        num_predicted = sum(row[i] for row in confusion)
        scores.append(
            ClassScore(
                name=name,
                num_samples=num_samples,
                num_predicted=num_predicted,
                precision=right / num_predicted if num_predicted else None,
                recall=right / num_samples if num_samples else None,
                f1=2 * right / (num_samples + num_predicted)
                if num_samples + num_predicted
                else None,
            )
        )
    return scores


def macro_f1(scores: Sequence[ClassScore]) -> float | None:
    """Return the mean F1 of the classes that occur, as samples or as predictions; None without any."""
    found = [score.f1 for score in scores if score.f1 is not None]
    return sum(found) / len(found) if found else None


def wilson_interval(num_right: int, num: int) -> tuple[float, float]:
    """Return the bounds of the 95% score interval of Wilson for the share num_right / num; num >= 1."""
    share, z = num_right / num, _Z_95
    center = (share + z * z / (2 * num)) / (1 + z * z / num)
    half = z * math.sqrt(share * (1 - share) / num + z * z / (4 * num * num)) / (1 + z * z / num)
    return max(0.0, center - half), min(1.0, center + half)


def calibration_error(
    counts: Sequence[float], right: Sequence[float], confidence: Sequence[float]
) -> float:
    """Return the expected calibration error: the mean distance between confidence and accuracy of the
    bins, weighted by their samples.

    counts, right, confidence: samples, right predictions and sum of confidences of each bin.
    """
    total = sum(counts)
    distances = (abs(r - c) for r, c in zip(right, confidence, strict=True))
    return sum(distances) / total if total else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed (nearest rank); values not empty."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
