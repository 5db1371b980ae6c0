"""What the measured steps of all ranks say together: who waits for whom, and what links carry.

Ranks measure with clocks of their own and nothing here compares clocks. A collective ends for all of
its members at about the same time, so the one that joined last was in it for the shortest: its time
is the transfer, and what another member has above it is time that member waited.

All times are milliseconds per step, of all measured steps: communication of one step in four counts a
quarter. NaN is not expected: rows without a value are left out before.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .step_rows import RankRows, Rows
from .step_traffic import KindTraffic, PlacedGroup, ProcessGroup, placed_groups, traffic_of

PARTS = (
    "time/data_wait_ms", "time/host_to_device_ms", "time/forward_ms", "time/backward_ms",
    "comm/exposed_ms", "pipeline/bubble_ms", "time/optimizer_ms", "time/checkpoint_ms",
    "time/other_ms",
)  # fmt: skip
"""They sum to time/step_ms within 2 %."""
WORK = (
    "time/data_wait_ms", "time/host_to_device_ms", "time/forward_ms", "time/backward_ms",
    "time/optimizer_ms", "time/checkpoint_ms", "time/other_ms",
)  # fmt: skip
"""What a rank may be late because of."""

MIN_BUCKETS = 10
"""Buckets of steps that all members must have measured before a rank is blamed."""
MIN_SHARE = 0.1
"""Share of the step that others must wait for a rank before it is blamed; smaller shares may be
chance."""
MIN_SHARE_UNEXPLAINED = 0.25
"""Minimum share where no part of the rank's own step is longer. In short runs of equal workers that
share a machine, chance made 0.11 to 0.21 of it in 5 of 205."""


@dataclass(frozen=True, kw_only=True)
class RankSteps:
    """Means over the rows of one rank that have parts."""

    rank: int
    num_rows: int
    step_ms: float
    parts: dict[str, float]
    overlapped_ms: float | None
    interference_ms: float | None
    wait_ms: float | None
    """Waited for late members of its groups; None where no group can be compared."""
    held_up_ms: float | None
    """Made the others wait: mean over them, of the buckets in which this rank was last."""
    stage: int | None


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """A rank that the others wait for, again and again."""

    rank: int
    group: str
    held_up_ms: float
    """Median over buckets of how much longer the others were in the group's collectives."""
    share: float
    """Share of the other ranks' step, 0 to 1."""
    part: str | None
    """Part of its step that exceeds that of the others most; None if none explains the delay."""
    excess_ms: float
    num_buckets: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a pipeline, means over the ranks that hold it."""

    stage: int
    ranks: tuple[int, ...]
    compute_ms: float
    """Forward and backward."""
    bubble_ms: float
    step_ms: float


@dataclass(frozen=True, kw_only=True)
class StepAnalysis:
    ranks: tuple[RankSteps, ...]
    traffic: tuple[KindTraffic, ...]
    culprit: Culprit | None
    stages: tuple[Stage, ...]
    imbalance: float | None
    """Imbalance of the stages: the slowest one's computing over the mean, less 1. None without a
    pipeline."""


def analyse(
    ranks: Mapping[int, Rows], groups: Sequence[ProcessGroup], *, bucket_steps: int = 1
) -> StepAnalysis:
    """Put the rows of all ranks together.

    ranks: rank → its rows in a window of steps. Ranks without parts are left out of the answer.
    bucket_steps: rows of different ranks are compared within buckets of so many steps; 1 where
        every step is a row.
    """
    measured = _measured(ranks, bucket_steps)
    placed = placed_groups(measured, groups)
    waits: dict[int, float] = {}
    held_up: dict[int, float] = {}
    suspects: list[Culprit] = []
    for group in placed:
        _share_out(group, measured, waits, held_up)
        suspect = _suspect(group, measured)
        if suspect is not None:
            suspects.append(suspect)
    described = tuple(
        _rank_steps(rank, rows, waits.get(rank), held_up.get(rank))
        for rank, rows in sorted(measured.items())
    )
    stages = _stages(described)
    return StepAnalysis(
        ranks=described,
        traffic=traffic_of(placed, measured),
        culprit=max(suspects, key=lambda c: c.share, default=None),
        stages=stages,
        imbalance=_imbalance(stages),
    )


def lateness(
    ranks: Mapping[int, Rows], groups: Sequence[ProcessGroup], *, bucket_steps: int = 1
) -> dict[int, float]:
    """Rank → ms of the others' step that they wait for it, negative where it waits for them: the
    median over buckets, in the largest group that can be compared. Empty without one.

    A signed figure of every rank, where a culprit is one that stands out: chance makes it as often
    negative as positive.
    """
    measured = _measured(ranks, bucket_steps)
    for group in sorted(placed_groups(measured, groups), key=lambda g: -len(g.ranks)):
        exposed = _exposed(group, measured)
        if exposed.having:
            return {rank: _held_up(rank, exposed) for rank in group.ranks}
    return {}


def _measured(ranks: Mapping[int, Rows], width: int) -> dict[int, RankRows]:
    """Return the rows of the ranks that have measured parts of their steps."""
    found = {rank: RankRows(rows, width=width) for rank, rows in ranks.items()}
    return {rank: rows for rank, rows in found.items() if rows.with_parts}


# ---------------------------------------------------------------- of one rank


def _rank_steps(rank: int, rows: RankRows, wait: float | None, held_up: float | None) -> RankSteps:
    with_parts = rows.with_parts
    stage = rows.mean("pipeline/stage")
    return RankSteps(
        rank=rank,
        num_rows=len(with_parts),
        step_ms=rows.mean("time/step_ms", with_parts) or 0.0,
        parts={name: value for name in PARTS if (value := rows.mean(name, with_parts)) is not None},
        overlapped_ms=rows.mean("comm/overlapped_ms"),
        interference_ms=rows.mean("comm/interference_ms"),
        wait_ms=wait,
        held_up_ms=held_up,
        stage=None if stage is None else round(stage),
    )


# ---------------------------------------------------------------- of a group


@dataclass(frozen=True, kw_only=True)
class _Exposed:
    """The members' exposed time in a group, per bucket that all of them have measured."""

    having: list[dict[int, float]]
    """Rank → ms, of each bucket in which the group communicated at all."""
    num_buckets: int
    """Number of buckets, including those in which the group did not communicate."""

    @property
    def frequency(self) -> float:
        """Share of the buckets in which the group communicated."""
        return len(self.having) / self.num_buckets if self.num_buckets else 0.0


