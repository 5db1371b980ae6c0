"""Maintenance windows."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from muster_server.domain.nodes.maintenance import Running

from .base import Base, BigId


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
