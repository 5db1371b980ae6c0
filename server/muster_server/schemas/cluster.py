"""Nodes, slots and the queue."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from .base import Input, Output


class SlotOut(Output):
    index: int
    slot_type: str
    name: str
    memory_bytes: int
    allocation_id: str | None
    experiment_id: int | None
    experiment_name: str | None
    trial_id: int | None
    rank: int | None
    """Rank of the worker on this slot, once known."""


class NodeOut(Output):
    id: str
    name: str
    pool: str
    labels: dict[str, str]
    state: str
    scheduling: Literal["open", "cordoned", "draining"]
    health: str
    health_reason: str
    hostname: str
    address: str
    agent_version: str
    python_version: str
    torch_version: str
    num_cpus: int
    memory_bytes: int
    num_slots: int
    num_slots_used: int
    slots: list[SlotOut]
    usage: dict[str, Any] | None
    """wire.NodeUsage of the last heartbeat."""
    registered_at: dt.datetime
    last_seen_at: dt.datetime
    """Last heartbeat; the page shows its age."""


class NodePatch(Input):
    scheduling: Literal["open", "cordoned", "draining"]


class ClusterOut(Output):
    num_nodes: int
    num_nodes_online: int
    num_slots: int
    """Of nodes that are ONLINE."""
    num_slots_used: int
    num_experiments_running: int
    num_trials_running: int
    num_trials_queued: int
    oldest_queued_at: dt.datetime | None
    samples_per_s: float | None
    """Sum over running trials of their last throughput/samples_per_s; null when none reports."""
    num_trials_throughput: int
    """How many trials that sum is over."""
    comm_overhead_ratio: float | None
    """Mean over running trials of their last comm/overhead_ratio, 0..1."""
    num_trials_comm: int
    """How many trials that mean is over."""
    server_version: str
    now: dt.datetime


class QueueItem(Output):
    position: int
    """1 is next."""
    trial_id: int
    trial_no: int
    experiment_id: int
    experiment_name: str
    owner: str | None
    priority: int
    num_slots: int
    slot_type: str
    pool: str
    state: str
    queued_at: dt.datetime
    pending_reason: str


class EventOut(Output):
    id: int
    at: dt.datetime
    level: Literal["info", "warning", "error"]
    type: str
    message: str
    experiment_id: int | None
    trial_id: int | None
    attempt_no: int | None
    node_id: str | None
    data: dict[str, Any]
