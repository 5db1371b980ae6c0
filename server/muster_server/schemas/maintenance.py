"""Maintenance windows and reservations of nodes."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import Input, Name, Output, SafeStr, one_line

MAX_NAMES = 50
MAX_REASON_CHARS = 500

When = Annotated[SafeStr, Field(min_length=1, max_length=64)]
Names = Annotated[list[Name], Field(max_length=MAX_NAMES)]


Reason = Annotated[
    SafeStr,
    Field(max_length=MAX_REASON_CHARS),
    AfterValidator(lambda text: one_line(text) if text else text),
]
"""Why, in one line, or nothing. Everybody who waits reads it."""
Count = Annotated[int, Field(ge=1, le=100_000)]


class MaintenanceIn(Input):
    reason: Annotated[
        SafeStr, Field(min_length=1, max_length=MAX_REASON_CHARS), AfterValidator(one_line)
    ]
    """Why, in one line. Everybody who waits reads it."""
    starts_at: When | None = None
    """When it begins: a moment with its time zone such as "2026-03-01T18:00Z", or a length of time from
    now such as "2h"; null for now."""
    ends_at: When | None = None
    """When it ends by itself: a moment, or a length of time from its beginning; null to end it by
    hand."""
    pools: Names = []
    """Names of pools that it concerns."""
    nodes: Names = []
    """Names of nodes that it concerns. Without pools and nodes it concerns the whole cluster."""
    running: Literal["keep", "checkpoint"] = "checkpoint"
    """What happens to running trials when it begins: `checkpoint` asks them to save a checkpoint and
    give up their slots, and they continue afterwards; `keep` lets them go on."""


class MaintenanceOut(Output):
    id: int
    starts_at: dt.datetime
    ends_at: dt.datetime | None
    """When it ends by itself; null: when an administrator ends it."""
    is_active: bool
    """Whether it has begun. Nothing new starts in its scope until it ends."""
    pools: list[str]
    nodes: list[str]
    """Names. Without pools and nodes it concerns the whole cluster."""
    reason: str
    running: Literal["keep", "checkpoint"]
    created_by: str
    created_at: dt.datetime
    ended_at: dt.datetime | None
    """When an administrator ended it; null while it is active or planned."""
    ended_by: str


class MaintenanceListOut(Output):
    items: list[MaintenanceOut]
    """Active and planned windows, the first to start first; at most 100."""


class ReservationIn(Input):
    user: Name | None = None
    project: Name | None = None
    """The beneficiary, whose trials may use the nodes: a user or a project, one of the two."""
    starts_at: When | None = None
    """When it begins: a moment with its time zone such as "2026-03-01T18:00Z", or a length of time from
    now such as "2h"; null for now."""
    ends_at: When
    """When it ends: a moment, or a length of time from its beginning."""
    nodes: Names = []
    """Names of the nodes, each whole; or empty, and a pool to choose them from."""
    pool: Name | None = None
    num_nodes: Count | None = None
    num_slots: Count | None = None
    """How many nodes of the pool, or nodes with how many slots together: one of the two. Those from which
    least is taken are chosen now."""
    reason: Reason = ""


class ReservationPatch(Input):
    """What changes of a reservation; what is left out or null stays."""

    starts_at: When | None = None
    """Another beginning, as for a new one; only of a reservation that has not begun."""
    ends_at: When | None = None
    """Another end in the future: a moment, or a length of time from its beginning."""
    nodes: Annotated[list[Name], Field(min_length=1, max_length=MAX_NAMES)] | None = None
    """Names of all its nodes from now on."""
    reason: Reason | None = None


class ReservedFromOut(Output):
    """A running trial of others that holds slots of a reserved node."""

    experiment_id: int
    trial_id: int
    trial_no: int
    owner: str | None
    nodes: list[str]
    """Names of the nodes that it holds slots of."""


class ReservationOut(Output):
    id: int
    starts_at: dt.datetime
    ends_at: dt.datetime
    is_active: bool
    """Whether it has begun and not ended."""
    user: str | None
    project: str | None
    nodes: list[str]
    reason: str
    created_by: str
    created_at: dt.datetime
    ended_at: dt.datetime | None
    """When it ended, or was cancelled; null while it is active or planned."""
    ended_by: str
    """Who cancelled it; empty for one that ended by itself, or is open."""
    taken_from: list[ReservedFromOut]
    """Running trials of others that hold slots there now; at most 100. They leave in time for the start."""
    num_taken_from: int
    """Number of those trials."""


class ReservationListOut(Output):
    items: list[ReservationOut]
    """Active and planned reservations, the first to start first; at most 200."""
