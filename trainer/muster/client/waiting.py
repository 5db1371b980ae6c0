"""Waits and streams, written once for threads and for event loops.

A wait is a generator that yields how long to sleep before it looks again; what it returns is what was
waited for. A stream yields lists of items as well. A thread sleeps in between; `AsyncClient` lets its
event loop do so.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Looks = Generator[float, None, T]
"""Yields seconds to sleep; returns the result."""
ITEMS_AT_ONCE = 2000
"""Items of a stream that cross from a thread to an event loop together, at most."""


def waiting(looks: Callable[P, Looks[T]]) -> Callable[P, T]:
    """Decorate a generator function so that calling it blocks until its result is there.

    The generator function itself is the attribute `looks` of the result.
    """

    @functools.wraps(looks)
    def wait(*args: P.args, **kwargs: P.kwargs) -> T:
        steps = looks(*args, **kwargs)
        while True:
            try:
                pause_s = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            time.sleep(pause_s)

    wait.looks = looks  # type: ignore[attr-defined]
    return wait


def streaming(batches: Callable[P, Iterator[list[T] | float]]) -> Callable[P, Iterator[T]]:
    """Decorate a generator function of lists and pauses so that calling it yields single items.

    The generator function itself is the attribute `batches` of the result.
    """

    @functools.wraps(batches)
    def stream(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        for batch in batches(*args, **kwargs):
            if isinstance(batch, list):
                yield from batch
            else:
                time.sleep(batch)

    stream.batches = batches  # type: ignore[attr-defined]
    return stream
