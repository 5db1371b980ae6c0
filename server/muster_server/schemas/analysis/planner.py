"""What a document's training will need, before it is launched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..base import Input, Output, PartOut, SafeStr
from .scaling import ScalingEstimateOut


class PlanIn(Input):
    document: Annotated[SafeStr, Field(min_length=1, max_length=262_144)]
    overrides: Annotated[
        list[Annotated[SafeStr, Field(max_length=1000)]], Field(max_length=100)
    ] = []
    slot_memory_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None
    """Memory of a slot in bytes; null for the smallest in the pool, as reported when its nodes
    joined."""

    blob_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Code bundle uploaded before with PUT /api/v1/blobs/{sha256}, for a model of your own."""


class MemoryOut(Output):
    """Memory in bytes of the slot that needs most, at its peak. Covers tensors only, not the
    interpreter, libraries or allocator overhead."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    buffers: float
    """Communication buffers."""
    total: float


class PlannedTrafficOut(Output):
    """Traffic per step of the worker that sends most."""

    group: str
    """Group of the traffic: `world`, or the axis of the mesh."""
    kind: str
    size: int
    """Number of members of the group."""
    count: float
    num_bytes: float
    """Payload in bytes, as on the performance page."""


class PlannedStrategyOut(Output):
    kind: str
    is_chosen: bool
    """Whether it is the document's strategy."""
    problem: str
    """Why the strategy cannot be used; the other fields are then empty."""
    memory: MemoryOut | None
    fits: bool | None
    """Whether it fits into the memory of a slot; null if that memory is unknown."""
    traffic: list[PlannedTrafficOut]
    link_bytes: float
    """Number of bytes on the busiest link per step."""
    step_ms: ScalingEstimateOut | None
    """Expected time of a step; null if there are no measurements to estimate it from (see
    `time_source`)."""


class PlanRemarkOut(Output):
    """A large difference between expected and measured values."""

    about: Literal["memory", "bytes", "step"]
    ratio: float
    """Expected value over measured value; outside 0.7 to 1.4."""
    text: str
    """What explains the difference, or that nothing known does."""
    parts: list[PartOut] = []


class TrialPlanOut(Output):
    """Expectations for a trial, beside its measurements."""

    trial_id: int
    known: bool
    """Whether an estimate exists. If false, `reason` says why not; measurements are given all the
    same."""
    is_pending: bool
    """Whether a node is still listing the layers of the model; ask again in a second."""
    reason: str
    reason_parts: list[PartOut] = []
    strategy: str
    """Strategy of the document; empty without one."""
    memory: MemoryOut | None
    """Expected memory of the slot that needs most."""
    measured_memory_bytes: float | None
    """Peak tensor memory on a device, of the rank with the highest peak; null without devices."""
    measured_rss_bytes: float | None
    """Peak memory of a process, interpreter and libraries included, of the rank with the highest
    peak."""
    bytes_per_step: float | None
    """Expected payload in bytes of the worker that sends most."""
    measured_bytes_per_step: float | None
    step_ms: ScalingEstimateOut | None
    """Expected time of a step; null if unknown (see `time_source`)."""
    measured_step_ms: float | None
    """Mean step time over the newest rows, of the slowest rank."""
    num_rows: int
    """Number of rows behind the measurements, of the rank with the fewest."""
    time_source: str
    remarks: list[PlanRemarkOut]


class PlanOut(Output):
    known: bool
    """Whether a plan exists. If false, `reason` says why not and what you can do."""
    is_pending: bool
    """Whether a node is still listing the layers of the model; ask again in a second."""
    reason: str
    reason_parts: list[PartOut] = []
    num_params: int | None
    flops_per_sample: float | None
    """Floating-point operations of the forward pass of one sample: matrix products and
    convolutions."""
    slots: int
    global_batch: int | None
    slot_memory_bytes: int | None
    slot_memory_source: str
    strategies: list[PlannedStrategyOut]
    """Strategies, the document's first."""
    recommended: str | None
    recommended_batch_size: int | None
    """Largest power of two that fits; null if unknown."""
    recommendation: str
    """Reason for the recommendation."""
    time_source: str
    """Scaling report that the step times come from, or why there are none."""
