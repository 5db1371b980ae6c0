"""The files that trials wrote: the newest manifest of each of their nodes."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class TrialOutputsRow(Base):
    """What one node rank of a trial has in the storage, as its newest manifest says."""

    __tablename__ = "trial_outputs"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id", BigId)
    node_rank: Mapped[int]
    attempt_no: Mapped[int]
    seq: Mapped[int] = mapped_column(BigInteger)
    """Number of the manifest, increasing over all attempts."""
    is_final: Mapped[bool]
    """Whether the attempt had ended on the node, and nothing is missing."""
    node_id: Mapped[str] = mapped_column(String(32))
    node_name: Mapped[str] = mapped_column(String(128))
    storage_id: Mapped[str] = mapped_column(String(64))
    """ID of the storage folder; `object-store` for the object store in `storage_url`."""
    storage_url: Mapped[str] = mapped_column(default="")
    """Object store that the document names; "" for the storage folder."""
    folder: Mapped[str] = mapped_column(String(255))
    """Relative to the storage folder, or to this server's folder in the object store."""
    num_files: Mapped[int]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    num_left_out: Mapped[int]
    left_out_bytes: Mapped[int] = mapped_column(BigInteger)
    problem: Mapped[str] = mapped_column(default="")
    files: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    """zlib of a JSON list of wire.OutputFile, sorted by path."""
    updated_at: Mapped[dt.datetime]
    deleted_at: Mapped[dt.datetime | None]
    """When retention deleted everything of it; null: it has not, or there are newer files."""
    deleted_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """Size of what retention deleted."""

    __table_args__ = (UniqueConstraint("trial_id", "node_rank"),)
