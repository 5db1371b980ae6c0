"""Windows of the profiler on this node: workers receive the order, and their traces are recorded.

The worker writes its trace into a folder of the allocation and says so; from there it goes to the
server as records, in pieces, in order with all else. A rank that cannot have a trace is answered with why.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from muster import wire
from muster.measure import profiling
from muster_agent.isolation.untrusted import opened
from muster_agent.shim.processes.workers import Worker

MAX_TRACE_BYTES = 8 * 1024 * 1024
"""Largest trace of one rank in bytes, compressed: some 100,000 events."""
PIECE_BYTES = 512 * 1024
PATIENCE_S = profiling.WINDOW_TIMEOUT_S + 60.0
"""Seconds after which a silent worker is given up: its reporting thread does not run."""


class Profiling:
    """Profiler windows of one allocation. Lives in the shim's loop."""

    def __init__(
        self,
        *,
        folder: Path,
        alive: Callable[[], Iterable[Worker]],
        reporting: Callable[[], Iterable[int]],
        push: Callable[[wire.ProfileOrder], None],
        record: Callable[[wire.ProfileRecord], object],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Create the set.

        folder: where workers write their traces.
        reporting: returns the ranks of the connected workers."""
        self._folder = folder
        self._alive = alive
        self._reporting = reporting
        self._push = push
        self._record = record
        self._patience_s = patience_s
        self._no = 0
        self._waiting: dict[int, int] = {}
        """Local rank of each rank that has not answered."""
        self._deadline = 0.0

    def look(self, order: wire.ProfileOrder | None) -> None:
        """Compare with the latest `order` and act. Called often."""
        if order is not None and order.no > self._no:
            self._begin(order)
        if self._waiting and time.monotonic() > self._deadline:
            for rank in list(self._waiting):
                self._refuse(rank, f"the worker did not answer within {self._patience_s:g} s")

    def _begin(self, order: wire.ProfileOrder) -> None:
        for rank in list(self._waiting):
            self._refuse(rank, "another window was asked for meanwhile")
        self._no = order.no
        self._deadline = time.monotonic() + self._patience_s
        here = {w.record.rank: w.record.local_rank for w in self._alive()}
        self._waiting = {rank: here[rank] for rank in order.ranks if rank in here}
        reporting = set(self._reporting())
        for rank in list(self._waiting):
            if rank not in reporting:
                self._refuse(rank, "the script has not called muster.init()")
        if self._waiting:
            self._push(order)

    def take(self, rank: int, said: wire.WorkerProfile) -> None:
        """Take a worker's answer to an order. Answers that nobody waits for are ignored."""
        if said.no != self._no or rank not in self._waiting:
            return
        if said.problem:
            self._refuse(rank, said.problem[:500])
            return
        path = profiling.file_of(self._folder, said.no, rank)
        try:
            size = path.stat().st_size
            if size > MAX_TRACE_BYTES:
                self._refuse(
                    rank,
                    f"the trace has {size / 2**20:.1f} MiB, and at most "
                    f"{MAX_TRACE_BYTES >> 20} MiB are kept: ask for fewer steps",
                )
                return
            with opened(path, base=self._folder.parent) as file:
                trace = file.read(MAX_TRACE_BYTES)
        except OSError as error:
            self._refuse(rank, f"the trace cannot be read: {error.strerror}")
            return
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        local_rank = self._waiting.pop(rank)
        for index, start in enumerate(range(0, len(trace), PIECE_BYTES)):
            self._record(
                wire.ProfileRecord(
                    no=said.no,
                    local_rank=local_rank,
                    rank=rank,
                    first_step=said.first_step,
                    last_step=said.last_step,
                    size_bytes=len(trace),
                    index=index,
                    data=base64.b64encode(trace[start : start + PIECE_BYTES]).decode(),
                )
            )

    def _refuse(self, rank: int, why: str) -> None:
        local_rank = self._waiting.pop(rank)
        self._record(wire.ProfileRecord(no=self._no, local_rank=local_rank, rank=rank, problem=why))
