"""Runs that tracking clients have started, in a job or from outside."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class TrackedRunRow(Base):
    """One run: what its client says of it besides metrics, which are series of the trial."""

    __tablename__ = "tracked_runs"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
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


class TrackingExperimentRow(Base):
    """An experiment of a tracking client: the name under which it groups runs. Each of its runs is an
    experiment of one trial here."""

    __tablename__ = "tracking_experiments"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(500), unique=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    stage: Mapped[str] = mapped_column(String(16))
    """active | deleted."""
    tags: Mapped[dict[str, Any]]
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]


class UnmanagedRunRow(Base):
    """The run behind an unmanaged trial: what its client reads back. Name, params, tags and status
    are in its `tracked_runs`, as those of runs in jobs are."""

    __tablename__ = "unmanaged_runs"

    trial_id: Mapped[int] = belongs_to("trials.id", primary_key=True)
    run_id: Mapped[str] = mapped_column(String(64), unique=True)
    tracking_experiment_id: Mapped[int | None] = mapped_column(BigId, index=True)
    """Row of `tracking_experiments`; null for the one called Default."""
    user: Mapped[str] = mapped_column(String(250))
    """User that the client names."""
    latest: Mapped[dict[str, Any]]
    """Metric → [step, time in ms, value] of the highest step, time of the newest point, and of its runs
    [number of the one with the plain name, number, first and last step of the newest]."""
    datasets: Mapped[list[Any]]
    models: Mapped[list[Any]]
    """Inputs and outputs as the client describes them."""
    num_artifacts: Mapped[int] = mapped_column(default=0)
    artifact_bytes: Mapped[int] = mapped_column(BigInteger, default=0)


class LoggedModelRow(Base):
    """A model that a client of MLflow 3 has logged for an unmanaged run."""

    __tablename__ = "logged_models"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    model_id: Mapped[str] = mapped_column(String(64), unique=True)
    trial_id: Mapped[int] = belongs_to("trials.id", index=True)
    tracking_experiment_id: Mapped[int | None] = mapped_column(BigId, index=True)
    model: Mapped[dict[str, Any]]
    """muster.tracking.LoggedModel as JSON."""


class RunArtifactRow(Base):
    """A file that a client has logged for an unmanaged run, in the database so that every API server
    can serve it."""

    __tablename__ = "run_artifacts"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    path: Mapped[str] = mapped_column(String(1000))
    """Below the folder of the run: `artifacts/…` or `models/<name>/…`. One that begins with `.upload`
    is not complete."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64), default="")
    """Empty for one of an earlier version of Muster."""
    created_at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("trial_id", "path"),)


class RunArtifactChunkRow(Base):
    __tablename__ = "run_artifact_chunks"

    artifact_id: Mapped[int] = belongs_to("run_artifacts.id", BigId, primary_key=True)
    idx: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
