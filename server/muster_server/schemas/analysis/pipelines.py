"""One step of a pipeline as its workers recorded it."""

from __future__ import annotations

import datetime as dt

from ..base import Output


class PipelineOperationOut(Output):
    kind: str
    """Kind of operation: forward, backward, backward_input or backward_weight; send_forward or
    send_backward, of which only the start is known; recv_forward or recv_backward."""
    stage: int
    micro_batch: int
    """Index of the micro-batch, from 0."""
    start_ms: float
    """Start, from the beginning of the first worker's step."""
    end_ms: float


class PipelineLaneOut(Output):
    """Operations of one worker, in order of time."""

    rank: int
    operations: list[PipelineOperationOut]
    num_left_out: int
    """Number of operations that were not kept."""
    error_ms: float | None
    """Maximum error of its times relative to the first worker's. Null if the clocks could not be
    compared."""


class PipelineStepOut(Output):
    trial_id: int
    attempt_no: int
    num_pipelines: int
    """Number of pipelines with a recorded step; request each by its index."""
    pipeline: int
    step: int | None
    """Recorded step; null if none was recorded yet."""
    at: dt.datetime | None
    total_ms: float | None
    """Time from the first computation to the last."""
    idle_share: float | None
    """Share of the workers' time between these two in which they compute nothing, 0 to 1."""
    lanes: list[PipelineLaneOut]
    """Lanes, from the first worker of the pipeline to the last."""
