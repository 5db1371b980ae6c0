"""One log stream as lines, read from its compressed chunks with bounded memory."""

from __future__ import annotations

import datetime as dt
import zlib
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from muster.log_text import last_version, visible
from muster_server.db.models import LogChunkRow
from muster_server.domain.logs.lines import LineTest

LINE_MAX_CHARS = 16_384
_COLLAPSE_MAX_BYTES = 262_144
"""Lines up to this long are searched for carriage returns whole, longer ones only at their end."""
_EDGE_BYTES = 65_536
_AHEAD_MIN, _AHEAD_MAX = 4, 256
"""Chunks fetched at once. Streams of small appends would cost a query per line otherwise; streams
of full chunks would decompress far more than a page needs."""
_JOINED_BYTES = 65_536
"""Small neighbouring chunks become one in memory up to this length."""
CACHED_BYTES = 1 << 20
"""Log text that one reader holds, unless it is given less."""
_SCANNED_BYTES = 4_096
"""Text searched at once, up to the end of its line; see LineTest.candidates."""


@dataclass(frozen=True)
class StoredLogLine:
    start: int
    """Offset of its first byte."""
    end: int
    """Offset after its last byte; the line end is not part of it."""
    no: int
    time: dt.datetime
    """When the chunk with its first byte was received."""
    is_finished: bool
    """Its line end has arrived."""

    @property
    def after(self) -> int:
        """Where the next line starts."""
        return self.end + 1 if self.is_finished else self.end


