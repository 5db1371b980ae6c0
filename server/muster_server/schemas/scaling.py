"""Scaling reports: how an experiment trains on more slots and fewer. Times are milliseconds."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster_server.domain.insight.scaling import Mode

from .base import Input, Output, PartOut

MAX_SIZES = 16
MAX_REPEATS = 10
MAX_STEPS = 100_000


class ScalingIn(Input):
    slots: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=MAX_SIZES)
    ]
    """World sizes to run at; a size that is named twice runs once."""
    mode: Mode = "weak"
    """weak: the same samples per slot. strong: the same samples per step of all (built-in trainer)."""
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 3
    """Of each size. One repeat has no intervals and predicts nothing; from two on, runs are added where
    they differ too much, up to 6 of a size."""
    steps: Annotated[int, Field(ge=10, le=MAX_STEPS)] = 60
    """Measured in each run, after a few that warm up."""
    slot_hours: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Budget of all runs together, shared out by their slots. null: the project's alone."""


def _is_determined(figure: dict[str, Any]) -> bool:
    low, high = figure["low"], figure["high"]
    return low is not None and high is not None and high - low <= abs(figure["value"])


class ScalingEstimateOut(Output):
    """A figure with its 95 % interval; null bounds: too few measurements to have any."""

    value: float
    low: float | None
    high: float | None
    n: int
    """Measurements behind it."""

    is_determined: bool = Field(default_factory=_is_determined)
    """Whether it has an interval, and one no wider than the figure itself."""


class ScalingPointOut(Output):
    """One run."""

    slots: int
    repeat: int
    experiment_id: int | None
    """null: not launched yet."""
    state: str | None
    """Of that experiment; null before the launch and after it was deleted."""
    step_ms: float | None
    samples_per_s: float | None
    num_steps: int
    """Rows behind the figures, of the worker with the fewest."""
    problem: str
    """Why there is no measurement; ""."""


class ScalingSizeOut(Output):
    slots: int
    num_runs: int
    num_steps: int
    samples_per_slot: float
    """Per step."""
    step_ms: ScalingEstimateOut
    samples_per_s: ScalingEstimateOut
    speedup: ScalingEstimateOut
    """Throughput over that of the smallest size, times that size."""
    efficiency: ScalingEstimateOut
    """Speed-up over slots, 0 to 1 and, by chance or by caches, more."""
    parts_ms: dict[str, float]
    """compute, optimizer, data, transfer (communication in the open), wait (for late workers),
    other: they sum to the step within 2 %."""
    hidden_ms: float
    """Communication while computing."""


class CostModelOut(Output):
    compute_fixed_ms: ScalingEstimateOut
    """Per step, whatever the batch."""
    compute_per_sample_ms: ScalingEstimateOut
    contention: ScalingEstimateOut
    """How many times longer computing takes beside other workers."""
    other_ms: ScalingEstimateOut
    latency_us: ScalingEstimateOut | None
    """Per message; null: the measurements do not determine it."""
    bandwidth_bytes_per_s: ScalingEstimateOut | None
    hidden_share: float
    """Of communication, at most."""
    num_transfers: int
    transfer_error: float | None
    """Median of |fitted - measured| / measured over the transfers."""
    step_error: float | None
    """Mean of the same over the steps of all runs."""
    reasons: list[str]
    """What the measurements do not determine."""


class NetworkIn(Input):
    bandwidth_mbit_per_s: Annotated[float, Field(gt=0, le=1e9)]
    latency_us: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """null: the measured one, or none where it is in the measured bandwidth."""


class PredictionOut(Output):
    slots: int
    network: str
    """"measured", or the bandwidth in Mbit/s."""
    samples_per_slot: float
    step_ms: ScalingEstimateOut
    compute_ms: float
    communication_ms: float
    """All of it, hidden or not."""
    exposed_ms: float
    other_ms: float
    samples_per_s: ScalingEstimateOut
    efficiency: float | None
    """Of throughput per slot against the smallest measured size."""
    doubt: str
    """Why these figures are not to be relied on, and what helps; "": they may be."""
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
    """Runs that have ended, measured or not."""


class ScalingReportDetail(ScalingReportOut):
    points: list[ScalingPointOut]
    sizes: list[ScalingSizeOut]
    """Smallest first; empty while nothing is measured."""
    model: CostModelOut | None
    """null while nothing is measured."""
    predictions: list[PredictionOut]
