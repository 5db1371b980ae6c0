"""How busy nodes were: kept of some heartbeats, for hours (services/core/retention.py)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, NodeSampleRow, WorkerRow
from muster_server.domain.states import AllocationState
from muster_server.schemas.cluster import NodeRankOut, SystemMetricsOut

from . import management

SAMPLE_EVERY_S = 15.0
"""Heartbeats between two samples are not kept."""
_OF_NODE = (
    "cpu_pct",
    "memory_used_bytes",
    "memory_total_bytes",
    "disk_free_bytes",
    "disk_read_bytes_per_s",
    "disk_written_bytes_per_s",
)
_OF_INTERFACE = ("sent_bytes_per_s", "received_bytes_per_s")
_OF_GPU = ("use_pct", "memory_used_bytes", "memory_total_bytes", "power_w", "temperature_c")


def is_due(sampled_at: dt.datetime | None, now: dt.datetime) -> bool:
    """Return whether the values of a heartbeat are to be stored, given when the last ones were."""
    if sampled_at is None:
        return True
    return (now - sampled_at).total_seconds() >= SAMPLE_EVERY_S


def keep(session: Session, node_id: str, usage: Mapping[str, Any], now: dt.datetime) -> None:
    """Keep a `wire.NodeUsage`. The caller holds the node's row, with `sampled_at` set to `now`."""
    session.execute(insert(NodeSampleRow).values(node_id=node_id, at=now, usage=dict(usage)))


def of_node(session: Session, node: str, *, minutes: int, now: dt.datetime) -> SystemMetricsOut:
    """Return the samples of a node, by its id or name, oldest first. Raises NotFound."""
    row = management.get_row(session, node)
    samples = session.execute(
        select(NodeSampleRow.at, NodeSampleRow.usage)
        .where(
            NodeSampleRow.node_id == row.id, NodeSampleRow.at > now - dt.timedelta(minutes=minutes)
        )
        .order_by(NodeSampleRow.at)
    ).all()
    flat = [_flat(usage) for _, usage in samples]
    names = sorted({name for values in flat for name in values})
    return SystemMetricsOut(
        node_id=row.id,
        node_name=row.name,
        times=[at for at, _ in samples],
        series={name: [values.get(name) for values in flat] for name in names},
        gpu_problem=str((row.usage or {}).get("gpu_problem", "")),
        ranks=_ranks(session, row.id),
    )


def _flat(usage: Mapping[str, Any]) -> dict[str, float]:
    found = {name: usage.get(name) for name in _OF_NODE}
    for interface in usage.get("interfaces") or []:
        found |= {f"net/{interface['name']}/{name}": interface.get(name) for name in _OF_INTERFACE}
    for gpu in usage.get("gpus") or []:
        found |= {f"gpu/{gpu['index']}/{name}": gpu.get(name) for name in _OF_GPU}
    return {name: float(value) for name, value in found.items() if value is not None}


def _ranks(session: Session, node_id: str) -> list[NodeRankOut]:
    rows = session.execute(
        select(WorkerRow, AllocationRow.spec)
        .join(AllocationRow, AllocationRow.id == WorkerRow.allocation_id)
        .where(
            AllocationRow.node_id == node_id,
            AllocationRow.observed.in_(
                (AllocationState.STARTING, AllocationState.RUNNING, AllocationState.STOPPING)
            ),
            WorkerRow.ended_at.is_(None),
        )
        .order_by(WorkerRow.slot, WorkerRow.rank)
    )
    return [
        NodeRankOut(
            trial_id=worker.trial_id,
            rank=worker.rank,
            slot=worker.slot,
            slot_type=str(spec.get("slot_type", "")),
        )
        for worker, spec in rows
    ]
