"""SCIM 2.0 for the provisioning client of an identity provider; see docs/guides/sign-in.md."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import IntegrityError
from starlette.concurrency import run_in_threadpool

from muster_server.db.engine import Database
from muster_server.errors import Malformed
from muster_server.services.core.callers import Caller
from muster_server.settings import Settings

from ..http.deps import By, Config, Db
from ..http.errors import SCIM_MEDIA_TYPE

router = APIRouter(prefix="/api/scim/v2", include_in_schema=False)


@router.get("/{path:path}")
async def scim_read(path: str, request: Request, db: Db, by: By, config: Config) -> Response:
    """Return users, groups, and what the service says of itself."""
    return await run_in_threadpool(_answered, request, db, by, config, path, None)


@router.api_route("/{path:path}", methods=["POST", "PUT", "PATCH", "DELETE"])
async def scim_write(path: str, request: Request, db: Db, by: By, config: Config) -> Response:
    """Create, change and delete users and groups, and search for them."""
    text = await request.body()
    try:
        body = json.loads(text) if text else {}
    except ValueError:
        raise Malformed("request.invalid_json", "The body is not JSON.") from None
    return await run_in_threadpool(_answered, request, db, by, config, path, body)


def _answered(
    request: Request, db: Database, by: Caller, config: Settings, path: str, body: Any
) -> Response:
    from muster_server.services.core.accounts import scim

    def once() -> tuple[int, dict[str, Any] | None]:
        with db.read() if request.method == "GET" else db.transaction() as session:
            return scim.answer(
                session, by, config, request.method, path.rstrip("/"), request.query_params, body
            )

    try:
        try:
            status, found = once()
        except IntegrityError:  # two create the same at a time; the second try finds it
            status, found = once()
    except scim.ScimRefusal as error:
        status, found = error.status, error.body
    headers = {}
    if status == 201 and found is not None and "location" in found.get("meta", {}):
        headers["Location"] = found["meta"]["location"]
    content = b"" if found is None else json.dumps(found).encode()
    return Response(content, status, headers, media_type=SCIM_MEDIA_TYPE)
