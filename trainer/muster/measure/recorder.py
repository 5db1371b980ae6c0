"""What torch's flight recorder knows of the collectives of this process, or of one that has ended.

torch keeps the last 2,000 collectives of all process groups: NCCL's in one ring, gloo's in another. Here
they are read by number, each once, and counted by group and kind. Parsing is pure; `Recorder` does
the reading, on the reporting thread, within a budget: a read copies the ring while it holds the interpreter.

What gloo itself does is what is seen: it reduces and scatters by an all_reduce, and its messages
between two ranks are not recorded.
"""

from __future__ import annotations

import math
import pickle
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.timeline.activities import ITEM_BYTES, op_of

MAX_GROUPS = 64
"""Number of process groups counted per process; further ones are left out."""
MAX_ENTRIES = 20_000
"""Number of collectives taken from one dump, the newest."""
MAX_SOURCE_CHARS = 200
READ_AFTER = 500
"""Number of new collectives after which the ring is read: it holds 2,000."""
READ_EVERY_S = 10.0
"""Seconds after which the ring is read however few collectives are new."""
STANDSTILL_S = 10.0
"""Seconds without a new collective after which the ring is read with the lines that called them."""
COST_SHARE = 0.005
"""Largest share of the time spent reading."""


class RecordedCollective(NamedTuple):
    """One collective, or message, as the recorder has it."""

    record_id: int
    pg_id: str
    group: str
    """torch's name of its process group."""
    description: str
    kind: str
    num_bytes: int
    """Bytes of the payload, counted as by the measured group."""
    seq: int
    """Number within its group: the same on every member. Messages have numbers of their own."""
    is_message: bool
    is_over: bool
    source: str
    """Line of the script that called it; "" if it was not asked for or is not known."""
    created_ns: int = -1
    """Unix time in ns at which it was called."""


class Trace(NamedTuple):
    entries: list[RecordedCollective]
    """In ascending order of record_id."""
    ranks: dict[str, list[int]]
    """Global ranks by torch's name of the group, where they are known."""
    enqueued: dict[str, int]
    """Number of the newest collective by pg_id."""
    completed: dict[str, int]


def kind_of(name: str) -> str:
    """Return the kind of a collective by the recorder's name of it, such as "gloo:all_reduce"."""
    bare = name.partition(":")[2].lower() or name.lower()
    return op_of(bare, unknown=bare[:40])


def source_of(frames: object) -> str:
    """Return "file:line in function" of the innermost frame that is no library's, or else not
    torch's; "" if there is none."""
    if not isinstance(frames, list):
        return ""
    known = [frame for frame in frames[:100] if isinstance(frame, dict)]

    def outside(*parts: str) -> dict[Any, Any] | None:
        for frame in known:
            name = _text(frame.get("filename"))
            if name and not name.startswith("<") and not any(part in name for part in parts):
                return frame
        return None

    libraries = ("/site-packages/", "/dist-packages/", "/torch/", "/muster/")
    found = outside(*libraries) or outside("/torch/")
    if found is None:
        return ""
    file = _text(found["filename"]).rpartition("/")[2]
    text = f"{file}:{_number(found.get('line'))} in {_text(found.get('name'))}"
    return "".join(c for c in text if c.isprintable())[:MAX_SOURCE_CHARS]


def parse(dump: object) -> Trace:
    """Return the collectives of a decoded dump. Raises ValueError if it is none."""
    if not isinstance(dump, Mapping) or not isinstance(dump.get("version"), str):
        raise ValueError("this is no dump of torch's flight recorder")
    given = dump.get("entries", [])
    status = dump.get("pg_status", {})
    if not isinstance(given, list) or not isinstance(status, Mapping):
        raise ValueError("this dump of torch's flight recorder is of an unknown format")
    entries = [_entry(e) for e in given[-MAX_ENTRIES:] if isinstance(e, Mapping)]
    entries.sort(key=lambda entry: entry.record_id)
    enqueued, completed = {}, {}
    for pg_id, known in list(status.items())[:MAX_GROUPS]:
        if isinstance(known, Mapping):
            enqueued[str(pg_id)] = max(0, _number(known.get("last_enqueued_collective")))
            completed[str(pg_id)] = max(0, _number(known.get("last_completed_collective")))
    return Trace(entries, _ranks(dump.get("pg_config")), enqueued, completed)


