"""Traces of torch's profiler that were asked for, rank by rank, in pieces as they came."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class ProfileRow(Base):
    """One rank of one window."""

    __tablename__ = "profiles"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    attempt_no: Mapped[int]
    no: Mapped[int]
    """Number of the profiling window within the trial, from 1."""
    rank: Mapped[int]
    node_name: Mapped[str] = mapped_column(String(128))
    num_steps: Mapped[int]
    """Number of steps requested."""
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    last_step: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int] = mapped_column(default=0)
    received_bytes: Mapped[int] = mapped_column(default=0)
    problem: Mapped[str] = mapped_column(default="")
    requested_by: Mapped[str] = mapped_column(String(200))
    asked_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
    """When the trace was complete, or why there is none was known."""

    __table_args__ = (UniqueConstraint("trial_id", "no", "rank"),)


class ProfilePieceRow(Base):
    __tablename__ = "profile_pieces"

    profile_id: Mapped[int] = belongs_to("profiles.id", primary_key=True)
    idx: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """Piece of a gzip file."""
