"""Destinations of reports: nothing, a file, or the shim's unix socket.

Guarantees of every sink: no method raises, none waits for another process except `flush` and
`close`, which wait at most as long as they are told. Order is kept. What cannot be kept is counted
and the count is reported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Any, Protocol

from muster import wire
from muster.sdk.metrics import Row

FLUSH_INTERVAL_S = 0.2
MAX_QUEUED_VALUES = 100_000
"""Values (not rows) kept while the shim does not read: about 10 MB, or 4 minutes of 20 series at
20 rows per second, or 30 s of 3 values of each of 1,000 steps per second. Later ones are dropped and counted."""
MAX_QUEUED_RECORDS = 10_000
"""Other records (checkpoints, groups, messages) kept while the shim does not read."""
MAX_VALUES_PER_RECORD = 5_000
RECONNECT_MAX_S = 2.0
PROGRESS_INTERVAL_S = 1.0
"""Seconds between two progress reports to the agent, sent only if something has changed."""

WorkerReport = (
    wire.GroupRecord
    | wire.CheckpointRecord
    | wire.EvaluationRecord
    | wire.SamplesRecord
    | wire.ModelResultRecord
    | wire.EndpointRecord
    | wire.ScheduleRecord
    | wire.MediaRecord
    | wire.MediaDropsRecord
    | wire.MessageRecord
    | wire.ShardPlanRecord
    | wire.ShardsRecord
    | dict[str, Any]
)
"""A record, or a dict for a message that is no record: {"type": "stopping"}, a worker winding down,
or {"type": "profile", ...}, the result of a profiler order."""


class Sink(Protocol):
    @property
    def control(self) -> wire.Control:
        """Return the latest request of Muster."""

    def hello(self, record: wire.WorkerRecord) -> None:
        """Introduce this worker; again when more is known about it."""

    def row(self, row: Row) -> None: ...

    def record(self, record: WorkerReport) -> None: ...

    @property
    def num_waiting(self) -> int:
        """Number of reports other than values that have not been sent."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything given so far was handed over. Return False on a timeout."""

    def close(self, timeout_s: float) -> bool: ...


class NullSink:
    """The sink without Muster: everything is accepted and forgotten."""

    control = wire.Control(should_stop=False)
    num_waiting = 0

    def hello(self, record: wire.WorkerRecord) -> None: ...

    def row(self, row: Row) -> None: ...

    def record(self, record: WorkerReport) -> None: ...

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self, timeout_s: float) -> bool:
        return True


class FileSink:
    """JSON lines in a file, the same ones the socket would carry. All ranks may share one file."""

    control = wire.Control(should_stop=False)
    num_waiting = 0

    def __init__(self, path: str, *, rank: int, local_rank: int) -> None:
        self._rank, self._local_rank = rank, local_rank
        self._fd: int | None = None
        self._num_failed = 0
        try:
            # One write per line with O_APPEND: lines of several workers never interleave.
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            warn(f"cannot write reports to {path}: {error}; training continues without them")

    def hello(self, record: wire.WorkerRecord) -> None:
        self._write(hello_line(record))

    def row(self, row: Row) -> None:
        for line in metrics_lines([row], rank=self._rank, local_rank=self._local_rank):
            self._write(line)

    def record(self, record: WorkerReport) -> None:
        self._write(_line(record))

    def flush(self, timeout_s: float) -> bool:
        return self._num_failed == 0

    def close(self, timeout_s: float) -> bool:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
        return self._num_failed == 0

    def _write(self, line: bytes) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, line)
        except OSError as error:
            self._num_failed += 1
            if self._num_failed == 1:
                warn(f"cannot write reports: {error}; some are lost")


