"""The record of collectives that the measured process group writes and the step timer reads.

No torch here: the arithmetic is tested without it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from muster.intervals import Interval, intersect, length, merge

now_ns = time.perf_counter_ns
cpu_ns = time.thread_time_ns
"""CPU time of the calling thread."""


class Collective:
    """One collective as this rank saw it. Times are perf_counter nanoseconds, 0 = not yet."""

    __slots__ = ("done", "group", "is_future", "kind", "launched", "num_bytes", "waits")

    def __init__(self, kind: str, num_bytes: int, group: str, launched: int) -> None:
        self.kind = kind
        self.num_bytes = num_bytes
        """Payload: the whole tensor reduced or sent; for gathers the output, for scatters the
        input."""
        self.group = group
        self.launched = launched
        self.done = 0
        self.is_future = False
        """Waited for inside C++ through its future (DDP's reducer), where we cannot look."""
        self.waits: list[tuple[int, int, int]] = []
        """(thread, from, to) of every wait for it."""

    @property
    def end(self) -> int:
        """When it was over. Some collectives have no completion callback; then it is over when
        the first wait for it returned. 0 while it runs."""
        first_wait = self.waits[0][2] if self.waits else 0
        if self.done and first_wait:
            return min(self.done, first_wait)
        return self.done or first_wait


class CollectiveLog:
    """Collects collectives between steps. Written by the training thread, autograd's and gloo's."""

    def __init__(self) -> None:
        self.enabled = False
        """Off: nothing is recorded and a collective costs one attribute test."""
        self.overhead_ns = 0
        """Time spent recording since the last `take`."""
        self._records: list[Collective] = []

    def add(self, record: Collective) -> None:
        self._records.append(record)  # one bytecode: safe between threads under the GIL

    def take(self) -> tuple[list[Collective], int]:
        """Everything recorded since the last call, and what recording it cost in ns."""
        records, self._records = self._records, []
        overhead_ns, self.overhead_ns = self.overhead_ns, 0
        return records, overhead_ns


log = CollectiveLog()
"""The process's one log."""


class Segment(NamedTuple):
    """A stretch of the training thread's time in one phase."""

    phase: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class CommUse:
    """What communication did in one step. All times in ns."""

    total: int
    """Union of the intervals in which at least one collective was in flight."""
    exposed: int
    """Part of `total` in which the training thread was blocked on it."""
    exposed_by_phase: dict[str, int]
    num_bytes: int
    count: int

    @property
    def overlapped(self) -> int:
        return self.total - self.exposed


def comm_use(
    records: list[Collective], segments: list[Segment], *, thread: int | None = None
) -> CommUse:
    """Split one step's communication into exposed and overlapped.

    records: collectives of this step; those still running count up to the step's end.
    segments: the step's phases in order. Time between them (a pause) is not counted.
    thread: identity of the training thread; default is the caller.

    Blocked are: every wait of the training thread, and, for collectives that DDP's reducer waits
    for by itself, the time from the last such launch in a backward to that backward's end. Both
    count only while a collective is really in flight, so exposed never exceeds total.
    """
    me = threading.get_ident() if thread is None else thread
    if not segments or not records:
        return CommUse(total=0, exposed=0, exposed_by_phase={}, num_bytes=0, count=0)
    step_start, step_end = segments[0].start, segments[-1].end

    def in_step(record: Collective) -> Interval:
        end = record.end or step_end
        return max(record.launched, step_start), min(end, step_end)

    counted = merge((s.start, s.end) for s in segments)
    in_flight = intersect(merge(in_step(r) for r in records), counted)
    blocked: list[Interval] = [
        (start, end) for r in records for thread_id, start, end in r.waits if thread_id == me
    ]
    by_future = [r for r in records if r.is_future]
    for segment in segments if by_future else ():
        if segment.phase != "backward":
            continue
        launched = [r.launched for r in by_future if segment.start <= r.launched < segment.end]
        if launched:
            blocked.append((max(launched), segment.end))
    exposed = intersect(merge(blocked), in_flight)
    exposed_by_phase: dict[str, int] = {}
    for segment in segments:
        part = length(intersect(exposed, [(segment.start, segment.end)]))
        if part:
            exposed_by_phase[segment.phase] = exposed_by_phase.get(segment.phase, 0) + part
    return CommUse(
        total=length(in_flight),
        exposed=sum(exposed_by_phase.values()),
        exposed_by_phase=exposed_by_phase,
        num_bytes=sum(r.num_bytes for r in records if r.launched >= step_start),
        count=sum(r.launched >= step_start for r in records),
    )
