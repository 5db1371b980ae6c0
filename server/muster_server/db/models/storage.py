"""Files that agents are still to delete, and whose files they are."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId


class ClusterIdentityRow(Base):
    """One row, made with the tables: tells this server's files from those of another one that
    used the same storage folder."""

    __tablename__ = "cluster_identity"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)


class FileDeletionRow(Base):
    """A folder under the agents' storage that is to be deleted. Wanted until an agent says it is."""

    __tablename__ = "file_deletions"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    storage_id: Mapped[str] = mapped_column(String(64))
    """ID of the storage folder, which several nodes may share; `object-store` for the object store
    in `storage_url`."""
    storage_url: Mapped[str] = mapped_column(default="")
    """The object store, as the experiment's document names it; "" for a storage folder."""
    path: Mapped[str] = mapped_column(String(255))
    """Relative to the storage folder, or to this server's folder in the object store."""
    experiment_id: Mapped[int]
    experiment_name: Mapped[str] = mapped_column(String(200))
    checkpoint_id: Mapped[int | None] = mapped_column(BigInteger)
    """The one checkpoint it is about; null: the whole experiment was deleted, or the outputs of a
    trial, as `path` says."""
    node_name: Mapped[str] = mapped_column(String(128))
    """A node that had the storage when it was requested."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    """Size of the registered checkpoints in the folder. The folder may hold more."""
    state: Mapped[str] = mapped_column(String(16), default="pending")
    """pending | done | refused (by the agent's own guard) | dismissed (by an administrator)."""
    message: Mapped[str] = mapped_column(default="")
    freed_bytes: Mapped[int | None] = mapped_column(BigInteger)
    requested_by: Mapped[str] = mapped_column(String(160))
    requested_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]

    __table_args__ = (
        UniqueConstraint("storage_id", "path"),
        Index("ix_file_deletions_state_storage_id", "state", "storage_id"),
    )
