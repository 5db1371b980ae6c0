"""How many slots of each pool were held over time, from the history of allocations."""

from __future__ import annotations

import datetime as dt
import math

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, NodeRow, NodeSlotRow
from muster_server.domain.nodes.utilization import mean_held
from muster_server.schemas.cluster import PoolUtilizationOut, UtilizationOut

from .counts import joined_at

NUM_BUCKETS = 96
MAX_ALLOCATIONS = 50_000
"""Ended allocations that one reply is computed from, the latest; before them nothing is known."""


def of_cluster(session: Session, *, hours: int, now: dt.datetime) -> UtilizationOut:
    """Return the slots held over the last `hours`, for each pool and slot type that nodes have now.

    Buckets are anchored to multiples of their length, so they stay where they are while time passes.
    """
    bucket_s = hours * 3600 / NUM_BUCKETS
    now_s = now.timestamp()
    start_s = (math.floor(now_s / bucket_s) + 1 - NUM_BUCKETS) * bucket_s
    start = dt.datetime.fromtimestamp(start_s, dt.UTC)
    kinds: dict[tuple[str, int], tuple[str, str]] = {}
    since: dict[tuple[str, str], dt.datetime] = {}
    joined = joined_at(session)
    for node_id, index, kind, pool in session.execute(
        select(NodeSlotRow.node_id, NodeSlotRow.idx, NodeSlotRow.slot_type, NodeRow.pool).join(
            NodeRow, NodeRow.id == NodeSlotRow.node_id
        )
    ):
        kinds[node_id, index] = (pool, kind)
        since[pool, kind] = min(joined[node_id], since.get((pool, kind), joined[node_id]))
    columns = select(
        AllocationRow.node_id, AllocationRow.slots, AllocationRow.created_at, AllocationRow.ended_at
    )
    held = session.execute(columns.where(AllocationRow.ended_at.is_(None))).all()
    ended = session.execute(
        columns.where(AllocationRow.ended_at > start)
        .order_by(AllocationRow.ended_at.desc())
        .limit(MAX_ALLOCATIONS + 1)
    ).all()
    complete_since = ended[-1].ended_at if len(ended) > MAX_ALLOCATIONS else None
    ended = ended[:MAX_ALLOCATIONS]
    spans: dict[tuple[str, str], list[tuple[float, float]]] = {lane: [] for lane in since}
    for node_id, slots, created_at, ended_at in (*held, *ended):
        span = (created_at.timestamp(), ended_at.timestamp() if ended_at else now_s)
        for index in slots:
            if lane := kinds.get((node_id, index)):
                spans[lane].append(span)
    times = [start + dt.timedelta(seconds=k * bucket_s) for k in range(NUM_BUCKETS)]

    def held_in(lane: tuple[str, str]) -> list[float | None]:
        values = mean_held(
            spans[lane], start_s=start_s, bucket_s=bucket_s, num=NUM_BUCKETS, now_s=now_s
        )
        return [
            None
            if (complete_since is not None and at < complete_since)
            or at + dt.timedelta(seconds=bucket_s) <= since[lane]
            else value
            for at, value in zip(times, values, strict=True)
        ]

    return UtilizationOut(
        bucket_s=bucket_s,
        times=times,
        complete_since=complete_since,
        pools=[
            PoolUtilizationOut(
                pool=pool,
                slot_type=kind,
                held=held_in((pool, kind)),
            )
            for pool, kind in sorted(since)
        ],
    )
