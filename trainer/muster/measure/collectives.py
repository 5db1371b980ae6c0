"""The record of collectives that the measured process group writes and the step timer reads."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple

now_ns = time.perf_counter_ns
cpu_ns = time.thread_time_ns
"""Return the CPU time of the calling thread in ns."""

MAX_RECORDS = 20_000
"""Number of collectives kept per step: about 5 MB. A step with more is reported without its parts.
"""
TIMED_EVERY = 16
"""Interval, in collectives, at which the cost of recording one is timed: reading the thread's CPU
clock is a system call, and four of them took longer than all the rest of the recording."""
_TIMED_KEPT = 64
"""Number of timed collectives after which the older half no longer counts."""
MAX_TRANSFER_SIZES = 256
"""Number of point-to-point message sizes per process whose fastest transfer is remembered."""

POINT_TO_POINT = frozenset({"send", "recv", "coalesced", "ps_push", "ps_pull"})
"""Kinds of messages between two ranks. All other kinds involve every member of the group."""


Message = Literal["send_forward", "send_backward", "recv_forward", "recv_backward"]
MessageLabel = tuple[Message, int, int]
"""A message between two stages of a pipeline: its kind, this worker's stage, and the micro-batch,
from 0."""


class Collective:
    """One collective as this rank saw it. Times are perf_counter nanoseconds, 0 = not yet."""

    __slots__ = (
        "blocked", "done", "group", "is_future", "is_pipeline", "kind", "label", "launched", "num_bytes",
        "waits",
    )  # fmt: skip

    def __init__(
        self, kind: str, num_bytes: int, group: str, launched: int, *, is_pipeline: bool = False
    ) -> None:
        self.kind = kind
        self.num_bytes = num_bytes
        """Bytes of the payload: the whole tensor reduced or sent; for gathers the output, for scatters the
        input."""
        self.group = group
        self.launched = launched
        self.done = 0
        self.is_future = False
        """Whether C++ waits for it through its future (DDP's reducer), where Python cannot observe
        it."""
        self.is_pipeline = is_pipeline
        """Whether it is sent or received between stages of a pipeline: waiting for it is the
        bubble."""
        self.label: MessageLabel | None = None
        """Label of a message in a step whose schedule is recorded."""
        self.waits: list[tuple[int, int, int]] = []
        """Waits for it, each as (thread, from, to)."""
        self.blocked: tuple[int, int, int] | None = None
        """Call that launched it, as (thread, from, to). gloo's took from a tenth (all_reduce) to a third
        (barrier) of the time of a small collective: its thread does nothing else meanwhile."""

    @property
    def end(self) -> int:
        """Return when it was over. If nobody saw the end before the first wait, that is when the
        wait returned. 0 while it runs."""
        first_wait = self.waits[0][2] if self.waits else 0
        if self.done and first_wait:
            return min(self.done, first_wait)
        return self.done or first_wait


class CollectiveLog:
    """Collects collectives between steps. Written by the training thread, autograd's and gloo's."""

    def __init__(self) -> None:
        self.enabled = False
        """Whether collectives are recorded; if not, a collective costs one attribute test."""
        self.in_pipeline = False
        """Whether point-to-point messages are currently those between stages."""
        self.point_to_point_name = ""
        """Kind under which sends and receives are currently recorded; empty for send and recv."""
        self.labels: dict[int, MessageLabel] | None = None
        """Labels of tensors about to be sent or received, by address; None if this step's schedule
        is not recorded."""
        self.num_lost = 0
        """Number of collectives that did not fit, as of the last `take`."""
        self._num_not_kept = 0
        self._records: list[Collective] = []
        self._num_new = 0
        self._num_taken = 0
        self._cost_ns = self._num_timed = 0

    @property
    def is_timing(self) -> bool:
        """Return whether the cost of recording the next collective should be measured."""
        return self._num_new % TIMED_EVERY == 0

    def add_cost(self, ns: int, *, num: int = 1) -> None:
        """Add the cost of recording a collective; `num` is 0 for an addition to one already
        counted."""
        if self._num_timed >= _TIMED_KEPT:
            self._cost_ns //= 2
            self._num_timed //= 2
        self._cost_ns += ns
        self._num_timed += num

    def new(self, kind: str, num_bytes: int, group: str) -> Collective:
        """Return a record that begins now; it is kept unless there are too many."""
        is_pipeline = False
        if kind in POINT_TO_POINT:
            is_pipeline = self.in_pipeline
            kind = self.point_to_point_name or kind
        self._num_new += 1
        record = Collective(kind, num_bytes, group, now_ns(), is_pipeline=is_pipeline)
        if len(self._records) < MAX_RECORDS:
            self._records.append(record)  # one bytecode: safe between threads under the GIL
        else:
            self._num_not_kept += 1
        return record

    def take(self) -> tuple[list[Collective], int]:
        """Return everything recorded since the last call, and the cost of recording it in ns: their
        number times the mean of those that were timed."""
        records, self._records = self._records, []
        num, self._num_taken = self._num_new - self._num_taken, self._num_new
        overhead_ns = num * self._cost_ns // max(self._num_timed, 1)
        self.num_lost, self._num_not_kept = self._num_not_kept, 0
        return records, overhead_ns


log = CollectiveLog()
"""The process's one log of collectives."""


class FastestTransfers:
    """The shortest time that a message of each size has taken: the transfer alone, without waiting for anybody.

    gloo begins to move a message when both ends have asked for it, so the end that asks last sees the
    transfer alone.

    Sent and received count alike: a stage before a slow one finds all it receives late, but what it
    sends is awaited.
    """

    def __init__(self) -> None:
        self._shortest: dict[tuple[str, int], int] = {}

    def learn(self, record: Collective) -> int:
        """Return the shortest time in ns so far of messages as large as this finished one."""
        took = record.end - record.launched
        key = (record.group, record.num_bytes)
        shortest = min(took, self._shortest.get(key, took))
        if key in self._shortest or len(self._shortest) < MAX_TRANSFER_SIZES:
            self._shortest[key] = shortest
        return shortest


class Segment(NamedTuple):
    """A stretch of the training thread's time in one phase."""

    phase: str
    start: int
    end: int
