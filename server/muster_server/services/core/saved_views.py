"""Saved views: everybody's own, and those that are shared with a project."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import ProjectRow, SavedViewRow, UserRow
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.accounts.saved_views import (
    SavedViewIn,
    SavedViewOut,
    SavedViewPatch,
    ViewPage,
)
from muster_server.schemas.base import Page
from muster_server.security.principal import Principal

from . import access
from .paging import read_page_of_tuples

MAX_VIEWS = 200
"""Maximum number of saved views per user."""


def list_views(
    session: Session, principal: Principal, *, page: ViewPage | None, cursor: str | None, limit: int
) -> Page[SavedViewOut]:
    """Return the caller's own views and the shared ones, by ID."""
    query = _query().where(
        or_(SavedViewRow.owner_id == principal.user_id, SavedViewRow.project_id.is_not(None))
    )
    if page is not None:
        query = query.where(SavedViewRow.page == page)
    rows, following = read_page_of_tuples(
        session, query, SavedViewRow.id, cursor=cursor, limit=limit
    )
    items = [_out(row, owner, project, principal) for row, owner, project in rows]
    return Page(items=items, next=following)


def create_view(
    session: Session, principal: Principal, body: SavedViewIn, now: dt.datetime
) -> SavedViewOut:
    """Raises Conflict for a name that the caller has, NotFound for a project that is none."""
    owner_id = _user(principal)
    num = session.scalar(
        select(func.count()).select_from(SavedViewRow).where(SavedViewRow.owner_id == owner_id)
    )
    if (num or 0) >= MAX_VIEWS:
        raise Conflict(
            "views.too_many", f"You have {num} saved views, the most there can be.",
            hint="Delete some of them.",
        )  # fmt: skip
    _require_free_name(session, owner_id, body.page, body.name)
    if body.is_default:
        _clear_default(session, owner_id, body.page)
    row = SavedViewRow(
        page=body.page,
        owner_id=owner_id,
        project_id=_project(session, principal, body.project),
        name=body.name,
        query=body.query,
        is_default=body.is_default,
        created_at=now,
        changed_at=now,
    )
    session.add(row)
    session.flush()
    return _one(session, row.id, principal)


def update_view(
    session: Session, principal: Principal, view_id: int, body: SavedViewPatch, now: dt.datetime
) -> SavedViewOut:
    """Raises NotFound, Conflict, and Forbidden for a view of somebody else."""
    row = _mine(session, principal, view_id)
    if body.name is not None and body.name != row.name:
        _require_free_name(session, row.owner_id, row.page, body.name)
        row.name = body.name
    if body.query is not None:
        row.query = body.query
    if "project" in body.model_fields_set:
        row.project_id = _project(session, principal, body.project)
    if body.is_default is not None:
        if body.is_default:
            _clear_default(session, row.owner_id, row.page)
        row.is_default = body.is_default
    row.changed_at = now
    session.flush()
    return _one(session, view_id, principal)


def delete_view(session: Session, principal: Principal, view_id: int) -> None:
    """Raises NotFound, and Forbidden for a view of somebody else."""
    session.delete(_mine(session, principal, view_id))


# ---------------------------------------------------------------- parts


def _query() -> Any:
    return (
        select(SavedViewRow, UserRow.username, ProjectRow.name)
        .join(UserRow, UserRow.id == SavedViewRow.owner_id)
        .join(ProjectRow, ProjectRow.id == SavedViewRow.project_id, isouter=True)
    )


def _one(session: Session, view_id: int, principal: Principal) -> SavedViewOut:
    row, owner, project = session.execute(_query().where(SavedViewRow.id == view_id)).one()
    return _out(row, owner, project, principal)


def _out(row: SavedViewRow, owner: str, project: str | None, principal: Principal) -> SavedViewOut:
    return SavedViewOut.from_row(
        row,
        project=project,
        owner=owner,
        is_mine=row.owner_id == principal.user_id,
    )


def _user(principal: Principal) -> int:
    if principal.user_id is None:
        raise Forbidden(
            "views.no_user", "Saved views belong to users; this credential is no user's."
        )
    return principal.user_id


def _mine(session: Session, principal: Principal, view_id: int) -> SavedViewRow:
    """Return a view that the caller may change: one of their own or, for administrators, a shared
    one."""
    row = session.get(SavedViewRow, view_id)
    user_id = _user(principal)
    if row is None or (row.owner_id != user_id and row.project_id is None):
        raise NotFound("views.not_found", f"There is no saved view {view_id}.")
    if row.project_id is None:
        access.require_unlimited(principal)
    if row.owner_id != user_id and principal.role != "admin":
        raise Forbidden(
            "views.not_yours", "Its owner and administrators may change a shared view.",
            hint="Save it under a name of your own.",
        )  # fmt: skip
    return row


def _project(session: Session, principal: Principal, name: str | None) -> int | None:
    if name is None:
        access.require_unlimited(principal)
        return None
    if principal.role == "viewer":
        raise Forbidden("views.no_sharing", "Viewers keep views for themselves.")
    found = session.scalar(select(ProjectRow.id).where(ProjectRow.name == name))
    if found is None:
        raise InvalidRequest(
            "views.no_project",
            "There is no such project to share the view with.",
            fields=[FieldProblem("project", "is no project", "default")],
        )
    return found


def _require_free_name(session: Session, owner_id: int, page: str, name: str) -> None:
    taken = select(SavedViewRow.id).where(
        SavedViewRow.owner_id == owner_id, SavedViewRow.page == page, SavedViewRow.name == name
    )
    if session.scalar(taken) is not None:
        raise Conflict(
            "views.name_taken", "You have a saved view of this name.",
            hint="Choose another name, or change that view.",
        )  # fmt: skip


def _clear_default(session: Session, owner_id: int, page: str) -> None:
    session.execute(
        update(SavedViewRow)
        .where(SavedViewRow.owner_id == owner_id, SavedViewRow.page == page)
        .values(is_default=False)
    )
