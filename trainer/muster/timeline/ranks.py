"""Who waits for whom, from the timelines of several ranks. No clocks are compared.

A collective's kernel runs from when its rank arrives until the data is there. The rank that comes last
waits for nobody: its time is the transfer's, and what the others take longer is their waiting for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.measure.collectives import POINT_TO_POINT

from .activities import Activity


@dataclass(frozen=True, slots=True)
class CollectiveWaits:
    """Waiting in the collectives that several ranks' timelines show. Times in nanoseconds."""

    count: int
    """Number of collectives that were compared."""
    transfer: int
    """Sum of their transfers."""
    waiting: dict[int, int]
    """Rank → how long it waited for others."""
    last: dict[int, int]
    """Rank → number of collectives that it was the last to come to."""
    waits_for: dict[tuple[int, int], int]
    """(waiting rank, rank that came last) → how long."""


def rank_waits(ranks: Mapping[int, Iterable[Activity]]) -> CollectiveWaits:
    """Compare the collectives of several ranks by group, kind and sequence number, or by their order
    within a group and stream where the trace has no numbers. What is not on all ranks of these
    timelines that use the group, or ambiguous, is left out, as are messages between two ranks,
    coalesced ones among them: their pairs are not known."""
    seen = {rank: _keyed(activities) for rank, activities in ranks.items()}
    groups: dict[str, set[int]] = {}
    for rank, of_rank in seen.items():
        for group, *_ in of_rank:
            groups.setdefault(group, set()).add(rank)
    counts = {rank: Counter(key[:4] for key in of_rank if key[3]) for rank, of_rank in seen.items()}
    num = transfer = 0
    waiting: Counter[int] = Counter(dict.fromkeys(ranks, 0))
    last: Counter[int] = Counter(dict.fromkeys(ranks, 0))
    waits_for: Counter[tuple[int, int]] = Counter()
    for key in dict.fromkeys(key for of_rank in seen.values() for key in of_rank):
        members = groups[key[0]]
        times = {rank: seen[rank][key] for rank in members if key in seen[rank]}
        if len(members) < 2 or len(times) < len(members):
            continue
        if key[3] and len({counts[rank][key[:4]] for rank in members}) > 1:
            continue  # windows of different length: the n-th here need not be the n-th there
        num += 1
        culprit = min(times, key=lambda rank: (times[rank], rank))
        transfer += times[culprit]
        late = [rank for rank in times if times[rank] > times[culprit]]
        if late:
            last[culprit] += 1
        for rank in late:
            waiting[rank] += times[rank] - times[culprit]
            waits_for[rank, culprit] += times[rank] - times[culprit]
    return CollectiveWaits(num, transfer, dict(waiting), dict(last), dict(waits_for))


Key = tuple[str, str, int | None, str, int]
"""Group, kind, sequence number or None, stream's place if there is no number, how many came before."""


def _keyed(activities: Iterable[Activity]) -> dict[Key, int]:
    """Return the durations of one rank's collectives."""
    found: dict[Key, int] = {}
    before: Counter[tuple[str, str, int | None, str]] = Counter()
    places: dict[tuple[str, int | str], int] = {}
    num_streams: Counter[str] = Counter()
    for one in sorted(activities, key=lambda one: one.start_ns):
        told = one.collective
        if one.kind != "communication" or told is None or told.op in POINT_TO_POINT:
            continue
        if (told.group, one.stream) not in places:
            places[told.group, one.stream] = num_streams[told.group]
            num_streams[told.group] += 1
        place = places[told.group, one.stream]
        series = (told.group, told.op, told.seq, "" if told.seq is not None else f"stream {place}")
        found[*series, before[series]] = one.end_ns - one.start_ns
        before[series] += 1
    return found
