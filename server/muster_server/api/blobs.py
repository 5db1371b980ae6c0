"""Code bundles: uploaded by users, fetched by agents."""

from __future__ import annotations

import tempfile
from typing import IO, Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from muster_server import clock
from muster_server.api.http.deps import Agent, Config, Db
from muster_server.api.http.openapi import stream_of
from muster_server.api.http.routing import Read, Router
from muster_server.db.engine import Database
from muster_server.errors import NotFound
from muster_server.schemas.experiments import BlobOut
from muster_server.services.core import blobs

router = Router(tags=["code"])
agent_router = APIRouter(tags=["agents"])

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]

_MEMORY_BYTES = 4 << 20
"""Bytes up to which uploads are checked in memory; larger ones are checked in a temporary file."""


@router.put(
    "/blobs/{sha256}",
    openapi_extra={"requestBody": {"content": {"application/gzip": {}}, "required": True}},
)
async def put_blob(sha256: Sha256, request: Request, db: Db, settings: Config) -> BlobOut:
    """Upload a tar.gz under its SHA-256. Uploading an existing one changes nothing."""
    with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as file:
        upload = blobs.Upload(file, settings.blob_max_bytes)
        async for piece in request.stream():
            if piece:
                await run_in_threadpool(upload.write, piece)
        upload.check(sha256)
        await run_in_threadpool(_store, db, sha256, upload.size_bytes, file)
    return BlobOut(sha256=sha256, size_bytes=upload.size_bytes)


@router.head("/blobs/{sha256}", response_class=Response)
def head_blob(sha256: Sha256, session: Read) -> Response:
    """Return 200 if the bundle exists, else 404: an existing bundle need not be uploaded."""
    try:
        row = blobs.get(session, sha256)
    except NotFound:
        return Response(status_code=404)
    return Response(headers={"Content-Length": str(row.size_bytes)})


@agent_router.get("/blobs/{sha256}", **stream_of("application/gzip"))
def agent_get_blob(sha256: Sha256, db: Db, agent: Agent) -> StreamingResponse:
    """Return the bundle's bytes; the agent checks the digest. 404 for a bundle that nothing on the
    agent's node uses."""
    assert agent.node_id is not None
    with db.read() as session:
        size = blobs.get_for_node(session, sha256, agent.node_id).size_bytes
    return StreamingResponse(
        blobs.stream(db, sha256),
        media_type="application/gzip",
        headers={"Content-Length": str(size)},
    )


def _store(database: Database, sha256: str, size_bytes: int, file: IO[bytes]) -> None:
    file.seek(0)
    blobs.check_bundle(file)
    with database.transaction() as session:
        blobs.put(session, sha256=sha256, size_bytes=size_bytes, body=file, now=clock.now())
