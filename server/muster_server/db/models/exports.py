"""Models and outputs made into one file each, for use elsewhere."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class ExportRow(Base):
    """The model of a checkpoint, or outputs of a trial, as one file. Wanted of an agent until it says
    how that went; kept in the database for a while, so that every API server can serve it."""

    __tablename__ = "exports"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    checkpoint_id: Mapped[int | None] = belongs_to("checkpoints.id", BigId)
    """Null for outputs."""
    trial_id: Mapped[int]
    trial_no: Mapped[int]
    experiment_id: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    """Step of the checkpoint; 0 for outputs."""
    files: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    """zlib of a JSON list of wire.OutputFile: the outputs to send. Null for a model."""
    num_files: Mapped[int] = mapped_column(default=0)
    first_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """Number of bytes to send, from the beginning; 0 for all."""
    request_key: Mapped[str] = mapped_column(String(64), default="")
    """Digest of which outputs were asked for; "" for a model."""
    file_name: Mapped[str] = mapped_column(String(255), default="")
    """Name under which outputs are downloaded; "" for a model."""
    storage_id: Mapped[str] = mapped_column(String(64))
    """ID of the storage folder, which several nodes may share; `object-store` for the object store
    in `storage_url`."""
    storage_url: Mapped[str] = mapped_column(default="")
    path: Mapped[str] = mapped_column(String(255))
    """Relative to the storage folder, or to this server's folder in the object store."""
    node_name: Mapped[str] = mapped_column(String(128))
    """The node that wrote it."""
    state: Mapped[str] = mapped_column(String(16), default="pending")
    """pending | done | failed."""
    message: Mapped[str] = mapped_column(default="")
    room_bytes: Mapped[int] = mapped_column(BigInteger)
    """Bytes reserved of the limit of all exports: its size or, until that is known, its largest size."""
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64), default="")
    requested_by: Mapped[str] = mapped_column(String(160))
    requested_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
    expires_at: Mapped[dt.datetime]
    """It is deleted then, whatever became of it."""

    __table_args__ = (
        Index("ix_exports_state", "state"),
        Index("ix_exports_trial_id", "trial_id"),
        Index("ix_exports_checkpoint_id", "checkpoint_id"),
        Index("ix_exports_request_key", "request_key"),
    )


class ExportChunkRow(Base):
    __tablename__ = "export_chunks"

    export_id: Mapped[int] = belongs_to("exports.id", BigId, primary_key=True)
    idx: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
