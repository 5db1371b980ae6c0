"""Times at which work starts or pauses: schedules and maintenance windows."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from muster_server.domain.experiments.schedules import Overlap
from muster_server.domain.nodes.maintenance import Running

from .base import Base, BigId, belongs_to


class MaintenanceWindowRow(Base):
    """A time during which nothing new starts in its scope. Whether one is active follows from its
    times alone; `announced` is for what people are told."""

    __tablename__ = "maintenance_windows"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    starts_at: Mapped[dt.datetime]
    ends_at: Mapped[dt.datetime | None]
    """When it ends by itself; null: when somebody ends it."""
    pools: Mapped[list[Any]]
    nodes: Mapped[list[Any]]
    """Names. Without pools and nodes the window concerns the whole cluster."""
    reason: Mapped[str] = mapped_column(String(500))
    running: Mapped[Running] = mapped_column(String(16))
    created_by: Mapped[str] = mapped_column(String(160))
    created_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    """When it ended, or was ended before its time; null: it is open."""
    ended_by: Mapped[str] = mapped_column(String(160), default="")
    """Who ended it; "" for one that ended by itself, or is open."""
    announced: Mapped[bool] = mapped_column(default=False)
    """Whether its start has been told."""


class NodeReservationRow(Base):
    """A time during which some nodes are for the trials of one user or one project alone. Whether one is
    active follows from its times; `announced` is for what people are told."""

    __tablename__ = "node_reservations"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    starts_at: Mapped[dt.datetime]
    ends_at: Mapped[dt.datetime]
    nodes: Mapped[list[Any]]
    """Names."""
    user_id: Mapped[int | None] = belongs_to("users.id", index=True)
    project_id: Mapped[int | None] = belongs_to("projects.id", index=True)
    """The user or the project whose trials may use the nodes: exactly one of the two is set."""
    reason: Mapped[str] = mapped_column(String(500))
    created_by: Mapped[str] = mapped_column(String(160))
    created_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    """When it ended, or was cancelled before its time; null: it is open."""
    ended_by: Mapped[str] = mapped_column(String(160), default="")
    """Who cancelled it; "" for one that ended by itself, or is open."""
    announced: Mapped[bool] = mapped_column(default=False)
    """Whether its start has been told."""


class CronScheduleRow(Base):
    """A submission that is made anew at the times of a cron expression, in its owner's name."""

    __tablename__ = "cron_schedules"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = belongs_to("projects.id", index=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    name: Mapped[str] = mapped_column(String(200))
    """The name in the document."""
    submission: Mapped[dict[str, Any]]
    """schemas.experiments.ExperimentIn as JSON."""
    blob_sha256: Mapped[str | None] = mapped_column(String(64))
    """Its code bundle, which is kept as long as the schedule."""
    cron: Mapped[str] = mapped_column(String(120))
    timezone: Mapped[str] = mapped_column(String(64))
    overlap: Mapped[Overlap] = mapped_column(String(16))
    is_paused: Mapped[bool] = mapped_column(default=False)
    next_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    """Null: its times are over."""
    last_at: Mapped[dt.datetime | None]
    """Time of the last turn; null: there was none."""
    last_experiment_id: Mapped[int | None]
    """Newest experiment that it started; it may have been deleted since."""
    last_reason: Mapped[str] = mapped_column(default="")
    """What came of the last turn, in English."""
    last_reason_parts: Mapped[list[Any] | None]
    created_at: Mapped[dt.datetime]
