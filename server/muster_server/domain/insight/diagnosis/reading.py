"""Conversion of the rows of a training's ranks into what a diagnosis compares."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from ..estimates import block_means
from ..step_rows import Rows
from ..step_traffic import ProcessGroup
from ..steps import RankSteps, analyse, lateness
from .judging import Breakdown

NUM_BLOCKS = 5


def step_times(ranks: Mapping[int, Rows], *, skip: int) -> dict[int, float]:
    """Rank → its step time in ms, without steps up to number `skip`. Ranks without any are left out.

    The median over NUM_BLOCKS blocks of consecutive steps of their means: a mean, since not every
    step need do the same, that a disturbance of some steps does not move.
    """
    found: dict[int, float] = {}
    for rank, rows in ranks.items():
        values = [v for s, v in sorted(rows.get("time/step_ms", {}).items()) if s > skip]
        if values:
            found[rank] = statistics.median(block_means(values, [1.0] * len(values), NUM_BLOCKS))
    return found


def breakdown(
    ranks: Mapping[int, Rows], groups: Sequence[ProcessGroup], *, skip: int, bucket_steps: int = 1
) -> Breakdown | None:
    """Shares of the step by the ranks' own clocks, without steps up to `skip`. None when no rank has
    measured parts."""
    kept: dict[int, Rows] = {
        rank: {name: {s: v for s, v in series.items() if s > skip} for name, series in rows.items()}
        for rank, rows in ranks.items()
    }
    found = analyse(kept, groups, bucket_steps=bucket_steps)
    if not found.ranks:
        return None
    step_ms = statistics.fmean(r.step_ms for r in found.ranks)
    late = lateness(kept, groups, bucket_steps=bucket_steps)
    if len(found.stages) > 1:
        mean = statistics.fmean(s.compute_ms for s in found.stages)
        late = {s.ranks[0]: s.compute_ms - mean for s in found.stages}
    data = [_part(r, "time/data_wait_ms") + _part(r, "time/host_to_device_ms") for r in found.ranks]
    exposed = statistics.fmean(
        max(_part(r, "comm/exposed_ms") - (r.wait_ms or 0.0), 0.0) for r in found.ranks
    )
    return Breakdown(
        step_ms=step_ms,
        data=min(data) / step_ms,
        transfer=exposed / step_ms,
        late={rank: ms / step_ms for rank, ms in late.items()},
        cause=found.culprit.part if found.culprit is not None else None,
        optimizer=statistics.fmean(_part(r, "time/optimizer_ms") for r in found.ranks) / step_ms,
        bubble=statistics.fmean(_part(r, "pipeline/bubble_ms") for r in found.ranks) / step_ms,
    )


def _part(rank: RankSteps, name: str) -> float:
    return rank.parts.get(name, 0.0)
