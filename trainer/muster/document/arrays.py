"""Elements of a job array, in the notation of Slurm: `0-9`, `0-9:2`, `1,3,7`."""

from __future__ import annotations

import re
from collections.abc import Iterator

ARRAY_ELEMENTS_MAX = 10_000
"""Trials that an array may have."""
ELEMENT_MAX = 2**31 - 1
_PART = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?")
_HINT = "write 0-9, 0-9:2 or a list such as [1, 3, 7]"


class InvalidArray(ValueError):
    """The text names no elements. `problem` is a clause about it, `hint` what would work."""

    def __init__(self, problem: str, hint: str = _HINT) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def elements_of(text: str) -> tuple[str, int | None]:
    """Return the elements of a text such as `0-9%2`, and how many of them may run at once; None if
    it does not say. Raises InvalidArray."""
    elements, percent, most = text.partition("%")
    if percent and not (most.isdecimal() and int(most) > 0):
        raise InvalidArray("has no number after %", "0-9%2 runs two elements at a time")
    return elements, int(most) if percent else None


def ranges_of(text: str) -> tuple[range, ...]:
    """Return the ranges that a text names, in its order. Raises InvalidArray."""
    ranges = tuple(_ranges(text))
    count = sum(len(part) for part in ranges)
    if count > ARRAY_ELEMENTS_MAX:
        raise InvalidArray(
            f"names {count} elements, and an array has at most {ARRAY_ELEMENTS_MAX}",
            "let one element do the work of several, or submit several experiments",
        )
    if len({element for part in ranges for element in part}) != count:
        raise InvalidArray("names an element twice", "leave one of them out")
    return ranges


def _ranges(text: str) -> Iterator[range]:
    if not text.strip():
        raise InvalidArray("names no element")
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise InvalidArray("is neither a range nor a list of whole numbers from 0")
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        step = 1 if found[3] is None else int(found[3])
        if max(first, last, step) > ELEMENT_MAX:
            raise InvalidArray(f"has a number greater than {ELEMENT_MAX}", "use smaller numbers")
        if last < first:
            raise InvalidArray(f"names no element: {last} is less than {first}", "write 0-9")
        if step < 1:
            raise InvalidArray("has a step of 0", "write 0-9:2")
        yield range(first, last + 1, step)
