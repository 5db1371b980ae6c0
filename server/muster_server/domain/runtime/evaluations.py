"""What follows from a confusion matrix. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_CLASSES = 128
"""A larger matrix could not be read by anybody."""


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """How well one class is recognised; each of the shares is 0..1, and None without a sample to
    judge it by.

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


def problem(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> str | None:
    """Return what is wrong with a reported confusion matrix, as a sentence; None if nothing is.

    No classes and no rows are valid too: nothing was counted.
    """
    size = len(names)
    if size > MAX_CLASSES:
        return f"{size} classes are more than the {MAX_CLASSES} that are kept"
    if len(confusion) != size or any(len(row) != size for row in confusion):
        return f"it must have {size} rows and columns, one for each class"
    if any(count < 0 or count > 2**53 for row in confusion for count in row):
        return "its counts must be between 0 and 2^53"
    return None
