"""Who waits for whom, from the timelines of several ranks. No clocks are compared.

A collective's kernel runs from when its rank arrives until the data is there. The rank that comes last
waits for nobody: its time is the transfer's, and what the others take longer is their waiting for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.measure.collectives import POINT_TO_POINT

from .activities import Activity, CollectiveInfo


@dataclass(frozen=True, slots=True)
class KindTransfer:
    """Collectives of one kind in one group whose transfers are known."""

    count: int
    num_bytes: int
    transfer: int
    """Sum of their transfers, in ns."""
    size: int
    """Number of members of the group."""

    @property
    def algorithm_bytes_per_s(self) -> float | None:
        return (
            self.num_bytes * 1e9 / self.transfer if self.transfer > 0 and self.num_bytes else None
        )

    def bus_bytes_per_s(self, op: str) -> float | None:
        """Return the bus bandwidth of collectives of this kind; None where there is no such figure."""
        factor, rate = bus_factor(op, self.size), self.algorithm_bytes_per_s
        return None if factor is None or rate is None else rate * factor


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
    by_kind: dict[tuple[str, str], KindTransfer] = field(default_factory=dict)
    """(group, kind) → transfers, where the bytes are known and all members of the group were compared."""


def bus_factor(kind: str, size: int) -> float | None:
    """Return the ratio of bus bandwidth to algorithm bandwidth in a group of `size` ranks; None if
    there is no such figure.

    As in nccl-tests' PERFORMANCE.md: the traffic of the slowest link over the payload, so that the
    figure can be compared with what a link can do, whatever the number of ranks.
    """
    if kind == "all_reduce":
        return 2 * (size - 1) / size
    if kind in ("all_gather", "reduce_scatter", "all_to_all"):
        return (size - 1) / size
    if kind in ("broadcast", "reduce") or kind in POINT_TO_POINT:
        return 1.0
    return None


def rank_waits(ranks: Mapping[int, Iterable[Activity]]) -> CollectiveWaits:
    """Compare the collectives of several ranks by group, kind and sequence number, or by their order
    within a group and stream where the trace has no numbers. What is not on all ranks of these
    timelines that use the group, or ambiguous, is left out, as are messages between two ranks,
    coalesced ones among them: their pairs are not known."""
    infos: dict[Key, CollectiveInfo] = {}
    by_kind: dict[tuple[str, str], KindTransfer] = {}
    seen = {rank: _keyed(activities, infos) for rank, activities in ranks.items()}
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
        told = infos[key]
        culprit = min(times, key=lambda rank: (times[rank], rank))
        transfer += times[culprit]
        if told.num_bytes is not None and told.size == len(members):
            known = by_kind.get((told.group, told.op), KindTransfer(0, 0, 0, told.size))
            by_kind[told.group, told.op] = KindTransfer(
                known.count + 1,
                known.num_bytes + told.num_bytes,
                known.transfer + times[culprit],
                told.size,
            )
        late = [rank for rank in times if times[rank] > times[culprit]]
        if late:
            last[culprit] += 1
        for rank in late:
            waiting[rank] += times[rank] - times[culprit]
            waits_for[rank, culprit] += times[rank] - times[culprit]
    return CollectiveWaits(num, transfer, dict(waiting), dict(last), dict(waits_for), by_kind)


Key = tuple[str, str, int | None, str, int]
"""Group, kind, sequence number or None, stream's place if there is no number, how many came before."""


def _keyed(activities: Iterable[Activity], infos: dict[Key, CollectiveInfo]) -> dict[Key, int]:
    """Return the durations of one rank's collectives; what is known of them is noted in `infos`."""
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
        key = (*series, before[series])
        found[key] = one.end_ns - one.start_ns
        infos.setdefault(key, told)
        before[series] += 1
    return found
