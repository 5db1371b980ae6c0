"""The description of the REST service: OpenAPI, and a plain page made from it."""

from __future__ import annotations

import html
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from muster_server.schemas.base import Problem

from .guard import Operation

router = APIRouter(tags=["description"])

_SIGN_INS = ("login", "setup", "one_time_sign_in", "check_invitation", "accept_invitation")
_METHODS = ("get", "put", "post", "delete", "patch", "head")


def stream_of(media_type: str) -> dict[str, Any]:
    """Return the arguments of a route that answers with a stream of this type."""
    content: dict[str, Any] = {media_type: {}}
    return {"response_class": StreamingResponse, "responses": {200: {"content": content}}}


@router.get("/openapi.json", summary="This description", response_class=JSONResponse)
async def openapi(request: Request) -> Response:
    return JSONResponse(describe(request.app))


@router.get("/docs", summary="This description as a page", response_class=HTMLResponse)
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(_page(describe(request.app)))


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the permission and the credentials of every operation.
    Cached."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        description="Self-hosted web dashboard and REST service for cluster training.",
        routes=app.routes,
        servers=[{"url": prefix}] if (prefix := app.state.settings.path_prefix()) else None,
    )
    operations: dict[str, Operation] = {o.id: o for o in app.state.operations}
    components = document.setdefault("components", {})
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "API token: mst_usr_…"},
        "session": {"type": "apiKey", "in": "cookie", "name": "muster_sid"},
        "agent": {
            "type": "http",
            "scheme": "bearer",
            "description": "Agent credential (mst_agt_…) or join token (mst_join_…)",
        },
    }
    # FastAPI describes its own form of a 422, which we never send.
    for name in ("HTTPValidationError", "ValidationError"):
        components.get("schemas", {}).pop(name, None)
    _, errors = models_json_schema(
        [(Problem, "serialization")], ref_template="#/components/schemas/{model}"
    )
    components["schemas"] |= jsonable_encoder(errors["$defs"], exclude_none=True)
    for path in document["paths"].values():
        for method in _METHODS:
            if method in path:
                _complete(path[method], operations[path[method]["operationId"]])
    app.openapi_schema = document
    return document


def _complete(description: dict[str, Any], operation: Operation) -> None:
    description["x-permission"] = operation.permission
    match operation.permission:
        case "public":
            description["security"] = []
            for status in ("401", "403"):
                if operation.id not in _SIGN_INS:
                    description["responses"].pop(status, None)
        case "agent" | "join":
            description["security"] = [{"agent": []}]
        case _:
            description["security"] = [{"bearer": []}, {"session": []}]


def _page(document: dict[str, Any]) -> str:
    rows = []
    for path, methods in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in methods:
                one = methods[method]
                rows.append(
                    "<tr>"
                    f"<td>{method.upper()}</td><td><code>{html.escape(path)}</code></td>"
                    f"<td>{html.escape(one.get('summary', ''))}</td>"
                    f"<td>{html.escape(one['x-permission'])}</td></tr>"
                )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Muster REST service</title>"
        f"<h1>Muster {html.escape(document['info']['version'])}: REST service</h1>"
        '<p>The full description: <a href="openapi.json">/openapi.json</a></p>'
        "<table border=1><tr><th>Method<th>Path<th>What it does<th>Permission</tr>"
        f"{''.join(rows)}</table></html>"
    )