class AgentSink:
    """Sends to the shim over its unix socket, from a thread of its own.

    A line is either delivered whole or sent again after reconnecting; the shim drops the partial
    line of a broken connection, so nothing arrives twice.
    """

    def __init__(
        self,
        path: str,
        *,
        rank: int,
        local_rank: int,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        max_queued_values: int = MAX_QUEUED_VALUES,
        progress: Callable[[], dict[str, Any]] | None = None,
        on_control: Callable[[wire.Control], None] | None = None,
    ) -> None:
        """Create the sink.

        progress: called by the thread, even while the training thread hangs.
        on_control: called by the thread with each request of Muster."""
        self._path = path
        self._rank, self._local_rank = rank, local_rank
        self._flush_interval_s = flush_interval_s
        self._max_queued_values = max_queued_values
        self._control = wire.Control(should_stop=False)

        self._lock = threading.Lock()
        # Below: guarded by the lock, shared with the training thread.
        self._queue: deque[Row | WorkerReport] = deque()
        self._num_queued_values = 0
        self._num_queued_records = 0
        self._num_dropped = 0
        self._dropped_from = self._dropped_to = 0
        self._hello: wire.WorkerRecord | None = None
        self._hello_changed = False
        self._closing = False
        self._num_given = 0
        self._num_delivered = 0
        self._delivered = threading.Condition(self._lock)

        # Below: the thread's own.
        self._socket: socket.socket | None = None
        self._lines: deque[tuple[bytes, int]] = deque()
        """Lines to send, each with the number of queue entries it completes."""
        self._num_sent_of_first = 0
        self._inbox = b""
        self._retry_at = 0.0
        self._retry_s = FLUSH_INTERVAL_S
        self._warned = False
        self._progress = progress
        self._on_control = on_control
        self._progress_told: dict[str, Any] | None = None
        self._progress_at = 0.0

        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_w, False)
        self._thread = threading.Thread(target=self._loop, name="muster-report", daemon=True)
        self._thread.start()

    # ------------------------------------------------ the training thread's side

    @property
    def control(self) -> wire.Control:
        return self._control

    def hello(self, record: wire.WorkerRecord) -> None:
        with self._lock:
            self._hello = record
            self._num_given += not self._hello_changed
            self._hello_changed = True
        self._wake()

    def row(self, row: Row) -> None:
        with self._lock:
            if self._num_queued_values + len(row.values) > self._max_queued_values:
                if not self._num_dropped:
                    self._dropped_from = row.step
                self._num_dropped += len(row.values)
                self._dropped_to = row.step
                return
            self._queue.append(row)
            self._num_queued_values += len(row.values)
            self._num_given += 1

    def record(self, record: WorkerReport) -> None:
        with self._lock:
            if self._num_queued_records >= MAX_QUEUED_RECORDS:
                self._num_dropped += 1
                return
            self._queue.append(record)
            self._num_queued_records += 1
            self._num_given += 1

    @property
    def num_waiting(self) -> int:
        return self._num_queued_records + len(self._lines)

    def flush(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        self._wake()
        with self._delivered:
            # The notice of what was dropped counts as given only once the thread has written it.
            goal = self._num_given + (self._num_dropped > 0)
            while self._num_delivered < goal or self._num_dropped:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._delivered.wait(min(left, 0.1))
        return True

    def close(self, timeout_s: float) -> bool:
        delivered = self.flush(timeout_s)
        with self._lock:
            self._closing = True
        self._wake()
        self._thread.join(1.0)
        return delivered

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it will wake anyway
            os.write(self._wake_w, b"x")

    # ------------------------------------------------ the thread's side

    def _loop(self) -> None:
        while True:
            try:
                self._turn()
                if self._closing:
                    break
            except Exception as error:
                # The top of the thread: whatever it is, training goes on and reporting tries again.
                self._disconnect(f"{type(error).__name__}: {error}")
        if self._socket is not None:
            self._socket.close()
        os.close(self._wake_r)

    def _turn(self) -> None:
        connected = self._connect()
        if connected and not self._lines:
            self._fill_lines()
            self._add_progress()
        sock = self._socket
        # poll, not select: a training process may have more than 1,024 files open.
        poll = select.poll()
        poll.register(self._wake_r, select.POLLIN)
        if sock is not None:
            poll.register(sock, select.POLLIN | (select.POLLOUT if self._lines else 0))
        events = dict(poll.poll(self._flush_interval_s * 1000))
        if self._wake_r in events:
            os.read(self._wake_r, 4096)
        if sock is None or sock.fileno() not in events:
            return
        try:
            happened = events[sock.fileno()]
            if happened & ~select.POLLOUT:
                self._receive(sock)
            if happened & select.POLLOUT:
                self._send(sock)
        except OSError as error:
            self._disconnect(str(error))

    def _connect(self) -> bool:
        if self._socket is not None:
            return True
        if time.monotonic() < self._retry_at:
            return False
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(1.0)
            sock.connect(self._path)
        except OSError as error:
            sock.close()
            self._disconnect(str(error))
            return False
        sock.setblocking(False)
        self._socket = sock
        self._retry_s = self._flush_interval_s
        self._num_sent_of_first = 0
        with self._lock:
            hello, self._hello_changed, is_new = self._hello, False, self._hello_changed
        if hello is not None:
            self._lines.appendleft((hello_line(hello), int(is_new)))
        return True

    def _disconnect(self, why: str) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._inbox = b""
        self._num_sent_of_first = 0
        self._progress_told = None
        self._retry_at = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, RECONNECT_MAX_S)
        if not self._warned:
            self._warned = True
            warn(
                f"no connection to the agent at {self._path} ({why}); training continues, "
                "reports are kept and sent when it is back"
            )

    def _fill_lines(self) -> None:
        """Turn what is queued into lines: consecutive rows become one columnar record."""
        with self._lock:
            if self._hello_changed and self._hello is not None:
                self._lines.append((hello_line(self._hello), 1))
                self._hello_changed = False
            entries = list(self._queue)
            self._queue.clear()
            self._num_queued_values = self._num_queued_records = 0
            num_dropped, self._num_dropped = self._num_dropped, 0
            self._num_given += num_dropped > 0
        rows: list[Row] = []
        num_values = 0
        for entry in entries:
            if isinstance(entry, Row):
                if rows and rows[-1].axis != entry.axis:
                    self._add_rows(rows)
                    rows, num_values = [], 0
                rows.append(entry)
                num_values += len(entry.values)
                if num_values < MAX_VALUES_PER_RECORD:
                    continue
            self._add_rows(rows)
            rows, num_values = [], 0
            if not isinstance(entry, Row):
                self._lines.append((_line(entry), 1))
        self._add_rows(rows)
        if num_dropped:
            text = (
                f"rank {self._rank}: {num_dropped} reported values were dropped between steps "
                f"{self._dropped_from} and {self._dropped_to}: the agent did not read them in time"
            )
            self._lines.append((_line(wire.MessageRecord(level="warning", text=text)), 1))
        if not self._lines:
            with self._delivered:
                self._delivered.notify_all()

    def _add_progress(self) -> None:
        if self._progress is None or self._hello is None:  # nobody would know whose it is
            return
        if time.monotonic() < self._progress_at + PROGRESS_INTERVAL_S:
            return
        self._progress_at = time.monotonic()
        found = self._progress()
        if found != self._progress_told:
            self._progress_told = found
            self._lines.append((_line({"type": "progress", **found}), 0))

    def _add_rows(self, rows: list[Row]) -> None:
        if rows:
            *lines, last = metrics_lines(rows, rank=self._rank, local_rank=self._local_rank)
            self._lines.extend((line, 0) for line in lines)
            self._lines.append((last, len(rows)))

    def _send(self, sock: socket.socket) -> None:
        while self._lines:
            line, num_entries = self._lines[0]
            try:
                self._num_sent_of_first += sock.send(memoryview(line)[self._num_sent_of_first :])
            except BlockingIOError:
                return
            if self._num_sent_of_first == len(line):
                self._lines.popleft()
                self._num_sent_of_first = 0
                with self._delivered:
                    self._num_delivered += num_entries
                    self._delivered.notify_all()

    def _receive(self, sock: socket.socket) -> None:
        data = sock.recv(65536)
        if not data:
            raise ConnectionResetError("closed by the agent")
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # a newer shim may say things we do not know
                self._control = wire.loads(wire.Control, line)
                if self._on_control is not None:
                    self._on_control(self._control)


