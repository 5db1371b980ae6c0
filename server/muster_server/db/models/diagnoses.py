"""What was found out about trials: what they are bound by, and what their guards have seen."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class DiagnosisRow(Base):
    """One diagnosis of a trial. Its probes are the trials of an experiment of their own."""

    __tablename__ = "diagnoses"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id", index=True)
    probes_id: Mapped[int | None] = mapped_column(BigId, index=True)
    """The experiment of its probes, which may be deleted; null: there are none to run."""
    state: Mapped[str] = mapped_column(String(16), index=True)
    """running | complete | canceled."""
    plan: Mapped[dict[str, Any]]
    """domain.insight.diagnosis.Plan as JSON; empty without probes."""
    result: Mapped[dict[str, Any] | None]
    """domain.insight.diagnosis.Diagnosis as JSON, once it has ended."""
    baseline: Mapped[float | None]
    """Samples per second of all workers in the probes that are as it is."""
    applied: Mapped[list[Any]] = mapped_column(default=list)
    """[{"advice", "experiment_id"}]: what was launched of the advice."""
    created_by: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]


class GuardStatesRow(Base):
    """What the guards of a trial remember."""

    __tablename__ = "guard_states"

    trial_id: Mapped[int] = belongs_to("trials.id", primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(default=0)
    """Fence: it changes with each write."""
    states: Mapped[list[Any]] = mapped_column(default=list)
    """domain.guards.judging.GuardState as plain values, by the order of the document."""
