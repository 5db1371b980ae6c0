"""How much was logged when: buckets of time for a histogram of lines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise

WIDTHS_S = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600,
    43_200, 86_400,
)  # fmt: skip
"""Widths that people can read; above a day, whole days."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def bucket_edges(first: dt.datetime, last: dt.datetime, max_buckets: int) -> list[dt.datetime]:
    """Borders of equal buckets that hold every moment from `first` to `last`, both included.

    The narrowest of WIDTHS_S of which at most `max_buckets` are enough, with borders at multiples of it since
    1970, so that later lines only add buckets until the width changes. At least one bucket. Raises
    ValueError for fewer than 2 buckets, and for `last` before `first`.
    """
    if max_buckets < 2:
        raise ValueError(f"max_buckets must be at least 2, not {max_buckets}")
    if last < first:
        raise ValueError(f"last ({last}) is before first ({first})")
    days = 0
    for width_s in WIDTHS_S:
        edges = _edges(first, last, dt.timedelta(seconds=width_s), max_buckets)
        if edges:
            return edges
    while True:
        days += max(1, days)
        edges = _edges(first, last, dt.timedelta(days=days), max_buckets)
        if edges:
            return edges


def _edges(
    first: dt.datetime, last: dt.datetime, width: dt.timedelta, max_buckets: int
) -> list[dt.datetime]:
    """Empty when it takes more buckets."""
    start = (first - _EPOCH) // width
    num = (last - _EPOCH) // width - start + 1
    if num > max_buckets:
        return []
    return [_EPOCH + (start + no) * width for no in range(num + 1)]


def differences(counts: Sequence[int]) -> list[int]:
    """Return the differences between consecutive running counts, one fewer than there are
    counts."""
    return [after - before for before, after in pairwise(counts)]
