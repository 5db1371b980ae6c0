"""Runs that scripts have started with a tracking client."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId


class TrackedRunRow(Base):
    """One run: what its client says of it besides metrics, which are series of the trial."""

    __tablename__ = "tracked_runs"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id", ondelete="CASCADE"))
    run_id: Mapped[str] = mapped_column(String(64))
    """The client's id of the run."""
    attempt_no: Mapped[int]
    """Attempt that reported it last."""
    name: Mapped[str] = mapped_column(String(500))
    label: Mapped[str] = mapped_column(String(128))
    """Beginning of the names of its series; empty for the run that stands for the trial."""
    parent_run_id: Mapped[str] = mapped_column(String(64))
    folder: Mapped[str] = mapped_column(String(255))
    """Folder of its artifacts in the trial's outputs."""
    status: Mapped[str] = mapped_column(String(16))
    started_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
    params: Mapped[dict[str, Any]]
    tags: Mapped[dict[str, Any]]

    __table_args__ = (UniqueConstraint("trial_id", "run_id"),)
