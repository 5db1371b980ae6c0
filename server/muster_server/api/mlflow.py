"""MLflow's tracking REST API for clients outside a job; see docs/guides/mlflow.md.

The protocol is in `muster.tracking`, what becomes of runs in services/tracking. Answers, errors too,
have MLflow's shape.
"""

from __future__ import annotations

import contextvars
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams

from muster.tracking import answer, invalid, log_metrics, no_endpoint, registry_call
from muster_server import parts
from muster_server.api.http.deps import By, Config, Db
from muster_server.api.http.races import raced
from muster_server.db.engine import Database
from muster_server.middleware.strict_json import Unstorable, check_texts
from muster_server.security.principal import Principal
from muster_server.services.core.callers import Caller
from muster_server.services.tracking import artifacts
from muster_server.services.tracking.models import DatabaseShelf
from muster_server.services.tracking.store import DatabaseStore
from muster_server.settings import Settings

from .agents import calls_of

router = APIRouter(prefix="/mlflow", include_in_schema=False)

MEMORY_BYTES = 4 << 20
"""Bytes up to which an uploaded artifact is kept in memory; a larger one is in a temporary file."""
_PREFIX = "/mlflow"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
Version = Annotated[str, Path(pattern=r"^[23]\.0$")]


@router.get("/api/{version}/mlflow/{path:path}")
def mlflow_read(
    version: Version, path: str, request: Request, db: Db, by: By, settings: Config
) -> Response:
    """Answer requests of MLflow's clients that read."""
    body = _query(request.query_params)
    return _json(_answered(db, by, settings, "GET", _path(request), body, writes=False))


@router.post("/api/{version}/mlflow/{kind}/search")
async def mlflow_search(
    version: Version, kind: str, request: Request, db: Db, by: By, settings: Config
) -> Response:
    """Answer searches for runs, experiments and models."""
    body = _parsed(await request.body())
    path = _path(request)
    found = await run_in_threadpool(_answered, db, by, settings, "POST", path, body, writes=False)
    return _json(found)


@dataclass(frozen=True)
class _Value:
    """A request to log one value."""

    by: Caller
    body: dict[str, Any]
    context: contextvars.Context
    """Context of the request: it says what is hidden from its caller."""


@router.post("/api/{version}/mlflow/runs/log-metric")
async def mlflow_log_metric(version: Version, request: Request, by: By) -> Response:
    """Store a value. They come by the thousand: those that wait share a transaction."""
    value = _Value(by, _parsed(await request.body()), contextvars.copy_context())
    return _json(await calls_of(request).share(_log_values, value))


def _log_values(session: Session, values: Sequence[_Value]) -> list[dict[str, Any]]:
    of_runs: dict[tuple[Principal, str], list[_Value]] = {}
    for value in values:
        run = str(value.body.get("run_id") or value.body.get("run_uuid"))
        of_runs.setdefault((value.by.principal, run), []).append(value)
    for together in of_runs.values():
        together[0].context.run(_log_to_run, session, together)
    return [{}] * len(values)


def _log_to_run(session: Session, values: Sequence[_Value]) -> None:
    store = DatabaseStore(session, values[0].by, writes=True)
    log_metrics(store, [value.body for value in values])
    store.close()


@router.api_route("/api/{version}/mlflow/{path:path}", methods=["POST", "PATCH", "DELETE"])
async def mlflow_write(
    version: Version, path: str, request: Request, db: Db, by: By, settings: Config
) -> Response:
    """Answer requests of MLflow's clients that change something."""
    body = _parsed(await request.body())
    found = await run_in_threadpool(
        _answered, db, by, settings, request.method, _path(request), body, writes=True
    )
    return _json(found)


@router.get(_ARTIFACTS)
def mlflow_list_artifacts(db: Db, by: By, path: str = "") -> Response:
    """List the artifacts in a folder of a run or model."""
    with db.read() as session:
        return _json({"files": artifacts.entries(session, by, path)})


@router.get(f"{_ARTIFACTS}/{{path:path}}")
def mlflow_get_artifact(path: str, db: Db, by: By, settings: Config) -> Response:
    """Return an artifact."""
    size, pieces = _registered(db, by, path, settings) or artifacts.read(db, by, path)
    headers = {"Content-Length": str(size), "Content-Disposition": "attachment"}
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


@router.put(f"{_ARTIFACTS}/{{path:path}}")
async def mlflow_put_artifact(
    path: str, request: Request, db: Db, by: By, settings: Config
) -> Response:
    """Store an artifact."""
    with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as file:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            await run_in_threadpool(file.write, piece)
        file.seek(0)
        room = settings.run_artifacts_max_bytes
        await run_in_threadpool(artifacts.put, db, by, path, file, size, run_max_bytes=room)
    return _json({})


@router.delete(f"{_ARTIFACTS}/{{path:path}}")
def mlflow_delete_artifact(path: str, db: Db, by: By) -> Response:
    """Delete an artifact, or a folder of them."""
    with db.transaction() as session:
        artifacts.remove(session, by, path)
    return _json({})


@router.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def mlflow_elsewhere(path: str, request: Request) -> Response:
    """Refuse the rest of MLflow's API; the page of a run that clients name is the dashboard's list."""
    if request.method == "GET" and not path.strip("/"):
        return RedirectResponse("/experiments")
    raise no_endpoint(request.method, _path(request))


def _answered(
    db: Database,
    by: Caller,
    settings: Settings,
    method: str,
    path: str,
    body: Mapping[str, Any],
    *,
    writes: bool,
) -> dict[str, Any]:
    def answered(session: Session) -> dict[str, Any]:
        if registry_call(path) is not None:
            for part in parts.installed():
                answer_ = part.mlflow_answer(session, by, settings, method, path, body)
                if answer_ is not None:
                    return answer_
            raise no_endpoint(method, path)
        store = DatabaseStore(session, by, writes=writes)
        shelf = DatabaseShelf(session, store)
        found = answer(store, shelf, method, path, body, rank=0)
        store.close()
        return found

    if writes:
        return raced(db, answered)
    with db.read() as session:
        return answered(session)


def _registered(
    db: Database, by: Caller, path: str, settings: Settings
) -> tuple[int, Iterator[bytes]] | None:
    if not artifacts.is_registered(path):
        return None
    found = (part.mlflow_file(db, by, path, settings) for part in parts.installed())
    return next((one for one in found if one is not None), None)


def _path(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(_PREFIX)


def _query(query: QueryParams) -> dict[str, Any]:
    """Return the values by name; a list where a name occurs several times."""
    found = {name: query.getlist(name) for name in query}
    return {name: many[0] if len(many) == 1 else many for name, many in found.items()}


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data or b"{}")
        check_texts(body)
    except Unstorable as error:
        raise invalid(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object")
    return body


def _json(value: Mapping[str, Any]) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")
