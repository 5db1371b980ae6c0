"""Rows as the domain sees them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any, TypeVar, cast

T = TypeVar("T")


def from_row(view: type[T], row: object, **given: Any) -> T:
    """Build a dataclass or a struct from the attributes of `row` that bear the names of its fields.

    given: fields that `row` does not have, or that are something else here. Every other field is read,
    also one with a default. Raises AttributeError for one that `row` does not have.
    """
    names, values = _reader(cast(Hashable, view), frozenset(given))
    return view(**given, **dict(zip(names, values(row), strict=True)))


@functools.cache
def _reader(
    view: Hashable, given: frozenset[str]
) -> tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """Return the names to read, and what reads them all at once."""
    fields = getattr(view, "__dataclass_fields__", ()) or getattr(view, "__struct_fields__", ())
    names = tuple(name for name in fields if name not in given)
    if len(names) < 2:
        return names, lambda row: tuple(getattr(row, name) for name in names)
    return names, attrgetter(*names)
