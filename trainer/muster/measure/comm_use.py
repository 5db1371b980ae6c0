"""The cost of a step's collectives, from their records. Pure: no torch, no clock.

All times are nanoseconds. Durations are never added up: collectives are in flight together, so time
is the union of their intervals.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.measure.collectives import POINT_TO_POINT, Collective, FastestTransfers, Segment
from muster.measure.intervals import Interval, intersect, length, merge
from muster.timeline.activities import Activity
from muster.timeline.arithmetic import breakdown


@dataclass(frozen=True, kw_only=True)
class KindUse:
    """Use of one kind of collective of one group in a step."""

    count: int
    num_bytes: int
    time: int
    """Union of the intervals in which at least one was in flight, in ns."""


@dataclass(frozen=True, kw_only=True)
class CommUse:
    """Communication of one step. All times in ns."""

    total: int = 0
    """Union of the intervals in which at least one collective was in flight."""
    exposed: int = 0
    """Part of `total` in which the training thread was blocked on it."""
    exposed_by_phase: dict[str, int] = field(default_factory=dict)
    exposed_by_group: dict[str, int] = field(default_factory=dict)
    """Time blocked on collectives of each group; messages between two ranks are not counted."""
    bubble: int = 0
    """Time blocked on a message between stages while nothing moved: the other stage was not there
    yet."""
    bubble_by_phase: dict[str, int] = field(default_factory=dict)
    interference: int | None = None
    """Extra time of backwards with communication over those without, excluding waits; None if the
    step does not have both."""
    kinds: dict[tuple[str, str], KindUse] = field(default_factory=dict)
    """Use by (group, kind)."""
    num_bytes: int = 0
    count: int = 0


def comm_use(
    records: list[Collective],
    segments: list[Segment],
    *,
    thread: int | None = None,
    fastest: FastestTransfers | None = None,
) -> CommUse:
    """Split one step's communication into exposed and overlapped time, and separate a pipeline's
    bubble.

    records: collectives of this step; those still running count up to the step's end.
    segments: the step's phases in order. Time between them (a pause) is not counted.
    thread: identity of the training thread; default is the caller.
    fastest: what is known of messages between stages from earlier steps.

    Blocked are: every wait of the training thread, the calls that launch collectives, and, for
    collectives that DDP's reducer waits for by itself, the time from the last such launch in a
    backward to that backward's end. They count only while a collective is really in flight, so
    exposed never exceeds total. A message between stages is in flight for as long as the fastest of
    its size took, up to its end; what the thread is blocked on it before that is bubble.
    """
    me = threading.get_ident() if thread is None else thread
    if not segments or not records:
        return CommUse()
    fastest = fastest or FastestTransfers()
    step_start, step_end = segments[0].start, segments[-1].end
    counted = merge((s.start, s.end) for s in segments)
    intervals = [_in_step(r, step_start, step_end, fastest) for r in records]
    in_flight = intersect(merge(intervals), counted)
    waits = [(r, (start, end)) for r in records for who, start, end in r.waits if who == me]
    calls = [
        (r, (r.blocked[1], r.blocked[2]))
        for r in records
        if r.blocked is not None and r.blocked[0] == me and not r.is_pipeline
    ]
    by_future = [r for r in records if r.is_future]
    exposed = intersect(
        merge(
            [*(blocked for _, blocked in (*waits, *calls)), *_reducer_waits(by_future, segments)]
        ),
        in_flight,
    )
    exposed_by_phase = _by_phase(exposed, segments)
    at_stages = intersect(merge(wait for r, wait in waits if r.is_pipeline), counted)
    moved = _by_phase(intersect(at_stages, in_flight), segments)
    bubble_by_phase = {
        phase: idle
        for phase, waited in _by_phase(at_stages, segments).items()
        if (idle := waited - moved.get(phase, 0)) > 0
    }
    kinds = _kinds(records, intervals, counted, step_start, total := length(in_flight))
    return CommUse(
        total=total,
        exposed=sum(exposed_by_phase.values()),
        exposed_by_phase=exposed_by_phase,
        exposed_by_group=_by_group(
            records, by_future, [*waits, *calls], intervals, segments, counted, length(exposed)
        ),
        bubble=sum(bubble_by_phase.values()),
        bubble_by_phase=bubble_by_phase,
        interference=(
            None
            if any(r.is_pipeline for r in records)
            else _interference(segments, in_flight, exposed)
        ),
        kinds=kinds,
        num_bytes=sum(of_kind.num_bytes for of_kind in kinds.values()),
        count=sum(of_kind.count for of_kind in kinds.values()),
    )


def timeline_use(activities: Sequence[Activity], segments: list[Segment]) -> CommUse:
    """Return one step's communication by a timeline of the device: exposed is what runs while nothing
    computes, whatever waits for it.

    segments: the step's phases in order and without gaps, by the clock of the activities.
    """
    if not segments:
        return CommUse()
    start_ns, end_ns = segments[0].start, segments[-1].end
    found = breakdown(activities, start_ns=start_ns, end_ns=end_ns)
    computing = [one for one in activities if one.kind == "computation"]
    of_groups: dict[str, list[Activity]] = {}
    for one in activities:
        told = one.collective
        if told is not None and told.op not in POINT_TO_POINT:
            of_groups.setdefault(told.group, []).append(one)
    return CommUse(
        total=found.communication,
        exposed=found.exposed,
        exposed_by_phase=_by_phase(found.exposed_at, segments),
        exposed_by_group={
            group: breakdown([*of_group, *computing], start_ns=start_ns, end_ns=end_ns).exposed
            for group, of_group in of_groups.items()
        }
        if len(found.by_kind) > 1
        else dict.fromkeys(of_groups, found.exposed),
        kinds={
            key: KindUse(count=kind.count, num_bytes=kind.num_bytes or 0, time=kind.time)
            for key, kind in found.by_kind.items()
        },
        num_bytes=sum(kind.num_bytes or 0 for kind in found.by_kind.values()),
        count=sum(kind.count for kind in found.by_kind.values()),
    )


def _in_step(record: Collective, start: int, end: int, fastest: FastestTransfers) -> Interval:
    """Return when it was in flight within the step; empty for a message whose other end is not
    there."""
    launched, done = record.launched, record.end
    if record.is_pipeline:
        launched = max(launched, done - fastest.learn(record)) if done else end
    return max(launched, start), min(done or end, end)


def _reducer_waits(records: list[Collective], segments: list[Segment]) -> list[Interval]:
    """Return when DDP's reducer was waiting for these in the training thread."""
    if not records:
        return []
    spans: list[Interval] = []
    for segment in segments:
        if segment.phase == "backward":
            launched = [r.launched for r in records if segment.start <= r.launched < segment.end]
            if launched:
                spans.append((max(launched), segment.end))
    return spans


