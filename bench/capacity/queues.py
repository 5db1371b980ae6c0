"""Events in order of their time, processors that work is queued for, and calls that share transactions.

`capacity/installation` draws the calls; `capacity/costs` says what each takes.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

Then = Callable[[], None]


class Agenda:
    """The time in seconds, and what happens next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Then]] = []
        self._number = itertools.count()

    def after(self, seconds: float, then: Then) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._number), then))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, then = heapq.heappop(self._events)
            then()


class Processors:
    """So many that are equal; work is served in the order in which it comes."""

    def __init__(self, agenda: Agenda, number: int = 1) -> None:
        self.busy_s = 0.0
        self._agenda = agenda
        self._free = number
        self._waiting: deque[tuple[float, Then]] = deque()

    def work(self, seconds: float, then: Then) -> None:
        if self._free:
            self._free -= 1
            self._begin(seconds, then)
        else:
            self._waiting.append((seconds, then))

    def _begin(self, seconds: float, then: Then) -> None:
        self.busy_s += seconds
        self._agenda.after(seconds, lambda: self._end(then))

    def _end(self, then: Then) -> None:
        if self._waiting:
            self._begin(*self._waiting.popleft())
        else:
            self._free += 1
        then()


@dataclass(slots=True)
class Call:
    """A request on its way; seconds of a processor that it takes beside its transaction's."""

    kind: str
    began: float
    each: float
    database_each: float
    done: Then


@dataclass
class Shared:
    """One thread that serves what waits, those of a kind in one transaction (`db/batching.py`)."""

    serve: Callable[[str, list[Call], Then], None]
    """Calls of one kind, and what to do after their commit."""
    batch_max: int
    transactions: int = 0
    _waiting: deque[Call] = field(default_factory=deque)
    _is_busy: bool = False

    def put(self, call: Call) -> None:
        self._waiting.append(call)
        if not self._is_busy:
            self._take()

    def _take(self) -> None:
        self._is_busy = bool(self._waiting)
        if not self._waiting:
            return
        kinds: dict[str, list[Call]] = {}
        for _ in range(min(self.batch_max, len(self._waiting))):
            call = self._waiting.popleft()
            kinds.setdefault(call.kind, []).append(call)
        self._serve(deque(kinds.items()))

    def _serve(self, kinds: deque[tuple[str, list[Call]]]) -> None:
        if not kinds:
            self._take()
            return
        kind, calls = kinds.popleft()
        self.transactions += 1

        def committed() -> None:
            for call in calls:
                call.done()
            self._serve(kinds)

        self.serve(kind, calls, committed)
