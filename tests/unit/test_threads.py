"""A task that is stopped leaves no thread at work behind."""

from __future__ import annotations

import asyncio
import threading

from muster_server.threads import run_to_its_end


def test_a_cancelled_task_ends_when_its_thread_has() -> None:
    begun, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        has_ended.set()

    async def stop_it() -> None:
        task = asyncio.create_task(run_to_its_end(work))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert has_ended.is_set()

    asyncio.run(stop_it())


def test_answers_and_errors_come_through() -> None:
    async def both() -> tuple[int, BaseException]:
        found = await run_to_its_end(max, 1, 2)
        (error,) = await asyncio.gather(run_to_its_end(int, "x"), return_exceptions=True)
        assert isinstance(error, BaseException)
        return found, error

    found, error = asyncio.run(both())
    assert (found, type(error)) == (2, ValueError)
