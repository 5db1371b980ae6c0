"""Fetch batches before they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def fetch_ahead(fetch: Callable[[int], T], steps: Iterable[int], *, num: int) -> Iterator[T]:
    """`fetch(step)` of each step, in order; up to `num` of them are fetched in a thread while the
    one before is used. 0: none, each is fetched when it is asked for.

    One thread fetches all of them in turn, so `fetch` may keep what it needs for the next one. What
    it raises is raised here, at its step. Nothing is fetched any more once this is closed.
    """
    if num == 0:
        yield from map(fetch, steps)
        return
    fetched: deque[Future[T]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        try:
            for step in steps:
                fetched.append(thread.submit(fetch, step))
                if len(fetched) > num:
                    yield fetched.popleft().result()
            while fetched:
                yield fetched.popleft().result()
        finally:
            for future in fetched:
                future.cancel()
