"""What a pattern of `metrics.from_log` finds in a log that is stored, as the shim of a job would."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.log_values import BadLogPattern, LogPattern, LogScanner, LogValue
from muster_server.db.models import LogChunkRow, LogStreamRow
from muster_server.errors import InvalidRequest
from muster_server.schemas.data import LogValueName, LogValueOut, LogValuesOut

from ..core.lookup import get_trial
from .streams import LogFilter, find_streams

PREVIEW_BUDGET_S = 1.0
"""Seconds after which a preview answers what it has found."""
FIRST_VALUES = 10
NAMES_MAX = 50
_CHUNKS_AT_ONCE = 16


@dataclass
class _Name:
    """Values of one name."""

    count: int
    last: LogValue


def preview(
    session: Session,
    trial_id: int,
    wanted: LogFilter,
    *,
    pattern: str,
    name: str = "",
    line: str = "",
    budget_s: float | None = None,
) -> LogValuesOut:
    """Apply a pattern to the streams of a filter from their beginnings; without an attempt, to those
    of the trial's newest. A launcher's own output counts where no worker has any, and `auto` reads
    rank 0 alone.

    Raises NotFound for the trial and InvalidRequest for a pattern that cannot find values.
    """
    try:
        compiled = LogPattern(pattern, name=name, line=line)
    except BadLogPattern as error:
        raise InvalidRequest(
            "logs.bad_value_pattern", f"`{error.field}` {error}.", hint=error.hint
        ) from None
    trial = get_trial(session, trial_id)
    streams = find_streams(session, LogStreamRow.trial_id == trial_id, wanted)
    if wanted.attempt_no is None:
        streams = [s for s in streams if s.attempt_no == trial.attempt_no]
    workers = [s for s in streams if s.rank >= 0 and not (compiled.is_auto and s.rank > 0)]
    streams = workers or [s for s in streams if s.rank < 0]
    deadline = time.monotonic() + (PREVIEW_BUDGET_S if budget_s is None else budget_s)
    found = _Findings()
    for stream in streams:
        found.search(stream, compiled, _chunks(session, stream), deadline)
    return found.answer(sum(s.size_bytes for s in streams))


class _Findings:
    """What has been found so far."""

    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        self._first: list[LogValueOut] = []
        self._num_values = 0
        self._num_lines = 0
        self._num_refused = 0
        self._refused = ""
        self._searched_bytes = 0

    def search(
        self,
        stream: LogStreamRow,
        pattern: LogPattern,
        chunks: Iterator[bytes],
        deadline: float,
    ) -> None:
        """Search a stream until its end or the deadline."""
        scanner = LogScanner([pattern])
        num_bytes = 0
        while time.monotonic() < deadline:
            data = next(chunks, b"")
            num_bytes += len(data)
            self._take(stream, scanner.feed(data, is_last=not data))
            if not data:
                break
        self._searched_bytes += num_bytes
        self._num_lines += scanner.num_lines
        self._num_refused += scanner.num_refused
        self._refused = self._refused or scanner.refused

    def _take(self, stream: LogStreamRow, values: Sequence[LogValue]) -> None:
        self._num_values += len(values)
        for value in values:
            if len(self._first) < FIRST_VALUES:
                self._first.append(LogValueOut.from_row(value, rank=stream.rank))
            known = self._names.get(value.name)
            if known is None:
                self._names[value.name] = _Name(1, value)
            else:
                known.count, known.last = known.count + 1, value

    def answer(self, size_bytes: int) -> LogValuesOut:
        return LogValuesOut(
            num_values=self._num_values,
            num_lines=self._num_lines,
            num_names=len(self._names),
            names=[
                LogValueName(
                    name=name, num_values=of.count, last_step=of.last.step, last=of.last.value
                )
                for name, of in sorted(self._names.items())[:NAMES_MAX]
            ],
            first=self._first,
            num_refused=self._num_refused,
            refused=self._refused,
            searched_bytes=self._searched_bytes,
            left_bytes=size_bytes - self._searched_bytes,
        )


def _chunks(session: Session, stream: LogStreamRow) -> Iterator[bytes]:
    """Yield the bytes of a stream."""
    position = 0
    while True:
        rows = session.execute(
            select(LogChunkRow.offset, LogChunkRow.length, LogChunkRow.data)
            .where(LogChunkRow.stream_id == stream.id, LogChunkRow.offset >= position)
            .order_by(LogChunkRow.offset)
            .limit(_CHUNKS_AT_ONCE)
        ).all()
        if not rows:
            return
        for row in rows:
            yield zlib.decompress(row.data)
        position = rows[-1].offset + rows[-1].length
