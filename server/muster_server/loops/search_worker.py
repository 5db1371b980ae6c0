"""A process in which searches with a costly model take their turns, beside the loops."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.process import BaseProcess

import structlog

from muster_server.domain.search import SearchTurn, TurnTaken, take_turn
from muster_server.services.search.decide import OfferedTurn

log = structlog.get_logger(__name__)

LIMIT_S = 60.0
"""Longest time in seconds that a turn may take. It has a point for each trial that it creates, which
takes tenths of a second, and the first one imports torch, which takes some seconds."""
TRIES_MAX = 2
"""How often a turn is begun in a process that ends before it."""


class SearchWorker:
    """Works out one turn at a time, in the order in which they were asked for.

    The process is started when it is first needed, and ends with this one. A turn that takes too
    long, that its process does not survive or that its model cannot compute is taken without the
    model. Not thread-safe.
    """

    def __init__(
        self,
        on_done: Callable[[], None],
        *,
        take: Callable[[SearchTurn], TurnTaken] = take_turn,
        limit_s: float = LIMIT_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the worker; `on_done` is called by a thread of its own whenever a turn has ended."""
        self._on_done = on_done
        self._take = take
        self._limit_s = limit_s
        self._monotonic = monotonic
        self._waiting: dict[int, OfferedTurn] = {}
        """Experiment → its turn, in order; the first is under way."""
        self._future: Future[TurnTaken] | None = None
        self._began_at = 0.0
        self._num_tries = 0
        self._executor: ProcessPoolExecutor | None = None
        self.processes: set[BaseProcess] = set()
        """The process, when it has begun."""

    def has(self, experiment_id: int) -> bool:
        """Return whether a turn of that search waits or is under way."""
        return experiment_id in self._waiting

    def ask(self, offered: OfferedTurn) -> None:
        """Have a turn taken, after those that wait already."""
        self._waiting[offered.experiment_id] = offered
        self._begin()

    def collect(self) -> tuple[OfferedTurn, TurnTaken] | None:
        """Return a turn that has ended, and begin the next one; None while none has.

        Raises ValueError and KeyError for a turn that cannot be read.
        """
        future = self._future
        if future is None:
            return None
        if not future.done():
            if self._monotonic() - self._began_at < self._limit_s:
                return None
            why = f"the model took longer than {self._limit_s:g} s"
            self.close()
        else:
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                self.close()
                if self._num_tries < TRIES_MAX:
                    self._begin()
                    return None
                why = f"the process of the model ended {TRIES_MAX} times"
            elif error is not None:
                why = f"the model failed with {type(error).__name__}: {error}"[:300]
            else:
                return self._end(), future.result()
        offered = self._end()
        log.warning("search_without_model", experiment_id=offered.experiment_id, why=why)
        return offered, take_turn(offered.turn, without_model=why)

    def close(self) -> None:
        """End the process, whatever it does."""
        for process in self.processes:
            with suppress(ValueError):  # it has ended, and its object is closed
                process.kill()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor, self._future, self.processes = None, None, set()

    def _end(self) -> OfferedTurn:
        """Forget the turn under way, and begin the next one."""
        offered = self._waiting.pop(next(iter(self._waiting)))
        self._future, self._num_tries = None, 0
        self._begin()
        return offered

    def _begin(self) -> None:
        if self._future is not None or not self._waiting:
            return
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                1, multiprocessing.get_context("spawn"), initializer=_end_with_parent
            )
        others = set(multiprocessing.active_children())
        offered = next(iter(self._waiting.values()))
        self._num_tries += 1
        self._began_at = self._monotonic()
        self._future = self._executor.submit(self._take, offered.turn)
        self.processes |= set(multiprocessing.active_children()) - others
        self._future.add_done_callback(lambda _: self._on_done())


def _end_with_parent() -> None:
    """Called once in the process: end when the controller does, however that ends."""
    with suppress(OSError):
        os.nice(5)  # the loops come first
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()
