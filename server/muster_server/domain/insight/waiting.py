"""Who waits for whom, bucket by bucket. Pure.

Ranks measure with clocks of their own and nothing here compares clocks. A collective ends for all of
its members at about the same time, so the one that joined last was in it for the shortest: its time
is the transfer, and what another member has above it is time that member waited. Ranks that share
groups, as those of a mesh, are looked at together: one that is late only because it waited for
another is not the one that the others wait for.

Times are milliseconds per step.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .estimates import block_means, mean_of
from .step_rows import RankRows
from .step_traffic import PlacedGroup

WORK = (
    "time/data_wait_ms", "time/host_to_device_ms", "time/forward_ms", "time/backward_ms",
    "time/no_grad_ms", "time/optimizer_ms", "time/checkpoint_ms", "time/other_ms",
    "time/validation_ms",
)  # fmt: skip
"""What a rank may be late because of."""
_IDLE = "time/other_idle_ms"
"""Named instead of time/other_ms, which holds it, where it explains the wait by itself."""
LATE_SHARE = 0.1
"""Share of the usual step that the others must wait in a bucket for its last rank to be late there."""
MIN_BUCKETS = 10
"""Buckets of steps that all members must have measured before a rank is blamed."""
MIN_SHARE = 0.1
"""Share of the step that others must wait for a rank before it is blamed; smaller shares may be
chance."""
MIN_SHARE_UNEXPLAINED = 0.25
"""Minimum share where no part of the rank's own step is longer. In short runs of equal workers that
share a machine, chance made 0.11 to 0.21 of it in 5 of 205."""
_WIDER = 2.0
"""A rank is blamed where an interval so many times as wide as the one of 95 % is above 0: one of many
ranks is looked at, again and again."""


@dataclass(frozen=True, kw_only=True)
class LateRank:
    """A rank that the others wait for."""

    rank: int
    group: str
    held_up_ms: float
    """Mean over the others of their wait in the buckets in which this rank was last, spread over all
    buckets."""
    share: float
    """Share of the other ranks' step, 0 to 1."""
    num_late: int
    """Buckets in which it was last and the others waited LATE_SHARE of the usual step or more: their
    steps where rows are compared step by step."""
    num_buckets: int
    """All buckets, or their steps, of which those are."""
    late_ms: float
    """What the others wait in each bucket in which it is late."""
    part: str | None
    """Part of its step that is longest compared with the others in the buckets in which it is late;
    None if none explains half of the wait."""
    excess_ms: float
    """Time by which that part is longer there."""
    stands_out: bool
    """The others wait for this rank more than for the mean of the others, beyond chance, and enough
    to blame it."""


@dataclass(frozen=True, kw_only=True)
class RankWaits:
    """What ranks that are compared with each other wait, in every bucket that all have measured."""

    ranks: tuple[int, ...]
    group: str
    """Name of the largest group by which they are compared."""
    ms: Mapping[int, Mapping[int, float]]
    """Bucket → rank → time waited in all of its groups; 0 where none of them communicated."""
    communicated: frozenset[int]
    """Buckets in which any of the groups did."""
    weights: Mapping[int, float]
    """Bucket → number of steps."""
    is_by_step: bool
    """Whether buckets are single steps, but for a few."""

    @cached_property
    def until(self) -> dict[int, list[int]]:
        """Bucket with communication → the buckets since the one before, itself included: what makes a
        rank late in it may have happened in any of them."""
        found: dict[int, list[int]] = {}
        since: list[int] = []
        for bucket in sorted(self.ms):
            since.append(bucket)
            if bucket in self.communicated:
                found[bucket], since = since, []
        return found

    @cached_property
    def left_out(self) -> dict[int, frozenset[int]]:
        """Bucket → the ranks that the others waited for at its end or later."""
        return {b: self.last[end] for end, since in self.until.items() for b in since}

    @cached_property
    def last(self) -> dict[int, frozenset[int]]:
        """Bucket → the ranks that waited least, for whom the others waited; empty where all waited
        alike."""
        found = {}
        for bucket, waited in self.ms.items():
            least = min(waited.values())
            last = frozenset(rank for rank, ms in waited.items() if ms == least)
            found[bucket] = last if len(last) < len(waited) else frozenset[int]()
        return found

    @cached_property
    def others(self) -> dict[int, float]:
        """Bucket → mean wait of the ranks that were not last; 0 where nobody was."""
        return {
            bucket: statistics.fmean(ms for r, ms in self.ms[bucket].items() if r not in last)
            if last
            else 0.0
            for bucket, last in self.last.items()
        }

    def held_up(self, rank: int) -> dict[int, float]:
        """Bucket → how long the others waited for this rank. Ranks that are last together share it."""
        return {
            bucket: self.others[bucket] / len(last) if rank in last else 0.0
            for bucket, last in self.last.items()
        }

    def lateness(self, rank: int) -> float:
        """Return how long the others waited for this rank less what it waited itself, on average: as
        often negative as positive where only chance makes ranks late."""
        held_up = self.held_up(rank)
        return self.mean({b: held_up[b] - waited[rank] for b, waited in self.ms.items()})

    def num(self, buckets: Iterable[int]) -> int:
        """Return the number of buckets; where they are steps, of those."""
        return round(math.fsum(self.weights[b] if self.is_by_step else 1.0 for b in buckets))

    def mean(self, of: Mapping[int, float]) -> float:
        """Return the mean over buckets, by their steps; 0 without any."""
        if not of:
            return 0.0
        return statistics.fmean(of.values(), [self.weights[bucket] for bucket in of])


