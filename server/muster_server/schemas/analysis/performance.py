"""Where the time of a trial's steps goes. Times are milliseconds per step."""

from __future__ import annotations

from muster_server.domain.insight.bottleneck import BottleneckKind, Cost
from muster_server.domain.insight.step_traffic import KindTraffic
from muster_server.domain.insight.steps import RankSteps, Stage

from ..base import Output, PartOut


class CulpritOut(Output):
    """A rank that the others wait for in at least a tenth of their step, more than for the others
    beyond chance."""

    rank: int
    group: str
    held_up_ms: float
    """Mean time per step that the others wait for it."""
    share: float
    """Share of the other ranks' step, 0 to 1."""
    num_late: int
    """Number of buckets in which it is late: last, with the others waiting a tenth of a usual step."""
    num_buckets: int
    """Number of buckets compared; each is a step where `bucket_steps` is 1."""
    late_ms: float
    """Time that the others wait for it in each bucket in which it is late."""
    part: str | None
    """Part of its step that takes longer than on the other ranks where it is late; null if none
    explains half of the wait."""
    excess_ms: float
    """Time by which that part is longer there."""
    reason: str
    reason_parts: list[PartOut]


class BottleneckOut(Output):
    """Bottleneck of a step: what takes more than half of it, or the largest avoidable cost."""

    kind: BottleneckKind
    """Kind of bottleneck. `computation`: it takes more than half of the step, and nothing avoidable a
    tenth. `no_single_cost`: neither. `too_early`: not enough steps to say; `ms` and `share` are of the
    largest cost so far. `communication_or_waiting`: what is measured does not tell these apart.
    More kinds may follow."""
    ms: float
    """Time per step; forward and backward if `kind` is `computation`."""
    share: float
    """Share of the step and the validation beside it, 0 to 1. The headline says that it binds the step
    only if this is more than a half, and beyond chance more than computing."""
    step_ms: float
    """Mean step time over the ranks."""
    validation_ms: float
    """Validation per step, which is beside the step."""
    num_rows: int
    """Number of rows of the rank with the fewest."""
    num_steps: int
    """Number of steps behind these rows."""
    costs: list[Cost]
    """What the step is spent on, the largest first. Ranks that the others wait for are left out in the
    steps in which they are late, so no time is counted twice."""
    headline: str
    """What the step is bound by, in one sentence."""
    headline_parts: list[PartOut]
    reason: str
    """Explanation of the bottleneck, and what helps."""
    reason_parts: list[PartOut]


class FiguresOut(Output):
    """Figures of a training over the newest rows of all ranks. The dashboard and the command show
    these."""

    trial_id: int
    attempt_no: int
    figures: dict[str, float]
    """Metric → figure: times, bytes and counts per step, rates (`throughput/`) over the time of these
    steps, and shares of it. Empty if nothing was measured."""
    num_rows: int
    """Number of rows of the rank with the fewest."""


class PerformanceOut(FiguresOut):
    first_step: int | None
    """Step of the oldest row; null if nothing was measured."""
    last_step: int | None
    bucket_steps: int
    """Rows of different ranks are compared within buckets of so many steps."""
    num_ranks: int
    """Number of ranks that have measured steps."""
    source: str | None
    """Sentences that say of how many steps communication and parts are known, where they come from
    the timeline of the GPU's kernels or from torch's flight recorder; null where they do not."""
    source_parts: list[PartOut]
    foreign: list[str]
    """Who uses, or used while it ran, devices of the attempt outside Muster, a sentence without its full
    stop for each device: a possible cause of slower steps."""
    ranks: list[RankSteps]
    """Ranks in ascending order, the first 256 at most."""
    traffic: list[KindTraffic]
    culprit: CulpritOut | None
    bottleneck: BottleneckOut | None
    """Bottleneck; null if nothing was measured."""
    stages: list[Stage]
    imbalance: float | None
    """Imbalance of a pipeline: the slowest stage's compute time over the mean of all stages, less
    1; null without a pipeline."""
