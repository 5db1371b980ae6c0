"""Providers of pools and their pilots."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.providers.options import ProviderKind

from .base import Input, Output, SafeStr

OptionName = Annotated[SafeStr, Field(max_length=64)]
OptionValue = Annotated[SafeStr, Field(max_length=256)]


class ProviderIn(Input):
    """What submits pilots for a pool. It replaces what was set before; pilots that run stay."""

    kind: ProviderKind
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
    exclusive: bool = False
    """Whether each pilot is for one attempt of one trial and ends with it, so that the accounting of the
    batch system shows what each trial used. Otherwise pilots are shared, and kept until they are idle."""
    max_slot_hours: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Most slot-hours that pilots may use in all; null for no limit. A pilot that has not ended counts with
    its whole wall time."""
    max_cost: Annotated[float, Field(gt=0, le=1e12)] | None = None
    """Most money that they may cost, at the price of the pool's slots; null for no limit."""
    restart_count: bool = False
    """Whether to count what pilots cost from 0 again."""
    options: Annotated[dict[OptionName, OptionValue], Field(max_length=32)]
    """Options of the jobs; see the guide of the provider, such as docs/guides/slurm.md."""


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
    exclusive: bool
    """Whether each pilot is for one attempt of one trial and ends with it."""
    options: dict[str, str]
    num_pilots: dict[str, int]
    """State → number of pilots; ended ones are not counted."""
    num_failed: int
    """Number of pilots of the last 24 hours that never came up."""
    max_slot_hours: float | None
    max_cost: float | None
    spent_slot_hours: float
    """What its pilots have used until now."""
    spent_cost: float
    """Money that they have cost: what each pilot used, at the price when it ended."""
    reserved_slot_hours: float
    """What the pilots that have not ended count for: their whole wall time."""
    price_per_slot_hour: float
    currency: str
    counted_since: dt.datetime | None
    """Since when spending is counted; null for since the pool has a provider."""
    failures: int
    """Number of pilots in a row that never came up."""
    not_before: dt.datetime | None
    """No pilot is submitted before then, because the last ones failed."""
    problem: str
    """What is wrong with the provider or its last pilot; "" while it works."""
    notice: str
    """What the batch system says of its nodes, such as those that its administrator has drained; "" if
    there is nothing to say."""
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
    has_failed: bool
    """Whether it ended, or was canceled, without ever having come up."""
    trial_id: int | None
    """The trial that it is for, in an exclusive pool; null for any."""
    attempt_no: int | None
    slots: int
    expected_at: dt.datetime | None
    """When the batch system expects it to start."""
    asked_at: dt.datetime
    started_at: dt.datetime | None
    """When its job was first known to run; null if it never was."""
    ended_at: dt.datetime | None
