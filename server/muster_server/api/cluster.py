"""Nodes and the queue; see docs/reference/rest-api.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from muster_server import clock
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import (
    ClusterOut,
    EventOut,
    NodeAllocationOut,
    NodeOut,
    NodePatch,
    QueueItem,
    QueueMove,
    QueueMoved,
    SystemMetricsOut,
    UtilizationOut,
)
from muster_server.services.core.callers import record
from muster_server.services.core.paging import (
    MAX_LIMIT,
    at_microseconds,
    decode_cursor,
    encode_cursor,
    microseconds,
)
from muster_server.services.experiments import views
from muster_server.services.nodes import management, system_metrics, utilization
from muster_server.services.scheduling import queue, queue_order

from .http.deps import By, Db, Foresee, Me
from .http.routing import Read, Router, Write

router = Router(tags=["cluster"])

Cursor = Annotated[str | None, Query(max_length=512)]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
ProjectFilter = Annotated[str | None, Query(max_length=128)]


@router.get("/cluster")
def get_cluster(session: Read, me: Me) -> ClusterOut:
    """Return a summary of the cluster."""
    now = clock.now()
    warnings = views.running_warnings(session, now)
    return management.get_cluster(session, me, warnings=warnings, now=now)


@router.get("/cluster/utilization")
def get_cluster_utilization(
    session: Read,
    hours: Annotated[int, Query(ge=1, le=168, description="How far back.")] = 24,
) -> UtilizationOut:
    """Return how many slots of each pool were in use over time, in 96 buckets."""
    return utilization.of_cluster(session, hours=hours, now=clock.now())


@router.get("/nodes")
def list_nodes(session: Read, me: Me, cursor: Cursor = None, limit: Limit = 100) -> Page[NodeOut]:
    """List all nodes with their slots, by name."""
    return management.list_nodes(session, me, cursor=cursor, limit=limit, now=clock.now())


@router.get("/nodes/{node_id}")
def get_node(session: Read, me: Me, node_id: str) -> NodeOut:
    """Return a node, by its id or its name."""
    return management.get_node(session, node_id, me, now=clock.now())


@router.patch("/nodes/{node_id}")
def update_node(session: Write, me: Me, node_id: str, change: NodePatch) -> NodeOut:
    """Open, cordon or drain a node."""
    return management.set_scheduling(
        session, node_id, change.scheduling, actor=me.actor, now=clock.now()
    )


@router.post("/nodes/{node_id}:release")
def release_node(session: Write, me: Me, node_id: str) -> NodeOut:
    """Release a node from quarantine. Whether it is open, cordoned or draining stays as it is."""
    return management.release_node(session, node_id, actor=me.actor, now=clock.now())


@router.delete("/nodes/{node_id}", status_code=204)
def remove_node(session: Write, me: Me, node_id: str) -> None:
    """Remove a node from the cluster: one that is LOST or has been silent for a minute, or a
    cordoned one with nothing running."""
    management.remove_node(session, node_id, actor=me.actor, now=clock.now())


@router.get("/nodes/{node_id}/events")
def list_node_events(
    session: Read, node_id: str, cursor: Cursor = None, limit: Limit = 50
) -> Page[EventOut]:
    """List the events of a node, newest first."""
    return management.list_node_events(session, node_id, cursor=cursor, limit=limit)


@router.get("/nodes/{node_id}/system-metrics")
def get_node_system_metrics(
    session: Read,
    node_id: str,
    minutes: Annotated[int, Query(ge=1, le=360, description="How far back.")] = 60,
) -> SystemMetricsOut:
    """Return a node's utilization, in samples of 15 s or more: processors, memory, disks, each
    network interface and GPU, with the ranks that run there."""
    return system_metrics.of_node(session, node_id, minutes=minutes, now=clock.now())


@router.get("/nodes/{node_id}/allocations")
def list_node_allocations(
    database: Db, node_id: str, cursor: Cursor = None, limit: Limit = 20
) -> Page[NodeAllocationOut]:
    """List past and present allocations on a node, newest first."""
    key = decode_cursor(cursor, int, str)
    before = (at_microseconds(int(key[0] or 0)), str(key[1])) if key else None
    with database.read() as session:
        items = management.list_node_allocations(session, node_id, before=before, limit=limit + 1)
    more = len(items) > limit
    items = items[:limit]
    last = items[-1] if more else None
    return Page(
        items=items, next=encode_cursor(microseconds(last.created_at), last.id) if last else None
    )


@router.get("/queue")
def list_queue(
    database: Db,
    foresight: Foresee,
    project: ProjectFilter = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[QueueItem]:
    """List the trials that wait for slots, in the scheduler's order: the reason, the position and,
    where known, the estimated start of each."""
    key = decode_cursor(cursor, int)
    start = max(0, int(key[0])) if key and key[0] is not None else 0
    with database.read() as session:
        items, following = queue.list_queue(
            session, foresight, now=clock.now(), cursor=start, limit=limit, project=project
        )
    return Page(items=items, next=encode_cursor(following) if following is not None else None)


@router.post("/queue:move")
def move_in_queue(database: Db, foresight: Foresee, by: By, wish: QueueMove) -> QueueMoved:
    """Move a waiting trial, or all of an experiment, among equals: those of the same pool, slot
    type, priority and project. Its owner and administrators may."""
    with database.transaction() as session:
        moved = queue_order.move(session, wish, by.principal, now=by.now)
        trial = f"trial:{wish.trial_id}"
        subject = f"experiment:{wish.experiment_id}" if wish.trial_id is None else trial
        record(session, "queue.moved", subject, by, wish.model_dump(exclude_none=True))
    with database.read() as session:
        first = queue.queue_item(session, foresight, moved[0], now=by.now)
    return QueueMoved(num_trials=len(moved), first=first)
