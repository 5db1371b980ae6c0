"""Nodes, slots and the queue."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from muster.wire import IsolationLevel

from .base import Input, Output, PartOut
from .experiments import NoticeOut

RowId = Annotated[int, Field(ge=1, lt=2**31)]


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
    """Rank of the worker on this slot; null until it is known."""
    problem: str
    """What keeps new work off this slot, whatever holds it now; "" for nothing."""


class NodeProblemOut(Output):
    kind: str
    """Kind of problem: disk, memory, clock, device, used (a device that somebody uses outside Muster)
    or workers."""
    message: str
    blocks: bool
    """Whether nothing new is placed on the node, or on the slot, while the problem lasts. A pool may
    ignore problems of kind used."""
    slot: int | None = None
    """Index of the slot that it concerns; null for the whole node."""


class NodeOut(Output):
    id: str
    name: str
    pool: str
    labels: dict[str, str]
    state: str
    """State of the node. While no controller leads, a node whose lease has expired is SUSPECT."""
    state_reason: str
    """Why it is SUSPECT or LOST, and what follows; "" in any other state."""
    state_parts: list[PartOut]
    """`state_reason` as message parts, for translation."""
    scheduling: Literal["open", "cordoned", "draining"]
    is_pilot: bool
    """Whether the node leaves the cluster with its agent, as one inside a batch job does."""
    ends_at: dt.datetime | None
    """When a pilot is killed at the latest; null if that is not known."""
    provider_ref: str
    """What the batch system calls the pilot, such as "slurm:lab:1234"; "" for other nodes."""
    health: str
    """Health of the node: ok, degraded or quarantined."""
    health_reason: str
    problems: list[NodeProblemOut]
    """Problems that the agent's checks find now."""
    quarantine_reason: str
    """Why nothing is placed here until it is released; "" when it is not quarantined."""
    strikes: int
    """Number of consecutive preparation failures that were the node's fault."""
    strike_reason: str
    """Message of the last such failure."""
    clock_skew_s: float | None
    """Wall clock of the node minus the server's, in seconds; null if not compared yet."""
    hostname: str
    address: str
    agent_version: str
    python_version: str
    torch_version: str
    cuda_version: str
    driver_version: str
    isolation: IsolationLevel
    """Walls around the jobs of this node; see docs/concepts/security.md."""
    isolation_reason: str
    """Why the level is no stronger one; "" for the strongest."""
    container_runtime: str
    """Container engine that works on this node, `podman`, `docker` or `apptainer`; "" for none."""
    container_version: str
    container_reason: str
    """Why there is none, or what it does not do; "" for neither."""
    num_cpus: int
    memory_bytes: int
    num_slots: int
    num_slots_used: int
    num_slots_free: int
    """Number of slots that a trial of yours can take now; 0 while the node takes none (`unavailable`)."""
    unavailable: str | None
    """Why nothing is placed on the node now: its state in lower case, `cordoned`, `draining`,
    `maintenance` (a maintenance window is active there), `quarantined`, `unhealthy` (a problem that blocks) or
    `reserved` (for others than you, now); null while it takes work."""
    slots: list[SlotOut]
    usage: dict[str, Any] | None
    """Usage reported with the last heartbeat."""
    joined_at: dt.datetime
    """Time when the node first joined the cluster."""
    registered_at: dt.datetime
    """Time of the latest registration: an agent registers with every start."""
    last_seen_at: dt.datetime
    """Time of the last heartbeat."""


class NodeAllocationOut(Output):
    """The part of an attempt that ran, or runs, on a node."""

    id: str
    experiment_id: int
    experiment_name: str
    trial_id: int
    trial_no: int
    attempt_no: int
    num_slots: int
    state: str
    """State of the allocation."""
    message: str
    """How it ended, in a sentence; empty while it runs, and if it ended well without a message."""
    created_at: dt.datetime
    """Time when its slots were reserved."""
    ended_at: dt.datetime | None
    """Time when its slots became free; null while it holds them."""


class NodePatch(Input):
    scheduling: Literal["open", "cordoned", "draining"]


