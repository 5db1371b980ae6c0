"""Windows of the profiler."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from .base import Input, Output

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
