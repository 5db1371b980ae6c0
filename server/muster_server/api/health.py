"""Liveness and readiness, for supervisors and load balancers."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.state import state_of
from muster_server.live.hub import Hub
from muster_server.live.writes import why_refused
from muster_server.schemas.health import Healthy, PartState, Ready, RedisState
from muster_server.services.core.liveness import ControlPlaneStatus, parts_alive, stuck_after
from muster_server.settings import Settings

from .http.deps import Config, Db

REDIS_TIMEOUT_S = 2.0

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process is up")
async def healthz() -> Healthy:
    """Return 200 as long as the process can answer; says nothing about the database."""
    return Healthy(status="ok")


@router.get(
    "/readyz",
    summary="Whether requests can be served, and which part is down",
    responses={503: {"model": Ready, "description": "Not now"}},
)
def readyz(request: Request, response: Response, db: Db, config: Config) -> Ready:
    """Return 503 unless the database answers, has this version's tables and room to write. The
    other parts are reported, not required."""
    if config.instance is not None:
        response.headers["X-Muster-Instance"] = config.instance
    database = state_of(db)
    hub: Hub = request.app.state.hub
    redis = redis_state(config, is_reached=hub.is_connected)
    if database != "ok":
        response.status_code = 503
    parts = _parts(db, config) if database in ("ok", "disk_full") else None
    worker: PartState = "unknown"
    if parts is not None:
        worker = "ok" if parts.is_worker_alive else "absent"
    return Ready(
        status="ready" if database == "ok" else "not_ready",
        database=database,
        redis=redis,
        controller="unknown" if parts is None else parts.controller,
        failing_loop=None if parts is None else parts.failing_loop,
        worker=worker,
    )


def redis_state(settings: Settings, *, is_reached: bool = True) -> RedisState:
    """Return the state of Redis; is_reached: False if it is known that it does not answer."""
    url = settings.resolved_redis_url()
    if url is None:
        return "not_configured"
    if not is_reached:
        return "unreachable"
    try:
        return "refuses_writes" if why_refused(url, timeout_s=REDIS_TIMEOUT_S) else "ok"
    except (RedisError, OSError):
        return "unreachable"


def _parts(database: Database, settings: Settings) -> ControlPlaneStatus | None:
    """Return which parts are alive, or None when the database does not answer."""
    bound = stuck_after(settings.controller_interval_s)
    try:
        with database.read() as session:
            return parts_alive(session, stuck_after=bound, now=clock.now())
    except (SQLAlchemyError, OSError):
        return None
