"""Secrets of users and projects, encrypted."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class SecretRow(Base):
    """One secret, of a user or of a project. The key that decrypts it is not in the database."""

    __tablename__ = "secrets"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    user_id: Mapped[int | None] = belongs_to("users.id")
    project_id: Mapped[int | None] = belongs_to("projects.id")
    """Exactly one of the two is set: the owner."""
    name: Mapped[str] = mapped_column(String(128))
    version: Mapped[int]
    """Number of the value, from 1."""
    key_id: Mapped[str] = mapped_column(String(16))
    """Which key encrypted it; see security.encryption."""
    nonce: Mapped[bytes] = mapped_column(LargeBinary)
    ciphertext: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    changed_at: Mapped[dt.datetime]
    changed_by: Mapped[str] = mapped_column(String(160))
    """When, and by whom, the present value was set."""
    rotated_at: Mapped[dt.datetime | None]
    """When the present value was last encrypted with another key."""
    last_used_at: Mapped[dt.datetime | None]
    """When it was last delivered to a job."""

    __table_args__ = (
        UniqueConstraint("user_id", "name"),
        UniqueConstraint("project_id", "name"),
    )
