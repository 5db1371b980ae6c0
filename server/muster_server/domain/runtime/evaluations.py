"""Whether a reported confusion matrix can be kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MAX_CLASSES = 128
"""A larger matrix could not be read by anybody."""


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
