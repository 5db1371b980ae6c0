"""Log pages: the lines of many streams as one sequence, forwards and backwards, searched or not.

Order: by the time a line's first byte was received, then attempt, rank, stdout before stderr, then
position. A cursor holds a position per stream rather than a time, so that a line whose transaction
commits late is shown late and never skipped.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import heapq
import json
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, LogChunkRow, LogStreamRow, TrialRow
from muster_server.db.queries.logs import Line, StreamReader
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.errors import InvalidRequest, NotFound
from muster_server.schemas.data import LogLine, LogPage, LogStreamOut

SEARCH_BUDGET_S = 1.0
PAGE_MAX_CHARS = 2_000_000
"""A page ends when its lines are this long together, however many were asked for."""
CURSOR_MAX_CHARS = 32_768

Direction = Literal["older", "newer"]


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    ranks: frozenset[int] | None = None
    """None: all; -1 is the launcher."""
    stream: Literal["stdout", "stderr"] | None = None
    attempt_no: int | None = None
    text: str = ""
    """Only lines that contain it, whatever their case. Compared with the text as shown."""


def read_page(
    session: Session,
    trial_id: int,
    wanted: LogFilter,
    *,
    cursor: str | None = None,
    start: Literal["head", "tail"] = "tail",
    limit: int = 500,
    budget_s: float = SEARCH_BUDGET_S,
) -> LogPage:
    """A page of lines, oldest first.

    cursor: `older` or `newer` of an earlier page of the same filter; without it the page is at
    the `start` asked for. A search that has used up budget_s answers what it has found and sets
    `search_stopped`; its cursor goes on from there.
    Raises NotFound for the trial and InvalidRequest for a broken cursor.
    """
    trial = _get_trial(session, trial_id)
    streams = _streams(session, trial_id, wanted)
    sizes = {s.id: s.size_bytes for s in streams}
    if cursor is None:
        direction: Direction = "newer" if start == "head" else "older"
        at = dict.fromkeys(sizes, 0) if start == "head" else dict(sizes)
    else:
        direction, given = _decode_cursor(cursor)
        at = {id_: min(given.get(id_, 0), size) for id_, size in sizes.items()}

    complete = _complete_streams(session, trial, streams)
    deadline = time.monotonic() + budget_s
    walk = _Walk(session, streams, complete, at, wanted.text, limit, deadline)
    if direction == "newer":
        walk.forward()
        older, newer = at, walk.positions
    else:
        walk.backward()
        older, newer = walk.positions, dict(at)
        if cursor is None:
            # Following starts at the line whose end has not come yet, so that it comes whole.
            newer |= walk.unfinished_starts()
    is_at_end = all(newer[s.id] >= s.size_bytes for s in streams)
    return LogPage(
        lines=walk.lines(),
        older=_encode_cursor("older", older) if any(older.values()) else None,
        newer=_encode_cursor("newer", newer),
        complete=is_at_end and trial.state in TERMINAL_TRIAL and len(complete) == len(streams),
        num_lines=sum(s.num_lines for s in streams),
        truncated_streams=_truncated(session, streams),
        search_stopped=walk.is_stopped,
    )


def list_streams(session: Session, trial_id: int) -> list[LogStreamOut]:
    """Every stream of a trial, by attempt and rank."""
    trial = _get_trial(session, trial_id)
    streams = _streams(session, trial_id, LogFilter())
    complete = _complete_streams(session, trial, streams)
    return [
        LogStreamOut(
            stream_id=s.id,
            attempt_no=s.attempt_no,
            rank=s.rank,
            local_rank=s.local_rank,
            node_name=s.node_name,
            stream=s.stream,
            size_bytes=s.size_bytes,
            num_lines=s.num_lines,
            is_complete=s.id in complete,
        )
        for s in streams
    ]


@dataclass(frozen=True)
class Download:
    filename: str
    size_bytes: int
    stream_ids: list[int]


def find_download(
    session: Session,
    trial_id: int,
    *,
    rank: int,
    stream: Literal["stdout", "stderr"],
    attempt_no: int | None,
) -> Download:
    """What a download holds: one stream of one attempt (None: the latest that has it).

    The launcher (rank -1) has a stream per node; they follow each other in node order.
    Raises NotFound.
    """
    _get_trial(session, trial_id)
    found = _streams(
        session,
        trial_id,
        LogFilter(ranks=frozenset([rank]), stream=stream, attempt_no=attempt_no),
    )
    if not found:
        raise NotFound(
            "logs.not_found",
            f"There is no {stream} of rank {rank}.",
            hint="GET /api/v1/trials/{id}/logs/streams lists what there is.",
        )
    latest = max(s.attempt_no for s in found)
    chosen = [s for s in found if s.attempt_no == latest]
    who = "launcher" if rank < 0 else f"rank-{rank}"
    return Download(
        f"trial-{trial_id}-attempt-{latest}-{who}-{stream}.log",
        sum(s.size_bytes for s in chosen),
        [s.id for s in chosen],
    )


def download(database: Database, found: Download) -> Iterator[bytes]:
    """The raw bytes, chunk by chunk; a slow reader holds no transaction."""
    for stream_id in found.stream_ids:
        position = 0
        while True:
            with database.read() as session:
                chunks = session.execute(
                    select(LogChunkRow.offset, LogChunkRow.length, LogChunkRow.data)
                    .where(LogChunkRow.stream_id == stream_id, LogChunkRow.offset >= position)
                    .order_by(LogChunkRow.offset)
                    .limit(16)
                ).all()
            if not chunks:
                break
            for chunk in chunks:
                yield zlib.decompress(chunk.data)
            position = chunks[-1].offset + chunks[-1].length


# ---------------------------------------------------------------- walking the streams


@dataclass(frozen=True)
class _Step:
    """One move along a stream: past a line that is shown, or (line None) past what is not."""

    time: dt.datetime
    position: int
    """Where the stream stands after it."""
    line: Line | None = None
    text: str = ""
    cut: bool = False


@dataclass
class _Walk:
    """A merge of the streams' lines, one direction at a time, until the page is full."""

    session: Session
    streams: Sequence[LogStreamRow]
    complete: Set[int]
    """Streams whose last line is whole as it is."""
    at: Mapping[int, int]
    text: str
    limit: int
    deadline: float
    positions: dict[int, int] = field(default_factory=dict)
    is_stopped: bool = False
    """The search ran out of time."""

    def __post_init__(self) -> None:
        self.positions = dict(self.at)
        self._readers = {s.id: StreamReader(self.session, s.id, s.size_bytes) for s in self.streams}
        self._order = {s.id: index for index, s in enumerate(self.streams)}
        self._by_id = {s.id: s for s in self.streams}
        self._found: list[tuple[tuple[dt.datetime, int, int], int, _Step]] = []
        self._needle = _needle(self.text)
        self._folded = self.text.casefold()

    def forward(self) -> None:
        def steps(s: LogStreamRow) -> Iterator[_Step]:
            return self._forward(self._readers[s.id], self.at[s.id], s.id in self.complete)

        is_drained = self._merge({s.id: steps(s) for s in self.streams}, newest_first=False)
        if is_drained:
            self._add_unfinished()

    def backward(self) -> None:
        def steps(s: LogStreamRow) -> Iterator[_Step]:
            return self._backward(self._readers[s.id], self.at[s.id])

        self._merge({s.id: steps(s) for s in self.streams}, newest_first=True)

    def unfinished_starts(self) -> dict[int, int]:
        """Stream → start of its last line, where that has no line end yet."""
        starts = {}
        for s in self.streams:
            if s.id not in self.complete and s.size_bytes:
                line = self._readers[s.id].line_before(s.size_bytes)
                if line is not None and not line.is_finished:
                    starts[s.id] = line.start
        return starts

    def lines(self) -> list[LogLine]:
        shown = []
        for _, stream_id, step in sorted(self._found, key=lambda found: found[0]):
            assert step.line is not None
            s = self._by_id[stream_id]
            shown.append(
                LogLine(
                    stream_id=s.id,
                    rank=s.rank,
                    local_rank=s.local_rank,
                    node_name=s.node_name,
                    attempt_no=s.attempt_no,
                    stream=s.stream,
                    no=step.line.no,
                    time_ms=int(step.line.time.timestamp() * 1000),
                    text=step.text,
                    cut=step.cut,
                    partial=not step.line.is_finished and s.id not in self.complete,
                )
            )
        return shown

    def _merge(self, walks: Mapping[int, Iterator[_Step]], *, newest_first: bool) -> bool:
        """Take steps in order until the page is full or the time is up; True when none is left."""
        sign = -1 if newest_first else 1
        heap: list[tuple[float, int, int, int, _Step]] = []

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
            if self.text and num_steps and time.monotonic() > self.deadline:
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

    def _keep(self, stream_id: int, step: _Step) -> None:
        assert step.line is not None
        key = (step.line.time, self._order[stream_id], step.line.start)
        self._found.append((key, stream_id, step))

    def _add_unfinished(self) -> None:
        """Lines whose end has not come are shown, but not passed: they come again, whole."""
        for s in self.streams:
            reader = self._readers[s.id]
            line = None if s.id in self.complete else reader.line_at(self.positions[s.id])
            if line is not None and len(self._found) < self.limit:
                step = self._shown(reader, line, line.start)
                if step.line is not None:
                    self._keep(s.id, step)

    def _forward(self, reader: StreamReader, position: int, is_complete: bool) -> Iterator[_Step]:
        while position < reader.size:
            if self._needle:
                skipped = reader.skip_forward(position, self._needle)
                if skipped > position:
                    yield _Step(reader.chunk_at(position, ahead=True).received_at, skipped)
                    position = skipped
                    continue
            line = reader.line_at(position)
            if line is None or not (line.is_finished or is_complete):
                return
            yield self._shown(reader, line, line.after)
            position = line.after

    def _backward(self, reader: StreamReader, position: int) -> Iterator[_Step]:
        while position > 0:
            if self._needle:
                skipped = reader.skip_backward(position, self._needle)
                if skipped < position:
                    yield _Step(reader.chunk_at(skipped, ahead=False).received_at, skipped)
                    position = skipped
                    continue
            line = reader.line_before(position)
            if line is None:
                return
            yield self._shown(reader, line, line.start)
            position = line.start

    def _shown(self, reader: StreamReader, line: Line, position: int) -> _Step:
        text, cut = reader.text(line)
        if self._folded and self._folded not in text.casefold():
            return _Step(line.time, position)
        return _Step(line.time, position, line, text, cut)


