"""The route that Prometheus scrapes."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from muster_server.telemetry.process import Telemetry

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="This process and the cluster, for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
def get_prometheus_metrics(request: Request) -> Response:
    """Return every metric of docs/reference/metrics.md. Cluster figures are at most 5 s old."""
    telemetry: Telemetry = request.app.state.telemetry
    return Response(telemetry.render(), media_type=CONTENT_TYPE_LATEST)
