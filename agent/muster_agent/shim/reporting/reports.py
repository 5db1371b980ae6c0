"""The socket on which training processes report.

A worker never waits for us: it writes into the socket's buffer and drops from its own queue when
that is full. Here a line is bounded, what is read but not yet recorded is bounded by the stream's
flow control, and a line that is not a valid record is counted and reported, never recorded, because
the server would refuse it and with it everything behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster import wire
from muster.run_names import ProcessNames
from muster.sdk.metrics import MEASURED
from muster.series_rules import NAME_RULE, clean_name, finite, is_valid_name, storable, whole_step
from muster_agent.isolation.peers import Peer, peer_of
from muster_agent.shim.reporting.media import MediaKeeper

MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_CONNECTIONS = 4_096
MAX_NAME_CHARS = 256
LEFT_OUT_SAID_MAX = 20
"""Names of which the agent says that a value was left out."""
MAX_PATH_CHARS = 4_096
ROUNDS_TO_ACCEPT = 4
"""Number of rounds of the event loop after which waiting connections are accepted and being read."""
MAX_GROUPS = 64
"""Largest number of process groups of one worker whose progress is accepted; the SDK reports fewer.
"""

_RARE_RECORDS: dict[str, type[Any]] = {
    "group": wire.GroupRecord,
    "checkpoint": wire.CheckpointRecord,
    "evaluation": wire.EvaluationRecord,
    "model_result": wire.ModelResultRecord,
    "endpoint": wire.EndpointRecord,
    "schedule": wire.ScheduleRecord,
    "shard_plan": wire.ShardPlanRecord,
    "shards": wire.ShardsRecord,
    "message": wire.MessageRecord,
}
_INT64_MAX = 2**63 - 1


class LineSender:
    """Sends lines to a worker, over a duplicate of its connection. An asyncio transport that fails
    to write stops reading, too: what a worker had sent before it ended would be lost."""

    def __init__(self, connection: int) -> None:
        self._socket = socket.socket(fileno=os.dup(connection))
        self._socket.setblocking(False)
        self._left = bytearray()
        """Bytes that the buffer of the socket had no room for."""

    def send(self, line: bytes) -> None:
        """Send a line as soon as there is room. Drop it if the worker has ended."""
        is_waiting = bool(self._left)
        self._left += line
        if not is_waiting:
            self._go_on()

    def close(self) -> None:
        asyncio.get_running_loop().remove_writer(self._socket)
        self._socket.close()

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            del self._left[: self._socket.send(self._left)]
        except BlockingIOError:
            pass
        except OSError:
            self._left.clear()
        if self._left:
            loop.add_writer(self._socket, self._go_on)
        else:
            loop.remove_writer(self._socket)


@dataclass(eq=False)
class ConnectedWorker:
    """One connected worker."""

    sender: LineSender
    peer: Peer | None = None
    """Process that opened the connection; None where the system does not tell."""
    worker: wire.WorkerRecord | None = None
    progress: wire.WorkerProgress | None = None
    """Progress that the worker has reported."""
    is_beside: bool = False
    """Whether another process is the worker: this one was started by it, or beside it."""
    is_stopping: bool = False
    """Whether the worker has seen the stop request and is winding down."""


class ReportServer:
    """Accepts workers, passes their records to `record`, and forwards stop requests to them."""

    def __init__(
        self,
        *,
        record: Callable[[str, bool], None],
        hello: Callable[[wire.WorkerRecord], None],
        warn: Callable[[str], None],
        member: str = "",
        rank_base: int = 0,
        profiled: Callable[[int, wire.WorkerProfile], None] = lambda rank, said: None,
        media: MediaKeeper | None = None,
        reported: Callable[[list[str]], None] = lambda names: None,
        captured_folder: Callable[[str], None] = lambda path: None,
        child_run: Callable[[str], None] = lambda label: None,
        uid: int | None = None,
    ) -> None:
        """Create the server.

        record: takes the JSON text of a valid record, and whether it holds metrics.
        member: name of the member of a role that the workers belong to; "" for any other job.
        rank_base: added to the ranks that workers know; see wire.AllocationSpec.rank_base.
        profiled: takes a rank and its answer to a profiler order.
        media: takes the media that workers log; None ignores them.
        reported: takes the names of metrics that a worker has reported.
        captured_folder: takes a folder of event files whose scalars a worker reports itself.
        child_run: takes the label of a further run of the script.
        uid: user of the workers, the only one who is listened to; None for that of this process."""
        self._uid = os.getuid() if uid is None else uid
        self._record = record
        self._hello = hello
        self._warn = warn
        self._member, self._rank_base = member, rank_base
        self._profiled = profiled
        self._media = media
        self._reported = reported
        self._captured_folder = captured_folder
        self._child_run = child_run
        self._control = wire.Control(should_stop=False)
        self._reporters: set[ConnectedWorker] = set()
        self._handlers: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.num_refused_lines = 0
        self._processes: dict[int, ProcessNames] = {}
        """Processes of each rank."""
        self._has_said_processes = False
        self._left_out: set[str] = set()
        """Names of which a value was left out."""

    async def listen(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(
            self._accept, path=str(path), limit=MAX_LINE_BYTES, backlog=512
        )

    @property
    def workers(self) -> list[wire.WorkerRecord]:
        """Return the connected workers."""
        return [r.worker for r in self._own_reporters() if r.worker is not None]

    @property
    def progress(self) -> dict[int, wire.WorkerProgress]:
        """Return the progress of the connected workers, by local rank."""
        return {
            r.progress.local_rank: r.progress
            for r in self._own_reporters()
            if r.progress is not None
        }

    @property
    def all_are_stopping(self) -> bool:
        """Return whether every connected worker has reported that it is winding down."""
        known = self._own_reporters()
        return bool(known) and all(r.is_stopping for r in known)

    def order_profile(self, order: wire.ProfileOrder) -> None:
        """Send a profiler order to every worker; those that are not meant ignore it."""
        ranks = [rank - self._rank_base for rank in order.ranks]
        self.push(replace(self._control, profile=replace(order, ranks=ranks)))

    def give_shards(self, orders: wire.ShardOrders | None) -> None:
        """Send orders of batch inference to every worker, unless they have them. Called often."""
        if orders is not None and orders != self._control.shards:
            self.push(replace(self._control, shards=orders))

    def push(self, control: wire.Control) -> None:
        """Send a message to every worker, and to each that connects from now on."""
        self._control = control
        for reporter in self._reporters:
            self._send_control(reporter)

    async def drain(self, *, timeout_s: float) -> None:
        """Read what ended workers left in their sockets, then stop accepting reports."""
        if self._server is not None:
            for _ in range(ROUNDS_TO_ACCEPT):
                await asyncio.sleep(0)
            self._server.close()
        if self._handlers:
            _, open_ones = await asyncio.wait(set(self._handlers), timeout=timeout_s)
            for task in open_ones:
                task.cancel()
            if open_ones:
                await asyncio.wait(open_ones, timeout=1.0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            with contextlib.closing(LineSender(writer.get_extra_info("socket").fileno())) as sender:
                reporter = ConnectedWorker(sender, peer=peer_of(writer))
                is_stranger = reporter.peer is not None and reporter.peer.uid != self._uid
                if len(self._reporters) < MAX_CONNECTIONS and not is_stranger:
                    await self._serve(reporter, reader)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._handlers.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reporter: ConnectedWorker, reader: asyncio.StreamReader) -> None:
        self._reporters.add(reporter)
        try:
            await self._take_all(reporter, reader)
        finally:
            self._reporters.discard(reporter)
            self._succeed(reporter)

    def _own_reporters(self) -> list[ConnectedWorker]:
        """Return the workers, without the processes beside them."""
        return [r for r in self._reporters if r.worker is not None and not r.is_beside]

    def _succeed(self, gone: ConnectedWorker) -> None:
        """Have a process that is beside a worker, which has ended, take its place."""
        if gone.is_beside or gone.worker is None:
            return
        for other in self._reporters:
            heir = other.worker if other.is_beside else None
            if heir is not None and heir.local_rank == gone.worker.local_rank:
                other.is_beside = False
                self._hello(heir)
                return

    async def _take_all(self, reporter: ConnectedWorker, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # Longer than the limit; the stream has dropped the piece.
                self._refuse(reporter, f"a line of more than {MAX_LINE_BYTES} bytes")
                continue
            if not line.endswith(b"\n"):
                return  # End of stream; a torn line is ignored.
            try:
                self._take(reporter, line)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                self._refuse(reporter, str(error)[:500])

    def _take(self, reporter: ConnectedWorker, line: bytes) -> None:
        message = json.loads(line, parse_constant=_refuse_constant)
        if not isinstance(message, dict):
            raise ValueError("a line must be a JSON object")
        kind = message.pop("type", None)
        if kind == "hello":
            worker = wire.load(wire.WorkerRecord, {**message, "type": "worker"})
            # A worker in a sandbox knows its pid there only, and one that lies could name any.
            pid = worker.pid if reporter.peer is None else reporter.peer.pid
            rank = worker.rank + self._rank_base
            reporter.worker = replace(worker, reports=True, pid=pid, rank=rank)
            reporter.is_beside = any(
                other.worker.local_rank == worker.local_rank and other.worker.pid != pid
                for other in self._own_reporters()
                if other is not reporter and other.worker is not None
            )
            if not reporter.is_beside:
                self._hello(reporter.worker)
            self._send_control(reporter)
            return
        if reporter.worker is None:
            raise ValueError("the first line of a connection must be hello")
        if kind == "stopping":
            reporter.is_stopping = True
        elif kind == "progress":
            place = {"local_rank": reporter.worker.local_rank, "rank": reporter.worker.rank}
            said = {**message, **place, "process": "", "reports": True}
            reporter.progress = _bounded(wire.load(wire.WorkerProgress, said))
        elif kind == "profile":
            self._profiled(reporter.worker.rank, wire.load(wire.WorkerProfile, message))
        elif kind == "metrics":
            metrics, problems = valid_metrics(message)
            self._leave_out(reporter.worker.rank, problems)
            if not metrics["series"]:
                return
            metrics |= {"local_rank": reporter.worker.local_rank, "rank": reporter.worker.rank}
            self._tell_apart(reporter, metrics["series"])
            self._reported([series["name"] for series in metrics["series"]])
            self._record(json.dumps(metrics, separators=(",", ":"), allow_nan=False), True)
        elif kind == "media" and self._media is not None:
            item = wire.load(wire.MediaRecord, {**message, "rank": reporter.worker.rank})
            self._media.take(item)
        elif kind == "media_drops" and self._media is not None:
            place = {"rank": reporter.worker.rank}
            drops = wire.load(wire.MediaDropsRecord, {**message, **place})
            self._media.take_drops(drops.rank, drops.num)
        elif kind == "captured_folder":
            self._captured_folder(_path(message.get("path")))
        elif kind == "child_run":
            self._child_run(clean_name(str(message.get("label"))))
        elif kind == "samples":
            place = {"local_rank": reporter.worker.local_rank, "rank": reporter.worker.rank}
            self._record(
                wire.dump(_few_samples(wire.load(wire.SamplesRecord, message | place))), False
            )
        elif kind in _RARE_RECORDS:
            record = wire.load(_RARE_RECORDS[kind], message)
            if self._member and isinstance(record, wire.GroupRecord):
                record = replace(
                    record,
                    name=f"{self._member}/{record.name}",
                    ranks=[rank + self._rank_base for rank in record.ranks],
                )
            self._record(wire.dump(record), False)
        # Any other message comes from a newer SDK and is ignored.

    def _send_control(self, reporter: ConnectedWorker) -> None:
        if reporter.worker is None:
            return
        # Controls are rare, so a worker that never reads costs a few dozen bytes.
        reporter.sender.send(wire.dump(self._control).encode() + b"\n")

    def _tell_apart(self, reporter: ConnectedWorker, series: list[dict[str, Any]]) -> None:
        """Give the values of a further process of a rank, which begins a name anew, their own name."""
        assert reporter.worker is not None
        names = self._processes.setdefault(reporter.worker.rank, ProcessNames())
        for each in series:
            if each["name"].startswith(MEASURED):
                continue
            shown = names.name(reporter.worker.pid, each["name"], each["steps"])
            if shown != each["name"]:
                self._child_run(shown.removesuffix(f"/{each['name']}"))
            if shown != each["name"] and not self._has_said_processes:
                self._has_said_processes = True
                self._warn(
                    f"Another process reports {each['name']!r} for rank {reporter.worker.rank} from its "
                    f"beginning: its values are those of another run, {shown!r}.",
                )
            each["name"] = clean_name(shown)

    def _leave_out(self, rank: int, problems: Mapping[str, str]) -> None:
        for name, problem in problems.items():
            if name not in self._left_out and len(self._left_out) < LEFT_OUT_SAID_MAX:
                self._left_out.add(name)
                self._warn(f"rank {rank}: values of {name!r} are left out: {problem} (said once)")

    def _refuse(self, reporter: ConnectedWorker, reason: str) -> None:
        self.num_refused_lines += 1
        if self.num_refused_lines == 1:
            who = f"rank {reporter.worker.rank}" if reporter.worker else "a worker"
            self._warn(f"a report of {who} was refused: {reason} (reported once per attempt)")


def _few_samples(told: wire.SamplesRecord) -> wire.SamplesRecord:
    """Return the record if it is within the SDK's bounds. Raises ValueError otherwise."""
    if len(told.spans) > wire.SAMPLE_SPANS_MAX or len(told.saves) > wire.SAMPLE_SAVES_MAX:
        raise ValueError("samples have too many spans or checkpoints")
    if any(len(span.order) > wire.SAMPLE_ORDER_CHARS for span in told.spans):
        raise ValueError("samples have an order of too many characters")
    if any(len(save) not in (5, 6) for save in told.saves):
        raise ValueError("samples have a checkpoint that is not five or six numbers")
    numbers = [n for save in told.saves for n in save]
    for span in told.spans:
        numbers += [span.first_epoch, span.first, span.last_epoch, span.last]
        numbers += [span.num_samples, span.num_ranks]
    for number in [*numbers, told.num_padded, told.num_left_out, told.num_spans_cut]:
        _integer(number, "samples")
    return told


