"""Where the time of a span went: unions of intervals, never sums of durations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.measure.intervals import Interval, length, merge, subtract

from .activities import UNKNOWN_GROUP, Activity

_STEP = re.compile(r"(?:step |ProfilerStep#)(\d{1,12})")


@dataclass(frozen=True, slots=True)
class KindTime:
    """Communication of one kind in one group. Times in nanoseconds."""

    count: int
    num_bytes: int | None
    """Sum over all of them; None unless all are known."""
    time: int
    exposed: int
    """Part of the time during which no computation ran."""


@dataclass(frozen=True, slots=True)
class SpanBreakdown:
    """Where the time of a span went, in nanoseconds."""

    span: int
    communication: int
    computation: int
    overlap: int
    """Time during which both communication and computation ran."""
    exposed: int
    """Time of communication without computation."""
    copy: int
    """Time of copies and fills of memory, whatever ran beside them."""
    idle: int
    """Time without any of the three."""
    by_kind: dict[tuple[str, str], KindTime] = field(default_factory=dict)
    """(group, kind of collective) → its time."""
    exposed_at: list[Interval] = field(default_factory=list, repr=False)
    """When there was communication without computation."""


class Step(NamedTuple):
    """A training step that a trace marks."""

    no: int
    start_ns: int
    end_ns: int


def breakdown(activities: Iterable[Activity], *, start_ns: int, end_ns: int) -> SpanBreakdown:
    """Return where the time from `start_ns` to `end_ns` went. What lies across an edge counts with the
    part inside, and as one collective where it begins."""
    spans: dict[str, list[Interval]] = {"communication": [], "computation": [], "copy": []}
    by_kind: dict[tuple[str, str], list[tuple[Activity, Interval]]] = {}
    for one in activities:
        inside = (max(one.start_ns, start_ns), min(one.end_ns, end_ns))
        if inside[0] > inside[1] or (inside[0] == inside[1] and one.start_ns < one.end_ns):
            continue
        spans[one.kind].append(inside)
        if one.kind == "communication":
            told = one.collective
            key = (told.group, told.op) if told else (UNKNOWN_GROUP, "other")
            by_kind.setdefault(key, []).append((one, inside))
    communication, computation, copies = (merge(of_kind) for of_kind in spans.values())
    exposed_at = subtract(communication, computation)
    exposed = length(exposed_at)
    busy = length(merge([*communication, *computation, *copies]))
    return SpanBreakdown(
        span=end_ns - start_ns,
        communication=length(communication),
        computation=length(computation),
        overlap=length(communication) - exposed,
        exposed=exposed,
        copy=length(copies),
        idle=end_ns - start_ns - busy,
        by_kind={
            key: _kind_time(of_kind, computation, start_ns) for key, of_kind in by_kind.items()
        },
        exposed_at=exposed_at,
    )


def _kind_time(
    found: list[tuple[Activity, Interval]], computation: list[Interval], start_ns: int
) -> KindTime:
    time = merge(inside for _, inside in found)
    begun = [one for one, _ in found if one.start_ns >= start_ns]
    num_bytes: int | None = 0
    for one in begun:
        known = one.collective.num_bytes if one.collective else None
        num_bytes = None if known is None or num_bytes is None else num_bytes + known
    return KindTime(
        count=len(begun),
        num_bytes=num_bytes,
        time=length(time),
        exposed=length(subtract(time, computation)),
    )


def step_number(name: str) -> int | None:
    """Return the number of the step that a mark of this name stands for; None for other names.

    Muster marks `step 7`, `torch.profiler.schedule` marks `ProfilerStep#7`.
    """
    found = _STEP.fullmatch(name)
    return int(found[1]) if found else None


def steps(marks: Iterable[Step]) -> list[Step]:
    """Return the steps in the order of time. Marks of the same step on several threads are one; marks
    inside another's time, as of two profilers at once, are dropped."""
    spans: dict[int, Step] = {}
    for mark in marks:
        known = spans.get(mark.no, mark)
        spans[mark.no] = Step(
            mark.no, min(known.start_ns, mark.start_ns), max(known.end_ns, mark.end_ns)
        )
    kept: list[Step] = []
    for step in sorted(spans.values(), key=lambda step: (step.start_ns, -step.end_ns)):
        if not kept or step.start_ns >= kept[-1].end_ns:
            kept.append(step)
    return kept


def extent(activities: Iterable[Activity]) -> Interval:
    """Return the time of the first start and of the last end; (0, 0) without activities."""
    start_ns, end_ns = None, 0
    for one in activities:
        start_ns = one.start_ns if start_ns is None else min(start_ns, one.start_ns)
        end_ns = max(end_ns, one.end_ns)
    return (0, 0) if start_ns is None else (start_ns, end_ns)
