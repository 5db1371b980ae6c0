"""Where the time of a trial's steps goes. Times are milliseconds per step."""

from __future__ import annotations

from muster_server.domain.insight.bottleneck import BottleneckKind

from .base import Output, PartOut


class RankStepsOut(Output):
    """Means over the rows of one rank."""

    rank: int
    num_rows: int
    """Rows behind these figures."""
    step_ms: float
    parts: dict[str, float]
    """Metric → time; they sum to `step_ms` within 2 %."""
    overlapped_ms: float | None
    interference_ms: float | None
    wait_ms: float | None
    """Waited for late members of its groups: part of comm/exposed_ms. Null where nothing can be
    compared: one rank, or messages between two ranks only."""
    held_up_ms: float | None
    """How long the others waited for this rank: mean over them."""
    stage: int | None
    """Of a pipeline."""


class KindTrafficOut(Output):
    """One kind of collective of one process group: means over its members, and over all measured
    steps, those without one included."""

    group: str
    kind: str
    ranks: list[int]
    count: float
    num_bytes: float
    """Payload: the tensor reduced, the output of a gather, the input of a scatter."""
    time_ms: float
    """At least one in flight."""
    num_rows: int
    """Measured rows behind these figures; each is a step where `bucket_steps` is 1."""
    num_rows_with: int
    """Rows with at least one: less than `num_rows` where it does not happen in every step."""
    time_ms_with: float
    """`time_ms` of these rows alone."""
    transfer_ms: float | None
    """The same of the member that joined last: nobody was waited for. Null for messages between
    two ranks, and when only one member has measured."""
    wait_ms: float | None
    """`time_ms` less `transfer_ms`: waiting for that member."""
    algorithm_bytes_per_s: float | None
    """`num_bytes` over `transfer_ms`, or over `time_ms` where that is null."""
    bus_bytes_per_s: float | None
    """That times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, 1
    for broadcast, reduce and messages between two ranks (nccl-tests' PERFORMANCE.md); n: members."""


class CulpritOut(Output):
    """A rank that the others wait for in at least a tenth of their step."""

    rank: int
    group: str
    held_up_ms: float
    share: float
    """Of the others' step, 0 to 1."""
    part: str | None
    """Which part of its step is longer than the others'; null when none explains half of it."""
    excess_ms: float
    """By how much that part is longer."""
    num_buckets: int
    """Groups of steps that were compared; the figures are medians over them."""
    reason: str


class BottleneckOut(Output):
    """What a step is bound by."""

    kind: BottleneckKind
    """computation: nothing that a step could do without takes a tenth of it."""
    ms: float
    """Per step; of computation, forward and backward."""
    share: float
    """Of the step, 0 to 1."""
    step_ms: float
    """Mean over the ranks, without the one that the others wait for."""
    num_rows: int
    """Rows of the rank with the fewest."""
    reason: str
    """What it is and what helps."""
    reason_parts: list[PartOut]


class StageOut(Output):
    """One stage of a pipeline: means over the ranks that hold it."""

    stage: int
    ranks: list[int]
    compute_ms: float
    """Forward and backward."""
    bubble_ms: float
    step_ms: float


class PerformanceOut(Output):
    trial_id: int
    attempt_no: int
    first_step: int | None
    """Of the window; null when nothing was measured."""
    last_step: int | None
    bucket_steps: int
    """Rows of different ranks are compared within buckets of so many steps."""
    num_ranks: int
    """Ranks that have measured steps."""
    ranks: list[RankStepsOut]
    """In order of rank; at most 256, the first ones."""
    traffic: list[KindTrafficOut]
    culprit: CulpritOut | None
    bottleneck: BottleneckOut | None
    """null when nothing was measured."""
    stages: list[StageOut]
    imbalance: float | None
    """The slowest stage's computing over the mean of all, less 1; null without a pipeline."""
