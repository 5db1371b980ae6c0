"""Liveness and readiness, for supervisors and load balancers."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from muster_server.db.engine import Database
from muster_server.db.migrations import current_revision, head_revision
from muster_server.live.hub import Hub
from muster_server.schemas.health import Healthy, Ready

from .deps import Config, Db

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="healthz", summary="Whether the process is up")
async def healthz() -> Healthy:
    """Answers as long as the process can; says nothing about the database."""
    return Healthy(status="ok")


@router.get(
    "/readyz",
    operation_id="readyz",
    summary="Whether requests can be served",
    responses={503: {"model": Ready, "description": "Not now"}},
)
def readyz(request: Request, response: Response, db: Db, config: Config) -> Ready:
    """The database must answer and have this version's tables. Redis is reported, not required."""
    database = _database_state(db)
    hub: Hub = request.app.state.hub
    redis: Literal["ok", "unreachable", "not_configured"] = "not_configured"
    if config.resolved_redis_url() is not None:
        redis = "ok" if hub.is_connected else "unreachable"
    if database != "ok":
        response.status_code = 503
    return Ready(
        status="ready" if database == "ok" else "not_ready", database=database, redis=redis
    )


def _database_state(database: Database) -> Literal["ok", "unreachable", "not_migrated"]:
    try:
        is_current = current_revision(database) == head_revision()
    except (SQLAlchemyError, OSError):
        return "unreachable"
    return "ok" if is_current else "not_migrated"