def _needle(text: str) -> bytes | None:
    """Bytes that every matching chunk must hold, to pass over the others without reading lines.

    None when upper and lower case differ in letters that bytes.lower() does not know.
    """
    if not text or any(not c.isascii() and c.lower() != c.upper() for c in text):
        return None
    return text.encode().lower()


# ---------------------------------------------------------------- streams


def _get_trial(session: Session, trial_id: int) -> TrialRow:
    trial = session.get(TrialRow, trial_id)
    if trial is None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    return trial


def _streams(session: Session, trial_id: int, wanted: LogFilter) -> list[LogStreamRow]:
    query = select(LogStreamRow).where(LogStreamRow.trial_id == trial_id)
    if wanted.ranks is not None:
        query = query.where(LogStreamRow.rank.in_(sorted(wanted.ranks)))
    if wanted.stream is not None:
        query = query.where(LogStreamRow.stream == wanted.stream)
    if wanted.attempt_no is not None:
        query = query.where(LogStreamRow.attempt_no == wanted.attempt_no)
    return sorted(
        session.scalars(query),
        key=lambda s: (s.attempt_no, s.rank, s.stream != "stdout", s.node_name, s.id),
    )


def _complete_streams(
    session: Session, trial: TrialRow, streams: Sequence[LogStreamRow]
) -> set[int]:
    """Streams to which nothing more can come: their tail arrived, or is given up with its node."""
    if trial.state in TERMINAL_TRIAL and trial.logs_complete:
        return {s.id for s in streams}
    complete = {s.id for s in streams if s.is_complete}
    rest = [s for s in streams if not s.is_complete]
    if rest and trial.state in TERMINAL_TRIAL:
        given_up = set(
            session.scalars(
                select(AllocationRow.id).where(
                    AllocationRow.trial_id == trial.id,
                    AllocationRow.observed.in_(["LOST", "CLEANED"]),
                )
            )
        )
        complete |= {s.id for s in rest if s.allocation_id in given_up}
    return complete


