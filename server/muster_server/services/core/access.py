"""What callers may do in projects: reads what domain.access decides on, and refuses."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    ApiTokenProjectRow,
    GroupMemberRow,
    ProjectMemberRow,
    ProjectRow,
    UserRow,
)
from muster_server.db.sight import SEES_ALL, is_hidden, may_create_projects
from muster_server.domain.access import Action, ProjectStanding, Refusal, refusal
from muster_server.errors import Forbidden, NotFound
from muster_server.security.principal import Principal

NAMED_MAX = 3
"""Most maintainers that a hint names."""


def require(session: Session, project: ProjectRow, action: Action, principal: Principal) -> None:
    """Raise Forbidden, or NotFound for a project that the caller may not see, unless the caller may do
    this in the project."""
    role, user_id = principal.role, principal.user_id
    if problem := _refusal(session, project, action, user_id=user_id, role=role):
        raise _refused(session, project, problem, principal.name)


def require_submit(
    session: Session, name: str, *, user_id: int | None, role: str | None = None
) -> None:
    """Raise Forbidden unless a user may submit to the project of this name, or NotFound for a project
    that the caller may not see. Anybody may to one that does not exist, but for tokens that are
    limited to projects: they get NotFound.

    user_id: None for the server itself, which may. role: None for the user's own; that of a token may
    be lower.
    """
    query = select(ProjectRow).where(ProjectRow.name == name)
    project = session.scalar(query, execution_options=SEES_ALL)
    if project is None:
        require_new(name)
    if project is None or user_id is None:
        return
    if problem := _refusal(session, project, "submit", user_id=user_id, role=role):
        raise _refused(session, project, problem, session.get_one(UserRow, user_id).username)


def require_new(name: str) -> None:
    """Raise NotFound for a caller who may not create the project of this name by submitting to it."""
    if not may_create_projects():
        raise _no_project(name)


def require_unlimited(principal: Principal) -> None:
    """Raise Forbidden for a token that is limited to projects. Call it before a change of what belongs
    to no project."""
    if principal.is_limited:
        raise limited_token()


def limited_token() -> Forbidden:
    """Return the error for what a token that is limited to projects may not do at all."""
    return Forbidden(
        "auth.limited_token",
        "This token is limited to projects, and this belongs to no project.",
        hint="Use a token without this limit, or sign in.",
    )


def limits_of(session: Session, token_id: int) -> frozenset[int]:
    """Return the ids of the projects that a limited token is for, whoever asks."""
    query = select(ApiTokenProjectRow.project_id).where(ApiTokenProjectRow.token_id == token_id)
    return frozenset(session.scalars(query, execution_options=SEES_ALL))


class Sight:
    """What callers may not see, as of one transaction."""

    def __init__(self, session: Session) -> None:
        """Read which projects are for members alone."""
        self._session = session
        self._limits: defaultdict[int, set[int]] | None = None
        query = select(ProjectRow).where(ProjectRow.visibility == "members")
        self._closed = session.scalars(query, execution_options=SEES_ALL).all()

    @property
    def closed(self) -> frozenset[int]:
        """Return the ids of the projects that not everybody sees."""
        return frozenset(project.id for project in self._closed)

    @cached_property
    def _all(self) -> frozenset[int]:
        return frozenset(self._session.scalars(select(ProjectRow.id), execution_options=SEES_ALL))

    def read_all_limits(self) -> None:
        """Read what all tokens are limited to, to ask about many callers."""
        self._limits = defaultdict(set)
        query = select(ApiTokenProjectRow.token_id, ApiTokenProjectRow.project_id)
        for token_id, project_id in self._session.execute(query, execution_options=SEES_ALL):
            self._limits[token_id].add(project_id)

    def hidden_from(self, principal: Principal) -> frozenset[int]:
        """Return the ids of the projects that the caller may not see."""
        # A ticket has the lowest role, whoever asked for it.
        role = None if principal.by_ticket else principal.role
        beyond: frozenset[int] = frozenset()
        if principal.is_limited and principal.token_id is not None:
            # Read again each time: of a project that was deleted, the id may come again.
            beyond = self._all - (
                limits_of(self._session, principal.token_id)
                if self._limits is None
                else self._limits[principal.token_id]
            )
        return beyond | frozenset(
            project.id
            for project in self._closed
            if _refusal(self._session, project, "read", user_id=principal.user_id, role=role)
            == "hidden"
        )


def may(session: Session, action: Action, project_id: int, user_id: int) -> bool:
    """Return whether a user may do this in a project now."""
    project = session.get_one(ProjectRow, project_id)
    return _refusal(session, project, action, user_id=user_id, role=None) is None


def may_submit(session: Session, project_id: int, principal: Principal) -> bool:
    """Return whether a caller may submit to a project now."""
    query = select(ProjectRow).where(ProjectRow.id == project_id)
    project = session.scalars(query, execution_options=SEES_ALL).one()
    role, user_id = principal.role, principal.user_id
    return _refusal(session, project, "submit", user_id=user_id, role=role) is None


def _refusal(
    session: Session, project: ProjectRow, action: Action, *, user_id: int | None, role: str | None
) -> Refusal | None:
    if role is None and user_id is not None:
        role = _role(session, user_id)
    if role == "admin" and not is_hidden(project.id):
        return None
    roles = session.scalars(
        select(ProjectMemberRow.role).where(
            ProjectMemberRow.project_id == project.id, _is_of(user_id)
        )
    ).all()
    standing = ProjectStanding(
        is_admin=False,
        is_beyond_token=is_hidden(project.id),
        roles=roles,
        visibility=project.visibility,
        submission=project.submission,
    )
    return refusal(standing, action)


def _role(session: Session, user_id: int) -> str | None:
    return session.scalar(select(UserRow.role).where(UserRow.id == user_id))


def _is_of(user_id: int | None) -> ColumnElement[bool]:
    """Return the condition for memberships of a user, or of a group that the user is in."""
    groups = select(GroupMemberRow.group_id).where(GroupMemberRow.user_id == user_id)
    return or_(ProjectMemberRow.user_id == user_id, ProjectMemberRow.group_id.in_(groups))


def _refused(
    session: Session, project: ProjectRow, problem: Refusal, who: str
) -> Forbidden | NotFound:
    if problem == "hidden":
        return _no_project(project.name)
    those = _maintainers(session, project)
    if problem == "not_maintainer":
        return Forbidden(
            "projects.not_maintainer",
            f"{who} is not a maintainer of project {project.name}; its maintainers and administrators "
            "may do this.",
            hint=f"Ask {those}.",
        )
    return Forbidden(
        "projects.not_member",
        f"{who} is not a member of project {project.name}; only its members may submit to it, change "
        "what is in it and use its secrets.",
        hint=f"{those[0].upper()}{those[1:]} can add them: `muster project member add "
        f"{project.name} {who}`. Or use a project of your own: `--set project=NAME`.",
    )


def _no_project(name: str) -> NotFound:
    return NotFound("projects.not_found", f"There is no project {name!r}.")


def _maintainers(session: Session, project: ProjectRow) -> str:
    """Return the words for who can add members."""
    rows: Any = session.scalars(
        select(UserRow.username)
        .join(ProjectMemberRow, ProjectMemberRow.user_id == UserRow.id)
        .where(
            ProjectMemberRow.project_id == project.id,
            ProjectMemberRow.role == "maintainer",
            UserRow.is_active,
        )
        .order_by(UserRow.username)
        .limit(NAMED_MAX)
    )
    return " or ".join([*rows, "an administrator"])
