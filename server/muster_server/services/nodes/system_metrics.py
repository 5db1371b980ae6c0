"""How busy nodes were: kept of some heartbeats, for days (services/core/retention.py)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, get_args

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from muster.wire import ThrottleReason
from muster_server.db.models import AllocationRow, NodeSampleRow, WorkerRow
from muster_server.domain.states import AllocationState
from muster_server.schemas.cluster import (
    NodeRankOut,
    NodeUsageOut,
    SystemMetricsOut,
    TrialSystemMetricsOut,
)

from ..core.lookup import get_trial
from ..core.retention import COARSE_SAMPLE_DAYS, SAMPLE_EVERY_S, SAMPLE_HOURS
from . import management

NODES_MAX = 8
"""Nodes of a trial whose samples are read at once."""
POINTS_MAX = 1000
"""Samples that are returned of one node and attempt; of more, each stands for several."""
_OF_NODE = (
    "cpu_pct",
    "memory_used_bytes",
    "memory_total_bytes",
    "disk_free_bytes",
    "disk_read_bytes_per_s",
    "disk_written_bytes_per_s",
)
_OF_INTERFACE = ("sent_bytes_per_s", "received_bytes_per_s")
_OF_GPU = (
    "use_pct",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_w",
    "temperature_c",
    "clock_mhz",
    "max_clock_mhz",
)


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


def of_trial(
    session: Session, trial_id: int, *, nodes: Sequence[str], now: dt.datetime
) -> TrialSystemMetricsOut:
    """Return the samples of the nodes on which a trial ran, during its attempts.

    nodes: names to read, at most NODES_MAX; by default the first ones of the newest attempt. Of
    more than POINTS_MAX samples of a node in an attempt, each value is the mean of several
    consecutive ones. Raises NotFound.
    """
    get_trial(session, trial_id)
    allocations = session.execute(
        select(
            AllocationRow.node_id,
            AllocationRow.node_name,
            AllocationRow.attempt_no,
            AllocationRow.created_at,
            AllocationRow.ended_at,
        )
        .where(AllocationRow.trial_id == trial_id)
        .order_by(AllocationRow.attempt_no.desc(), AllocationRow.node_rank)
    ).all()
    names = list(dict.fromkeys(row.node_name for row in allocations))
    shown = [name for name in names if name in nodes] if nodes else names
    items = []
    oldest = now - dt.timedelta(days=COARSE_SAMPLE_DAYS)
    for row in allocations:
        is_gone = row.ended_at is not None and row.ended_at < oldest
        if is_gone or row.node_name not in shown[:NODES_MAX]:
            continue
        samples = session.execute(
            select(NodeSampleRow.at, NodeSampleRow.usage)
            .where(
                NodeSampleRow.node_id == row.node_id,
                NodeSampleRow.at >= row.created_at,
                NodeSampleRow.at <= (row.ended_at or now),
            )
            .order_by(NodeSampleRow.at)
        ).all()
        if samples:
            flat = [(at, _flat(usage)) for at, usage in samples]
            items.append(_of_attempt(row.node_name, row.attempt_no, _thinned(flat)))
    return TrialSystemMetricsOut(
        node_names=names,
        shown=shown[:NODES_MAX],
        items=items[::-1],
        full_hours=SAMPLE_HOURS,
        kept_days=COARSE_SAMPLE_DAYS,
    )


def _of_attempt(
    node_name: str, attempt_no: int, samples: Sequence[tuple[dt.datetime, Mapping[str, float]]]
) -> NodeUsageOut:
    names = sorted({name for _, values in samples for name in values})
    return NodeUsageOut(
        node_name=node_name,
        attempt_no=attempt_no,
        times=[at for at, _ in samples],
        series={name: [values.get(name) for _, values in samples] for name in names},
    )


def _thinned(
    samples: Sequence[tuple[dt.datetime, dict[str, float]]],
) -> list[tuple[dt.datetime, dict[str, float]]]:
    """Return at most POINTS_MAX samples: the means of as many consecutive ones as that takes, each at
    the time of the last."""
    width = -(-len(samples) // POINTS_MAX)
    if width <= 1:
        return list(samples)
    thinned = []
    for begin in range(0, len(samples), width):
        part = samples[begin : begin + width]
        names = {name for _, values in part for name in values}
        means = {
            name: fmean(values[name] for _, values in part if name in values) for name in names
        }
        thinned.append((part[-1][0], means))
    return thinned


def _flat(usage: Mapping[str, Any]) -> dict[str, float]:
    found = {name: usage.get(name) for name in _OF_NODE}
    for interface in usage.get("interfaces") or []:
        found |= {f"net/{interface['name']}/{name}": interface.get(name) for name in _OF_INTERFACE}
    for gpu in usage.get("gpus") or []:
        found |= {f"gpu/{gpu['index']}/{name}": gpu.get(name) for name in _OF_GPU}
        reasons = gpu.get("throttle_reasons")
        for reason in get_args(ThrottleReason) if reasons is not None else ():
            # 100 or 0, so that the mean of several samples is a share of the time.
            found[f"gpu/{gpu['index']}/throttled_pct/{reason}"] = 100.0 * (reason in reasons)
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