def _by_phase(times: list[Interval], segments: list[Segment]) -> dict[str, int]:
    found: dict[str, int] = {}
    for segment in segments if times else ():
        part = length(intersect(times, [(segment.start, segment.end)]))
        if part:
            found[segment.phase] = found.get(segment.phase, 0) + part
    return found


def _by_group(
    records: list[Collective],
    by_future: list[Collective],
    waits: list[tuple[Collective, Interval]],
    intervals: list[Interval],
    segments: list[Segment],
    counted: list[Interval],
    exposed: int,
) -> dict[str, int]:
    """Return the exposed time of each group, for collectives of all its members; `exposed` is that
    of all records together.

    exposed: of all records together.
    """
    in_flight: dict[str, list[Interval]] = {}
    num = 0
    for record, interval in zip(records, intervals, strict=True):
        if record.kind not in POINT_TO_POINT:
            in_flight.setdefault(record.group, []).append(interval)
            num += 1
    if len(in_flight) == 1 and num == len(records):
        return dict.fromkeys(in_flight, exposed)  # as computed: it is all there is
    blocked: dict[str, list[Interval]] = {}
    for record, wait in waits:
        blocked.setdefault(record.group, []).append(wait)
    for group in {r.group for r in by_future}:
        mine = [r for r in by_future if r.group == group]
        blocked.setdefault(group, []).extend(_reducer_waits(mine, segments))
    return {
        group: length(intersect(intersect(merge(blocked.get(group, ())), merge(flights)), counted))
        for group, flights in in_flight.items()
    }


def _kinds(
    records: list[Collective],
    intervals: list[Interval],
    counted: list[Interval],
    start: int,
    total: int,
) -> dict[tuple[str, str], KindUse]:
    """Return the use by group and kind; `total` is the time of all records together."""
    found: dict[tuple[str, str], tuple[list[int], list[Interval]]] = {}
    for record, interval in zip(records, intervals, strict=True):
        sizes, flights = found.setdefault((record.group, record.kind), ([], []))
        if record.launched >= start:
            sizes.append(record.num_bytes)
        flights.append(interval)
    return {
        key: KindUse(
            count=len(sizes),
            num_bytes=sum(sizes),
            time=length(intersect(merge(flights), counted)) if len(found) > 1 else total,
        )
        for key, (sizes, flights) in found.items()
    }


def _interference(
    segments: list[Segment], in_flight: list[Interval], exposed: list[Interval]
) -> int | None:
    """Return how much longer the micro-batches that exchange gradients take than the others, in
    computing alone."""
    quiet: list[int] = []
    busy: list[int] = []
    for segment in segments:
        if segment.phase != "backward":
            continue
        span = [(segment.start, segment.end)]
        if intersect(in_flight, span):
            busy.append(segment.end - segment.start - length(intersect(exposed, span)))
        else:
            quiet.append(segment.end - segment.start)
    if not quiet or not busy:
        return None
    return sum(busy) - len(busy) * sum(quiet) // len(quiet)
