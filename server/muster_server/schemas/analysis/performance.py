"""Where the time of a trial's steps goes. Times are milliseconds per step."""

from __future__ import annotations

from muster_server.domain.insight.bottleneck import BottleneckKind
from muster_server.domain.insight.costs import CostKind

from ..base import Output, PartOut


class RankStepsOut(Output):
    """Means over the measured rows of one rank."""

    rank: int
    num_rows: int
    """Number of rows behind these figures."""
    step_ms: float
    parts: dict[str, float]
    """Metric → time; they sum to `step_ms` within 2 %."""
    other_idle_ms: float | None
    """Part of time/other_ms in which the training thread used no processor; null if not measured."""
    validation_ms: float | None
    """Validation per step, which is beside the step; null if there was none."""
    overlapped_ms: float | None
    interference_ms: float | None
    wait_ms: float | None
    """Time spent waiting for late members of its groups, which is part of comm/exposed_ms. Null if
    nothing can be compared: one rank, or messages between two ranks only."""
    held_up_ms: float | None
    """Mean time that the other ranks waited for this one."""
    stage: int | None
    """Stage of a pipeline that the rank holds; null without a pipeline."""


class KindTrafficOut(Output):
    """One kind of collective of one process group: means over its members, and over all measured
    steps, those without one included."""

    group: str
    kind: str
    ranks: list[int]
    count: float
    num_bytes: float
    """Payload: the tensor reduced, the output of a gather, the input of a scatter."""
    time_ms: float | None
    """Time during which at least one was in flight; null where collectives are only counted, and then
    so are all other times and rates."""
    num_rows: int
    """Measured rows behind these figures; each is a step where `bucket_steps` is 1."""
    num_rows_with: int
    """Number of rows with at least one; less than `num_rows` if it does not happen in every
    step."""
    time_ms_with: float | None
    """`time_ms` of these rows alone."""
    transfer_ms: float | None
    """Time of the member that joined last, which waited for nobody. Null for messages between two
    ranks, and if only one member has measured."""
    wait_ms: float | None
    """Time spent waiting for that member: `time_ms` less `transfer_ms`."""
    algorithm_bytes_per_s: float | None
    """Algorithm bandwidth: `num_bytes` over `transfer_ms`, or over `time_ms` if that is null."""
    bus_bytes_per_s: float | None
    """Bus bandwidth: the algorithm bandwidth times 2(n-1)/n for all_reduce, (n-1)/n for all_gather,
    reduce_scatter and all_to_all, and 1 for broadcast, reduce and messages between two ranks, for n
    members (nccl-tests' PERFORMANCE.md)."""


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


class CostOut(Output):
    """One of the costs that a step is made of."""

    kind: CostKind
    ms: float
    """Time per step."""
    share: float
    """Share of the step and the validation beside it, 0 to 1."""


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
    costs: list[CostOut]
    """What the step is spent on, the largest first. Ranks that the others wait for are left out in the
    steps in which they are late, so no time is counted twice."""
    headline: str
    """What the step is bound by, in one sentence."""
    headline_parts: list[PartOut]
    reason: str
    """Explanation of the bottleneck, and what helps."""
    reason_parts: list[PartOut]


class StageOut(Output):
    """One stage of a pipeline: means over the ranks that hold it."""

    stage: int
    ranks: list[int]
    compute_ms: float
    """Time of forward and backward."""
    bubble_ms: float
    step_ms: float


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
    ranks: list[RankStepsOut]
    """Ranks in ascending order, the first 256 at most."""
    traffic: list[KindTrafficOut]
    culprit: CulpritOut | None
    bottleneck: BottleneckOut | None
    """Bottleneck; null if nothing was measured."""
    stages: list[StageOut]
    imbalance: float | None
    """Imbalance of a pipeline: the slowest stage's compute time over the mean of all stages, less
    1; null without a pipeline."""
