"""What a trial is bound by, and what to do about it. Times are milliseconds, shares 0 to 1."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from .base import Input, Output, SafeStr


class DiagnoseIn(Input):
    """How thoroughly. Empty: as the server's settings say."""

    repeats: Annotated[int, Field(ge=2, le=10)] | None = None
    """Of each kind of probe."""
    steps: Annotated[int, Field(ge=15, le=1000)] | None = None
    """Of one probe, at most."""


class ApplyIn(Input):
    advice: Annotated[SafeStr, Field(min_length=1, max_length=32)]
    """Kind of the advice: "accumulate"."""


class EstimateOut(Output):
    """A value with its two-sided 95 % interval (Student's t)."""

    value: float
    low: float
    high: float
    num: int
    """Repeats behind it."""


class MeasuredOut(Output):
    """Step time of one kind of probe."""

    probe: str
    """"as_is", "no_sync", "synthetic", "alone", "bucket:4"."""
    step_ms: EstimateOut | None
    """Of the slowest rank; null with fewer than two repeats."""
    repeats_ms: list[float]


class AppliedOut(Output):
    """An experiment that was launched with an advice."""

    experiment_id: int
    trial_id: int | None
    state: str
    """"deleted" when it is gone."""
    achieved: float | None
    """Gain of throughput over that of the probes as it is; null until enough steps are measured."""
    num_steps: int
    """Steps that `achieved` is the mean of."""


class AdviceOut(Output):
    kind: str
    text: str
    overrides: list[str]
    """Changes of the document; empty: nothing that can be launched."""
    gain: EstimateOut | None
    """Of samples per second: 0.22 is 22 % more; null: not predicted."""
    is_bound: bool
    """The gain is what could be had at most, not a prediction."""
    values: dict[str, str | int | float]
    applied: list[AppliedOut]


class LeftOutOut(Output):
    probe: str
    reason: str


class ProbeOut(Output):
    """A trial that was a probe, or is to be."""

    probe: str
    repeat: int
    trial_id: int | None
    """null: not made yet."""
    state: str | None
    reason: str
    """Why it waits or failed."""


class DiagnosisOut(Output):
    id: int
    trial_id: int
    experiment_id: int
    state: Literal["running", "complete", "canceled"]
    method: Literal["probes", "observed"]
    """observed: what the trial itself has measured, since nothing can be left out of it to see."""
    probes_id: int | None
    """The experiment of its probes."""
    probes: list[ProbeOut]
    steps: int | None
    """Of each probe."""
    left_out: list[LeftOutOut]
    verdict: Literal["compute", "communication", "data", "straggler", "inconclusive"] | None
    """null while it runs."""
    reason: str
    shares: dict[str, EstimateOut]
    """communication, data, straggler, compute: of the step."""
    measured: list[MeasuredOut]
    """While it runs: what has been measured so far."""
    culprit_rank: int | None
    culprit_part: str | None
    """Metric of the part of its step that is longer than the others'."""
    efficiency: EstimateOut | None
    """The step of one worker alone over that of all."""
    spread: float | None
    """How much a repeat differs from the mean of its kind, pooled over kinds, as a share."""
    advice: list[AdviceOut]
    """The largest gain first."""
    notes: list[str]
    baseline_samples_per_s: float | None
    """Of all workers, in the probes as it is."""
    created_by: str
    created_at: dt.datetime
    ended_at: dt.datetime | None
