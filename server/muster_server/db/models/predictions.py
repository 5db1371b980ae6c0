"""Batch inference: what is predicted, and who computes which shard."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class PredictionRow(Base):
    """The batch inference of a trial. Inputs and shards are as they were found once."""

    __tablename__ = "predictions"

    trial_id: Mapped[int] = belongs_to("trials.id", BigId, primary_key=True)
    attempt_no: Mapped[int]
    """Attempt whose nodes are in `nodes_heard`."""
    nodes_heard: Mapped[list[Any]]
    """Ranks of nodes that have said which parts lie on them."""
    inputs: Mapped[list[Any]] = mapped_column(deferred=True)
    """wire.InputFile."""
    num_shards: Mapped[int]
    num_done: Mapped[int] = mapped_column(default=0)
    num_rows: Mapped[int] = mapped_column(BigInteger)
    rows_done: Mapped[int] = mapped_column(BigInteger, default=0)
    """Rows of committed shards, with those in error."""
    num_errors: Mapped[int] = mapped_column(BigInteger, default=0)
    problem: Mapped[str] = mapped_column(default="")
    """Why it cannot go on."""
    created_at: Mapped[dt.datetime]
    updated_at: Mapped[dt.datetime]


class PredictionShardRow(Base):
    __tablename__ = "prediction_shards"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("predictions.trial_id", BigId)
    no: Mapped[int]
    input_no: Mapped[int]
    first_row: Mapped[int] = mapped_column(BigInteger)
    num_rows: Mapped[int] = mapped_column(BigInteger)
    start_at: Mapped[int] = mapped_column(BigInteger)
    """wire.ShardPlanRecord.starts."""
    end_at: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(8), default="free")
    """domain.predictions.leasing.ShardState."""
    token: Mapped[int] = mapped_column(default=0)
    """Number of the last lease: a commit has to carry it."""
    attempt_no: Mapped[int] = mapped_column(default=0)
    """Attempt of the last lease."""
    allocation_id: Mapped[str | None] = mapped_column(String(32))
    rank: Mapped[int | None]
    lease_until: Mapped[dt.datetime | None]
    num_predicted: Mapped[int] = mapped_column(BigInteger, default=0)
    num_errors: Mapped[int] = mapped_column(BigInteger, default=0)
    size_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    sha256: Mapped[str] = mapped_column(String(64), default="")
    seen_attempt_no: Mapped[int] = mapped_column(default=0)
    """Last attempt that found the part on one of its nodes."""

    __table_args__ = (
        UniqueConstraint("trial_id", "no"),
        Index("ix_prediction_shards_state", "trial_id", "state", "no"),
    )
