"""Which trials of a search with several objectives no other trial beats."""

from __future__ import annotations

import math
from collections.abc import Sequence


def front(rows: Sequence[Sequence[float | None]], goals: Sequence[str]) -> list[int]:
    """Indices of the rows that are not dominated, ascending.

    rows: one value per objective; a row with one that is missing or not finite takes no part.
    goals: "min" or "max" per objective. A row is dominated by one that is at least as good in every
    objective and better in one, so equal rows are on the front together.
    """
    scores: list[tuple[tuple[float, ...], int]] = []
    for index, row in enumerate(rows):
        finite = [v for v in row if v is not None and math.isfinite(v)]
        if len(finite) == len(goals):
            pairs = zip(finite, goals, strict=True)
            scores.append((tuple(-v if goal == "max" else v for v, goal in pairs), index))
    # In this order, no point is dominated by a later one.
    scores.sort()
    kept: list[tuple[tuple[float, ...], int]] = []
    for mine, index in scores:
        # Of two objectives the second falls along the front: its last row is the one to beat.
        rivals = kept[-1:] if len(goals) == 2 else kept
        if not any(_dominates(other, mine) for other, _ in rivals):
            kept.append((mine, index))
    return sorted(index for _, index in kept)


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))