def _truncated(session: Session, streams: Sequence[LogStreamRow]) -> list[str]:
    """Streams that have reached the limit at which the agent cuts them."""
    if not streams:
        return []
    limits: dict[str, int] = {}
    ids = sorted({s.allocation_id for s in streams if s.size_bytes})
    for id_, spec in session.execute(
        select(AllocationRow.id, AllocationRow.spec).where(AllocationRow.id.in_(ids))
    ):
        limits[id_] = spec.get("log_limit_bytes") or 0
    return [
        f"{'launcher' if s.rank < 0 else f'rank {s.rank}'} {s.stream}"
        for s in streams
        if 0 < limits.get(s.allocation_id, 0) <= s.size_bytes
    ]


# ---------------------------------------------------------------- cursors


def _encode_cursor(direction: Direction, positions: Mapping[int, int]) -> str:
    flat = [number for pair in sorted(positions.items()) for number in pair]
    raw = zlib.compress(json.dumps([direction, *flat], separators=(",", ":")).encode())
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[Direction, dict[int, int]]:
    refused = InvalidRequest(
        "logs.bad_cursor",
        "The cursor is not one this server made.",
        hint="Take `older` or `newer` from a page as it is, or leave the cursor out.",
    )
    try:
        packed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        unpacker = zlib.decompressobj()
        value = json.loads(unpacker.decompress(packed, 1_000_000))
    except (binascii.Error, ValueError, zlib.error, RecursionError):
        raise refused from None
    if not isinstance(value, list) or len(value) % 2 == 0 or value[0] not in ("older", "newer"):
        raise refused
    numbers = value[1:]
    if not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise refused
    return value[0], dict(zip(numbers[::2], numbers[1::2], strict=True))
