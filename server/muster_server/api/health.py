"""Liveness and readiness, for supervisors and load balancers."""

from __future__ import annotations

from fastapi import APIRouter

from muster_server.schemas.health import Healthy

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="healthz", summary="Whether the process is up")
async def healthz() -> Healthy:
    """Answers as long as the process can; says nothing about the database."""
    return Healthy(status="ok")
