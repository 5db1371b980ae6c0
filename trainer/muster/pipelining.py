"""What one worker of a pipeline did when: computing, sending and receiving, of one step in a window.

Which steps are noted follows from their number alone, so that all workers note the same ones without
asking each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from muster import wire
from muster.collectives import Collective, FastestTransfers, Message, log, now_ns
from muster.env import RankInfo

Computing = Literal["forward", "backward", "backward_input", "backward_weight"]
Kind = Computing | Message
MAX_OPERATIONS = 2_000
"""Of one worker and step that are kept: about 60 kB as text. Further ones are counted."""
FIRST_NOTED = 4
"""Steps before it allocate memory and fill caches."""
NOTED_EVERY = 1_024


class Operation(NamedTuple):
    """Times are perf_counter nanoseconds."""

    kind: Kind
    stage: int
    micro_batch: int
    start: int
    end: int


def is_noted(no: int) -> bool:
    """Whether step `no` of this process, counted from 0, is one of them: 4, 8, 16, 32, … 1,024, 2,048,
    3,072, …"""
    if no < FIRST_NOTED:
        return False
    return no % NOTED_EVERY == 0 or (no < NOTED_EVERY and no & (no - 1) == 0)


class OperationLog:
    """Of one step; written by the training thread."""

    def __init__(self) -> None:
        self.enabled = False
        self._operations: list[Operation] = []
        self._num_left_out = 0

    def begin(self) -> None:
        """Note the step that begins."""
        self.enabled = True
        self._operations, self._num_left_out = [], 0
        log.labels = {}

    @contextlib.contextmanager
    def noted(self, kind: Computing, stage: int, micro_batch: int) -> Iterator[None]:
        start = now_ns()
        try:
            yield
        finally:
            self._add(Operation(kind, stage, micro_batch, start, now_ns()))

    def take(
        self, records: list[Collective], fastest: FastestTransfers, *, began: int
    ) -> Noted | None:
        """What was noted since `begin`, with the messages of `records`; then nothing is noted any
        more. Receiving is shown for as long as the fastest message of the size took, up to its end:
        before, it waited for the other worker. Of sending only the beginning is known: gloo says that
        it is over when it is waited for, which schedules do at the end of a step. None: nothing was
        noted.

        began: of the step; times are told from it on.
        """
        if not self.enabled:
            return None
        self.enabled, log.labels = False, None
        for record in records:
            if record.label is not None and record.end:
                kind, stage, micro_batch = record.label
                if kind in ("send_forward", "send_backward"):
                    start = end = record.launched
                else:
                    end = record.end
                    start = max(record.launched, end - fastest.learn(record))
                self._add(Operation(kind, stage, micro_batch, start, end))
        operations, self._operations = self._operations, []
        if not operations:
            return None
        return Noted(operations, self._num_left_out, began)

    def _add(self, operation: Operation) -> None:
        if len(self._operations) < MAX_OPERATIONS:
            self._operations.append(operation)
        else:
            self._num_left_out += 1


class Noted(NamedTuple):
    operations: list[Operation]
    num_left_out: int
    began: int

    def record(self, step: int, info: RankInfo) -> wire.ScheduleRecord:
        found = sorted(self.operations, key=lambda o: o.start)
        return wire.ScheduleRecord(
            local_rank=info.local_rank,
            rank=info.rank,
            step=step,
            kinds=[o.kind for o in found],
            stages=[o.stage for o in found],
            micro_batches=[o.micro_batch for o in found],
            starts_us=[(o.start - self.began) // 1000 for o in found],
            ends_us=[(o.end - self.began) // 1000 for o in found],
            num_left_out=self.num_left_out,
        )