def metrics_lines(rows: list[Row], *, rank: int, local_rank: int) -> list[bytes]:
    """Return several rows as columnar wire.MetricsRecords, each of as many series as one may have;
    `rows` must not be empty.

    Written as plain dicts: dataclasses.asdict copies every list, five times the cost of the rest.
    """
    columns: dict[str, tuple[list[int], list[int], list[wire.Number]]] = {}
    epoch: float | None = None
    planned: int | None = None
    for row in rows:
        for name, value in row.values.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = ([], [], [])
            column[0].append(row.step)
            column[1].append(row.time_ms)
            column[2].append(value if isfinite(value) else wire.encode_number(value))
        epoch = row.epoch if row.epoch is not None else epoch
        planned = row.num_steps_planned if row.num_steps_planned is not None else planned
    record = {
        "type": "metrics",
        "local_rank": local_rank,
        "rank": rank,
        "step": max(row.step for row in rows),
        "epoch": epoch,
        "num_steps_planned": planned,
    }
    series = [
        {"name": name, "steps": steps, "times_ms": times_ms, "values": values}
        for name, (steps, times_ms, values) in columns.items()
    ]
    return [
        _line({**record, "series": series[at : at + wire.SERIES_PER_RECORD_MAX]})
        for at in range(0, len(series), wire.SERIES_PER_RECORD_MAX)
    ]


def hello_line(record: wire.WorkerRecord) -> bytes:
    return (wire.dump({**dataclasses.asdict(record), "type": "hello"}) + "\n").encode()


def warn(text: str) -> None:
    """Print one line to stderr. Not `warnings`: a script that turns those into errors must not
    fail."""
    with contextlib.suppress(Exception):
        print(f"muster: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _line(record: Any) -> bytes:
    return (wire.dump(record) + "\n").encode()
