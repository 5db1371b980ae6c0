"""Deployments: which version of a model answers requests, since when and why, and its replicas."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class DeploymentRow(Base):
    __tablename__ = "deployments"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), index=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    name: Mapped[str] = mapped_column(String(63), unique=True)
    wants: Mapped[str] = mapped_column(String(8))
    """run | stop."""
    is_stopped: Mapped[bool] = mapped_column(default=False)
    """Whether nothing is left of it."""
    backend: Mapped[int | None] = mapped_column(unique=True)
    """Number of its backend in the router; null while it is stopped."""
    num_replicas: Mapped[int]
    slots: Mapped[int]
    """Slots of one replica."""
    options: Mapped[dict[str, Any]]
    """The other fields of schemas.deployments.DeploymentOptions."""
    key: Mapped[str] = mapped_column(String(64))
    """Secret that the router sends along, and replicas ask for."""
    target: Mapped[int]
    """Number of the revision that is to serve."""
    target_since: Mapped[dt.datetime]
    stable: Mapped[int | None]
    """Number of the revision that served last with all its replicas, alone."""
    last_revision: Mapped[int]
    num_failures: Mapped[int] = mapped_column(default=0)
    """Replicas of the target that have ended by themselves since one was last ready."""
    failed_at: Mapped[dt.datetime | None]
    message: Mapped[str] = mapped_column(default="")
    """What went wrong last; empty when nothing did since the last change."""
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    updated_at: Mapped[dt.datetime]


class DeploymentRevisionRow(Base):
    """A version that a deployment was told to serve. A rollback is a revision, too."""

    __tablename__ = "deployment_revisions"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    deployment_id: Mapped[int] = belongs_to("deployments.id")
    number: Mapped[int]
    reference: Mapped[str] = mapped_column(String(120))
    """Reference as it was given, such as digits@production."""
    model: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    """Version that the reference meant at that moment."""
    state: Mapped[str] = mapped_column(String(16))
    """rolling_out | serving | replaced | failed."""
    reason: Mapped[str] = mapped_column(String(500), default="")
    """Why, as who made it said."""
    message: Mapped[str] = mapped_column(default="")
    """Why it failed."""
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    settled_at: Mapped[dt.datetime | None]
    """When it first served with all its replicas, alone."""

    __table_args__ = (UniqueConstraint("deployment_id", "number"),)


class DeploymentReplicaRow(Base):
    """A replica: an experiment with one trial that does not end by itself."""

    __tablename__ = "deployment_replicas"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    deployment_id: Mapped[int] = belongs_to("deployments.id")
    revision: Mapped[int]
    experiment_id: Mapped[int | None] = mapped_column(
        ForeignKey("experiments.id", ondelete="SET NULL"), index=True
    )
    phase: Mapped[str] = mapped_column(String(16))
    """domain.deployments.deciding.Phase."""
    phase_since: Mapped[dt.datetime]
    attempt_no: Mapped[int] = mapped_column(default=0)
    """Attempt of its trial that reported the address below; 0: none has."""
    host: Mapped[str] = mapped_column(String(255), default="")
    port: Mapped[int] = mapped_column(default=0)
    status: Mapped[str] = mapped_column(String(24), default="")
    """State of this address in the router; empty: it does not have it."""
    num_sessions: Mapped[int] = mapped_column(default=0)
    """Requests that it is answering."""
    num_requests: Mapped[int] = mapped_column(BigInteger, default=0)
    """Requests that the router has sent to this address."""
    num_errors: Mapped[int] = mapped_column(BigInteger, default=0)
    reason: Mapped[str] = mapped_column(default="")
    created_at: Mapped[dt.datetime]

    __table_args__ = (
        Index("ix_deployment_replicas_deployment_id_phase", "deployment_id", "phase"),
    )