class ImpossibleOut(Output):
    """A waiting trial whose request the present nodes can never satisfy."""

    trial_id: int
    trial_no: int
    experiment_id: int
    experiment_name: str
    waiting_since: dt.datetime
    pending_reason: str
    pending_parts: list[PartOut]
    """`pending_reason` as message parts, for translation."""


class FailuresOut(Output):
    """Experiments that failed in the last 24 hours for the same reason."""

    reason: str
    count: int
    """How many they are. The fields below are of the newest, and of the one that ended last."""
    experiment_id: int
    experiment_name: str
    ended_at: dt.datetime


class StuckOut(Output):
    """A running trial none of whose ranks has moved since this was noticed."""

    trial_id: int
    trial_no: int
    experiment_id: int
    experiment_name: str
    stuck_at: dt.datetime
    """Time when it was noticed."""
    moved_at: dt.datetime
    """Time when a rank last moved."""


class RunningWarningOut(Output):
    """A running experiment that goes wrong."""

    experiment_id: int
    experiment_name: str
    only_trial_id: int | None
    """ID of its trial if its document asks for one."""
    non_finite_metric: str | None
    """Metric whose last value is NaN or infinite."""
    standstill: NoticeOut | None
    """Why its search stands still."""


class PoolSlotsOut(Output):
    """Slots of one type in one pool now."""

    pool: str
    slot_type: str
    num_slots: int
    """Number of such slots on ONLINE nodes."""
    num_slots_used: int
    """Number of them that are in use."""
    num_slots_free: int
    """Number of slots that a trial of yours can take now; without those of nodes that take no work, or are
    reserved for others."""


class PoolUtilizationOut(Output):
    """Slots of one type in one pool over time."""

    pool: str
    slot_type: str
    held: list[float | None]
    """Mean number of slots held in each bucket; null before the first of these nodes joined, and
    before `complete_since`."""


class UtilizationOut(Output):
    """Slots in use over time. Nodes that have been removed are not counted."""

    bucket_s: float
    """Length of a bucket in seconds."""
    times: list[dt.datetime]
    """Start of each bucket; the last one contains the present and covers what has passed of it."""
    complete_since: dt.datetime | None
    """Time from which on all allocations are included; null if that is the whole period. It is set
    if more than 50,000 allocations ended in the period."""
    pools: list[PoolUtilizationOut]


class ClusterOut(Output):
    num_nodes: int
    num_nodes_online: int
    pools: list[PoolSlotsOut]
    """Slots of each pool and type that has nodes; the next two numbers are their sums."""
    num_slots: int
    """Number of slots on ONLINE nodes."""
    num_slots_used: int
    num_slots_free: int
    """Sum of the free slots of the pools."""
    num_experiments_running: int
    num_trials_running: int
    num_trials_queued: int
    oldest_queued_at: dt.datetime | None
    samples_per_s: float | None
    """Sum over running trials of their last throughput/samples_per_s; null when none reports."""
    num_trials_throughput: int
    """Number of trials in that sum."""
    comm_overhead_ratio: float | None
    """Exposed communication of running trials over the time of their steps, both summed over the
    newest row of every worker, 0..1; null when none reports."""
    num_trials_comm: int
    """Number of trials in these sums."""
    num_workers_comm: int
    """Number of workers in these sums."""
    failures: list[FailuresOut]
    """Experiments that failed in the last 24 hours, by reason, the latest first; of more than 20
    reasons the latest."""
    num_failures: int
    """Number of experiments that failed in the last 24 hours. Archived ones do not count."""
    impossible: list[ImpossibleOut]
    """Waiting trials that the present nodes can never hold, the first of each experiment; of more
    than 20 experiments the newest."""
    num_impossible: int
    """Number of experiments that have such trials."""
    stuck: list[StuckOut]
    """Running trials that do not move, the first ones noticed first, 20 at most."""
    num_stuck: int
    """Number of such trials."""
    warnings: list[RunningWarningOut]
    """Running experiments that report a non-finite value or stand still, however old; of more than 20 the
    newest."""
    num_warnings: int
    """Number of such experiments."""
    server_version: str
    now: dt.datetime


