"""Continuous batching: what waits while the model computes goes through it together the next time.
There is no timer, so a lone request waits for nobody. Needs no torch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class QueueFull(Exception):
    """The queue holds as many requests as it may."""


@dataclass(frozen=True)
class _QueuedItem(Generic[ItemT, ResultT]):
    item: ItemT
    num_rows: int
    answer: asyncio.Future[ResultT]


class RequestBatcher(Generic[ItemT, ResultT]):
    """Puts items through `compute` in batches, one batch at a time, on a thread of its own."""

    def __init__(
        self,
        compute: Callable[[Sequence[ItemT]], Sequence[ResultT]],
        *,
        max_rows: int,
        max_queue: int,
    ) -> None:
        """Create the batcher.

        compute: takes items and returns a result for each, in their order.
        max_rows: rows of one batch; an item of more is a batch of its own.
        max_queue: items that may wait.
        """
        self._compute = compute
        self._max_rows = max_rows
        self._max_queue = max_queue
        self._queue: deque[_QueuedItem[ItemT, ResultT]] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def submit(self, item: ItemT, num_rows: int) -> ResultT:
        """Return the result of an item. Raises QueueFull, and what `compute` raises."""
        if len(self._queue) >= self._max_queue:
            raise QueueFull
        answer: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._queue.append(_QueuedItem(item, num_rows, answer))
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._take()
            if not batch:
                self._arrived.clear()
                continue
            items = [waiting.item for waiting in batch]
            try:
                results = await loop.run_in_executor(self._thread, self._compute, items)
            except Exception as error:
                for waiting in batch:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
                continue
            for waiting, result in zip(batch, results, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(result)

    def _take(self) -> list[_QueuedItem[ItemT, ResultT]]:
        batch: list[_QueuedItem[ItemT, ResultT]] = []
        num_rows = 0
        while self._queue:
            first = self._queue[0]
            if first.answer.done():  # whoever asked has gone
                self._queue.popleft()
                continue
            if batch and num_rows + first.num_rows > self._max_rows:
                break
            batch.append(self._queue.popleft())
            num_rows += first.num_rows
        return batch
