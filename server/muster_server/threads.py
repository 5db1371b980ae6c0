"""Work of the event loop in threads."""

from __future__ import annotations

import asyncio
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