def _ranks(groups: object) -> dict[str, list[int]]:
    found = {}
    for known in list(groups.values())[:MAX_GROUPS] if isinstance(groups, Mapping) else ():
        if isinstance(known, Mapping):
            ranks = re.findall(r"\d{1,9}", _text(known.get("ranks"))[:100_000])
            found[_text(known.get("name"))] = [int(rank) for rank in ranks]
    return found


def _entry(given: Mapping[Any, Any]) -> RecordedCollective:
    name = _text(given.get("profiling_name"))[:80]
    group = given.get("process_group")
    names = [_text(part)[:200] for part in group[:2]] if isinstance(group, list | tuple) else []
    group_name, description = (*names, "", "")[:2]
    kind = kind_of(name)
    is_message = bool(given.get("is_p2p", False))
    # gloo does not report states, and NCCL also retires what has timed out.
    is_over = (
        bool(given.get("retired")) if name.startswith("gloo") else given.get("state") == "completed"
    )
    return RecordedCollective(
        record_id=_number(given.get("record_id")),
        pg_id=_text(given.get("pg_id"))[:20],
        group=group_name,
        description=description,
        kind=kind,
        num_bytes=_num_bytes(given, kind),
        seq=_number(given.get("p2p_seq_id" if is_message else "collective_seq_id")),
        is_message=is_message,
        is_over=is_over,
        source=source_of(given.get("frames")),
        created_ns=_number(given.get("time_created_ns")),
    )


def _num_bytes(given: Mapping[Any, Any], kind: str) -> int:
    inputs, outputs = _bytes(given, "input"), _bytes(given, "output")
    total = sum(outputs if kind in ("all_gather", "scatter") else inputs)
    if kind == "all_gather" and 0 < len(outputs) < len(inputs) and inputs[0]:
        # Of gathers in one call, the recorder keeps all inputs and only the first output.
        total = sum(inputs) * outputs[0] // inputs[0]
    return min(total, 2**62)


def _bytes(given: Mapping[Any, Any], side: str) -> list[int]:
    """Return the bytes of each tensor."""
    sizes, types = given.get(f"{side}_sizes"), given.get(f"{side}_dtypes")
    if not isinstance(sizes, list) or not isinstance(types, list):
        return []
    return [
        max(0, math.prod(map(_number, size[:16])) * ITEM_BYTES.get(_text(of_type).lower(), 1))
        for size, of_type in zip(sizes, types, strict=False)
        if isinstance(size, list)
    ]


def _text(value: object) -> str:
    """Return a text of a dump; "" for what is none. A list may hold itself many times over, so it is
    not printed."""
    return str(value) if isinstance(value, str | int) else ""


def _number(value: object) -> int:
    """Return a number of a dump, which has some as text; -1 if it is none that can be stored."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -(2**62) < number < 2**62 else -1


@dataclass
class GroupTotals:
    """All collectives of one process group so far, as far as they were read."""

    description: str
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Number and bytes by kind."""
    last: RecordedCollective | None = None
    """The newest that is no message."""


class Totals:
    """Counts what was recorded, each collective once."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupTotals] = {}
        """Totals by torch's name of the group."""
        self.names: dict[str, str] = {}
        """torch's name of a group by pg_id."""
        self.num_missed = 0
        """Number of collectives that the ring had lost before they were read."""
        self._next = 0

    def add(self, entries: Iterable[RecordedCollective]) -> list[RecordedCollective]:
        """Count those that are new, and return them."""
        new = []
        for entry in entries:
            if entry.record_id < self._next:
                continue
            self.num_missed += entry.record_id - self._next
            self._next = entry.record_id + 1
            new.append(entry)
            if entry.group not in self.groups and len(self.groups) >= MAX_GROUPS:
                continue
            totals = self.groups.setdefault(entry.group, GroupTotals(entry.description))
            self.names[entry.pg_id] = entry.group
            count, num_bytes = totals.kinds.get(entry.kind, (0, 0))
            totals.kinds[entry.kind] = count + 1, num_bytes + entry.num_bytes
            if not entry.is_message:
                totals.last = entry
        return new


