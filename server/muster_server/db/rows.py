"""Rows as the domain sees them."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def from_row(view: type[T], row: object, **given: Any) -> T:
    """Build a dataclass or a struct from the attributes of `row` that bear the names of its fields.

    given: fields that `row` does not have, or that are something else here. Every other field is read,
    also one with a default. Raises AttributeError for one that `row` does not have.
    """
    names = getattr(view, "__dataclass_fields__", ()) or getattr(view, "__struct_fields__", ())
    return view(**given, **{name: getattr(row, name) for name in names if name not in given})
