"""The record of collectives that the measured process group writes and the step timer reads."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple

now_ns = time.perf_counter_ns
cpu_ns = time.thread_time_ns
"""CPU time of the calling thread."""

MAX_RECORDS = 20_000
"""Collectives kept of one step: about 5 MB. A step with more is reported without its parts."""
TIMED_EVERY = 16
"""One collective in so many is timed for what recording it costs: reading the thread's processor
clock is a call of the kernel, and four of them took longer than all the rest of the recording."""
_TIMED_KEPT = 64
"""Timed ones after which the older half counts no more."""
MAX_TRANSFER_SIZES = 256
"""Sizes of point-to-point messages whose fastest transfer is remembered, per process."""

POINT_TO_POINT = frozenset({"send", "recv", "ps_push", "ps_pull"})
"""Kinds between two ranks. All the others take every member of the group."""


Message = Literal["send_forward", "send_backward", "recv_forward", "recv_backward"]
MessageLabel = tuple[Message, int, int]
"""Between two stages of a pipeline: what, this worker's stage, micro-batch from 0."""


class Collective:
    """One collective as this rank saw it. Times are perf_counter nanoseconds, 0 = not yet."""

    __slots__ = (
        "done", "group", "is_future", "is_pipeline", "kind", "label", "launched", "num_bytes", "waits",
    )  # fmt: skip

    def __init__(
        self, kind: str, num_bytes: int, group: str, launched: int, *, is_pipeline: bool = False
    ) -> None:
        self.kind = kind
        self.num_bytes = num_bytes
        """Payload: the whole tensor reduced or sent; for gathers the output, for scatters the
        input."""
        self.group = group
        self.launched = launched
        self.done = 0
        self.is_future = False
        """Waited for inside C++ through its future (DDP's reducer), where we cannot look."""
        self.is_pipeline = is_pipeline
        """Sent or received between the stages of a pipeline: waiting for it is the bubble."""
        self.label: MessageLabel | None = None
        """Of a message of a step whose schedule is noted."""
        self.waits: list[tuple[int, int, int]] = []
        """(thread, from, to) of every wait for it."""

    @property
    def end(self) -> int:
        """When it was over. Of those that nobody has seen over before the first wait for them, that
        is when that wait returned. 0 while it runs."""
        first_wait = self.waits[0][2] if self.waits else 0
        if self.done and first_wait:
            return min(self.done, first_wait)
        return self.done or first_wait


class CollectiveLog:
    """Collects collectives between steps. Written by the training thread, autograd's and gloo's."""

    def __init__(self) -> None:
        self.enabled = False
        """Off: nothing is recorded and a collective costs one attribute test."""
        self.in_pipeline = False
        """Whether point-to-point messages are now those between stages."""
        self.point_to_point_name = ""
        """What sends and receives are now called; empty: send and recv."""
        self.labels: dict[int, MessageLabel] | None = None
        """Address of a tensor about to be sent or received → what it is; None: this step's schedule
        is not noted."""
        self.num_lost = 0
        """Collectives that did not fit, of those that the last `take` was about."""
        self._num_not_kept = 0
        self._records: list[Collective] = []
        self._num_new = 0
        self._num_taken = 0
        self._cost_ns = self._num_timed = 0

    @property
    def is_timing(self) -> bool:
        """Whether what recording the next collective costs is to be told."""
        return self._num_new % TIMED_EVERY == 0

    def add_cost(self, ns: int, *, num: int = 1) -> None:
        """What recording a collective has cost. num: 0 for more of one that was told already."""
        if self._num_timed >= _TIMED_KEPT:
            self._cost_ns //= 2
            self._num_timed //= 2
        self._cost_ns += ns
        self._num_timed += num

    def new(self, kind: str, num_bytes: int, group: str) -> Collective:
        """A record that begins now, and is kept unless there are too many."""
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
        """Everything recorded since the last call, and what recording it cost in ns: their number
        times the mean of those that were timed."""
        records, self._records = self._records, []
        num, self._num_taken = self._num_new - self._num_taken, self._num_new
        overhead_ns = num * self._cost_ns // max(self._num_timed, 1)
        self.num_lost, self._num_not_kept = self._num_not_kept, 0
        return records, overhead_ns


log = CollectiveLog()
"""The process's one log."""


class FastestTransfers:
    """The shortest time that a message of a size has taken: what moving it takes when nobody has
    to be waited for. gloo begins to move a message when both ends have asked for it, so the one
    that asks last sees the transfer alone.

    Sent and received count alike: a stage before a slow one finds all it receives late, but what it
    sends is awaited.
    """

    def __init__(self) -> None:
        self._shortest: dict[tuple[str, int], int] = {}

    def learn(self, record: Collective) -> int:
        """The shortest so far of messages as large as this finished one, in ns."""
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
