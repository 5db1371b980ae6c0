"""Groups of users, and who may do what in which project."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from muster_server.domain.access import ProjectRole

from .base import Base, BigId, belongs_to


class GroupRow(Base):
    __tablename__ = "groups"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    provider_group: Mapped[str | None] = mapped_column(String(200), unique=True, index=True)
    """Group of the OpenID provider that says who its members are; null if administrators do."""
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))


class ScimGroupRow(Base):
    """What a provisioning client says of a group that it manages. Its name there is `provider_group`."""

    __tablename__ = "scim_groups"

    group_id: Mapped[int] = belongs_to("groups.id", primary_key=True)
    name_key: Mapped[str] = mapped_column(String(200), unique=True)
    """The name as it is compared, whatever its case."""
    external_id: Mapped[str | None] = mapped_column(String(255), index=True)


class GroupMemberRow(Base):
    __tablename__ = "group_members"

    group_id: Mapped[int] = belongs_to("groups.id", primary_key=True)
    user_id: Mapped[int] = belongs_to("users.id", primary_key=True, index=True)
    added_at: Mapped[dt.datetime]
    added_by: Mapped[str] = mapped_column(String(160))


class ProjectMemberRow(Base):
    """The role of a user, or of all members of a group, in a project."""

    __tablename__ = "project_members"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = belongs_to("projects.id")
    user_id: Mapped[int | None] = belongs_to("users.id", index=True)
    group_id: Mapped[int | None] = belongs_to("groups.id", index=True)
    """Exactly one of the two is set."""
    role: Mapped[ProjectRole] = mapped_column(String(16))
    added_at: Mapped[dt.datetime]
    added_by: Mapped[str] = mapped_column(String(160))

    __table_args__ = (
        UniqueConstraint("project_id", "user_id"),
        UniqueConstraint("project_id", "group_id"),
    )
