"""Reads the traces that torch's profiler (Kineto) writes, event by event. They may be hostile.

Memory: at most `MAX_SPANS` spans are kept, and little more than `MAX_VALUE_CHARS` characters of text are
looked at together. A trace of any length is read and computed on in less than `MAX_MEMORY_BYTES`, an
ordinary one of 200 MB in less than a third of that.
"""

from __future__ import annotations

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from muster.measure.intervals import Interval, merge

from .activities import ITEM_BYTES, UNKNOWN_GROUP, Activity, CollectiveInfo, Kind, classify, op_of
from .arithmetic import Step, step_number, steps

MAX_MEMORY_BYTES = 384 * 1024 * 1024
"""Memory that reading and computing on one trace takes at most, with the interpreter."""
MAX_SPANS = 500_000
"""Number of spans kept of one trace: of each kind and thread, after those that touch were joined."""
MAX_VALUE_CHARS = 4 * 1024 * 1024
"""Length of the longest event or other value."""
MAX_STEPS = 1_000
"""Number of marks of steps that are read."""
_CHUNK = 1024 * 1024
_JOIN_EVERY = 50_000
_MAX_NAME_CHARS = 200
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class TraceUnreadable(ValueError):
    """A file is not a complete trace of torch's profiler; the message is one sentence that says why."""


@dataclass(slots=True)
class KinetoTrace:
    """What one rank did, as its trace says."""

    rank: int | None
    world_size: int | None
    device: Literal["gpu", "cpu"]
    """"cpu" where the trace has no activity of a device: operations of the training thread and gloo's
    spans stand for it."""
    activities: list[Activity] = field(default_factory=list)
    """Every communication; computation and copies with their times alone, joined where they touch."""
    steps: list[Step] = field(default_factory=list)
    """Steps that the trace marks whole."""


def read_file(path: Path, *, max_bytes: int | None = None) -> KinetoTrace:
    """Read a trace, compressed or not.

    max_bytes: refuse a trace whose text is longer.
    Raises TraceUnreadable, and OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not compressed:
            return read(file, max_bytes=max_bytes)
        with gzip.GzipFile(fileobj=file) as plain:
            return read(plain, max_bytes=max_bytes)  # type: ignore[arg-type]


def read(file: BinaryIO, *, max_bytes: int | None = None) -> KinetoTrace:
    """Read a trace from its text. Raises TraceUnreadable."""
    text = _Text(file, max_bytes)
    collected = _Collected()
    if not text.look():
        raise TraceUnreadable("The file is empty.")
    if text.look() != "{":
        raise TraceUnreadable(_OTHER)
    text.skip("{")
    info: Any = None
    has_version = has_events = False
    while text.look() != "}":
        key = text.value()
        if not isinstance(key, str):
            raise TraceUnreadable(_OTHER)
        text.skip(":")
        if key == "traceEvents" and text.look() == "[":
            has_events = True
            _read_events(text, collected)
        else:
            value = text.value()
            has_version |= key == "schemaVersion"
            if key == "distributedInfo":
                info = value
        if text.look() == ",":
            text.skip(",")
        elif text.look() != "}":
            raise TraceUnreadable(_TRUNCATED if not text.look() else _OTHER)
    if not has_events or not (has_version or collected.is_kineto):
        raise TraceUnreadable(_OTHER)
    return collected.trace(info if isinstance(info, dict) else {})


_OTHER = (
    "This is not a trace of torch's profiler: Muster reads what torch.profiler's export_chrome_trace, or "
    "its tensorboard_trace_handler, writes (.json or .json.gz)."
)
_TRUNCATED = "The trace is truncated: it ends in the middle, so its writer was probably stopped."
_TOO_LONG = "The trace has an entry that is longer than any of torch's profiler."


def _read_events(text: _Text, collected: _Collected) -> None:
    text.skip("[")
    while text.look() != "]":
        event = text.value()
        if isinstance(event, dict):
            collected.add(event)
        if text.look() == ",":
            text.skip(",")
        elif text.look() != "]":
            raise TraceUnreadable(_TRUNCATED if not text.look() else _OTHER)
    text.skip("]")


class _Text:
    """The text of a file, of which only what is being read is in memory."""

    def __init__(self, file: BinaryIO, max_bytes: int | None) -> None:
        self._file = file
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._buffer = ""
        self._at = 0
        self._is_over = False

    def look(self) -> str:
        """Return the next character that is not white space, "" at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._is_over:
                return ""
            self._more()

    def skip(self, character: str) -> None:
        """Skip this character. Raises TraceUnreadable for another one."""
        found = self.look()
        if found != character:
            raise TraceUnreadable(_OTHER if found else _TRUNCATED)
        self._at += 1

    def value(self) -> Any:
        """Return the next value of JSON. Raises TraceUnreadable."""
        self.look()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except RecursionError:
                raise TraceUnreadable(_OTHER) from None
            except ValueError:
                if self._is_over:
                    # A fault at the end of the text is one of the text that is missing.
                    raise TraceUnreadable(_TRUNCATED) from None
                if len(self._buffer) - self._at > MAX_VALUE_CHARS:
                    raise TraceUnreadable(_TOO_LONG) from None
                self._more()
                continue
            if end == len(self._buffer) and not self._is_over:
                self._more()  # a number may go on
                continue
            self._at = end
            return value

    def _more(self) -> None:
        try:
            data = self._file.read(_CHUNK)
        except EOFError:
            raise TraceUnreadable(_TRUNCATED) from None
        except (zlib.error, gzip.BadGzipFile):
            raise TraceUnreadable("The file is damaged: gzip cannot unpack it.") from None
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise TraceUnreadable(
                    f"The trace is longer than {self._max_bytes or 0:,} bytes unpacked: record fewer steps."
                )
        self._is_over = not data
        self._buffer = self._buffer[self._at :] + self._decode(data, final=self._is_over)
        self._at = 0


