"""Sums up traces of one training: where each rank's time went, and who waited for whom."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .activities import Activity
from .arithmetic import SpanBreakdown, Step, breakdown, extent
from .kineto_file import KinetoTrace, TraceUnreadable, read_file
from .ranks import rank_waits

MAX_KINDS = 50
"""Number of kinds of communication listed for a rank, those with the most time."""
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d{1,7})")

Summary = dict[str, Any]
"""What JSON shows: numbers of microseconds end in `_us`."""


def summarize(files: Sequence[tuple[int | None, Path]], *, max_bytes: int | None = None) -> Summary:
    """Return where the time of each trace went and, over several ranks, who waited for whom.

    files: (rank, path); without a rank it is what the trace says, else what the file's name says, else
    the file's place in the list.
    max_bytes: refuse traces whose text is longer. A trace that cannot be read is listed with its
    `problem`.
    """
    ranks: list[Summary] = []
    communication: dict[int, list[Activity]] = {}
    for place, (given, path) in enumerate(files):
        try:
            trace = read_file(path, max_bytes=max_bytes)
        except (TraceUnreadable, OSError) as error:
            problem = str(error) if isinstance(error, TraceUnreadable) else f"{error.strerror}."
            ranks.append({"file": path.name, "rank": given, "problem": problem})
            continue
        rank = given if given is not None else _rank(trace, path, place)
        ranks.append({"file": path.name, "rank": rank, "problem": "", **_figures(trace)})
        communication.setdefault(rank, []).extend(
            one for one in trace.activities if one.kind == "communication"
        )
    readable = [one["rank"] for one in ranks if not one["problem"]]
    is_comparable = len(communication) > 1 and len(communication) == len(readable)
    return {"ranks": ranks, "waiting": _waiting(communication) if is_comparable else None}


def _rank(trace: KinetoTrace, path: Path, place: int) -> int:
    if trace.rank is not None:
        return trace.rank
    named = _RANK_IN_NAME.search(path.name)
    return int(named[1]) if named else place


def _figures(trace: KinetoTrace) -> Summary:
    start, end = extent(trace.activities)
    whole = breakdown(trace.activities, start_ns=start, end_ns=end)
    of_steps = _by_step(trace.activities, trace.steps)
    return {
        "device": trace.device,
        "world_size": trace.world_size,
        **_times(whole),
        "kinds": _kinds(whole),
        "steps": [
            {
                "step": step.no,
                **_times(breakdown(within, start_ns=step.start_ns, end_ns=step.end_ns)),
            }
            for step, within in zip(trace.steps, of_steps, strict=True)
        ],
    }


def _by_step(activities: Sequence[Activity], steps: Sequence[Step]) -> list[list[Activity]]:
    """Return the activities that touch each step. Steps are in order and do not overlap."""
    ends = [step.end_ns for step in steps]
    found: list[list[Activity]] = [[] for _ in steps]
    for one in activities:
        at = bisect.bisect_left(ends, one.start_ns)
        while at < len(steps) and steps[at].start_ns <= one.end_ns:
            found[at].append(one)
            at += 1
    return found


def _times(found: SpanBreakdown) -> Summary:
    return {
        "span_us": found.span / 1000,
        "communication_us": found.communication / 1000,
        "computation_us": found.computation / 1000,
        "overlap_us": found.overlap / 1000,
        "exposed_us": found.exposed / 1000,
        "copy_us": found.copy / 1000,
        "idle_us": found.idle / 1000,
    }


def _kinds(found: SpanBreakdown) -> list[Summary]:
    longest = sorted(found.by_kind.items(), key=lambda item: (-item[1].time, item[0]))
    return [
        {
            "group": group,
            "kind": op,
            "count": kind.count,
            "bytes": kind.num_bytes,
            "communication_us": kind.time / 1000,
            "exposed_us": kind.exposed / 1000,
        }
        for (group, op), kind in longest[:MAX_KINDS]
    ]


def _waiting(communication: dict[int, list[Activity]]) -> Summary:
    found = rank_waits(communication)
    pairs = sorted(found.waits_for.items(), key=lambda item: (-item[1], item[0]))
    return {
        "collectives": found.count,
        "transfer_us": found.transfer / 1000,
        "ranks": [
            {"rank": rank, "waiting_us": found.waiting[rank] / 1000, "last": found.last[rank]}
            for rank in sorted(communication)
        ],
        "bandwidths": [
            {
                "group": group,
                "kind": op,
                "ranks": kind.size,
                "collectives": kind.count,
                "bytes": kind.num_bytes,
                "transfer_us": kind.transfer / 1000,
                "algorithm_bytes_per_s": kind.algorithm_bytes_per_s,
                "bus_bytes_per_s": kind.bus_bytes_per_s(op),
            }
            for (group, op), kind in sorted(found.by_kind.items(), key=lambda of: -of[1].transfer)[
                :MAX_KINDS
            ]
        ],
        "pairs": [
            {"rank": rank, "waits_for": culprit, "waiting_us": ns / 1000}
            for (rank, culprit), ns in pairs
        ],
    }
