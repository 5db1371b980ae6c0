"""Lines of many log streams in one order, walked forwards or backwards within bounds."""

from __future__ import annotations

import datetime as dt
import heapq
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from muster.log_text import visible
from muster_server.db.models import LogStreamRow
from muster_server.db.queries.logs import CACHED_BYTES, LINE_MAX_CHARS, StoredLogLine, StreamReader
from muster_server.domain.logs.lines import Level, LineTest, level_of
from muster_server.schemas.data import LogLine, LogSearched

PAGE_MAX_CHARS = 2_000_000
"""A page ends when its lines are this long together, however many were asked for."""
READ_MEMORY_BYTES = 64 << 20
"""Log text that the streams of one page hold together."""


@dataclass(frozen=True)
class MergeStep:
    """One move along a stream: past a line that is shown, or (line None) past what is not."""

    time: dt.datetime
    position: int
    """Where the stream stands after it."""
    line: StoredLogLine | None = None
    text: str = ""
    level: Level | None = None
    cut: bool = False


@dataclass
class Walk:
    """A merge of the streams' lines, one direction at a time, until the page is full."""

    session: Session
    streams: Sequence[LogStreamRow]
    trial_nos: Mapping[int, int]
    """Trial → its number, of all streams."""
    complete: Set[int]
    """Streams whose last line is whole as it is."""
    at: Mapping[int, int]
    """Stream → where to begin."""
    low: Mapping[int, int]
    high: Mapping[int, int]
    """Stream → borders of what is read; line starts or the stream's ends."""
    test: LineTest
    limit: int
    deadline: float
    positions: dict[int, int] = field(default_factory=dict)
    is_stopped: bool = False
    """The search ran out of time."""
    is_forward: bool = True

    def __post_init__(self) -> None:
        self.positions = dict(self.at)
        share = READ_MEMORY_BYTES // max(1, len(self.streams))
        self._readers = {
            s.id: StreamReader(
                self.session,
                s.id,
                self.high[s.id],
                test=self.test,
                cached_bytes=min(CACHED_BYTES, share),
            )
            for s in self.streams
        }
        self._order = {s.id: index for index, s in enumerate(self.streams)}
        self._by_id = {s.id: s for s in self.streams}
        self._found: list[tuple[tuple[dt.datetime, int, int], int, MergeStep]] = []

    def forward(self) -> None:
        def steps(s: LogStreamRow) -> Iterator[MergeStep]:
            is_whole = s.id in self.complete or self.high[s.id] < s.size_bytes
            return self._forward(self._readers[s.id], self.at[s.id], is_whole)

        is_drained = self._merge({s.id: steps(s) for s in self.streams}, newest_first=False)
        if is_drained:
            self._add_unfinished()

    def backward(self) -> None:
        self.is_forward = False

        def steps(s: LogStreamRow) -> Iterator[MergeStep]:
            return self._backward(self._readers[s.id], self.at[s.id], self.low[s.id])

        self._merge({s.id: steps(s) for s in self.streams}, newest_first=True)

    def unfinished_starts(self) -> dict[int, int]:
        """Stream → start of its last line, where that has no line end yet."""
        starts = {}
        for s in self.streams:
            if self._may_grow(s) and s.size_bytes:
                line = self._readers[s.id].line_before(s.size_bytes)
                if line is not None and not line.is_finished:
                    starts[s.id] = line.start
        return starts

    def searched(self) -> LogSearched | None:
        """Return how far a search has come and how far it has to go; None if nothing was searched
        for.

        The rest lies after the page when reading forwards, and before it when reading backwards.
        """
        if not self.test:
            return None
        seen = left = seen_bytes = left_bytes = 0
        for s in self.streams:
            reader = self._readers[s.id]
            here, there = self.at[s.id], self.positions[s.id]
            border = (self.high if self.is_forward else self.low)[s.id]
            no = reader.line_no(there)
            seen += abs(no - reader.line_no(here))
            left += abs(reader.line_no(border) - no)
            seen_bytes += abs(there - here)
            left_bytes += abs(border - there)
        return LogSearched(
            num_lines=seen, num_bytes=seen_bytes, left_lines=left, left_bytes=left_bytes
        )

    @property
    def held_bytes(self) -> int:
        """Log text that is held in memory."""
        return sum(reader.held_bytes for reader in self._readers.values())

    def _may_grow(self, s: LogStreamRow) -> bool:
        return s.id not in self.complete and self.high[s.id] >= s.size_bytes

    def lines(self) -> list[LogLine]:
        shown = []
        for _, stream_id, step in sorted(self._found, key=lambda found: found[0]):
            assert step.line is not None
            s = self._by_id[stream_id]
            shown.append(
                LogLine(
                    stream_id=s.id,
                    trial_id=s.trial_id,
                    trial_no=self.trial_nos[s.trial_id],
                    rank=s.rank,
                    member=s.member,
                    local_rank=s.local_rank,
                    node_name=s.node_name,
                    attempt_no=s.attempt_no,
                    stream=s.stream,
                    no=step.line.no,
                    time_ms=int(step.line.time.timestamp() * 1000),
                    text=step.text,
                    level=step.level,
                    cut=step.cut,
                    partial=not step.line.is_finished and s.id not in self.complete,
                )
            )
        return shown

    def _merge(self, walks: Mapping[int, Iterator[MergeStep]], *, newest_first: bool) -> bool:
        """Take steps in order until the page is full or the time is up; True when none is left."""
        sign = -1 if newest_first else 1
        heap: list[tuple[float, int, int, int, MergeStep]] = []

        def push(stream_id: int) -> None:
            step = next(walks[stream_id], None)
            if step is not None:
                order = sign * self._order[stream_id]
                heapq.heappush(
                    heap, (sign * step.time.timestamp(), order, step.position, stream_id, step)
                )

        for stream_id in walks:
            push(stream_id)
        num_chars = num_steps = 0
        while heap:
            if len(self._found) >= self.limit or num_chars >= PAGE_MAX_CHARS:
                return False
            # At least one step, or asking again could go on for ever on a busy machine.
            if self.test and num_steps and time.monotonic() > self.deadline:
                self.is_stopped = True
                return False
            num_steps += 1
            *_, stream_id, step = heapq.heappop(heap)
            self.positions[stream_id] = step.position
            if step.line is not None:
                self._keep(stream_id, step)
                num_chars += len(step.text)
            push(stream_id)
        return True

    def _keep(self, stream_id: int, step: MergeStep) -> None:
        assert step.line is not None
        key = (step.line.time, self._order[stream_id], step.line.start)
        self._found.append((key, stream_id, step))

    def _add_unfinished(self) -> None:
        """Lines whose end has not come are shown, but not passed: they come again, whole."""
        for s in self.streams:
            reader = self._readers[s.id]
            line = reader.line_at(self.positions[s.id]) if self._may_grow(s) else None
            if line is not None and len(self._found) < self.limit:
                step = self._shown(reader, line, line.start)
                if step.line is not None:
                    self._keep(s.id, step)

    def _forward(
        self, reader: StreamReader, position: int, is_complete: bool
    ) -> Iterator[MergeStep]:
        while position < reader.size:
            if self.test:
                skipped = reader.skip_forward(position)
                if skipped > position:
                    passed = reader.chunk_at(position, ahead=True)
                    yield MergeStep(passed.time_at(position), skipped)
                    position = skipped
                    continue
            line = reader.line_at(position)
            if line is None or not (line.is_finished or is_complete):
                return
            yield self._shown(reader, line, line.after)
            position = line.after

    def _backward(self, reader: StreamReader, position: int, low: int) -> Iterator[MergeStep]:
        while position > low:
            if self.test:
                skipped = max(low, reader.skip_backward(position))
                if skipped < position:
                    passed = reader.chunk_at(skipped, ahead=False)
                    yield MergeStep(passed.time_at(skipped), skipped)
                    position = skipped
                    continue
            line = reader.line_before(position)
            if line is None:
                return
            yield self._shown(reader, line, line.start)
            position = line.start

    def _shown(self, reader: StreamReader, line: StoredLogLine, position: int) -> MergeStep:
        text = reader.text(line)
        seen = visible(text.encode())
        level = level_of(seen)
        if self.test and not self.test.passes(seen, level):
            return MergeStep(line.time, position)
        cut = len(text) > LINE_MAX_CHARS
        return MergeStep(line.time, position, line, text[:LINE_MAX_CHARS], level, cut)