@dataclass
class _Chunk:
    """Bytes that follow each other, of one stored chunk or several small ones."""

    offset: int
    data: bytes
    first_line: int
    times: list[tuple[int, dt.datetime]]
    """(offset, when the bytes from there on were received), ascending"""
    newlines: array[int]
    """Absolute offsets."""
    _hits: dict[int, array[int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def time_at(self, offset: int) -> dt.datetime:
        return self.times[bisect_right(self.times, offset, key=lambda mark: mark[0]) - 1][1]

    def start_of(self, line: int) -> int:
        """Return where a line begins, counted from 0 for the one that contains the first byte here."""
        return self.newlines[line - 1] + 1 if line else self.offset

    @cached_property
    def blocks(self) -> list[tuple[int, bytes]]:
        """(number of the first line, visible text) of pieces small enough to be searched at once.
        Their line ends are those of the data, so lines have the same numbers."""
        text = visible(self.data)
        out, start, line = [], 0, 0
        while start <= len(text):
            end = text.find(b"\n", start + _SCANNED_BYTES)
            piece = text[start:] if end < 0 else text[start:end]
            out.append((line, piece))
            start = len(text) + 1 if end < 0 else end + 1
            line += piece.count(b"\n") + 1
        return out

    def hits(self, block: int, test: LineTest) -> array[int]:
        """Return the lines of a block, numbered as in start_of, that may pass the test."""
        if block not in self._hits:
            first, text = self.blocks[block]
            self._hits[block] = array("q", (first + n for n in test.candidates(text)))
        return self._hits[block]

    def block_of(self, line: int) -> int:
        return bisect_right(self.blocks, line, key=lambda block: block[0]) - 1


class StreamReader:
    """The first `size` bytes of one stream. Not shared between threads; lives as long as its session.

    test: what skip_forward and skip_backward look for. cached_bytes: text held at a time.
    """

    def __init__(
        self,
        session: Session,
        stream_id: int,
        size: int,
        *,
        test: LineTest | None = None,
        cached_bytes: int = CACHED_BYTES,
    ) -> None:
        self.size = size
        self._session = session
        self._stream_id = stream_id
        self._test = test
        self._cache: OrderedDict[int, _Chunk] = OrderedDict()
        self._offsets: list[int] = []
        self._max_bytes = cached_bytes
        self._cached_bytes = 0
        self._recent: _Chunk | None = None
        self._least_ahead = max(1, min(_AHEAD_MIN, cached_bytes // _JOINED_BYTES))
        self._ahead = self._least_ahead

    @property
    def held_bytes(self) -> int:
        return self._cached_bytes

    def line_at(self, start: int) -> StoredLogLine | None:
        """Return the line that starts at `start`; None at the end of the stream."""
        if start >= self.size:
            return None
        chunk = self.chunk_at(start, ahead=True)
        newline = self._next_newline(chunk, start)
        return StoredLogLine(
            start=start,
            end=self.size if newline is None else newline,
            no=chunk.first_line + bisect_left(chunk.newlines, start),
            time=chunk.time_at(start),
            is_finished=newline is not None,
        )

    def line_before(self, position: int) -> StoredLogLine | None:
        """Return the line that ends just before `position`, a line start or the end of the
        stream."""
        if position <= 0:
            return None
        chunk = self.chunk_at(position - 1, ahead=False)
        is_finished = chunk.data[position - 1 - chunk.offset] == 10
        end = position - 1 if is_finished else position
        before = self._previous_newline(chunk, end)
        start = 0 if before is None else before + 1
        of_start = chunk if chunk.offset <= start < chunk.end else self.chunk_at(start, ahead=False)
        return StoredLogLine(
            start=start,
            end=end,
            no=of_start.first_line + bisect_left(of_start.newlines, start),
            time=of_start.time_at(start),
            is_finished=is_finished,
        )

    def text(self, line: StoredLogLine) -> str:
        """Return a line as a terminal would show it, up to a length.

        Of text that was overwritten by carriage returns (progress bars) the last version is kept.
        Bytes that are not UTF-8 become U+FFFD and NUL becomes a visible ␀. Of a line longer than
        262,144 bytes the first 65,536 are read, or the last if those were overwritten.
        """
        length = line.end - line.start
        if length <= _COLLAPSE_MAX_BYTES:
            raw = last_version(self.read(line.start, line.end))
        else:
            tail = self.read(line.end - _EDGE_BYTES, line.end)
            raw = last_version(tail)
            if len(raw) == len(tail.rstrip(b"\r")):  # nothing was overwritten there
                raw = self.read(line.start, line.start + _EDGE_BYTES + 4)
        return raw.decode("utf-8", "replace").replace("\x00", "␀")

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes start..end (end excluded). The caller bounds their number."""
        pieces = []
        position = start
        while position < min(end, self.size):
            chunk = self.chunk_at(position, ahead=True)
            pieces.append(chunk.data[position - chunk.offset : end - chunk.offset])
            position = chunk.end
        return b"".join(pieces)

    # ------------------------------------------------------------ places

    def line_no(self, position: int) -> int:
        """Return how many lines begin before `position`, a line start or the end of the stream."""
        if position <= 0:
            return 0
        chunk = self.chunk_at(position - 1, ahead=False)
        at = bisect_left(chunk.newlines, position)
        return chunk.first_line + at + (0 if chunk.data[position - 1 - chunk.offset] == 10 else 1)

    def start_of_line(self, no: int) -> int:
        """Return where line `no` begins; the end of the stream if it has fewer lines."""
        if no <= 0:
            return 0
        # Its beginning lies behind the last chunk whose first line has a smaller number.
        low, high = 0, self.size
        while low < high - 1:
            middle = (low + high) // 2
            if self._first_line_at(middle) < no:
                low = middle
            else:
                high = middle
        chunk = self.chunk_at(low, ahead=True)
        at = no - chunk.first_line - 1
        return chunk.newlines[at] + 1 if at < len(chunk.newlines) else self.size

    def start_at_time(self, moment: dt.datetime, *, after: bool = False) -> int:
        """Return where the first line begins whose first byte was received at `moment` or later
        (`after`: later); the end of the stream if there is none."""
        table = LogChunkRow
        is_later = table.received_at > moment if after else table.received_at >= moment
        offset = self._session.scalar(
            select(table.offset)
            .where(table.stream_id == self._stream_id, is_later, table.offset < self.size)
            .order_by(table.received_at, table.offset)
            .limit(1)
        )
        if offset is None:
            return self.size
        if offset == 0:
            return 0
        line = self.line_at(offset - 1)  # what that byte is the beginning of ends at the same place
        return self.size if line is None else line.after

    def _first_line_at(self, offset: int) -> int:
        """Return the number of the line that the first byte of the chunk around `offset` belongs
        to."""
        table = LogChunkRow
        return self._session.execute(
            select(table.first_line)
            .where(table.stream_id == self._stream_id, table.offset <= offset)
            .order_by(table.offset.desc())
            .limit(1)
        ).scalar_one()

    # ------------------------------------------------------------ skipping while searching

    def skip_forward(self, position: int) -> int:
        """Return the start of a later line (or `position`, a line start) before which no line
        passes the test. Looks only at the chunk of `position`."""
        assert self._test is not None
        chunk = self.chunk_at(position, ahead=True)
        line = bisect_left(chunk.newlines, position)
        for block in range(chunk.block_of(line), len(chunk.blocks)):
            hits = chunk.hits(block, self._test)
            at = bisect_left(hits, line)
            if at < len(hits):
                return max(position, chunk.start_of(hits[at]))
        # The last line may go on in the next chunk, so only reading it whole can tell.
        return max(position, chunk.start_of(len(chunk.newlines)))

    def skip_backward(self, position: int) -> int:
        """Return the start of an earlier line (or `position`) from which on no line before
        `position` passes the test. Looks only at the chunk before `position`."""
        assert self._test is not None
        chunk = self.chunk_at(position - 1, ahead=False)
        last = bisect_left(chunk.newlines, position - 1)
        if last == len(chunk.newlines):
            return position  # its last line goes on past the chunk, or has no end
        hit = 0  # the first line may have begun in the chunk before
        for block in range(chunk.block_of(last), -1, -1):
            hits = chunk.hits(block, self._test)
            at = bisect_right(hits, last)
            if at:
                hit = hits[at - 1]
                break
        return min(position, chunk.newlines[hit] + 1)

    # ------------------------------------------------------------ chunks

    def chunk_at(self, offset: int, *, ahead: bool) -> _Chunk:
        recent = self._recent
        if recent is not None and recent.offset <= offset < recent.end:
            return recent
        at = bisect_right(self._offsets, offset) - 1
        if at >= 0 and offset < self._cache[self._offsets[at]].end:
            self._recent = self._cache[self._offsets[at]]
            return self._recent
        table = LogChunkRow
        first = (
            select(table.offset)
            .where(table.stream_id == self._stream_id, table.offset <= offset)
            .order_by(table.offset.desc())
            .limit(1)
            .scalar_subquery()
        )
        query = self._query()
        if ahead:
            query = query.where(table.offset >= first).order_by(table.offset)
        else:
            query = query.where(table.offset <= offset).order_by(table.offset.desc())
        num_bytes = self._remember(query.limit(self._ahead))
        is_small = num_bytes < min(_JOINED_BYTES, self._max_bytes)
        self._ahead = min(2 * self._ahead, _AHEAD_MAX) if is_small else self._least_ahead
        assert self._recent is not None
        assert self._recent.offset <= offset < self._recent.end, (offset, self._recent.offset)
        return self._recent

    def _next_newline(self, chunk: _Chunk, position: int) -> int | None:
        at = bisect_left(chunk.newlines, position)
        if at < len(chunk.newlines):
            return chunk.newlines[at]
        if chunk.end >= self.size:
            return None
        following = self.chunk_at(chunk.end, ahead=True)
        at = bisect_left(following.newlines, chunk.end)
        if at < len(following.newlines):
            return following.newlines[at]
        table = LogChunkRow
        # Chunks within a very long line are passed over by the index, not decompressed.
        self._remember(
            self._query()
            .where(table.offset >= following.end, table.num_newlines > 0)
            .order_by(table.offset)
            .limit(1)
        )
        # Of a chunk that `size` cuts, the newline may lie beyond.
        found = self._recent
        return found.newlines[0] if found is not None and found.newlines else None

    def _previous_newline(self, chunk: _Chunk, position: int) -> int | None:
        at = bisect_left(chunk.newlines, position)
        if at:
            return chunk.newlines[at - 1]
        if chunk.offset == 0:
            return None
        before = self.chunk_at(chunk.offset - 1, ahead=False)
        at = bisect_left(before.newlines, chunk.offset)
        if at:
            return before.newlines[at - 1]
        table = LogChunkRow
        self._remember(
            self._query()
            .where(table.offset < before.offset, table.num_newlines > 0)
            .order_by(table.offset.desc())
            .limit(1)
        )
        found = self._recent
        return found.newlines[-1] if found is not None else None

    def _query(self) -> Select[int, int, dt.datetime, bytes]:
        table = LogChunkRow
        return select(table.offset, table.first_line, table.received_at, table.data).where(
            table.stream_id == self._stream_id, table.offset < self.size
        )

    def _remember(self, query: Select[int, int, dt.datetime, bytes]) -> int:
        """Load chunks; what holds the first of them becomes the recent one. Returns their bytes."""
        self._recent = None
        num_bytes = 0
        joined: list[tuple[int, int, dt.datetime, bytes]] = []
        length = 0
        for offset, first_line, received_at, packed in self._session.execute(query):
            data = zlib.decompress(packed)[: self.size - offset]
            num_bytes += len(data)
            if joined and length + len(data) > _JOINED_BYTES:
                self._keep(joined)
                joined, length = [], 0
            joined.append((offset, first_line, received_at, data))
            length += len(data)
        if joined:
            self._keep(joined)
        while self._cached_bytes > self._max_bytes and len(self._cache) > 1:
            offset, oldest = self._cache.popitem(last=False)
            self._offsets.remove(offset)
            self._cached_bytes -= len(oldest.data)
        return num_bytes

    def _keep(self, rows: Sequence[tuple[int, int, dt.datetime, bytes]]) -> None:
        rows = sorted(rows, key=lambda row: row[0])
        offset, first_line, _, _ = rows[0]
        data = b"".join(row[3] for row in rows)
        newlines = array("q")
        newlines.frombytes((np.flatnonzero(_as_numbers(data) == 10) + offset).astype("q").tobytes())
        times = [(row[0], row[2]) for row in rows]
        chunk = _Chunk(offset, data, first_line, times, newlines)
        known = self._cache.get(offset)
        if known is None:
            insort(self._offsets, offset)
        if known is None or len(known.data) < len(data):
            self._cached_bytes += len(data) - (0 if known is None else len(known.data))
            self._cache[offset] = chunk
        self._recent = self._recent or chunk


def _as_numbers(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)