class QueueItem(Output):
    position: int | None
    """Position among the trials that wait for slots of the same type in the same pool; 1 is next.
    Null for a trial that is about to start or waits to restart."""
    trial_id: int
    trial_no: int
    experiment_id: int
    experiment_name: str
    project: str
    owner: str | None
    priority: int
    preemptible: bool
    """Whether trials of higher priority may ask for its slots once it runs."""
    num_slots: int
    min_slots: int
    """The fewest slots it can start with; less than `num_slots` for elastic trials."""
    slot_type: str
    pool: str
    state: str
    queued_at: dt.datetime
    """Time when the trial was first queued."""
    waiting_since: dt.datetime
    """Time when the current wait began."""
    estimated_start_at: dt.datetime | None
    """Expected start if nothing else is submitted; null if there is no reliable estimate."""
    pending_reason: str
    pending_parts: list[PartOut]
    """`pending_reason` as message parts, for translation; [] for text that cannot be translated."""
    is_impossible: bool
    """Whether the present nodes can never satisfy the request, so that waiting alone does not
    help."""


class QueueRef(Input):
    """A waiting trial, or all waiting trials of an experiment."""

    trial_id: RowId | None = None
    experiment_id: RowId | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.trial_id is None) == (self.experiment_id is None):
            raise ValueError("needs trial_id or experiment_id, one of the two")
        return self


class QueueMove(Input):
    """Which entry to move, and where: one of `to`, `before` or `after`."""

    trial_id: RowId | None = None
    experiment_id: RowId | None = None
    to: Literal["front", "back"] | None = None
    before: QueueRef | None = None
    after: QueueRef | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.trial_id is None) == (self.experiment_id is None):
            raise ValueError("needs trial_id or experiment_id, one of the two")
        if sum(where is not None for where in (self.to, self.before, self.after)) != 1:
            raise ValueError("needs to, before or after, one of the three")
        return self


class QueueMoved(Output):
    num_trials: int
    first: QueueItem | None
    """First of the moved entries at its new place; null if it has started meanwhile."""


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


class NodeRankOut(Output):
    """A rank that runs on a node."""

    trial_id: int
    rank: int
    slot: int
    slot_type: str


class NodeUsageOut(Output):
    """Usage of a node during one attempt of a trial. Each of `series` holds one value for each of
    `times`; null where nothing was reported."""

    node_name: str
    attempt_no: int
    times: list[dt.datetime]
    series: dict[str, list[float | None]]
    """Series with the names of SystemMetricsOut."""


class TrialSystemMetricsOut(Output):
    """Usage of the nodes on which a trial ran."""

    node_names: list[str]
    """All nodes on which the trial ran, those of the newest attempt first."""
    shown: list[str]
    """Nodes whose usage is in `items`, at most 8."""
    items: list[NodeUsageOut]
    """Oldest attempt first. Attempts without samples are left out."""
    full_hours: int
    """Age in hours up to which every sample is kept; of older ones, one in five minutes."""
    kept_days: int
    """Age in days at which samples are deleted."""


class SystemMetricsOut(Output):
    """Usage of a node over time. Each of `series` holds one value for each of `times`; null where
    nothing was reported."""

    node_id: str
    node_name: str
    times: list[dt.datetime]
    series: dict[str, list[float | None]]
    """cpu_pct (0..100), memory_used_bytes, memory_total_bytes, disk_free_bytes, disk_read_bytes_per_s,
    disk_written_bytes_per_s, net/INTERFACE/sent_bytes_per_s and …/received_bytes_per_s;
    gpu/INDEX/use_pct (0..100), …/memory_used_bytes, …/memory_total_bytes, …/power_w, …/temperature_c,
    …/clock_mhz, …/max_clock_mhz and …/throttled_pct/REASON (100 while the device is slowed down by
    power_cap, heat, board or power_supply, else 0). INDEX is that of the slot."""
    gpu_problem: str
    """Why no GPU data is available; empty if it is."""
    ranks: list[NodeRankOut]
    """Ranks that run on the node now."""
