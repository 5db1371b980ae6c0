"""What slots cost, what was spent, and which alerts of a budget were given."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from muster.wire import IsolationLevel
from muster_server.domain.nodes.availability import ForeignProcesses

from .base import Base, BigId


class PoolRow(Base):
    """What is set for a pool. One without a row is free of charge; nodes make pools by naming them."""

    __tablename__ = "pools"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    price_per_slot_hour: Mapped[float] = mapped_column(default=0.0)
    """In the currency of the settings."""
    min_isolation: Mapped[IsolationLevel] = mapped_column(String(16), default="none")
    """Weakest level of isolation (muster.wire.ISOLATION_LEVELS) at which jobs may run in it."""
    requires_containers: Mapped[bool] = mapped_column(default=False)
    """Whether only jobs with an image may run in it."""
    allowed_images: Mapped[list[Any]] = mapped_column(default=list)
    """What images may begin with; empty for all images."""
    foreign_processes: Mapped[ForeignProcesses] = mapped_column(String(8), default="wait")
    """Whether devices that somebody uses outside Muster wait until they are free: wait | ignore."""
    changed_at: Mapped[dt.datetime]


class SpendingRow(Base):
    """What the allocations of an experiment that have freed their slots cost in all.

    Outlives its experiment: what was spent stays spent, and on SQLite it keeps the ids of deleted
    experiments from being given out again.
    """

    __tablename__ = "spending"

    experiment_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    project_id: Mapped[int] = mapped_column(BigInteger, index=True)
    slot_s: Mapped[float] = mapped_column(default=0.0)
    """Slots × seconds from reservation to the slots being free again."""
    cost: Mapped[float] = mapped_column(default=0.0)


class BudgetAlertRow(Base):
    """An alert that was given. Its key makes it once per subject, measure, limit and threshold."""

    __tablename__ = "budget_alerts"

    subject: Mapped[str] = mapped_column(String(48), primary_key=True)
    """ "experiment:12", "project:3"."""
    measure: Mapped[str] = mapped_column(String(16), primary_key=True)
    """slot_hours | cost | deadline."""
    limit: Mapped[str] = mapped_column(String(40), primary_key=True)
    """Limit as text. It belongs to the key, so that raising the limit allows a new alert."""
    threshold: Mapped[float] = mapped_column(primary_key=True)
    at: Mapped[dt.datetime]