class GroupStanding(NamedTuple):
    """How far one process group is on this rank."""

    group: str
    """torch's name of it."""
    kind: str
    """Kind of the collective it stands in, or else of the newest."""
    num_enqueued: int
    num_completed: int
    source: str


def standings(trace: Trace, totals: Totals) -> list[GroupStanding]:
    """Return how far each group is.

    trace: with or without entries. With them, the first one that is not over decides: collectives
        that end in another order leave a wrong number in the recorder's status.
    """
    unfinished: dict[str, RecordedCollective] = {}
    for entry in trace.entries:
        if not entry.is_over and not entry.is_message:
            unfinished.setdefault(entry.group, entry)
    found = []
    for pg_id, num_enqueued in trace.enqueued.items():
        name = totals.names.get(pg_id)
        if name is None:
            continue
        num_completed = min(trace.completed.get(pg_id, 0), num_enqueued)
        shown = totals.groups[name].last
        if trace.entries:
            first = unfinished.get(name)
            num_completed = num_enqueued if first is None else max(0, first.seq - 1)
            shown = first or _newest(trace.entries, name) or shown
        found.append(
            GroupStanding(
                group=name,
                kind=shown.kind if shown is not None else "",
                num_enqueued=num_enqueued,
                num_completed=num_completed,
                source=shown.source if shown is not None else "",
            )
        )
    return found


def _newest(entries: list[RecordedCollective], group: str) -> RecordedCollective | None:
    return next((e for e in reversed(entries) if e.group == group and not e.is_message), None)


# ---------------------------------------------------------------- this process's own rings


class Recorder:
    """Reads one ring of this process: the cheap status often, its entries within a budget."""

    def __init__(
        self, dump: Callable[..., bytes], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the ring that torch's function `dump` returns."""
        self.totals = Totals()
        self._dump = dump
        self._clock = clock
        self._enqueued: dict[str, int] = {}
        self._moved_at = clock()
        self._num_at_read = 0
        self._read_at = clock()
        self._may_read_at = 0.0
        self._new: list[RecordedCollective] = []
        self._lost_before_ns = 0
        self.read_until_ns = 0
        """Unix time in ns up to which all collectives have been read."""
        self._still: list[GroupStanding] | None = None
        """What was found at this standstill."""

    def look(self) -> list[GroupStanding]:
        """Return how far each group is. Called about once a second, by one thread."""
        now = self._clock()
        trace = self._read(includeCollectives=False)
        if trace.enqueued != self._enqueued:
            self._enqueued, self._moved_at, self._still = trace.enqueued, now, None
        elif self._still is not None:
            return self._still
        num = sum(trace.enqueued.values())
        is_still = now - self._moved_at >= STANDSTILL_S
        is_new = any(pg_id not in self.totals.names for pg_id in trace.enqueued)
        is_due = num - self._num_at_read >= READ_AFTER or now - self._read_at >= READ_EVERY_S
        if (num and is_still) or (now >= self._may_read_at and (is_due or (num and is_new))):
            trace = self.read(with_sources=is_still)
            if num and is_still:
                self._still = standings(trace, self.totals)
                return self._still
            trace = trace._replace(entries=[])
        return standings(trace, self.totals)

    def read(self, *, with_sources: bool = False) -> Trace:
        """Read and count everything that is new."""
        began, began_ns = time.perf_counter(), time.time_ns()
        trace = self._read(includeStackTraces=with_sources)
        num_missed = self.totals.num_missed
        new = self.totals.add(trace.entries)
        if self.totals.num_missed > num_missed:
            self._lost_before_ns = new[0].created_ns
        self._new = [*self._new, *new][-MAX_ENTRIES:]
        self.read_until_ns = began_ns
        self._num_at_read = sum(trace.enqueued.values())
        self._read_at = self._clock()
        self._may_read_at = self._read_at + (time.perf_counter() - began) / COST_SHARE
        return trace

    def take_new(self) -> tuple[list[RecordedCollective], int]:
        """Return what was read since the last call, and the unix time in ns before which some were lost
        unread."""
        new, self._new = self._new, []
        return new, self._lost_before_ns

    def _read(self, **what: bool) -> Trace:
        # This process's own torch has just made the text: no job reaches another's.
        return parse(pickle.loads(self._dump(**what)))  # noqa: S301