class _Spans:
    """Spans of one kind, joined where they touch as soon as they are many."""

    def __init__(self) -> None:
        self.all: list[Interval] = []
        self._join_at = _JOIN_EVERY

    def add(self, start: int, end: int) -> int:
        """Add a span; return by how much the number of spans grew."""
        before = len(self.all)
        self.all.append((start, end))
        if len(self.all) >= self._join_at:
            self.all = merge(self.all)
            self._join_at = 2 * len(self.all) + _JOIN_EVERY
        return len(self.all) - before


class _Communication(NamedTuple):
    activity: Activity
    on_device: bool


class _Collected:
    """What is kept of the events so far."""

    def __init__(self) -> None:
        self.is_kineto = False
        self._num = 0
        self._has_device = False
        self._device: dict[Kind, _Spans] = {"computation": _Spans(), "copy": _Spans()}
        self._threads: dict[int | str, _Spans] = {}
        self._communication: list[_Communication] = []
        self._marks: list[tuple[Step, int | str]] = []

    def add(self, event: dict[str, Any]) -> None:
        """Take what is of use of an event."""
        name, category = event.get("name"), event.get("cat")
        if event.get("ph") != "X" or not isinstance(name, str) or not isinstance(category, str):
            return
        self.is_kineto |= category in ("cpu_op", "kernel", "gpu_memcpy", "gpu_memset")
        kind = classify(name, category.lower())
        no = step_number(name) if category == "user_annotation" else None
        if kind is None and no is None:
            return
        span = _span(event)
        if span is None:
            return
        given = event.get("args")
        args: dict[str, Any] = given if isinstance(given, dict) else {}
        stream = _stream(args.get("stream"), event.get("tid"))
        if no is not None:
            if len(self._marks) < MAX_STEPS:
                self._marks.append((Step(no, *span), stream))
        elif kind == "communication":
            on_device = category == "kernel"
            told = _kernel_info(name, args) if on_device else _gloo_info(name, args)
            # gloo begins a group's collectives in order, each on any of its threads.
            on = stream if on_device else "gloo"
            activity = Activity("communication", name[:_MAX_NAME_CHARS], *span, on, told)
            self._communication.append(_Communication(activity, on_device))
            self._has_device |= on_device
            self._num += 5  # it takes as much memory as five spans
        elif kind is not None and category != "cpu_op":
            self._has_device = True
            self._num += self._device[kind].add(*span)
        elif not self._has_device:
            self._num += self._threads.setdefault(stream, _Spans()).add(*span)
        if self._has_device and self._threads:
            self._num -= sum(len(spans.all) for spans in self._threads.values())
            self._threads.clear()
        if self._num > MAX_SPANS:
            raise TraceUnreadable(
                f"The trace has more than {MAX_SPANS:,} separate spans: record fewer steps."
            )

    def trace(self, info: dict[str, Any]) -> KinetoTrace:
        """Return what all events say together."""
        device = self._has_device
        found = KinetoTrace(
            _whole(info.get("rank")), _whole(info.get("world_size")), "gpu" if device else "cpu"
        )
        found.steps = steps(step for step, _ in self._marks)
        found.activities = [one for one, on_device in self._communication if on_device == device]
        groups = info.get("pg_config")
        if isinstance(groups, list) and len(groups) == 1:
            size = _whole(info.get("world_size"))
            found.activities = [_in_world(one, size) for one in found.activities]
        for kind, spans in self._device.items():
            found.activities += _joined(kind, spans)
        training = self._training_thread()
        if not device and training is not None:
            found.activities += _joined("computation", self._threads[training])
        return found

    def _training_thread(self) -> int | str | None:
        """Return the thread with the marks of steps, else the one with the most operations."""
        for _, thread in self._marks:
            if thread in self._threads:
                return thread
        return max(self._threads, key=lambda t: len(self._threads[t].all), default=None)


