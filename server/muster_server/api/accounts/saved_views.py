"""Routes of saved views; see docs/guides/dashboard.md."""

from __future__ import annotations

from muster_server import clock
from muster_server.api.http.deps import Cursor, Id, Limit, Me
from muster_server.api.http.routing import Read, Router, Write
from muster_server.schemas.accounts.saved_views import (
    SavedViewIn,
    SavedViewOut,
    SavedViewPatch,
    ViewPage,
)
from muster_server.schemas.base import Page
from muster_server.services.core import saved_views

router = Router(tags=["views"])


@router.get("/views")
def list_saved_views(
    session: Read, me: Me, page: ViewPage | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[SavedViewOut]:
    """List your saved views, and those that are shared with a project."""
    return saved_views.list_views(session, me, page=page, cursor=cursor, limit=limit)


@router.post("/views", status_code=201)
def create_saved_view(body: SavedViewIn, session: Write, me: Me) -> SavedViewOut:
    """Save a page's columns, order and filters under a name."""
    return saved_views.create_view(session, me, body, clock.now())


@router.patch("/views/{view_id}")
def update_saved_view(view_id: Id, body: SavedViewPatch, session: Write, me: Me) -> SavedViewOut:
    """Change the name of a view, its content, whom it is shared with, or whether your page opens
    with it."""
    return saved_views.update_view(session, me, view_id, body, clock.now())


@router.delete("/views/{view_id}", status_code=204)
def delete_saved_view(view_id: Id, session: Write, me: Me) -> None:
    """Delete a saved view."""
    saved_views.delete_view(session, me, view_id)
