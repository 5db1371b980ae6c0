"""The records of one allocation on disk, from the moment they happen until the server holds them.

`records/000000000001.jsonl`, … : one wire.NumberedRecord per line, numbered without gaps; a
segment is named after its first number. One process writes (the shim; after its death the agent),
one reads (the agent). A line is written in one system call and state records are synced, so a
crash can tear the last line only, which `RecordWriter` cuts off before it appends.

The spool is bounded. When an outage fills it, records of metrics and media are refused first and
only they are; message records report how many. The first loss is reported at once, further ones ever
more rarely while the outage lasts, and the last before any state. Losses not reported yet are kept in
`lost.json`, so that whoever writes next reports them if this process is killed.

A full disk loses nothing at first either: a writer that holds keeps what it cannot write in memory,
in order, and writes it once there is room again.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster import wire
from muster_agent.clock import boot_clock, unix_ms
from muster_agent.records.masking import NO_MASK, Mask

SEGMENT_BYTES = 16 * 1024 * 1024
DEFAULT_LIMIT_BYTES = 2 * 1024 * 1024 * 1024
HOLD_BYTES = 16 * 1024 * 1024
"""Bytes a shim keeps in memory while its disk is full; beyond it, only metrics are lost."""
_SIZE_CHECK_EVERY = 256
"""Number of appends between two checks of the total size."""
_FULL_CHECK_EVERY = 8
"""Number of appends between two checks while the spool is full: what the server has taken makes
room."""
_SEGMENTS_MIN = 4
"""Smallest number of segments in a full spool. Space is freed by whole segments: a single segment
as large as the spool could never be deleted, and the spool would stay full for good."""
_REPORT_FIRST_S = 10.0
"""Seconds until further losses are reported; doubles with each report. The first is reported at
once."""
_REPORT_MAX_S = 600.0
"""Largest such interval in seconds. After as long without a loss, the next one is reported at once.
"""

_MASKED_KINDS = (
    '"type":"message"',
    '"type":"state"',
    '"type":"stacks"',
    '"type":"tracked_run"',
    '"type":"model_registration"',
)


class RecordWriter:
    """Appends records. One per allocation at a time; the allocation's lock guarantees it."""

    def __init__(
        self,
        folder: Path,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        hold_bytes: int = 0,
        clock: Callable[[], float] = boot_clock,
        mask: Mask = NO_MASK,
    ) -> None:
        """Open the spool for writing.

        hold_bytes: bytes to keep in memory while the disk is full; with 0, `append` raises OSError then.
        clock: seconds, for how often losses are reported.
        mask: hides secrets in what people read: messages, states and stacks."""
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._segment_bytes = min(SEGMENT_BYTES, max(1, limit_bytes // _SEGMENTS_MIN))
        self._hold_bytes = hold_bytes
        self._mask = mask
        self._held: collections.deque[_Held] = collections.deque()
        self._held_bytes = 0
        self._appends_until_check = 0
        self._is_full = False
        folder.mkdir(parents=True, exist_ok=True)
        self._losses = _Losses(folder / "lost.json", clock)
        segments = _segments(folder)
        path = segments[-1] if segments else folder / _segment_name(1)
        self.num_records = int(path.stem) - 1 + _repair(path)
        self._open(path)

    def append(self, record: wire.Record) -> int:
        """Append a record and return its number; 0 if it is held, or if it was a metric record and
        is lost."""
        if isinstance(record, wire.MetricsRecord):
            return self.append_raw(wire.dump(record), is_metrics=True)
        is_state = isinstance(record, wire.StateRecord)
        return self.append_raw(wire.dump(record), is_synced=is_state)

    def append_raw(self, record: str, *, is_metrics: bool = False, is_synced: bool = False) -> int:
        """Append the JSON text of a record that is already known to be valid; see `append`."""
        if is_metrics and self._has_no_room():
            self._losses.add()
            return 0
        if self._mask and any(kind in record[:40] for kind in _MASKED_KINDS):
            record = self._mask.record(record)
        item = _Held(record, unix_ms(), is_synced)
        try:
            self.flush()
            # Also before a state, because nothing may follow the last one.
            self._report_losses(is_due=is_synced or self._losses.is_due())
            return self._write(item)
        except OSError:  # The disk is full; training goes on.
            if is_metrics and self._held_bytes >= self._hold_bytes:
                self._losses.add()
                return 0
            if not self._hold_bytes:
                raise
            self._held.append(item)
            self._held_bytes += len(record)
            return 0

    @property
    def is_holding(self) -> bool:
        """Return whether records wait in memory for room on the disk."""
        return bool(self._held)

    def flush(self) -> None:
        """Write the records held in memory. Raises OSError if there is still no room for all of
        them."""
        while self._held:
            self._write(self._held[0])
            self._held_bytes -= len(self._held.popleft().record)

    def _write(self, item: _Held) -> int:
        if self._size >= self._segment_bytes:
            full = self._fd
            self._open(self._folder / _segment_name(self.num_records + 1))
            os.close(full)
        seq = self.num_records + 1
        line = f'{{"seq":{seq},"at_ms":{item.at_ms},"record":{item.record}}}\n'.encode()
        written = 0
        try:
            while written < len(line):  # More than once on a disk that is nearly full.
                written += os.write(self._fd, line[written:])
        except OSError:
            if written:
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)
        self.num_records = seq
        if item.is_synced:
            os.fsync(self._fd)
        return seq

    def close(self) -> None:
        """Close the spool. Records still held in memory are lost."""
        with contextlib.suppress(OSError):
            self.flush()
            self._report_losses(is_due=True)
        with contextlib.suppress(OSError):
            os.fsync(self._fd)
        os.close(self._fd)

    def _open(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _has_no_room(self) -> bool:
        if self._appends_until_check == 0:
            self._appends_until_check = _SIZE_CHECK_EVERY
            total = 0
            for segment in _segments(self._folder):
                with contextlib.suppress(OSError):
                    total += segment.stat().st_size
            self._is_full = total >= self._limit_bytes
            if self._is_full:
                self._appends_until_check = _FULL_CHECK_EVERY
        self._appends_until_check -= 1
        return self._is_full

    def _report_losses(self, *, is_due: bool) -> None:
        """Record a message about losses. Raises OSError if there is no room for it either."""
        num, total = self._losses.num_unreported, self._losses.num_total
        if num == 0 or not is_due:
            return
        # A training can lose so many steps that one line per gap would bury the rest.
        since = f" (together {total})" if total > num else ""
        text = (
            f"{num} metric and media records were lost{since}: the server was out of reach and the "
            f"node's spool (at most {self._limit_bytes} bytes) or its disk was full"
        )
        record = wire.dump(wire.MessageRecord(level="warning", text=text))
        self._write(_Held(record, unix_ms(), is_synced=False))
        self._losses.mark_reported()


class _Losses:
    """Counts lost records of metrics and media, and how many of them are not reported yet, and
    decides when to report."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._lost_at = self._reported_at = -math.inf
        self._wait_s = 0.0
        self.num_unreported = self.num_total = 0
        with contextlib.suppress(OSError, ValueError, KeyError):  # None yet, or torn.
            kept = json.loads(path.read_text())
            self.num_unreported, self.num_total = int(kept["unreported"]), int(kept["total"])

    def add(self) -> None:
        now = self._clock()
        if now - self._lost_at >= _REPORT_MAX_S:
            self._wait_s = 0.0
        self._lost_at = now
        self.num_unreported += 1
        self.num_total += 1
        self._keep()

    def is_due(self) -> bool:
        return self._clock() - self._reported_at >= self._wait_s

    def mark_reported(self) -> None:
        self.num_unreported = 0
        self._reported_at = self._clock()
        self._wait_s = min(max(_REPORT_FIRST_S, 2 * self._wait_s), _REPORT_MAX_S)
        self._keep()

    def _keep(self) -> None:
        # Always as long as the first time, so that a full disk has room for it.
        text = f'{{"unreported": {self.num_unreported:12d}, "total": {self.num_total:12d}}}'
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)


@dataclass(frozen=True)
class _Held:
    record: str
    at_ms: int
    is_synced: bool


@dataclass(frozen=True)
class SpoolLine:
    seq: int
    data: bytes
    """JSON text of the NumberedRecord, without the newline."""

    def is_exit(self) -> bool:
        """Return whether this is the state record EXITED: the last of its stream."""
        if b'"type":"state"' not in self.data[:120]:
            return False
        record: dict[str, Any] = json.loads(self.data)["record"]
        return record.get("observed") == "EXITED"


class RecordReader:
    """Reads forward from any number; keeps its place, so following a growing spool is cheap."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment: Path | None = None
        self._offset = 0
        self._next_seq = 0

    def read(self, after_seq: int, *, max_records: int, max_bytes: int) -> list[SpoolLine]:
        """Return complete lines that follow `after_seq`; at least one, however long, if there is
        one."""
        if self._segment is None or self._next_seq != after_seq + 1:
            self._seek(after_seq + 1)
        lines: list[SpoolLine] = []
        num_bytes = 0
        while self._segment is not None and len(lines) < max_records:
            with self._segment.open("rb") as file:
                file.seek(self._offset)
                while len(lines) < max_records:
                    data = file.readline()
                    if not data.endswith(b"\n"):
                        break  # The end, or a line that is still being written.
                    if lines and num_bytes + len(data) > max_bytes:
                        return lines
                    lines.append(SpoolLine(self._next_seq, data[:-1]))
                    num_bytes += len(data)
                    self._offset += len(data)
                    self._next_seq += 1
            following = self._folder / _segment_name(self._next_seq)
            if following == self._segment or not following.exists():
                break
            self._segment, self._offset = following, 0
        return lines

    def drop_until(self, acked_seq: int) -> None:
        """Delete the segments that the server holds entirely. The one being written is kept."""
        segments = _segments(self._folder)
        for segment, following in itertools.pairwise(segments):
            if int(following.stem) <= acked_seq + 1:
                if segment == self._segment:
                    self._segment = None
                segment.unlink(missing_ok=True)

    def _seek(self, seq: int) -> None:
        self._segment = None
        for segment in _segments(self._folder):
            if int(segment.stem) <= seq:
                self._segment = segment
        if self._segment is None:
            return
        self._next_seq, self._offset = int(self._segment.stem), 0
        with self._segment.open("rb") as file:
            while self._next_seq < seq:
                data = file.readline()
                if not data.endswith(b"\n"):
                    self._segment = None  # Not written yet.
                    return
                self._offset += len(data)
                self._next_seq += 1


def read_records(folder: Path) -> list[wire.NumberedRecord]:
    """Return everything still on disk, decoded. For tests and for inspecting a spool by hand."""
    segments = _segments(folder)
    if not segments:
        return []
    lines = RecordReader(folder).read(
        int(segments[0].stem) - 1, max_records=1 << 62, max_bytes=1 << 62
    )
    return [wire.loads(wire.NumberedRecord, line.data) for line in lines]


def last_state(folder: Path) -> wire.StateRecord | None:
    """Return the newest state record on disk: the last known state of the allocation."""
    for segment in reversed(_segments(folder)):
        found: wire.StateRecord | None = None
        with segment.open("rb") as file:
            for data in file:
                if data.endswith(b"\n") and b'"type":"state"' in data[:120]:
                    record = wire.loads(wire.NumberedRecord, data).record
                    assert isinstance(record, wire.StateRecord)
                    found = record
        if found is not None:
            return found
    return None


def count_records(folder: Path) -> int:
    """Return the number of the last complete record; 0 if there is none."""
    segments = _segments(folder)
    if not segments:
        return 0
    return int(segments[-1].stem) - 1 + _count_lines(segments[-1])[0]


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _segment_name(first_seq: int) -> str:
    return f"{first_seq:012d}.jsonl"


def _count_lines(path: Path) -> tuple[int, int]:
    """Return the number of complete lines of a segment, and their size in bytes."""
    num_lines = num_bytes = 0
    if path.exists():
        with path.open("rb") as file:
            for data in file:
                if not data.endswith(b"\n"):
                    break
                num_lines += 1
                num_bytes += len(data)
    return num_lines, num_bytes


def _repair(path: Path) -> int:
    """Cut off a torn last line; return the number of complete lines."""
    num_lines, num_bytes = _count_lines(path)
    if path.exists() and path.stat().st_size > num_bytes:
        os.truncate(path, num_bytes)
    return num_lines
