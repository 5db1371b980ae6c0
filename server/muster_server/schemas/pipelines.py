"""One step of a pipeline as its workers noted it."""

from __future__ import annotations

import datetime as dt

from .base import Output


class PipelineOperationOut(Output):
    kind: str
    """forward, backward, backward_input, backward_weight; send_forward, send_backward, of which only
    the beginning is known; recv_forward, recv_backward."""
    stage: int
    micro_batch: int
    """From 0."""
    start_ms: float
    """From the beginning of the first worker's step."""
    end_ms: float


class PipelineLaneOut(Output):
    """What one worker did, in order of time."""

    rank: int
    operations: list[PipelineOperationOut]
    num_left_out: int
    """Operations that were not kept."""
    error_ms: float | None
    """Its times are right to within this, beside the first worker's. Null: clocks could not be
    compared."""


class PipelineStepOut(Output):
    trial_id: int
    attempt_no: int
    num_pipelines: int
    """With a noted step; each is asked for by its number."""
    pipeline: int
    step: int | None
    """Null: nothing was noted yet."""
    at: dt.datetime | None
    total_ms: float | None
    """From the first computing to the last."""
    idle_share: float | None
    """Of the workers' time between them, in which they compute nothing: 0 to 1."""
    lanes: list[PipelineLaneOut]
    """From the first worker of the pipeline to the last."""
