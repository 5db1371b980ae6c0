"""Users and projects as owners of secrets, notification rules and notification targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from . import callers
from .callers import Caller
from .lookup import get_project


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


def caller_as_owner(caller: Caller) -> Owner | None:
    """Return the caller; None for a credential that belongs to no user."""
    principal = caller.principal
    if principal.user_id is None:
        return None
    return Owner("user", principal.user_id, principal.name)


def project_as_owner(session: Session, name: str) -> Owner:
    """Raises NotFound."""
    return Owner("project", get_project(session, name).id, name)


def record_change(
    session: Session, caller: Caller, owner: Owner, action: str, subject: str, **detail: Any
) -> None:
    """Add a line about something that an owner has to the audit trail."""
    whose = {"owner": owner.kind, "owner_name": owner.name or caller.principal.name}
    callers.record(session, action, subject, caller, {**whose, **detail})
