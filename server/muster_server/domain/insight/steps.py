"""What the measured steps of all ranks say together: what each spends them on, who waits for whom, and
what links carry.

All times are milliseconds per step, of all measured steps: communication of one step in four counts a
quarter. NaN is not expected: rows without a value are left out before.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .costs import StepCosts, costs_of
from .step_rows import PARTS_KNOWN, RankRows, Rows, common_ends
from .step_traffic import KindTraffic, ProcessGroup, placed_groups, traffic_of
from .waiting import LateRank, late_ranks, waits_of

PARTS = (
    "time/data_wait_ms", "time/host_to_device_ms", "time/forward_ms", "time/backward_ms",
    "time/no_grad_ms", "comm/exposed_ms", "pipeline/bubble_ms", "time/optimizer_ms",
    "time/checkpoint_ms", "time/other_ms",
)  # fmt: skip
"""They sum to time/step_ms within 2 %."""


@dataclass(frozen=True, kw_only=True)
class RankSteps:
    """Means over the measured rows of one rank."""

    rank: int
    num_rows: int
    """Number of rows behind these figures."""
    step_ms: float
    parts: dict[str, float]
    """Metric → time; they sum to `step_ms` within 2 %."""
    other_idle_ms: float | None
    """Part of time/other_ms in which the training thread used no processor; None if not measured."""
    validation_ms: float | None
    """Validation per step, which is beside the step; None if there was none."""
    overlapped_ms: float | None
    interference_ms: float | None
    wait_ms: float | None
    """Time spent waiting for late members of its groups, which is part of comm/exposed_ms. None if
    nothing can be compared: one rank, or messages between two ranks only."""
    held_up_ms: float | None
    """Mean time that the other ranks waited for this one."""
    stage: int | None
    """Stage of a pipeline that the rank holds; None without a pipeline."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a pipeline: means over the ranks that hold it."""

    stage: int
    ranks: tuple[int, ...]
    compute_ms: float
    """Time of forward and backward."""
    bubble_ms: float
    step_ms: float


@dataclass(frozen=True, kw_only=True)
class StepAnalysis:
    ranks: tuple[RankSteps, ...]
    traffic: tuple[KindTraffic, ...]
    late: tuple[LateRank, ...]
    """Ranks that were late at all, those that the others wait for most first."""
    costs: StepCosts
    bucket_steps: int
    num_steps: int
    """Measured steps of the rank with the fewest."""
    stages: tuple[Stage, ...]
    imbalance: float | None
    """Imbalance of the stages: the slowest one's computing over the mean, less 1. None without a
    pipeline."""

    @property
    def culprit(self) -> LateRank | None:
        """The rank that the others wait for again and again, beyond chance; None without one."""
        return next((late for late in self.late if late.stands_out), None)


def analyse(
    ranks: Mapping[int, Rows], groups: Sequence[ProcessGroup], *, bucket_steps: int = 1
) -> StepAnalysis:
    """Put the rows of all ranks together.

    ranks: rank → its rows in a window of steps. Ranks without parts are left out of the answer.
    bucket_steps: rows of different ranks are compared within buckets of so many steps; 1 where
        nearly every step is a row. Then the few rows of several steps are joined with others up to
        the next step that ends a row on every rank.
    """
    measured = _measured(ranks, bucket_steps)
    placed = placed_groups(measured, groups)
    waits = waits_of(measured, placed)
    waited = {
        rank: (
            of.mean({bucket: ms[rank] for bucket, ms in of.ms.items()}),
            of.mean(of.held_up(rank)),
        )
        for of in waits
        for rank in of.ranks
    }
    described = tuple(
        _rank_steps(rank, rows, *waited.get(rank, (None, None)))
        for rank, rows in sorted(measured.items())
    )
    stages = _stages(described)
    late = [late for of in waits for late in late_ranks(of, measured)]
    return StepAnalysis(
        ranks=described,
        traffic=traffic_of(placed, measured),
        late=tuple(sorted(late, key=lambda found: -found.share)),
        costs=costs_of(measured, waits),
        bucket_steps=bucket_steps,
        num_steps=round(
            min((sum(rows.weights.values()) for rows in measured.values()), default=0.0)
        ),
        stages=stages,
        imbalance=_imbalance(stages),
    )


def lateness(
    ranks: Mapping[int, Rows], groups: Sequence[ProcessGroup], *, bucket_steps: int = 1
) -> dict[int, float]:
    """Rank → ms of the others' step that they wait for it, negative where it waits for them: the mean
    over buckets, among the most ranks that can be compared. Empty without any.

    A signed figure of every rank, where a culprit is one that stands out: chance makes it as often
    negative as positive.
    """
    measured = _measured(ranks, bucket_steps)
    waits = waits_of(measured, placed_groups(measured, groups))
    return {rank: waits[0].lateness(rank) for rank in waits[0].ranks} if waits else {}


def _measured(ranks: Mapping[int, Rows], width: int) -> dict[int, RankRows]:
    """Return the rows of the ranks that have measured parts of their steps."""
    having = {rank: rows for rank, rows in ranks.items() if rows.get(PARTS_KNOWN)}
    ends = common_ends(having.values()) if width <= 1 else []
    return {rank: RankRows(rows, width=width, ends=ends) for rank, rows in having.items()}


# ---------------------------------------------------------------- of one rank


def _rank_steps(rank: int, rows: RankRows, wait: float | None, held_up: float | None) -> RankSteps:
    with_parts = rows.with_parts
    stage = rows.mean("pipeline/stage")
    return RankSteps(
        rank=rank,
        num_rows=len(with_parts),
        step_ms=rows.mean("time/step_ms", with_parts) or 0.0,
        parts={name: value for name in PARTS if (value := rows.mean(name, with_parts)) is not None},
        other_idle_ms=rows.mean("time/other_idle_ms", with_parts),
        validation_ms=rows.mean("time/validation_ms", with_parts),
        overlapped_ms=rows.mean("comm/overlapped_ms"),
        interference_ms=rows.mean("comm/interference_ms"),
        wait_ms=wait,
        held_up_ms=held_up,
        stage=None if stage is None else round(stage),
    )


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
