"""Models and outputs as one file each: requested and downloaded by users, made and sent by agents."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session

from muster.wire import EXPORT_PIECE_BYTES, ExportReply, ExportRequest
from muster_server import clock
from muster_server.api.agents import calls_of, read_body, require_self
from muster_server.api.http.deps import Agent, By, Config, Cursor, Db, Id, Limit
from muster_server.api.http.openapi import stream_of
from muster_server.api.http.routing import Read, Router, Write
from muster_server.schemas.base import Page
from muster_server.schemas.exports import ExportOut
from muster_server.services.checkpoints import exports
from muster_server.services.core.accounts import identity
from muster_server.services.nodes import chores
from muster_server.services.nodes.sessions import require_session

from .http.wire_route import WireRoute

router = Router(tags=["trials"])
agent_router = APIRouter(tags=["agents"], route_class=WireRoute)

MAX_PIECES = 2**20


@router.post("/checkpoints/{checkpoint_id}:export", status_code=202)
def request_export(checkpoint_id: Id, session: Write, by: By, settings: Config) -> ExportOut:
    """Export the model of a checkpoint of the built-in trainer as one safetensors file, made by an
    agent that can read it. An existing or pending export is returned."""
    return exports.request(session, checkpoint_id, by, settings=settings)


@router.get("/trials/{trial_id}/exports")
def list_trial_exports(
    trial_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[ExportOut]:
    """List the exports of a trial's checkpoints that have not expired, newest first."""
    return exports.list_exports(session, trial_id, cursor=cursor, limit=limit)


@router.get("/exports/{export_id}")
def get_export(export_id: Id, session: Read) -> ExportOut:
    """Return an export and its progress."""
    return exports.get_export(session, export_id)


@router.get("/exports/{export_id}/file", **stream_of("application/octet-stream"))
def download_export(export_id: Id, db: Db) -> StreamingResponse:
    """Download the file. 409 while it is not complete, and if the export failed."""
    with db.read() as session:
        found = exports.require_done(session, export_id)
    return StreamingResponse(
        exports.stream(db, export_id),
        media_type="application/octet-stream",
        headers={
            "Content-Length": str(found.size_bytes),
            "Content-Disposition": _attachment(found.file_name),
            "ETag": f'"{found.sha256}"',
        },
    )


def _attachment(name: str) -> str:
    """Return the header for a name that scripts chose: only plain characters go into quotes."""
    if re.fullmatch(r"[A-Za-z0-9 ._()@+-]+", name):
        return f'attachment; filename="{name}"'
    return f"attachment; filename*=utf-8''{quote(name, safe='')}"


@router.delete("/exports/{export_id}", status_code=204)
def delete_export(export_id: Id, session: Write, by: By) -> None:
    """Delete the file of an export, or cancel it while it is pending. The checkpoint and
    the outputs stay."""
    exports.delete_export(session, export_id, by)


@agent_router.post("/exports/{export_id}/pieces/{idx}")
async def agent_export_piece(
    http: Request,
    agent: Agent,
    export_id: Id,
    idx: Annotated[int, Path(ge=0, lt=MAX_PIECES)],
    node_id: Annotated[str, Query(max_length=64)],
    session_epoch: int,
) -> ExportReply:
    """Take a piece of a file, of 1 MiB, the last one shorter. Safe to repeat."""
    require_self(agent, node_id)
    data = await read_body(http, EXPORT_PIECE_BYTES, "exports.piece_too_large")

    def store(session: Session) -> bool:
        identity.confirm_agent(session, agent)
        node = require_session(session, node_id, session_epoch)
        return exports.take_piece(session, node, export_id, idx, data)

    return ExportReply(taken=await calls_of(http).write(store))


@agent_router.post("/exports")
def agent_exports(database: Db, agent: Agent, request: ExportRequest) -> ExportReply:
    """Take the result of a model export that the node was asked for."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        return chores.take_export(session, request, now=clock.now())