def waits_of(measured: Mapping[int, RankRows], groups: Sequence[PlacedGroup]) -> list[RankWaits]:
    """Return the waits of all ranks that can be compared: by sets of ranks that groups connect, the
    largest first."""
    compared = [(group, exposed) for group in groups if (exposed := _exposed(group, measured))]
    sets: list[set[int]] = []
    for group, _ in compared:
        touched = [s for s in sets if s & set(group.ranks)]
        sets = [s for s in sets if s not in touched] + [set(group.ranks).union(*touched)]
    found = []
    for ranks in sorted(sets, key=lambda s: (-len(s), min(s))):
        of_set = [(group, exposed) for group, exposed in compared if group.ranks[0] in ranks]
        common = sorted(set.intersection(*(set(exposed) for _, exposed in of_set)))
        if not common:
            continue
        ms = {bucket: dict.fromkeys(sorted(ranks), 0.0) for bucket in common}
        for _, exposed in of_set:
            for bucket in common:
                least = min(exposed[bucket].values())
                for rank, value in exposed[bucket].items():
                    ms[bucket][rank] += value - least
        largest = max(of_set, key=lambda pair: len(pair[0].ranks))[0]
        weights = [measured[rank].weights for rank in ranks]
        found.append(
            RankWaits(
                ranks=tuple(sorted(ranks)),
                group=largest.name,
                ms=ms,
                communicated=frozenset(
                    b for _, exposed in of_set for b in common if any(exposed[b].values())
                ),
                weights={b: statistics.fmean(w.get(b, 1.0) for w in weights) for b in common},
                is_by_step=all(measured[rank].is_by_step for rank in ranks),
            )
        )
    return found


def _exposed(
    group: PlacedGroup, measured: Mapping[int, RankRows]
) -> dict[int, dict[int, float]] | None:
    """Return bucket → rank → the members' exposed time in a group, of the buckets that all of them
    have measured; None where they cannot be compared."""
    name = f"comm/{group.label}/exposed_ms"
    series = {rank: measured[rank].buckets(name) for rank in group.ranks}
    common = set.intersection(*(set(s) for s in series.values())) if len(series) > 1 else set()
    return {b: {rank: s[b] for rank, s in series.items()} for b in common} or None


def late_ranks(waits: RankWaits, measured: Mapping[int, RankRows]) -> list[LateRank]:
    """Return the ranks that were late at all, those that the others wait for most first."""
    steps = {rank: measured[rank].buckets("time/step_ms") for rank in waits.ranks}
    usual = statistics.median(
        statistics.fmean(s[b] for s in steps.values() if b in s) if any(steps.values()) else 0.0
        for b in waits.ms
    )
    late = {
        rank: [
            b
            for b, last in waits.last.items()
            if rank in last and 0 < waits.others[b] >= LATE_SHARE * usual
        ]
        for rank in waits.ranks
    }
    ranks = sorted(
        (rank for rank in waits.ranks if late[rank]),
        key=lambda rank: (-waits.mean(waits.held_up(rank)), rank),
    )
    return [_late_rank(rank, late[rank], waits, measured) for rank in ranks]


def _late_rank(
    rank: int, late: Sequence[int], waits: RankWaits, measured: Mapping[int, RankRows]
) -> LateRank:
    held_up = waits.held_up(rank)
    held_up_ms = waits.mean(held_up)
    late_ms = waits.mean({b: waits.others[b] for b in late})
    others = [r for r in waits.ranks if r != rank]
    step_ms = statistics.fmean(measured[r].mean("time/step_ms") or 0.0 for r in others)
    share = held_up_ms / step_ms if step_ms > 0 else 0.0
    excess = {part: _excess(part, rank, late, waits, measured) for part in WORK}
    part = max(excess, key=lambda name: excess[name])
    if part == "time/other_ms":
        idle = _excess(_IDLE, rank, late, waits, measured)
        if idle >= late_ms / 2:
            part, excess[_IDLE] = _IDLE, idle
    explained = excess[part] >= late_ms / 2
    enough = share >= (MIN_SHARE if explained else MIN_SHARE_UNEXPLAINED)
    return LateRank(
        rank=rank,
        group=waits.group,
        held_up_ms=held_up_ms,
        share=share,
        num_late=waits.num(late),
        num_buckets=waits.num(waits.ms),
        late_ms=late_ms,
        part=part if explained else None,
        excess_ms=excess[part],
        stands_out=len(waits.ms) >= MIN_BUCKETS and enough and _is_beyond_chance(rank, waits),
    )


def _is_beyond_chance(rank: int, waits: RankWaits) -> bool:
    """Return whether the others wait more for this rank than for the mean of the rest: where all are
    alike, chance makes the difference positive as often as negative."""
    mine = waits.held_up(rank)
    total = {b: waits.others[b] for b in waits.ms}
    rest = len(waits.ranks) - 1
    differences = {b: mine[b] - (total[b] - mine[b]) / rest for b in sorted(waits.ms)}
    found = mean_of(block_means(differences.values(), [waits.weights[b] for b in differences]))
    return found is not None and found.value - _WIDER * (found.value - found.low) > 0


def _excess(
    part: str,
    rank: int,
    late: Sequence[int],
    waits: RankWaits,
    measured: Mapping[int, RankRows],
) -> float:
    """Return how much longer this part is on `rank` than on the median of the others, for each bucket
    in which it is late. A part that a rank does not have is 0 there."""
    mine = measured[rank].buckets(part)
    if not mine:
        return 0.0
    theirs = [measured[r].buckets(part) for r in waits.ranks if r != rank]
    longer = sum(
        waits.weights[b] * (mine.get(b, 0.0) - statistics.median(s.get(b, 0.0) for s in theirs))
        for end in late
        for b in waits.until[end]
    )
    return longer / sum(waits.weights[b] for b in late)
