"""Routes of scaling reports; see docs/guides/scaling.md."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import PlainTextResponse

from muster_server.api.http.deps import By, Cursor, Db, Id, Limit
from muster_server.api.http.routing import Read, Router, Write
from muster_server.db.engine import Database
from muster_server.schemas.analysis.scaling import (
    NetworkIn,
    ScalingIn,
    ScalingReportDetail,
    ScalingReportOut,
)
from muster_server.schemas.base import Page
from muster_server.services.insight import scaling, scaling_export, scaling_views

router = Router(tags=["scaling"])

Slots = Annotated[
    list[Annotated[int, Query(ge=1, le=100_000)]] | None,
    Query(
        max_length=32,
        description="World sizes to predict. Default: up to 8 times the largest measured one.",
    ),
]
Bandwidths = Annotated[
    list[Annotated[float, Query(gt=0, le=1e9)]] | None,
    Query(max_length=8, description="Other networks to predict, by their bandwidth in Mbit/s."),
]
Latency = Annotated[
    float | None,
    Query(
        ge=0,
        le=1e9,
        description="Of those networks, in microseconds per message. Default: the measured one.",
    ),
]
MeasuredBandwidth = Annotated[
    float | None,
    Query(
        gt=0,
        le=1e9,
        description=(
            "Nominal rate of the links between the measured workers, in Mbit/s. Without it, what the "
            "workers know of their network interface."
        ),
    ),
]


@router.post("/experiments/{experiment_id}/scaling-reports", status_code=201)
def create_scaling_report(
    experiment_id: Id, body: ScalingIn, session: Write, by: By
) -> ScalingReportDetail:
    """Run the experiment briefly at several world sizes, one run after another."""
    report_id = scaling.start_report(session, experiment_id, body, by)
    return scaling_views.report_detail(session, report_id)


@router.get("/experiments/{experiment_id}/scaling-reports")
def list_scaling_reports(
    experiment_id: Id, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[ScalingReportOut]:
    """List the scaling reports of an experiment, newest first."""
    return scaling_views.list_reports(session, experiment_id, cursor=cursor, limit=limit)


@router.get("/scaling-reports/{report_id}")
def get_scaling_report(
    report_id: Id,
    db: Db,
    slots: Slots = None,
    bandwidth_mbit_per_s: Bandwidths = None,
    latency_us: Latency = None,
    measured_bandwidth_mbit_per_s: MeasuredBandwidth = None,
) -> ScalingReportDetail:
    """Return one report: what was measured, the cost model fitted to it, and predictions."""
    networks = _networks(bandwidth_mbit_per_s, latency_us, measured_bandwidth_mbit_per_s)
    return _detail(db, report_id, slots, networks)


@router.get("/scaling-reports/{report_id}/export")
def export_scaling_report(
    report_id: Id,
    db: Db,
    format: Literal["markdown", "csv"] = "markdown",
    slots: Slots = None,
    bandwidth_mbit_per_s: Bandwidths = None,
    latency_us: Latency = None,
    measured_bandwidth_mbit_per_s: MeasuredBandwidth = None,
) -> PlainTextResponse:
    """Export the report as Markdown or CSV."""
    networks = _networks(bandwidth_mbit_per_s, latency_us, measured_bandwidth_mbit_per_s)
    found = _detail(db, report_id, slots, networks)
    if format == "csv":
        text, kind, suffix = scaling_export.as_csv(found), "text/csv", "csv"
    else:
        text, kind, suffix = scaling_export.as_markdown(found), "text/markdown", "md"
    name = f'attachment; filename="scaling-{report_id}.{suffix}"'
    return PlainTextResponse(text, media_type=kind, headers={"Content-Disposition": name})


@router.post("/scaling-reports/{report_id}:cancel")
def cancel_scaling_report(report_id: Id, session: Write, by: By) -> ScalingReportDetail:
    """Cancel a report and its current run; measurements stay."""
    scaling.cancel_report(session, report_id, by)
    return scaling_views.report_detail(session, report_id)


def _networks(
    bandwidths: list[float] | None, latency_us: float | None, measured: float | None
) -> list[NetworkIn]:
    return [
        NetworkIn(
            bandwidth_mbit_per_s=value,
            latency_us=latency_us,
            measured_bandwidth_mbit_per_s=measured,
        )
        for value in bandwidths or ()
    ]


def _detail(
    db: Database, report_id: int, slots: list[int] | None, networks: list[NetworkIn]
) -> ScalingReportDetail:
    with db.read() as session:
        return scaling_views.report_detail(session, report_id, slots=slots or (), networks=networks)
