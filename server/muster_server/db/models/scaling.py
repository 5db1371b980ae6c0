"""Scaling reports."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class ScalingReportRow(Base):
    """How an experiment trains on more slots and fewer. Its runs are experiments of their own."""

    __tablename__ = "scaling_reports"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    experiment_id: Mapped[int] = belongs_to("experiments.id", index=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    """running | done | canceled | failed."""
    reason: Mapped[str] = mapped_column(default="")
    mode: Mapped[str] = mapped_column(String(8))
    """domain.insight.scaling.Mode."""
    num_steps: Mapped[int]
    slot_hours: Mapped[float | None]
    """For all runs together; null: as much as the project has."""
    points: Mapped[list[Any]]
    """domain.insight.scaling.Point as plain values, in the order of the runs."""
    user_id: Mapped[int | None]
    """Owner of the runs."""
    requested_by: Mapped[str] = mapped_column(String(160))
    created_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
