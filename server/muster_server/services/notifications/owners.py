"""Who owns a rule or a target, and who may change it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from muster_server.db.models import ProjectRow
from muster_server.errors import Forbidden

from ..core import access
from ..core.callers import Caller
from ..core.owners import Owner, caller_as_owner, project_as_owner


def owner_for(session: Session, caller: Caller, project: str | None) -> Owner:
    """Return the project of this name, or the caller. Raises NotFound and Forbidden."""
    if project is not None:
        return project_as_owner(session, project)
    owner = caller_as_owner(caller)
    if owner is None:
        raise Forbidden(
            "notifications.no_user", "Notifications belong to users; this credential is no user's."
        )
    return owner


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
    changed by administrators, and what a user has by no token that is limited to projects: it would
    notify of all that its user sees."""
    if owner.kind == "user":
        access.require_unlimited(caller.principal)
    if owner.kind == "project" and caller.principal.role != "admin":
        raise Forbidden(
            "notifications.admins_only",
            f"Administrators change the notifications of project {owner.name}.",
            hint="Create a rule of your own instead; it can be limited to the project.",
        )
