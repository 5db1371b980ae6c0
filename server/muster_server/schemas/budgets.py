"""Budgets, spending, projects and pools."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster.document.running import WasteSection
from muster.wire import IsolationLevel
from muster_server.domain.access import Audience
from muster_server.domain.nodes.availability import ForeignProcesses

from .base import Identifier, Input, Output, PartOut, SafeStr, WireFloat
from .document import BudgetIn, WasteIn

MAX_QUOTAS = 100

ProjectName = Annotated[
    SafeStr, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
]


class SpendingOut(Output):
    """Slot-hours spent. A slot counts from its reservation until it is free again or its node is
    lost."""

    slot_hours: float
    cost: float
    """Slot-hours times the price their pool had when they were reserved."""
    currency: str
    slots_held: int
    """Number of slots held now."""
    cost_per_hour: float
    """Cost per hour of the slots held now."""


class BudgetLimitOut(Output):
    """One limit of a budget and how much of it is gone."""

    measure: Literal["slot_hours", "cost", "deadline"]
    unit: str
    """"slot-hours", the currency, or "h" for the time until a deadline."""
    limit: float
    limit_at: dt.datetime | None
    """Time of a deadline; null for other limits."""
    spent: float
    share: WireFloat
    """spent / limit."""
    alerts_given: list[float]
    """Thresholds, as shares, for which an event was recorded; 1 is the limit itself."""
    exhausted: bool
    exhausted_at: dt.datetime | None
    """Time at which the limit is reached if exactly the slots held now stay held. Null if none are
    held or the limit has been reached."""


class BudgetOut(Output):
    limits: list[BudgetLimitOut]
    alert_at: list[float]
    exhausted_reason: str
    """The sentence that names the limit that was reached; "" while there is some left."""
    exhausted_parts: list[PartOut]
    """`exhausted_reason` as message parts, for translation."""


class QuotaIn(Input):
    pool: Identifier
    slot_type: Literal["cpu", "cuda"]
    slots: Annotated[int, Field(ge=0, le=1_000_000)]
    """Maximum number of slots that the project's trials may hold there at once."""


class QuotaOut(Output):
    pool: str
    slot_type: str
    slots: int
    slots_held: int


GUARDS_TEXT_MAX = 65_536
RetentionDays = Annotated[int, Field(ge=1, le=36_500)]


class ProjectIn(Input):
    name: ProjectName
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    quotas: Annotated[list[QuotaIn], Field(max_length=MAX_QUOTAS)] = []
    visibility: Audience = "all"
    """Who sees the project and what is in it: its members and administrators, or `all` users."""
    submission: Audience = "members"
    """Who submits to the project and uses its secrets: its members, or `all` members of this server
    who see it."""
    budget: BudgetIn | None = None
    """Budget as in the experiment document, except that a deadline is a point in time instead of a
    duration."""


class ProjectPatch(Input):
    """Changes to a project. A field that is left out stays as it is."""

    weight: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Its share of a busy cluster, against the weights of the other projects."""
    quotas: Annotated[list[QuotaIn], Field(max_length=MAX_QUOTAS)] | None = None
    """All quotas, replacing the existing ones; [] removes every quota."""
    visibility: Audience | None = None
    """Who sees the project and what is in it: its members and administrators, or `all` users."""
    submission: Audience | None = None
    """Who submits to the project and uses its secrets: its members, or `all` members of this server
    who see it."""
    budget: BudgetIn | None = None
    """All limits together; null removes the budget."""
    restart_count: bool = False
    """Count spending from now on, as at the beginning of a month."""
    log_retention_days: RetentionDays | None = None
    """Days after the end of a trial after which its logs are deleted; null: those of the server."""
    metric_retention_days: RetentionDays | None = None
    """Days after the end of a trial after which its long metrics are downsampled; null: those of the server."""
    guards: Annotated[SafeStr, Field(max_length=GUARDS_TEXT_MAX)] | None = None
    """Guards of what is submitted from now on, as YAML or JSON: a list, or a document with `guards`. A document's
    own guard of the same metric and condition goes first. null or "" removes them."""


class ProjectOut(Output):
    id: int
    name: str
    weight: float
    visibility: Audience
    """Who sees the project and what is in it: its members and administrators, or `all` users."""
    submission: Audience
    """Who submits to the project and uses its secrets: its members, or `all` members of this server
    who see it."""
    quotas: list[QuotaOut]
    budget: BudgetOut | None
    spending: SpendingOut
    """Spending since `counted_since`, deleted experiments included."""
    counted_since: dt.datetime
    log_retention_days: int | None
    """Days after the end of a trial after which its logs are deleted; null: those of the server."""
    metric_retention_days: int | None
    """Days after the end of a trial after which its long metrics are downsampled; null: those of the server."""
    guards: str
    """Guards of what is submitted to it, as YAML or JSON; "" for none."""
    guards_explained: list[str]
    """What each of them does, in a sentence."""
    num_experiments: int
    num_experiments_active: int
    """Number of experiments that have not ended."""
    exhausted_reason: str
    """Why no further trials of the project are placed; empty while the budget lasts."""
    exhausted_parts: list[PartOut]
    """`exhausted_reason` as message parts, for translation."""
    created_at: dt.datetime


ImagePrefix = Annotated[
    str,
    Field(max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*$"),
]
"""A registry, with a path or without: no tag, no digest and no slash at the end."""


class PoolIn(Input):
    """Changes to a pool. A field that is left out stays as it is."""

    price_per_slot_hour: Annotated[float, Field(ge=0, le=1_000_000)] | None = None
    """In the server's currency. It holds for slots that are reserved from now on."""
    min_isolation: IsolationLevel | None = None
    """Weakest level of isolation at which jobs may run in the pool. Trials that run already go on;
    others are placed only on nodes of this level or a stronger one."""
    requires_containers: bool | None = None
    """Whether only jobs with an image may run in the pool. Trials that run already go on."""
    allowed_images: Annotated[list[ImagePrefix], Field(max_length=64)] | None = None
    """Registries, parts of registries and repositories whose images may run in the pool, such as
    `ghcr.io/acme`; an empty list allows all images."""
    foreign_processes: ForeignProcesses | None = None
    """What to do about devices that somebody uses outside Muster: `wait` until they are free, or
    `ignore` it and share them."""
    waste: WasteIn | None = None
    """When trials that hold slots and do nothing are noticed, and what follows. It replaces the rule
    as a whole."""
    spares: Annotated[int, Field(ge=0, le=64)] | None = None
    """Number of free nodes that are held for trials that lose a node; other trials do not start on
    them. Refused for a pool with a provider."""


class PoolOut(Output):
    name: str
    price_per_slot_hour: float
    currency: str
    min_isolation: IsolationLevel
    """Weakest level of isolation at which jobs may run in it."""
    provider: str | None
    """Kind of what supplies its nodes, such as "slurm"; null if they join by themselves."""
    requires_containers: bool
    """Whether only jobs with an image may run in it."""
    allowed_images: list[str]
    """What images may begin with; empty for all images."""
    foreign_processes: ForeignProcesses
    """What is done about devices that somebody uses outside Muster: `wait` or `ignore`."""
    waste: WasteSection
    """When trials that hold slots and do nothing are noticed, and what follows."""
    spares: int
    """Number of free nodes that are held for trials that lose a node."""
    num_nodes: int
    num_nodes_online: int
    num_nodes_too_weak: int
    """Number of nodes that isolate jobs less than this, and are given none."""
    num_slots: dict[str, int]
    """Slot type → slots of all its nodes."""
    num_slots_used: int
    changed_at: dt.datetime | None
    """When a setting of the pool was last changed."""