def _in_world(one: Activity, size: int | None) -> Activity:
    """Return the same activity in the only group that its process has, if the trace does not say it."""
    told = one.collective
    if told is None or told.group != UNKNOWN_GROUP:
        return one
    return one._replace(collective=told._replace(group="world", size=size))


def _joined(kind: Kind, spans: _Spans) -> Iterator[Activity]:
    return (Activity(kind, kind, start, end, "") for start, end in merge(spans.all))


def _span(event: dict[str, Any]) -> Interval | None:
    """Return start and end in nanoseconds; None for what is no time. Kineto writes microseconds with
    three digits after the point, of which a float keeps them for 28 years of uptime."""
    start, duration = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(duration, int | float):
        return None
    if not (math.isfinite(start) and math.isfinite(duration) and abs(start) < 1e18):
        return None
    if not 0 <= duration < 1e15:
        return None
    start_ns = round(start * 1000)
    return start_ns, start_ns + round(duration * 1000)


def _stream(stream: Any, thread: Any) -> int | str:
    found = thread if stream is None else stream
    return found if isinstance(found, int) else str(found)[:_MAX_NAME_CHARS]


def _kernel_info(name: str, args: dict[str, Any]) -> CollectiveInfo:
    """Return what torch says of a collective of NCCL, with its kernel or, in a replayed graph, not."""
    called = args.get("Collective name")
    op = op_of(called) if isinstance(called, str) and called else op_of(name)
    side = "Out" if op in ("all_gather", "scatter") else "In"
    num, size = (
        _whole(args.get(f"{side} msg nelems")),
        ITEM_BYTES.get(str(args.get("dtype")).lower()),
    )
    return CollectiveInfo(
        op=op,
        group=_group(args),
        num_bytes=None if num is None or size is None else num * size,
        seq=_whole(args.get("Seq")),
        size=_whole(args.get("Group size")),
    )


def _group(args: dict[str, Any]) -> str:
    name = args.get("Process Group Description")
    if not isinstance(name, str) or name in ("", "undefined"):
        name = args.get("Process Group Name")
    if not isinstance(name, str) or not name:
        return UNKNOWN_GROUP
    return "world" if name == "default_pg" else name[:_MAX_NAME_CHARS]


def _gloo_info(name: str, args: dict[str, Any]) -> CollectiveInfo:
    """Return what torch says of a collective of gloo: shapes and types of its tensors, no group."""
    num_bytes: int | None = 0
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        shapes, types, num_bytes = [], [], None
    for shape, of_type in zip(shapes, types, strict=True):
        size = ITEM_BYTES.get(str(of_type).lower())
        is_shape = isinstance(shape, list) and all(_whole(n) is not None for n in shape)
        if size is None or not is_shape or num_bytes is None:
            num_bytes = None
        else:
            num_bytes += size * math.prod(shape)
    return CollectiveInfo(op_of(name), UNKNOWN_GROUP, num_bytes, None)


def _whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if is_whole else None
