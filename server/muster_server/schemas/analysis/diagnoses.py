"""What a trial is bound by, and what to do about it. Times are milliseconds, shares 0 to 1."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.insight.diagnosis import IntervalEstimate, LeftOut
from muster_server.domain.insight.diagnosis.judging import Measured

from ..base import Input, Output, SafeStr


class DiagnoseIn(Input):
    """How thorough the diagnosis is. Fields left out take the server's settings."""

    repeats: Annotated[int, Field(ge=2, le=10)] | None = None
    """Number of repeats of each kind of probe."""
    steps: Annotated[int, Field(ge=15, le=1000)] | None = None
    """Maximum number of steps of one probe."""


class ApplyIn(Input):
    advice: Annotated[SafeStr, Field(min_length=1, max_length=32)]
    """Kind of the advice: "accumulate"."""


class AppliedOut(Output):
    """An experiment that was launched from a recommendation."""

    experiment_id: int
    trial_id: int | None
    state: str
    """State of the experiment; "deleted" once it has been deleted."""
    achieved: float | None
    """Gain in throughput over the `as_is` probes; null until enough steps are measured."""
    num_steps: int
    """Number of steps that `achieved` is the mean of."""


class AdviceOut(Output):
    kind: str
    text: str
    overrides: list[str]
    """Changes of the document; empty if there is nothing to launch."""
    gain: IntervalEstimate | None
    """Predicted relative gain in samples per second (0.22 is 22%); null if not predicted."""
    is_bound: bool
    """Whether the gain is an upper bound instead of a prediction."""
    values: dict[str, str | int | float]
    applied: list[AppliedOut]


class ProbeOut(Output):
    """A trial that runs as a probe, or a planned one."""

    probe: str
    repeat: int
    trial_id: int | None
    """ID of the probe's trial; null if it has not been created yet."""
    state: str | None
    reason: str
    """Why the probe waits, or why it failed."""


class DiagnosisOut(Output):
    id: int
    trial_id: int
    experiment_id: int
    state: Literal["running", "complete", "canceled"]
    method: Literal["probes", "observed"]
    """How the diagnosis is made. `observed` uses what the trial itself has measured, because
    nothing can be left out of it for a probe."""
    probes_id: int | None
    """ID of the experiment of the probes."""
    probes: list[ProbeOut]
    steps: int | None
    """Number of steps of each probe."""
    left_out: list[LeftOut]
    verdict: Literal["compute", "communication", "data", "straggler", "inconclusive"] | None
    """Verdict; null while the diagnosis runs."""
    reason: str
    shares: dict[str, IntervalEstimate]
    """Shares of the step: communication, data, straggler and compute."""
    measured: list[Measured]
    """Results measured so far, while the diagnosis runs."""
    culprit_rank: int | None
    culprit_part: str | None
    """Metric of the part of its step that takes longer than on the other ranks."""
    efficiency: IntervalEstimate | None
    """Step time of one worker alone divided by that of all."""
    spread: float | None
    """Deviation of a repeat from the mean of its kind, pooled over kinds, as a share."""
    advice: list[AdviceOut]
    """Recommendations, largest gain first."""
    notes: list[str]
    baseline_samples_per_s: float | None
    """Throughput of all workers in the `as_is` probes."""
    created_by: str
    created_at: dt.datetime
    ended_at: dt.datetime | None
