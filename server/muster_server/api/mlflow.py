"""MLflow's tracking REST API for clients outside a job; see docs/guides/mlflow.md.

The protocol is in `muster.tracking`, what becomes of runs in services/tracking. Answers, errors too,
have MLflow's shape.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.routing import Route

from muster.tracking import (
    answer,
    invalid,
    metrics_alone,
    no_endpoint,
    registry_call,
    run_id_of,
)
from muster_server import parts
from muster_server.api.http.deps import (
    By,
    Config,
    Db,
    get_app_settings,
    get_caller,
    get_database,
)
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
class _Values:
    """A request to log values of a run."""

    run_id: str
    items: list[Any]
    by: Caller
    secret: str | None
    """The caller's token, unless the caller has just been looked up."""


async def mlflow_log_metric(request: Request) -> Response:
    """Store a value."""
    return await _log(request, log_metric_route, lambda body: [body])


async def mlflow_log_batch(request: Request) -> Response:
    """Store values, params and tags."""
    return await _log(request, log_batch_route, metrics_alone)


async def _log(
    request: Request, route: Route, read: Callable[[Mapping[str, Any]], list[Any] | None]
) -> Response:
    """Store the values that `read` returns. They come by the thousand: those that wait share a
    transaction. None is for a request with more than values."""
    request.scope["route"] = route  # As FastAPI does for its own.
    await confirm_operation(request)
    path = _path(request)
    if request.path_params["version"] not in ("2.0", "3.0"):
        raise no_endpoint(request.method, path)
    body = _parsed(await request.body())
    by, secret = await get_caller(request), request.scope.get(UNCONFIRMED)
    items = read(body)
    if items is not None:
        values = _Values(run_id_of(body), items, by, secret)
        return _json(await calls_of(request).share(_store_values, values))
    db, settings = await get_database(request), await get_app_settings(request)
    found = await run_in_threadpool(
        _answered, db, by, settings, request.method, path, body, writes=True, secret=secret
    )
    return _json(found)


def _store_values(session: Session, requests: Sequence[_Values]) -> list[dict[str, Any]]:
    of_callers: dict[tuple[Principal, str | None], list[_Values]] = {}
    for one in requests:
        of_callers.setdefault((one.by.principal, one.secret), []).append(one)
    for (_, secret), theirs in of_callers.items():
        with _as_of_now(session, theirs[0].by, secret) as by:
            of_runs: dict[str, list[Any]] = {}
            for one in theirs:
                of_runs.setdefault(one.run_id, []).extend(one.items)
            for run_id, items in of_runs.items():
                store = DatabaseStore(session, by, writes=True)
                store.add_values(run_id, items)
                store.close()
    return [{}] * len(requests)


@contextmanager
def _as_of_now(session: Session, by: Caller, secret: str | None) -> Iterator[Caller]:
    """Yield the caller of a request as they are now, with what they may not see out of sight.

    secret: token of one who was let in by what was known a moment ago. Raises NotSignedIn, Forbidden.
    """
    if secret is not None:
        by = dataclasses.replace(by, principal=confirm_user(session, secret, "submit"))
    with hiding(by.principal.hidden_projects, is_limited=by.principal.is_limited):
        yield by


log_metric_route, log_batch_route = (
    Route(f"{_PREFIX}/api/{{version}}/mlflow/runs/{name}", endpoint, methods=["POST"])
    for name, endpoint in (("log-metric", mlflow_log_metric), ("log-batch", mlflow_log_batch))
)
"""Plain routes: what FastAPI does for each of its own took longer than storing a value."""


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
    secret: str | None = None,
) -> dict[str, Any]:
    def answered(session: Session) -> dict[str, Any]:
        if registry_call(path) is not None:
            for part in parts.installed():
                answer_ = part.mlflow_answer(session, by, settings, method, path, body)
                if answer_ is not None:
                    return answer_
            raise no_endpoint(method, path)
        with _as_of_now(session, by, secret) as caller:
            store = DatabaseStore(session, caller, writes=writes)
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
