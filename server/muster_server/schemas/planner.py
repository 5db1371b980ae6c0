"""What a document's training will take, before it is launched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Input, Output, PartOut, SafeStr
from .scaling import ScalingEstimateOut


class PlanIn(Input):
    document: Annotated[SafeStr, Field(min_length=1, max_length=262_144)]
    overrides: Annotated[
        list[Annotated[SafeStr, Field(max_length=1000)]], Field(max_length=100)
    ] = []
    slot_memory_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None
    """null: the least of the pool's nodes, as they said when they joined."""

    blob_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Code bundle uploaded before with PUT /api/v1/blobs/{sha256}, for a model of your own."""


class MemoryOut(Output):
    """Bytes of the slot that needs most, at the moment when it does. Tensors only: interpreter,
    libraries and the allocator's waste are not in it."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    buffers: float
    """Of communication."""
    total: float


class PlannedTrafficOut(Output):
    """Per step of the worker that sends most."""

    group: str
    """world, or the axis of the mesh."""
    kind: str
    size: int
    """Members."""
    count: float
    num_bytes: float
    """Payload, as the performance page counts it."""


class PlannedStrategyOut(Output):
    kind: str
    is_chosen: bool
    """It is the document's."""
    problem: str
    """Why it cannot be used; then the rest is empty."""
    memory: MemoryOut | None
    fits: bool | None
    """null: not known how much memory a slot has."""
    traffic: list[PlannedTrafficOut]
    link_bytes: float
    """On the busiest link, per step."""
    step_ms: ScalingEstimateOut | None
    """null: nothing was measured that it could be said from; see `time_source`."""


class PlanRemarkOut(Output):
    """Where expected and measured are far apart."""

    about: Literal["memory", "bytes", "step"]
    ratio: float
    """Expected over measured; outside 0.7 to 1.4."""
    text: str
    """What explains it, or that nothing known does."""
    parts: list[PartOut] = []


class TrialPlanOut(Output):
    """What was to be expected of a trial, beside what it has measured."""

    trial_id: int
    known: bool
    """false: `reason` says why nothing can be said beforehand; what was measured is there."""
    is_pending: bool
    """A node is listing the layers of the model: ask again in a second."""
    reason: str
    reason_parts: list[PartOut] = []
    strategy: str
    """Of the document; "" without one."""
    memory: MemoryOut | None
    """Expected of the slot that needs most."""
    measured_memory_bytes: float | None
    """The most that tensors took on a device, of the rank that took most; null without devices."""
    measured_rss_bytes: float | None
    """The most that a process took, of the rank that took most: interpreter and libraries too."""
    bytes_per_step: float | None
    """Payload expected of the worker that sends most."""
    measured_bytes_per_step: float | None
    step_ms: ScalingEstimateOut | None
    """Expected; null: see `time_source`."""
    measured_step_ms: float | None
    """Mean over the newest rows, of the slowest rank."""
    num_rows: int
    """Behind the measured figures, of the rank with fewest."""
    time_source: str
    remarks: list[PlanRemarkOut]


class PlanOut(Output):
    known: bool
    """false: `reason` says why, and what can be done."""
    is_pending: bool
    """A node is listing the layers of the model: ask again in a second."""
    reason: str
    reason_parts: list[PartOut] = []
    num_params: int | None
    flops_per_sample: float | None
    """Floating-point operations of a forward of one sample: matrix products and convolutions."""
    slots: int
    global_batch: int | None
    slot_memory_bytes: int | None
    slot_memory_source: str
    strategies: list[PlannedStrategyOut]
    """The document's first."""
    recommended: str | None
    recommended_batch_size: int | None
    """The largest power of two that fits; null: not known."""
    recommendation: str
    """Why."""
    time_source: str
    """The scaling report that step times come from, or why there are none."""
