"""Scaling reports as REST shows them, with the model fitted to what was measured so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, ScalingReportRow
from muster_server.domain.insight import scaling as domain
from muster_server.domain.insight.cost_model.collectives import Network
from muster_server.domain.insight.cost_model.fitting import Estimate
from muster_server.domain.insight.cost_model.links import DEFAULT_MTU_BYTES, Link, over_link
from muster_server.domain.insight.cost_model.steps import StepModel, fit_steps, predict
from muster_server.schemas.analysis.scaling import (
    CostModelOut,
    NetworkIn,
    PredictionOut,
    ScalingEstimateOut,
    ScalingPointOut,
    ScalingReportDetail,
    ScalingReportOut,
    ScalingSizeOut,
)
from muster_server.schemas.base import Page, parts_out

from ..core.lookup import get_experiment
from ..core.paging import read_page
from .scaling import get_report, stored_points

PREDICTED_DOUBLINGS = 3
"""Number of doublings beyond the largest measured size that are predicted if no sizes are
requested."""
BYTES_PER_MBIT = 125_000.0


def list_reports(
    session: Session, experiment_id: int, *, cursor: str | None, limit: int
) -> Page[ScalingReportOut]:
    """Return one page of an experiment's scaling reports, newest first. Raises NotFound."""
    experiment = get_experiment(session, experiment_id)
    query = select(ScalingReportRow).where(ScalingReportRow.experiment_id == experiment_id)
    rows, following = read_page(
        session, query, ScalingReportRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [ScalingReportOut(**_fields(row, experiment)) for row in rows]
    return Page(items=items, next=following)


def report_detail(
    session: Session,
    report_id: int,
    *,
    slots: Sequence[int] = (),
    networks: Sequence[NetworkIn] = (),
) -> ScalingReportDetail:
    """Return one report; predictions for `slots` (without any: some beyond the largest size) over
    the measured network and `networks`. Raises NotFound."""
    row = get_report(session, report_id)
    experiment = session.get_one(ExperimentRow, row.experiment_id)
    points = stored_points(row)
    ids = [p.experiment_id for p in points if p.experiment_id is not None]
    found = session.execute(
        select(ExperimentRow.id, ExperimentRow.state).where(
            ExperimentRow.id.in_(ids), ExperimentRow.deleting_at.is_(None)
        )
    )
    states: dict[int, str] = {i: state for i, state in found.all()}  # noqa: C416 — rows are no pairs
    runs = [p.run for p in points if p.run is not None]
    model = fit_steps(runs) if runs else None
    return ScalingReportDetail(
        **_fields(row, experiment),
        points=[_point_out(p, states.get(p.experiment_id or 0)) for p in points],
        sizes=[_size_out(size) for size in domain.sizes(points)],
        model=_model_out(model) if model is not None else None,
        predictions=_predictions(model, points, row.mode, slots, networks) if model else [],
    )


def _fields(row: ScalingReportRow, experiment: ExperimentRow) -> dict[str, Any]:
    points = stored_points(row)
    return {
        "id": row.id,
        "experiment_id": experiment.id,
        "experiment_name": experiment.name,
        "state": row.state,
        "reason": row.reason,
        "mode": row.mode,
        "num_steps": row.num_steps,
        "slot_hours": row.slot_hours,
        "requested_by": row.requested_by,
        "created_at": row.created_at,
        "ended_at": row.ended_at,
        "num_runs": len(points),
        "num_over": sum(p.is_over for p in points),
    }


def _point_out(point: domain.Point, state: str | None) -> ScalingPointOut:
    run = point.run
    return ScalingPointOut.from_row(
        point,
        state=state,
        step_ms=None if run is None else run.step_s * 1e3,
        samples_per_s=None if run is None else run.samples * run.size / run.step_s,
        num_steps=0 if run is None else run.num_steps,
    )


def _size_out(size: domain.Size) -> ScalingSizeOut:
    return ScalingSizeOut(
        slots=size.slots,
        num_runs=size.num_runs,
        num_steps=size.num_steps,
        samples_per_slot=size.samples,
        step_ms=_estimate(size.step_s, 1e3),
        samples_per_s=_estimate(size.samples_per_s),
        speedup=_estimate(size.speedup),
        efficiency=_estimate(size.efficiency),
        parts_ms={name: seconds * 1e3 for name, seconds in size.parts_s.items()},
        hidden_ms=size.hidden_s * 1e3,
    )


def _model_out(model: StepModel) -> CostModelOut:
    network = model.network
    return CostModelOut(
        compute_fixed_ms=_estimate(model.compute.fixed_s, 1e3),
        compute_per_sample_ms=_estimate(model.compute.per_sample_s, 1e3),
        contention=_estimate(model.contention),
        other_ms=_estimate(model.other, 1e3),
        latency_us=None if network.latency_s is None else _estimate(network.latency_s, 1e6),
        bandwidth_bytes_per_s=None
        if network.bandwidth_bytes_per_s is None
        else _estimate(network.bandwidth_bytes_per_s),
        hidden_share=model.hidden_share,
        num_transfers=network.num_transfers,
        transfer_error=network.error,
        step_error=model.error,
        reasons=list(model.reasons),
    )


def _predictions(
    model: StepModel,
    points: Sequence[domain.Point],
    mode: str,
    slots: Sequence[int],
    networks: Sequence[NetworkIn],
) -> list[PredictionOut]:
    runs = [p.run for p in points if p.run is not None]
    sized = domain.sizes(points)
    smallest = min(runs, key=lambda r: r.size)
    sizes = sorted(set(slots)) or _doubled(smallest.size, model.largest)
    whole = smallest.samples * smallest.size
    measured = [r for r in runs if r.size == smallest.size]
    per_slot = sum(r.samples / r.step_s for r in measured) / len(measured)
    found: list[PredictionOut] = []
    for given in (None, *networks):
        for size in sizes:
            samples = whole / size if mode == "strong" else smallest.samples
            network = _network(model, given)
            prediction = predict(model, size=size, samples=samples, network=network)
            if prediction is None:
                continue
            rate = prediction.samples_per_s
            why = domain.doubt(
                prediction,
                model,
                sized,
                "strong" if mode == "strong" else "weak",
                is_link_known=network is None or network.slowest_bytes_per_s is None,
            )
            found.append(
                PredictionOut(
                    slots=size,
                    network="measured"
                    if given is None
                    else f"{given.bandwidth_mbit_per_s:g} Mbit/s",
                    samples_per_slot=samples,
                    step_ms=_estimate(prediction.step_s, 1e3),
                    compute_ms=prediction.compute_s * 1e3,
                    communication_ms=prediction.communication_s * 1e3,
                    exposed_ms=prediction.exposed_s * 1e3,
                    other_ms=prediction.other_s * 1e3,
                    samples_per_s=_estimate(rate),
                    efficiency=rate.value / size / per_slot,
                    doubt=why.english if why is not None else "",
                    doubt_parts=parts_out(why),
                )
            )
    return found


def _network(model: StepModel, given: NetworkIn | None) -> Network | None:
    if given is None:
        return None
    latency_s = model.network.latency_s.value if model.network.latency_s is not None else 0.0
    if given.latency_us is not None:
        latency_s = given.latency_us / 1e6
    rate = given.measured_bandwidth_mbit_per_s
    rate = model.link_mbit_per_s if rate is None else rate
    link = Link(
        bytes_per_s=given.bandwidth_mbit_per_s * BYTES_PER_MBIT,
        measured_bytes_per_s=None if rate is None else rate * BYTES_PER_MBIT,
        latency_s=latency_s,
        mtu_bytes=model.mtu_bytes or DEFAULT_MTU_BYTES,
    )
    return over_link(model.network, link)


def _doubled(smallest: int, largest: int) -> list[int]:
    found = [smallest]
    while found[-1] < largest * 2**PREDICTED_DOUBLINGS:
        found.append(found[-1] * 2)
    return found


def _estimate(estimate: Estimate, unit: float = 1.0) -> ScalingEstimateOut:
    return ScalingEstimateOut(
        value=estimate.value * unit,
        low=estimate.low * unit if estimate.is_bounded else None,
        high=estimate.high * unit if estimate.is_bounded else None,
        n=estimate.n,
    )