def _exposed(group: PlacedGroup, measured: Mapping[int, RankRows]) -> _Exposed:
    name = f"comm/{group.label}/exposed_ms"
    series = {rank: measured[rank].buckets(name) for rank in group.ranks}
    common = set.intersection(*(set(s) for s in series.values())) if len(series) > 1 else set()
    told = set[int]().union(*(measured[rank].buckets_with(name) for rank in group.ranks))
    return _Exposed(
        having=[
            {rank: s[bucket] for rank, s in series.items()} for bucket in sorted(common & told)
        ],
        num_buckets=len(common),
    )


def _share_out(
    group: PlacedGroup,
    measured: Mapping[int, RankRows],
    waits: dict[int, float],
    held_up: dict[int, float],
) -> None:
    """Add what each member waited in this group, and what the last one of each bucket cost them."""
    exposed = _exposed(group, measured)
    for at_once in exposed.having:
        last = min(at_once, key=lambda rank: at_once[rank])
        above = {rank: value - at_once[last] for rank, value in at_once.items()}
        for rank, wait in above.items():
            waits[rank] = waits.get(rank, 0.0) + wait / exposed.num_buckets
            held_up.setdefault(rank, 0.0)
        held_up[last] += sum(above.values()) / (len(above) - 1) / exposed.num_buckets


