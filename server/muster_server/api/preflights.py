"""Preflights: tests of nodes together; see docs/guides/agents.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from muster_server import clock
from muster_server.schemas.base import Page
from muster_server.schemas.preflights import PreflightIn, PreflightOut
from muster_server.services.nodes import preflights

from .http.deps import Cursor, Limit, Me
from .http.routing import Read, Router, Write

router = Router(tags=["cluster"])

PreflightId = Annotated[int, Path(ge=1, lt=2**31)]


@router.post("/preflights", status_code=201)
def create_preflight(session: Write, me: Me, body: PreflightIn) -> PreflightOut:
    """Test nodes: their disks, devices, connections to each other, and an all-reduce of every pair.
    It takes some seconds; poll it until `state` is not `running`."""
    return preflights.request(session, body.nodes, actor=me.actor, now=clock.now())


@router.get("/preflights")
def list_preflights(session: Read, cursor: Cursor = None, limit: Limit = 50) -> Page[PreflightOut]:
    """List preflights, newest first: those on demand, and those before gangs."""
    return preflights.list_preflights(session, cursor=cursor, limit=limit)


@router.get("/preflights/{preflight_id}")
def get_preflight(session: Read, preflight_id: PreflightId) -> PreflightOut:
    return preflights.get_preflight(session, preflight_id)
