"""Lists that stay sorted while a little of them changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

BULK = 500
"""Number of changes from which a list is rebuilt instead of changed one by one."""


def insert(where: list[Any], items: Sequence[Any]) -> None:
    if len(items) >= BULK or not where:
        where.extend(items)
        where.sort()
    else:
        for item in items:
            insort(where, item)


def delete(where: list[Any], items: Sequence[Any]) -> None:
    """Each item must be there once, and none may equal another."""
    if len(items) >= BULK:
        gone = set(items)
        where[:] = [item for item in where if item not in gone]
    else:
        for item in items:
            del where[bisect_left(where, item)]
