"""One log stream as lines, read from its compressed chunks with bounded memory."""

from __future__ import annotations

import datetime as dt
import zlib
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from muster_server.db.models import LogChunkRow

LINE_MAX_CHARS = 16_384
_COLLAPSE_MAX_BYTES = 262_144
"""Lines up to this long are searched for carriage returns whole, longer ones only at their end."""
_EDGE_BYTES = 65_536
_AHEAD_MIN, _AHEAD_MAX = 4, 256
"""Chunks fetched at once. Streams of small appends would cost a query per line otherwise; streams
of full chunks would decompress far more than a page needs."""
_CACHED_BYTES = 1 << 20


@dataclass(frozen=True)
class Line:
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


@dataclass(frozen=True)
class _Chunk:
    offset: int
    data: bytes
    first_line: int
    received_at: dt.datetime
    newlines: list[int]
    """Absolute offsets."""

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class StreamReader:
    """The first `size` bytes of one stream. Not shared between threads; lives as long as its session."""

    def __init__(self, session: Session, stream_id: int, size: int) -> None:
        self.size = size
        self._session = session
        self._stream_id = stream_id
        self._cache: OrderedDict[int, _Chunk] = OrderedDict()
        self._offsets: list[int] = []
        self._cached_bytes = 0
        self._recent: _Chunk | None = None
        self._ahead = _AHEAD_MIN

    def line_at(self, start: int) -> Line | None:
        """The line that starts at `start`; None at the end of the stream."""
        if start >= self.size:
            return None
        chunk = self.chunk_at(start, ahead=True)
        newline = self._next_newline(chunk, start)
        return Line(
            start=start,
            end=self.size if newline is None else newline,
            no=chunk.first_line + bisect_left(chunk.newlines, start),
            time=chunk.received_at,
            is_finished=newline is not None,
        )

    def line_before(self, position: int) -> Line | None:
        """The line that ends just before `position`, a line start or the end of the stream."""
        if position <= 0:
            return None
        chunk = self.chunk_at(position - 1, ahead=False)
        is_finished = chunk.data[position - 1 - chunk.offset] == 10
        end = position - 1 if is_finished else position
        before = self._previous_newline(chunk, end)
        start = 0 if before is None else before + 1
        of_start = chunk if chunk.offset <= start < chunk.end else self.chunk_at(start, ahead=False)
        return Line(
            start=start,
            end=end,
            no=of_start.first_line + bisect_left(of_start.newlines, start),
            time=of_start.received_at,
            is_finished=is_finished,
        )

    def text(self, line: Line) -> tuple[str, bool]:
        """What a terminal would show of a line, and whether it was cut.

        Of text that was overwritten by carriage returns (progress bars) the last version is kept.
        Bytes that are not UTF-8 become U+FFFD and NUL becomes a visible ␀.
        """
        length = line.end - line.start
        if length <= _COLLAPSE_MAX_BYTES:
            raw = _last_version(self.read(line.start, line.end))
        else:
            tail = self.read(line.end - _EDGE_BYTES, line.end)
            raw = _last_version(tail)
            if len(raw) == len(tail.rstrip(b"\r")):  # nothing was overwritten there
                raw = self.read(line.start, line.start + _EDGE_BYTES + 4)
        text = raw.decode("utf-8", "replace").replace("\x00", "␀")
        return text[:LINE_MAX_CHARS], len(text) > LINE_MAX_CHARS

    def read(self, start: int, end: int) -> bytes:
        """The bytes start..end (end excluded). The caller bounds their number."""
        pieces = []
        position = start
        while position < min(end, self.size):
            chunk = self.chunk_at(position, ahead=True)
            pieces.append(chunk.data[position - chunk.offset : end - chunk.offset])
            position = chunk.end
        return b"".join(pieces)

    # ------------------------------------------------------------ skipping while searching

    def skip_forward(self, position: int, needle: bytes) -> int:
        """The start of a later line (or `position`) before which no line holds `needle`.

        Looks only at the chunk of `position`. `needle`: in lower case as bytes.lower() makes it.
        """
        chunk = self.chunk_at(position, ahead=True)
        found = chunk.data.lower().find(needle, position - chunk.offset)
        # Without a hit everything is passed but the last line, which may go on in the next chunk.
        limit = chunk.end if found < 0 else chunk.offset + found
        at = bisect_left(chunk.newlines, limit)
        return max(position, chunk.newlines[at - 1] + 1) if at else position

    def skip_backward(self, position: int, needle: bytes) -> int:
        """The start of an earlier line (or `position`) from which on no line before `position`
        holds `needle`. Looks only at the chunk before `position`."""
        chunk = self.chunk_at(position - 1, ahead=False)
        found = chunk.data.lower().rfind(needle, 0, position - chunk.offset)
        limit = chunk.offset + max(found, 0)
        at = bisect_left(chunk.newlines, limit)
        return min(position, chunk.newlines[at] + 1) if at < len(chunk.newlines) else position

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
        is_small = num_bytes < _EDGE_BYTES
        self._ahead = min(2 * self._ahead, _AHEAD_MAX) if is_small else _AHEAD_MIN
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
        if following.newlines:
            return following.newlines[0]
        table = LogChunkRow
        # Chunks within a very long line are passed over by the index, not decompressed.
        self._remember(
            self._query()
            .where(table.offset > chunk.offset, table.num_newlines > 0)
            .order_by(table.offset)
            .limit(1)
        )
        found = self._recent
        return found.newlines[0] if found is not None and found.offset > chunk.offset else None

    def _previous_newline(self, chunk: _Chunk, position: int) -> int | None:
        at = bisect_left(chunk.newlines, position)
        if at:
            return chunk.newlines[at - 1]
        if chunk.offset == 0:
            return None
        before = self.chunk_at(chunk.offset - 1, ahead=False)
        if before.newlines:
            return before.newlines[-1]
        table = LogChunkRow
        self._remember(
            self._query()
            .where(table.offset < chunk.offset, table.num_newlines > 0)
            .order_by(table.offset.desc())
            .limit(1)
        )
        found = self._recent
        return found.newlines[-1] if found is not None and found.offset < chunk.offset else None

    def _query(self) -> Select[int, int, dt.datetime, bytes]:
        table = LogChunkRow
        return select(table.offset, table.first_line, table.received_at, table.data).where(
            table.stream_id == self._stream_id, table.offset < self.size
        )

    def _remember(self, query: Select[int, int, dt.datetime, bytes]) -> int:
        """Load chunks; the first of them becomes the recent one. Returns their bytes."""
        self._recent = None
        num_bytes = 0
        for offset, first_line, received_at, packed in self._session.execute(query):
            data = zlib.decompress(packed)[: self.size - offset]
            newlines = (np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + offset).tolist()
            chunk = _Chunk(offset, data, first_line, received_at, newlines)
            num_bytes += len(data)
            if offset not in self._cache:
                insort(self._offsets, offset)
                self._cache[offset] = chunk
                self._cached_bytes += len(data)
            self._recent = self._recent or chunk
        while self._cached_bytes > _CACHED_BYTES and len(self._cache) > 1:
            offset, oldest = self._cache.popitem(last=False)
            self._offsets.remove(offset)
            self._cached_bytes -= len(oldest.data)
        return num_bytes


def _last_version(raw: bytes) -> bytes:
    raw = raw.rstrip(b"\r")
    return raw[raw.rfind(b"\r") + 1 :]
