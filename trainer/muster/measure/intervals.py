"""Arithmetic on half-open time intervals. Pure; units are the caller's (nanoseconds here)."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]
"""(start, end); empty when end <= start."""


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same points in time as disjoint intervals in order. Empty ones are dropped."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def intersect(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """Return the points in both. `a` and `b` must be as `merge` returns them; so is the result."""
    both: list[Interval] = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            both.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return both


def subtract(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """Return the points of `a` that are not in `b`. Both must be as `merge` returns them; so is the
    result."""
    rest: list[Interval] = []
    j = 0
    for start, end in a:
        while j < len(b) and b[j][1] <= start:
            j += 1
        k = j
        while k < len(b) and b[k][0] < end:
            if start < b[k][0]:
                rest.append((start, b[k][0]))
            start = max(start, b[k][1])
            k += 1
        if start < end:
            rest.append((start, end))
    return rest


def length(merged: list[Interval]) -> int:
    """Return the total duration of intervals as `merge` returns them."""
    return sum(end - start for start, end in merged)
