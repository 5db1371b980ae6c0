"""Budgets, spending, projects and pools."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from .base import Identifier, Input, Output, PartOut, SafeStr, WireFloat
from .document import BudgetIn

MAX_QUOTAS = 100

ProjectName = Annotated[
    SafeStr, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
]


class SpendingOut(Output):
    """Slots cost from their reservation until they are free again, or until their node is lost."""

    slot_hours: float
    cost: float
    """Slot-hours times the price their pool had when they were reserved."""
    currency: str
    slots_held: int
    """At this moment."""
    cost_per_hour: float
    """Of those."""


class BudgetLimitOut(Output):
    """One limit of a budget and how much of it is gone."""

    measure: Literal["slot_hours", "cost", "deadline"]
    unit: str
    """"slot-hours", the currency, or "h" for the time until a deadline."""
    limit: float
    limit_at: dt.datetime | None
    """Of a deadline."""
    spent: float
    share: WireFloat
    """spent / limit."""
    alerts_given: list[float]
    """Thresholds, as shares, at which an event told of it; 1 is the limit itself."""
    exhausted: bool
    exhausted_at: dt.datetime | None
    """When it would be used up if exactly the slots held now stayed held. null: nothing is held,
    or it is used up."""


class BudgetOut(Output):
    limits: list[BudgetLimitOut]
    alert_at: list[float]
    exhausted_reason: str
    """The sentence that names the limit that was reached; "" while there is some left."""
    exhausted_parts: list[PartOut]
    """The same for other languages."""


class QuotaIn(Input):
    pool: Identifier
    slot_type: Literal["cpu", "cuda"]
    slots: Annotated[int, Field(ge=0, le=1_000_000)]
    """Most slots the project's trials may hold there at once."""


class QuotaOut(Output):
    pool: str
    slot_type: str
    slots: int
    slots_held: int


class ProjectIn(Input):
    name: ProjectName
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    quotas: Annotated[list[QuotaIn], Field(max_length=MAX_QUOTAS)] = []
    budget: BudgetIn | None = None
    """As in the experiment document; a deadline is a moment here, not a length of time."""


class ProjectPatch(Input):
    """What is left out stays as it is."""

    weight: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Its share of a busy cluster, against the weights of the other projects."""
    quotas: Annotated[list[QuotaIn], Field(max_length=MAX_QUOTAS)] | None = None
    """All of them; [] for none."""
    budget: BudgetIn | None = None
    """All limits together; null takes the budget away."""
    restart_count: bool = False
    """Count spending from now on, as at the beginning of a month."""


class ProjectOut(Output):
    id: int
    name: str
    weight: float
    quotas: list[QuotaOut]
    budget: BudgetOut | None
    spending: SpendingOut
    """Since `counted_since`, of deleted experiments too."""
    counted_since: dt.datetime
    num_experiments: int
    num_experiments_active: int
    """Not ended."""
    exhausted_reason: str
    """Why nothing more of it is placed; "" while it may go on."""
    exhausted_parts: list[PartOut]
    """The same for other languages."""
    created_at: dt.datetime


class PoolIn(Input):
    price_per_slot_hour: Annotated[float, Field(ge=0, le=1_000_000)]
    """In the server's currency. It holds for slots that are reserved from now on."""


class PoolOut(Output):
    name: str
    price_per_slot_hour: float
    currency: str
    num_nodes: int
    num_nodes_online: int
    num_slots: dict[str, int]
    """Slot type → slots of all its nodes."""
    num_slots_used: int
    changed_at: dt.datetime | None
    """When the price was last set."""
