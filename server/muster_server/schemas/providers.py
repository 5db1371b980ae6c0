"""Providers of pools and their pilots."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from .base import Input, Output, SafeStr

OptionName = Annotated[SafeStr, Field(max_length=64)]
OptionValue = Annotated[SafeStr, Field(max_length=256)]


class ProviderIn(Input):
    """What submits pilots for a pool. It replaces what was set before; pilots that run stay."""

    kind: Literal["slurm", "ray"]
    slots: Annotated[int, Field(ge=1, le=4096)]
    """Slots of each pilot."""
    slot_type: Literal["cpu", "cuda"] = "cpu"
    min_pilots: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of pilots to keep even if nothing waits."""
    max_pilots: Annotated[int, Field(ge=1, le=10_000)]
    """Largest number of pilots, those that wait in the batch system included."""
    walltime_s: Annotated[int, Field(ge=300, le=31_536_000)]
    """Time for which a pilot runs at most, in seconds."""
    idle_s: Annotated[int, Field(ge=10, le=2_592_000)] = 600
    """A pilot leaves after nothing has run on it for so long, in seconds."""
    options: Annotated[dict[OptionName, OptionValue], Field(max_length=32)]
    """Options of the jobs; see docs/guides/pilots.md and docs/guides/ray.md."""


class ProviderOut(Output):
    pool: str
    kind: str
    name: str
    """What people read: "Slurm partition a100"."""
    slots: int
    slot_type: str
    min_pilots: int
    max_pilots: int
    """0: the provider was removed, and goes once its pilots have ended."""
    walltime_s: int
    idle_s: int
    options: dict[str, str]
    num_pilots: dict[str, int]
    """State → number of pilots; ended ones are not counted."""
    failures: int
    """Number of pilots in a row that never came up."""
    not_before: dt.datetime | None
    """No pilot is submitted before then, because the last ones failed."""
    problem: str
    """What is wrong with the provider or its last pilot; "" while it works."""
    listed_at: dt.datetime | None
    """When the batch system last listed its jobs without an error; null if it never did."""
    changed_at: dt.datetime


class PilotOut(Output):
    id: str
    """ID of the pilot and name of its node."""
    state: str
    """wanted, submitting, pending, starting, up, ending or ended."""
    since: dt.datetime
    ref: str
    """ID of its job; "" before the batch system has answered."""
    reason: str
    """Why it waits or has ended."""
    expected_at: dt.datetime | None
    """When the batch system expects it to start."""
    asked_at: dt.datetime
    ended_at: dt.datetime | None
