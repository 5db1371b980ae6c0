"""Routes of panels; see docs/guides/dashboard.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from muster_server import clock
from muster_server.api.http.deps import Id, Me
from muster_server.api.http.routing import Read, Router, Write
from muster_server.schemas.accounts.panels import PanelIn, PanelOut, PanelPatch
from muster_server.schemas.base import Page
from muster_server.services.core import panels

router = Router(tags=["panels"])


@router.get("/panels")
def list_panels(
    session: Read,
    me: Me,
    experiment: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    project: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
) -> Page[PanelOut]:
    """List the panels of an experiment and of its project, or those of a project. One page holds
    them all."""
    return panels.list_panels(session, me, project=project, experiment_id=experiment)


@router.post("/panels", status_code=201)
def create_panel(body: PanelIn, session: Write, me: Me) -> PanelOut:
    """Add a panel to the charts of an experiment, or of every experiment of a project."""
    return panels.create_panel(session, me, body, clock.now())


@router.patch("/panels/{panel_id}")
def update_panel(panel_id: Id, body: PanelPatch, session: Write, me: Me) -> PanelOut:
    """Change what a panel shows, or its place."""
    return panels.update_panel(session, me, panel_id, body, clock.now())


@router.delete("/panels/{panel_id}", status_code=204)
def delete_panel(panel_id: Id, session: Write, me: Me) -> None:
    """Delete a panel."""
    panels.delete_panel(session, me, panel_id)
