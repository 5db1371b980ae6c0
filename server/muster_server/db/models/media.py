"""Media that scripts log per step: small content here, larger content in the outputs of the trial."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class MediaRow(Base):
    """One item that a rank has logged at a step."""

    __tablename__ = "media"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id", BigId)
    attempt_no: Mapped[int]
    name: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(32))
    step: Mapped[int] = mapped_column(BigInteger)
    rank: Mapped[int]
    at: Mapped[dt.datetime]
    mime: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    caption: Mapped[str] = mapped_column(String(500))
    width: Mapped[int]
    height: Mapped[int]
    data: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    """Content; null if it is a file."""
    file: Mapped[str] = mapped_column(String(255))
    """Path of the file in the outputs; "" for none."""
    node_name: Mapped[str] = mapped_column(String(128))
    storage_id: Mapped[str] = mapped_column(String(64))
    """Storage of the node that wrote the file; `object-store` for that of the document."""

    __table_args__ = (Index("ix_media_trial_id_name_step", "trial_id", "name", "step"),)


class MediaDropsRow(Base):
    """Items that one rank of an attempt has left out, by reason."""

    __tablename__ = "media_drops"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id", BigId)
    attempt_no: Mapped[int]
    rank: Mapped[int]
    num: Mapped[dict[str, Any]]

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no", "rank"),)
