"""Timeline of one worker of a pipeline in selected steps: computing, sending and receiving.

Which steps are noted follows from their number alone, so that all workers note the same ones without
asking each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from muster import wire
from muster.measure.collectives import Collective, FastestTransfers, Message, log, now_ns
from muster.sdk.env import RankInfo

Computing = Literal["forward", "backward", "backward_input", "backward_weight"]
Kind = Computing | Message
MAX_OPERATIONS = 2_000
"""Number of operations kept per worker and step: about 60 kB as text. Further ones are counted."""
FIRST_NOTED = 4
"""First step that is recorded; earlier ones allocate memory and fill caches."""
NOTED_EVERY = 1_024


class RecordedOperation(NamedTuple):
    """An operation of a pipeline. Times are perf_counter nanoseconds."""

    kind: Kind
    stage: int
    micro_batch: int
    start: int
    end: int


def is_noted(no: int) -> bool:
    """Return whether step `no` of this process, counted from 0, is recorded: 4, 8, 16, 32, … 1,024,
    2,048, 3,072, …"""
    if no < FIRST_NOTED:
        return False
    return no % NOTED_EVERY == 0 or (no < NOTED_EVERY and no & (no - 1) == 0)


class OperationLog:
    """Operations of one step; written by the training thread."""

    def __init__(self) -> None:
        self.enabled = False
        self._operations: list[RecordedOperation] = []
        self._num_left_out = 0

    def begin(self) -> None:
        """Begin to record a step."""
        self.enabled = True
        self._operations, self._num_left_out = [], 0
        log.labels = {}

    @contextlib.contextmanager
    def noted(self, kind: Computing, stage: int, micro_batch: int) -> Iterator[None]:
        start = now_ns()
        try:
            yield
        finally:
            self._add(RecordedOperation(kind, stage, micro_batch, start, now_ns()))

    def take(
        self, records: list[Collective], fastest: FastestTransfers, *, began: int
    ) -> Noted | None:
        """Return what was recorded since `begin`, with the messages of `records`, and stop recording.
        None if nothing was recorded.

        Receiving is shown for as long as the fastest message of the size took, up to its end: before,
        it waited for the other worker. Of sending only the beginning is known: gloo reports its end
        when it is waited for, which schedules do at the end of a step.

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
                self._add(RecordedOperation(kind, stage, micro_batch, start, end))
        operations, self._operations = self._operations, []
        if not operations:
            return None
        return Noted(operations, self._num_left_out, began)

    def _add(self, operation: RecordedOperation) -> None:
        if len(self._operations) < MAX_OPERATIONS:
            self._operations.append(operation)
        else:
            self._num_left_out += 1


class Noted(NamedTuple):
    operations: list[RecordedOperation]
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
