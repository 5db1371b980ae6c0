"""Scaling reports: how an experiment trains on different numbers of slots. Times are
milliseconds."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster_server.domain.insight.scaling import Mode

from ..base import Input, Output, PartOut

MAX_SIZES = 16
MAX_REPEATS = 10
MAX_STEPS = 100_000


class ScalingIn(Input):
    slots: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=MAX_SIZES)
    ]
    """World sizes to run at; a size that is named twice runs once."""
    mode: Mode = "weak"
    """`weak` keeps the number of samples per slot; `strong` keeps the number of samples per step of
    all slots (built-in trainer)."""
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 3
    """Number of runs at each size. A single run has no intervals and predicts nothing; with two or
    more, runs are added if they differ too much, up to 6 at a size."""
    steps: Annotated[int, Field(ge=10, le=MAX_STEPS)] = 60
    """Number of steps measured in each run, after a few that warm up."""
    slot_hours: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Budget of all runs together, divided by their slots. Null for the project's budget alone."""


def _is_determined(figure: dict[str, Any]) -> bool:
    low, high = figure["low"], figure["high"]
    return low is not None and high is not None and high - low <= abs(figure["value"])


class ScalingEstimateOut(Output):
    """A figure with its 95% interval; the bounds are null if there are too few measurements."""

    value: float
    low: float | None
    high: float | None
    n: int
    """Number of measurements behind the figure."""

    is_determined: bool = Field(default_factory=_is_determined)
    """Whether it has an interval that is no wider than the figure itself."""


class ScalingPointOut(Output):
    """A run at one size."""

    slots: int
    repeat: int
    experiment_id: int | None
    """ID of the experiment; null if the run has not been launched yet."""
    state: str | None
    """State of that experiment; null before the launch and after its deletion."""
    step_ms: float | None
    samples_per_s: float | None
    num_steps: int
    """Number of rows behind the figures, of the worker with the fewest."""
    problem: str
    """Why there is no measurement; empty if there is one."""


class ScalingSizeOut(Output):
    slots: int
    num_runs: int
    num_steps: int
    samples_per_slot: float
    """Number of samples per slot in a step."""
    step_ms: ScalingEstimateOut
    samples_per_s: ScalingEstimateOut
    speedup: ScalingEstimateOut
    """Speed-up: throughput over that of the smallest size, times that size."""
    efficiency: ScalingEstimateOut
    """Efficiency: speed-up over slots, 0 to 1, or more by chance or through caches."""
    parts_ms: dict[str, float]
    """Parts of the step: compute, optimizer, data, transfer (communication not hidden by compute),
    wait (for late workers) and other. They sum to the step within 2%."""
    hidden_ms: float
    """Time of communication that is hidden by compute."""


class CostModelOut(Output):
    compute_fixed_ms: ScalingEstimateOut
    """Time per step, whatever the batch."""
    compute_per_sample_ms: ScalingEstimateOut
    contention: ScalingEstimateOut
    """Factor by which compute takes longer beside other workers."""
    other_ms: ScalingEstimateOut
    latency_us: ScalingEstimateOut | None
    """Latency per message; null if the measurements do not determine it."""
    bandwidth_bytes_per_s: ScalingEstimateOut | None
    hidden_share: float
    """Maximum share of communication that compute hides."""
    num_transfers: int
    transfer_error: float | None
    """Median of |fitted - measured| / measured over the transfers."""
    step_error: float | None
    """Mean of the same error over the steps of all runs."""
    reasons: list[str]
    """Quantities that the measurements do not determine."""


class NetworkIn(Input):
    bandwidth_mbit_per_s: Annotated[float, Field(gt=0, le=1e9)]
    latency_us: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """Latency per message; null for the measured one, or for none if the measured bandwidth
    includes it."""
    measured_bandwidth_mbit_per_s: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Nominal rate of the links between the measured workers; null for what the workers know of
    their network interface."""


class PredictionOut(Output):
    slots: int
    network: str
    """"measured", or the bandwidth in Mbit/s."""
    samples_per_slot: float
    step_ms: ScalingEstimateOut
    compute_ms: float
    communication_ms: float
    """Time of all communication, hidden or not."""
    exposed_ms: float
    other_ms: float
    samples_per_s: ScalingEstimateOut
    efficiency: float | None
    """Efficiency: throughput per slot over that of the smallest measured size."""
    doubt: str
    """Why these figures are not reliable, and what helps; empty if they are."""
    doubt_parts: list[PartOut]


class ScalingReportOut(Output):
    id: int
    experiment_id: int
    experiment_name: str
    state: Literal["running", "done", "canceled", "failed"]
    reason: str
    mode: Mode
    num_steps: int
    slot_hours: float | None
    requested_by: str
    created_at: dt.datetime
    ended_at: dt.datetime | None
    num_runs: int
    num_over: int
    """Number of runs that have ended, measured or not."""


class ScalingReportDetail(ScalingReportOut):
    points: list[ScalingPointOut]
    sizes: list[ScalingSizeOut]
    """Sizes, smallest first; empty while nothing is measured."""
    model: CostModelOut | None
    """Fitted model; null while nothing is measured."""
    predictions: list[PredictionOut]
