"""Who owns a rule or a target, and who may change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from muster_server.db.models import ProjectRow
from muster_server.errors import Forbidden, NotFound

from ..core import audit
from ..core.callers import Caller


@dataclass(frozen=True)
class Owner:
    """A user or a project."""

    kind: Literal["user", "project"]
    id: int
    name: str

    @property
    def user_id(self) -> int | None:
        return self.id if self.kind == "user" else None

    @property
    def project_id(self) -> int | None:
        return self.id if self.kind == "project" else None

    @property
    def project(self) -> str | None:
        """Name of the project; None for a user."""
        return self.name if self.kind == "project" else None

    def owns(self, user_id: Any, project_id: Any) -> ColumnElement[bool]:
        """Return the condition that selects rows of this owner.

        user_id, project_id: the two columns that name the owner of a row.
        """
        condition: ColumnElement[bool] = (
            user_id == self.id if self.kind == "user" else project_id == self.id
        )
        return condition


def owner_for(session: Session, caller: Caller, project: str | None) -> Owner:
    """Return the project of this name, or the caller. Raises NotFound and Forbidden."""
    if project is None:
        principal = caller.principal
        if principal.user_id is None:
            raise Forbidden(
                "notifications.no_user",
                "Notifications belong to users; this credential is no user's.",
            )
        return Owner("user", principal.user_id, principal.name)
    found = session.scalar(select(ProjectRow.id).where(ProjectRow.name == project))
    if found is None:
        raise NotFound("projects.not_found", f"There is no project {project[:128]!r}.")
    return Owner("project", found, project)


def owner_of_row(session: Session, *, user_id: int | None, project_id: int | None) -> Owner:
    """Return the owner of a stored rule or target."""
    if user_id is not None:
        return Owner("user", user_id, "")
    return Owner("project", project_id or 0, session.get_one(ProjectRow, project_id).name)


def may_see(caller: Caller, owner: Owner) -> bool:
    """Return whether a caller may see what this owner has: everybody sees what projects have."""
    return owner.kind == "project" or owner.id == caller.principal.user_id


def require_change(caller: Caller, owner: Owner) -> None:
    """Raise Forbidden unless the caller may change what this owner has. What projects have is
    changed by administrators."""
    if owner.kind == "project" and caller.principal.role != "admin":
        raise Forbidden(
            "notifications.admins_only",
            f"Administrators change the notifications of project {owner.name}.",
            hint="Create a rule of your own instead; it can be limited to the project.",
        )


def record(caller: Caller, session: Session, action: str, subject: str, owner: Owner) -> None:
    """Add a line to the audit trail."""
    audit.record(
        session,
        actor=caller.principal.actor,
        action=action,
        subject=subject,
        now=caller.now,
        remote_addr=caller.remote_addr,
        detail={"owner": owner.kind, "owner_name": owner.name or caller.principal.name},
    )
