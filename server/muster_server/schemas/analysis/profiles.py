"""Windows of the profiler."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from ..base import Input, Output

RANKS_MAX = 8
STEPS_MAX = 20
RANK_MAX = 1_000_000

RankNo = Annotated[int, Field(ge=0, le=RANK_MAX)]


class ProfileIn(Input):
    ranks: list[RankNo] = Field(
        default=[0], min_length=1, max_length=RANKS_MAX, description="Global ranks, each once."
    )
    steps: int = Field(
        default=5, ge=1, le=STEPS_MAX, description="Optimizer steps, from the next one on."
    )


class ProfiledRankOut(Output):
    rank: int
    node_name: str
    state: Literal["waiting", "ready", "failed"]
    problem: str
    """Why there is no trace."""
    first_step: int | None
    last_step: int | None
    size_bytes: int
    """Size of the gzip file in bytes."""
    ended_at: dt.datetime | None


class ProfileOut(Output):
    trial_id: int
    no: int
    """1, 2, … within the trial."""
    attempt_no: int
    num_steps: int
    """Number of steps requested."""
    requested_by: str
    asked_at: dt.datetime
    is_complete: bool
    """Nothing of it is waited for any more."""
    ranks: list[ProfiledRankOut]


class TraceTimesOut(Output):
    """Where the time of a span went, in µs. Each is a union: what runs at once counts once."""

    span_us: float
    communication_us: float
    computation_us: float
    overlap_us: float
    """Time in which both run at once."""
    exposed_us: float
    """Communication without computation."""
    copy_us: float
    idle_us: float
    """None of communication, computation and copies."""


class TraceStepOut(TraceTimesOut):
    step: int


class TraceKindOut(Output):
    group: str
    """"unknown" where the trace does not say it."""
    kind: str
    count: int
    bytes: int | None
    communication_us: float
    exposed_us: float


class TraceRankOut(TraceTimesOut):
    rank: int
    device: Literal["gpu", "cpu"]
    """"cpu": operations of the training thread and gloo's, as the trace has no activity of a device."""
    steps: list[TraceStepOut]
    kinds: list[TraceKindOut]


class TraceProblemOut(Output):
    rank: int
    problem: str
    """Why its trace has no figures."""


class TracedWaitOut(Output):
    rank: int
    waits_for: int
    """Rank that came last."""
    waiting_us: float


class TracedRankOut(Output):
    rank: int
    waiting_us: float
    last: int
    """Number of collectives that it was the last to come to."""


class TracedBandwidthOut(Output):
    """Collectives of one kind in one group of which every member was traced."""

    group: str
    kind: str
    ranks: int
    collectives: int
    bytes: int
    transfer_us: float
    """Sum of the shortest time of each over the ranks."""
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    """Bus bandwidth as nccl-tests defines it; null for kinds that have no such figure."""


class TracedWaitsOut(Output):
    collectives: int
    """Number of collectives that are in the traces of all their ranks."""
    transfer_us: float
    ranks: list[TracedRankOut]
    pairs: list[TracedWaitOut]
    """Most waiting first."""
    bandwidths: list[TracedBandwidthOut]
    """Longest transfers first."""


class ProfileSummaryOut(Output):
    ranks: list[TraceRankOut]
    problems: list[TraceProblemOut]
    waiting: TracedWaitsOut | None
    """Null with the trace of one rank alone."""