def _suspect(group: PlacedGroup, measured: Mapping[int, RankRows]) -> Culprit | None:
    """Return the member that the others regularly wait for, by at least MIN_SHARE of their step; by
    MIN_SHARE_UNEXPLAINED where no part of its own step says why.

    Medians over buckets: a rank that is late once by a lot is no culprit, and two that take turns,
    as on a busy machine, are none either.
    """
    exposed = _exposed(group, measured)
    if len(exposed.having) < MIN_BUCKETS:
        return None
    median = {rank: statistics.median(b[rank] for b in exposed.having) for rank in group.ranks}
    rank = min(median, key=lambda r: median[r])
    others = [r for r in group.ranks if r != rank]
    held_up = _held_up(rank, exposed)
    step_ms = _usual_step_ms([measured[r] for r in others], exposed.frequency)
    if step_ms <= 0 or held_up < MIN_SHARE * step_ms:
        return None
    excess = {part: _excess(part, rank, others, measured) for part in WORK}
    part = max(excess, key=lambda name: excess[name])
    explained = excess[part] >= held_up / 2
    share = held_up / step_ms
    if not explained and share < MIN_SHARE_UNEXPLAINED:
        return None
    return Culprit(
        rank=rank,
        group=group.name,
        held_up_ms=held_up,
        share=share,
        part=part if explained else None,
        excess_ms=excess[part],
        num_buckets=len(exposed.having),
        reason=(
            f"The other ranks of {group.name} wait {held_up:.1f} ms of each step of {step_ms:.1f} ms "
            f"({share:.0%}) for rank {rank}"
            + (
                f", whose {part} is {excess[part]:.1f} ms longer than theirs."
                if explained
                else "; no part of its own step explains it."
            )
        ),
    )


def _usual_step_ms(ranks: Sequence[RankRows], frequency: float) -> float:
    """Return the median; where only some steps communicate, the median one does not, and the mean
    counts."""
    if frequency < 1:
        return statistics.fmean(rows.mean("time/step_ms") or 0.0 for rows in ranks)
    steps = [value for rows in ranks for value in rows.series("time/step_ms").values()]
    return statistics.median(steps) if steps else 0.0


def _held_up(rank: int, exposed: _Exposed) -> float:
    """Return how much longer per step the others are in the collectives than `rank`, in ms: the
    median over the buckets that have any, spread over all buckets."""
    return exposed.frequency * statistics.median(
        statistics.fmean(v for r, v in bucket.items() if r != rank) - bucket[rank]
        for bucket in exposed.having
    )


def _excess(part: str, rank: int, others: Sequence[int], measured: Mapping[int, RankRows]) -> float:
    """Return how much longer this part is on `rank` than on the median of the others, in ms."""
    mine = measured[rank].buckets(part)
    theirs = [statistics.median(v) for r in others if (v := measured[r].buckets(part).values())]
    if not mine or not theirs:
        return 0.0
    return statistics.median(mine.values()) - statistics.median(theirs)


# ---------------------------------------------------------------- pipelines


def _stages(ranks: Sequence[RankSteps]) -> tuple[Stage, ...]:
    members: dict[int, list[RankSteps]] = {}
    for rank in ranks:
        if rank.stage is not None:
            members.setdefault(rank.stage, []).append(rank)
    return tuple(
        Stage(
            stage=stage,
            ranks=tuple(r.rank for r in having),
            compute_ms=statistics.fmean(
                r.parts.get("time/forward_ms", 0.0) + r.parts.get("time/backward_ms", 0.0)
                for r in having
            ),
            bubble_ms=statistics.fmean(r.parts.get("pipeline/bubble_ms", 0.0) for r in having),
            step_ms=statistics.fmean(r.step_ms for r in having),
        )
        for stage, having in sorted(members.items())
    )


def _imbalance(stages: Sequence[Stage]) -> float | None:
    computing = [s.compute_ms for s in stages]
    if len(computing) < 2 or sum(computing) <= 0:
        return None
    return max(computing) / statistics.fmean(computing) - 1
