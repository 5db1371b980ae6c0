"""Virtual time: an event loop that never waits, and everything that would make two runs differ."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import datetime as dt
import random
import secrets
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from muster_agent import loop
from muster_agent.jobs import allocations
from muster_agent.records import spool
from muster_agent.shim import control, supervise

EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

MODULES_WITH_A_CLOCK: tuple[types.ModuleType, ...] = (allocations, loop, supervise)
"""Modules of the agent that read the time themselves."""
MODULES_WITH_STAMPS: tuple[types.ModuleType, ...] = (spool, control)
"""Those that stamp what they write."""

host: contextvars.ContextVar[HostClock | None] = contextvars.ContextVar("host", default=None)
"""The computer on which the running task runs."""


class HostClock:
    """The clocks of one simulated computer, wrong in the ways real ones are."""

    def __init__(self, true_time_s: Callable[[], float]) -> None:
        self._true_time_s = true_time_s
        self.skew_s = 0.0
        """Wall clock minus the truth."""
        self.rate = 1.0
        """Seconds of the boot clock per true second."""
        self.booted_at_s = 0.0

    def wall(self) -> dt.datetime:
        return EPOCH + dt.timedelta(seconds=self._true_time_s() + self.skew_s)

    def boot_s(self) -> float:
        return (self._true_time_s() - self.booted_at_s) * self.rate


class _Time(types.SimpleNamespace):
    """Stands in for the module `time` in modules that run on a simulated computer."""

    @staticmethod
    def monotonic() -> float:
        clock = host.get()
        assert clock is not None
        return clock.boot_s()


def _unix_ms() -> int:
    clock = host.get()
    assert clock is not None
    return int(clock.wall().timestamp() * 1000)


class _NoFiles:
    """A selector that watches nothing: to wait is to move the clock."""

    def __init__(self, owner: VirtualLoop) -> None:
        self._owner = owner

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the simulation waits for something that can never happen")
        if timeout > 0:
            self._owner.now_s += timeout
        return []


class SimulatedTask(asyncio.Task[Any]):
    """A task with the same hash in every run: sets of tasks are walked in the order of hashes."""

    num_made = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        SimulatedTask.num_made += 1
        self.number = SimulatedTask.num_made  # first: being made, it is put into a set
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock jumps to the next thing there is to do."""

    _selector: _NoFiles
    _scheduled: list[asyncio.TimerHandle]
    _ready: collections.deque[asyncio.Handle]

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._selector = _NoFiles(self)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """There are no threads here: it is done at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def forget_timers(self) -> None:
        for handle in self._scheduled:
            handle.cancel()
        self._scheduled.clear()
        self._ready.clear()

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


@contextmanager
def deterministic(seed: int, boot_clock: Callable[[], float]) -> Iterator[None]:
    """While it lasts, every id, nonce, jitter and clock follows from the seed."""
    source = random.Random(f"ids {seed}")
    SimulatedTask.num_made = 0
    before = random.getstate()
    random.seed(seed)
    ids: list[tuple[Any, str, Any]] = [
        (secrets, "token_bytes", lambda n=32: source.randbytes(n)),
        (secrets, "token_hex", lambda n=32: source.randbytes(n).hex()),
        (secrets, "token_urlsafe", lambda n=32: source.randbytes(n).hex()),
        (uuid, "uuid4", lambda: uuid.UUID(bytes=source.randbytes(16), version=4)),
        (supervise, "boot_clock", boot_clock),
        *((module, "unix_ms", _unix_ms) for module in MODULES_WITH_STAMPS),
        *((module, "time", _Time) for module in MODULES_WITH_A_CLOCK),
    ]
    real = [(owner, name, getattr(owner, name)) for owner, name, _ in ids]
    for owner, name, stand_in in ids:
        setattr(owner, name, stand_in)
    try:
        yield
    finally:
        for owner, name, value in real:
            setattr(owner, name, value)
        random.setstate(before)
