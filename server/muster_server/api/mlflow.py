"""MLflow's tracking REST API for clients outside a job; see docs/guides/mlflow.md.

The protocol is in `muster.tracking`, what becomes of runs in services/tracking. Answers, errors too,
have MLflow's shape.
"""

from __future__ import annotations

import dataclasses
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
from starlette.routing import Route

from muster.tracking import answer, invalid, log_metrics, no_endpoint, registry_call, run_id_of
from muster_server import parts
from muster_server.api.http.deps import By, Config, Db, get_caller
from muster_server.api.http.guard import UNCONFIRMED, confirm_operation, confirm_user
from muster_server.api.http.races import raced
from muster_server.db.engine import Database
from muster_server.db.sight import hiding
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

    run_id: str
    body: dict[str, Any]
    by: Caller
    secret: str | None
    """The caller's token, unless the caller has just been looked up."""


async def mlflow_log_metric(request: Request) -> Response:
    """Store a value. They come by the thousand: those that wait share a transaction."""
    request.scope["route"] = log_metric_route  # As FastAPI does for its own.
    await confirm_operation(request)
    if request.path_params["version"] not in ("2.0", "3.0"):
        raise no_endpoint(request.method, _path(request))
    body = _parsed(await request.body())
    by = await get_caller(request)
    value = _Value(run_id_of(body), body, by, request.scope.get(UNCONFIRMED))
    return _json(await calls_of(request).share(_log_values, value))


def _log_values(session: Session, values: Sequence[_Value]) -> list[dict[str, Any]]:
    callers: dict[tuple[Principal, str | None], Caller] = {}
    of_runs: dict[tuple[Principal, str | None, str], list[dict[str, Any]]] = {}
    for value in values:
        principal, secret = value.by.principal, value.secret
        callers.setdefault((principal, secret), value.by)
        of_runs.setdefault((principal, secret, value.run_id), []).append(value.body)
    for (principal, secret), by in callers.items():
        if secret is not None:
            now = confirm_user(session, secret, "submit")
            callers[principal, secret] = dataclasses.replace(by, principal=now)
    for (principal, secret, _), bodies in of_runs.items():
        by = callers[principal, secret]
        with hiding(by.principal.hidden_projects, is_limited=by.principal.is_limited):
            store = DatabaseStore(session, by, writes=True)
            log_metrics(store, bodies)
            store.close()
    return [{}] * len(values)


log_metric_route = Route(
    f"{_PREFIX}/api/{{version}}/mlflow/runs/log-metric", mlflow_log_metric, methods=["POST"]
)
"""A plain route: what FastAPI does for each of its own took longer than storing the value."""


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
