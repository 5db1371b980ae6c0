"""Work beside requests: in tasks of the event loop, and in threads."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool

P = ParamSpec("P")
T = TypeVar("T")


async def run_to_its_end(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread; a task that is cancelled meanwhile ends when the function has.

    Tasks that are stopped before the database is closed need it: `run_in_threadpool` alone leaves a thread behind
    whose connection nobody closes then.
    """
    running = asyncio.ensure_future(run_in_threadpool(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class Background(ABC):
    """A task that runs in the event loop from `start` to `stop`."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @abstractmethod
    async def _run(self) -> None:
        """Do the work until the task is cancelled."""
