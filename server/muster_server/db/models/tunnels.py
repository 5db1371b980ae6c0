"""Tunnels into running jobs that an agent is to open."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, Json


class TunnelRow(Base):
    """A tunnel that waits for its agent. Deleted as soon as the agent is connected."""

    __tablename__ = "tunnels"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    node_id: Mapped[str] = mapped_column(String(32), index=True)
    order: Mapped[dict[str, Any]] = mapped_column(Json)
    """wire.Tunnel."""
    expires_at: Mapped[dt.datetime]
    """When nobody waits for the agent any more."""