def _bounded(progress: wire.WorkerProgress) -> wire.WorkerProgress:
    """Return the progress if it is within the SDK's bounds. Raises ValueError otherwise."""
    names = [progress.phase, progress.waits_kind]
    names += [name for group in progress.groups for name in (group.group, group.kind, group.source)]
    if len(progress.groups) > MAX_GROUPS or any(len(name) > MAX_NAME_CHARS for name in names):
        raise ValueError("progress has too many groups, or too long a name")
    numbers = [progress.step or 0, progress.phase_since_ms or 0, progress.num_reports]
    numbers += [n for group in progress.groups for n in (group.num_enqueued, group.num_completed)]
    for number in numbers:
        _integer(number, "progress")
    return progress


def valid_metrics(message: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the known fields of a metrics message with what can be stored of it, and why other
    values cannot be stored, by name. Raises ValueError for what is no metrics message.

    Written out instead of going through `wire.load`, for this is the one hot path of the shim.
    """
    given = message.get("series")
    if not isinstance(given, list) or len(given) > wire.SERIES_PER_RECORD_MAX:
        raise ValueError(
            f"metrics.series must be a list of at most {wire.SERIES_PER_RECORD_MAX} series"
        )
    series: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    for item in given:
        found, problem = _valid_series(item)
        if problem:
            problems[_name_of(item)] = problem
        if found["steps"]:
            series.append(found)
    planned, epoch = message.get("num_steps_planned"), message.get("epoch")
    metrics = {
        "type": "metrics",
        "local_rank": 0,
        "rank": 0,
        "series": series,
        "step": max((max(each["steps"]) for each in series), default=0),
        "epoch": finite(epoch) if type(epoch) in (int, float) else None,
        "num_steps_planned": whole_step(planned)[0] if type(planned) is int else None,
    }
    return metrics, problems


def _valid_series(item: Any) -> tuple[dict[str, Any], str]:
    """Return what of a series can be stored, and why other points cannot."""
    nothing = {"name": "", "steps": [], "times_ms": [], "values": []}
    if not isinstance(item, dict):
        return nothing, "a series must be an object"
    name, steps, times = item.get("name"), item.get("steps"), item.get("times_ms")
    values = item.get("values")
    if not isinstance(name, str) or not is_valid_name(name):
        return nothing, f"a name is {NAME_RULE}"
    if not (isinstance(steps, list) and isinstance(times, list) and isinstance(values, list)):
        return nothing, "steps, times_ms and values must be lists"
    if not len(steps) == len(times) == len(values):
        return nothing, "steps, times_ms and values differ in length"
    steps, times, values, problem = storable(steps, times, values)
    return {"name": name, "steps": steps, "times_ms": times, "values": values}, problem


def _name_of(item: Any) -> str:
    return str(item.get("name"))[:80] if isinstance(item, dict) else ""


def _path(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PATH_CHARS:
        raise ValueError(f"a path must be a text of at most {MAX_PATH_CHARS} characters")
    return value


def _integer(value: Any, path: str) -> int:
    if type(value) is not int or not -_INT64_MAX <= value <= _INT64_MAX:
        raise ValueError(f"{path}: expected an integer")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"bare {name} is not JSON; send it as a string")
