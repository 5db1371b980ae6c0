"""Providers of pools, and the pilots that they submit."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from muster_server.domain.providers import PilotState

from .base import Base, StateOf


class PoolProviderRow(Base):
    """What submits the pilots of a pool. A pool without a row has none."""

    __tablename__ = "pool_providers"

    pool: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    """slurm, ray or kubernetes."""
    options: Mapped[dict[str, Any]]
    """domain.providers.ProviderOptions as plain values."""
    slots: Mapped[int]
    """Slots of each pilot."""
    slot_type: Mapped[str] = mapped_column(String(16))
    min_pilots: Mapped[int] = mapped_column(default=0)
    max_pilots: Mapped[int]
    walltime_s: Mapped[int]
    idle_s: Mapped[int]
    """A pilot leaves after nothing has run on it for so long."""
    exclusive: Mapped[bool] = mapped_column(default=False)
    """Whether each pilot is for one attempt alone, and ends with it."""
    max_slot_hours: Mapped[float | None]
    max_cost: Mapped[float | None]
    """Limits of what its pilots cost, in slot-hours and in the server's currency; NULL for none."""
    spent_slot_hours: Mapped[float] = mapped_column(default=0.0)
    spent_cost: Mapped[float] = mapped_column(default=0.0)
    """What the pilots that have ended cost since `counted_since`."""
    counted_since: Mapped[dt.datetime | None]
    """Since when spending is counted; NULL for since the pool has a provider."""
    failures: Mapped[int] = mapped_column(default=0)
    """Pilots in a row that never came up."""
    not_before: Mapped[dt.datetime | None]
    """No pilot is submitted before then."""
    problem: Mapped[str] = mapped_column(default="")
    """Why the last pilot did not come up, or what is wrong with the batch system; "" while it works."""
    listed_at: Mapped[dt.datetime | None]
    """When its jobs were last listed without an error."""
    notice: Mapped[str] = mapped_column(default="")
    """What the last listing said of the site, such as nodes that its administrator has drained."""
    changed_at: Mapped[dt.datetime]


class PilotRow(Base):
    """An agent that was, or is to be, submitted to a batch system."""

    __tablename__ = "pilots"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    """Key of its job, whose name contains it, and name of its node."""
    pool: Mapped[str] = mapped_column(String(64), index=True)
    state: Mapped[PilotState] = mapped_column(StateOf(PilotState), index=True)
    since: Mapped[dt.datetime]
    """When it came into this state."""
    ref: Mapped[str] = mapped_column(String(64), default="")
    """ID of its job; "" before the batch system has answered."""
    reason: Mapped[str] = mapped_column(default="")
    """Why it waits or has ended."""
    expected_at: Mapped[dt.datetime | None]
    """When the batch system expects it to start."""
    missing_since: Mapped[dt.datetime | None]
    """Since when listings of the batch system lack it; NULL while it is listed."""
    was_up: Mapped[bool] = mapped_column(default=False)
    """Whether its node has ever been in the cluster."""
    has_failed: Mapped[bool] = mapped_column(default=False)
    """Whether it ended, or was canceled, without ever having come up."""
    trial_id: Mapped[int | None] = mapped_column(BigInteger, index=True)
    attempt_no: Mapped[int | None]
    """The one attempt that it is for, in an exclusive pool; NULL for any."""
    slots: Mapped[int] = mapped_column(default=0)
    walltime_s: Mapped[int] = mapped_column(default=0)
    """What it was asked for with; the provider may have been changed since."""
    started_at: Mapped[dt.datetime | None]
    """When its job was first known to run: from then on it costs."""
    asked_at: Mapped[dt.datetime]
    """When it was decided on."""
    acted_at: Mapped[dt.datetime | None]
    """When its cancellation was last asked for."""
    ended_at: Mapped[dt.datetime | None]
