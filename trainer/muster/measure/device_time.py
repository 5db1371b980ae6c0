"""Timing of a CUDA device by events on its streams. Nothing here waits for the device.

An event is a mark that the device reaches when everything before it on the stream is done; how far apart
two of them are is known once both were reached. A step is read some steps later, when its last event was.
Needs nothing but `torch.cuda.Event`, and of communication what a DDP communication hook sees: both are
documented by torch. NCCL's process groups stay as they are.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from muster.measure.collectives import Collective, Segment
from muster.measure.comm_use import CommUse, comm_use

TIMED_EVERY = 8
"""Interval in steps at which a step is timed: an event takes the host some microseconds, and a step
has a dozen."""
NO_PHASE = ""
"""Phase of time that belongs to no step."""
MAX_PENDING = 16
"""Number of timed steps that the device may lag behind; then the oldest is dropped."""


class Event(Protocol):
    """torch.cuda.Event(enable_timing=True)."""

    def record(self) -> None: ...

    def query(self) -> bool: ...

    def elapsed_time(self, end: Any, /) -> float:
        """Return the milliseconds between two events."""


class _Mark(NamedTuple):
    phase: str
    """Phase that begins here."""
    event: Event


class _Message:
    def __init__(self, kind: str, num_bytes: int, group: str, began: Event) -> None:
        self.kind, self.num_bytes, self.group = kind, num_bytes, group
        self.began = began
        """Event on the computing stream: everything that is sent was computed before it."""
        self.ended: Event | None = None


class DeviceStep(NamedTuple):
    """One step as the device did it, in ns."""

    step_ns: int
    segments: list[Segment]
    use: CommUse | None
    """Communication of the step; None if it is not observed."""


class DeviceTimer:
    """Times one step in TIMED_EVERY. Used by the training thread; collectives also by autograd's
    thread."""

    def __init__(self, make_event: Callable[[], Event]) -> None:
        self._make_event = make_event
        self._marks: list[_Mark] | None = None
        """Events of the current step; None if it is not timed."""
        self._messages: list[_Message] = []
        self._pending: deque[tuple[list[_Mark], list[_Message]]] = deque()
        self.sees_comm = False
        """Whether a communication hook reports collectives."""
        self.num_forgotten = 0

    @property
    def is_timing(self) -> bool:
        return self._marks is not None

    def begin_step(self, no: int, phase: str, *, is_timed: bool | None = None) -> None:
        """Begin a step; `no` is its number, counted from 0. is_timed: None for one step in
        TIMED_EVERY."""
        self._marks, self._messages = None, []
        if no % TIMED_EVERY == 0 if is_timed is None else is_timed:
            self._marks = []
            self.mark(phase)

    def mark(self, phase: str) -> None:
        """Note that the current stream enters `phase`."""
        if self._marks is not None:
            self._marks.append(_Mark(phase, self._recorded()))

    def end_step(self) -> None:
        if self._marks is None:
            return
        self.mark(NO_PHASE)
        if len(self._pending) >= MAX_PENDING:
            self._pending.popleft()
            self.num_forgotten += 1
        self._pending.append((self._marks, self._messages))
        self._marks, self._messages = None, []

    def begin_collective(self, kind: str, num_bytes: int, group: str) -> Callable[[], None] | None:
        """Return a function to call on a stream that waits for the collective, once it was
        enqueued. None if the step is not timed."""
        self.sees_comm = True
        if self._marks is None:
            return None
        message = _Message(kind, num_bytes, group, self._recorded())
        self._messages.append(message)

        def end() -> None:
            message.ended = self._recorded()

        return end

    def finished(self) -> list[DeviceStep]:
        """Return the steps that the device has finished since the last call, in order."""
        found = []
        while self._pending:
            marks, messages = self._pending[0]
            events = [marks[-1].event, *(m.ended for m in messages if m.ended is not None)]
            if not all(event.query() for event in events):
                break
            self._pending.popleft()
            found.append(self._read(marks, messages))
        return found

    def _read(self, marks: list[_Mark], messages: list[_Message]) -> DeviceStep:
        base = marks[0].event

        def at(event: Event) -> int:
            return round(base.elapsed_time(event) * 1e6)

        times = [at(mark.event) for mark in marks]
        segments = [
            Segment(mark.phase, start, end)
            for mark, (start, end) in zip(marks, itertools.pairwise(times), strict=False)
            if end > start and mark.phase != NO_PHASE
        ]
        use = None
        if self.sees_comm:
            records = []
            for message in messages:
                if message.ended is None:
                    continue
                record = Collective(
                    message.kind, message.num_bytes, message.group, at(message.began)
                )
                record.done = at(message.ended)
                record.is_future = True  # DDP's reducer waits for it, by the end of the backward
                records.append(record)
            # A communicator does one collective after the other.
            for before, record in itertools.pairwise(records):
                record.launched = max(record.launched, min(before.done, record.done))
            use = comm_use(records, segments, thread=threading.get_ident())
        return DeviceStep(sum(s.end - s.start for s in segments), segments, use)

    def _recorded(self) -> Event:
        event = self._make_event()
        event.record()
        return event


def device_timer() -> DeviceTimer | None:
    """Return the timer of the CUDA device in use; None if there is none. Never imports torch."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    global current
    current = DeviceTimer(lambda: cuda.Event(enable_timing=True))
    return current


current: DeviceTimer | None = None
"""Timer of the current StepTimer, to which communication hooks report."""
