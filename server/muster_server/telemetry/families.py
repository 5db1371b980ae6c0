"""Every metric there is: the one list that the code, the reference page and the tests are made from.

Names follow Prometheus' conventions: base units, `_total` for what only grows. No label takes a
value that somebody outside may choose, except pools and nodes with their interfaces and devices, and of
those at most POOLS_MAX and NODES_MAX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Process = Literal["server", "controller", "worker"]

POOLS_MAX = 100
"""Number of pools with a label of their own; further ones, by name, are counted together as
`(other)`."""
OTHER = "(other)"
NODES_MAX = 1000
"""Number of nodes with figures of their own; the number of further ones, by name, is reported."""

EVERYWHERE: tuple[Process, ...] = ("server", "controller", "worker")
SERVER: tuple[Process, ...] = ("server",)
CONTROLLER: tuple[Process, ...] = ("controller",)
WORKER: tuple[Process, ...] = ("worker",)

REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds of request durations, up to the long polls of agents, which wait for 25 s on purpose."""
PASS_BUCKETS_S = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
TASK_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, kw_only=True)
class Family:
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    processes: tuple[Process, ...]
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""
    is_of_the_cluster: bool = False
    """Whether it comes from the database: every API server reports the same, so use max, not sum,
    over them."""


def _counter(name: str, text: str, processes: tuple[Process, ...], *labels: str) -> Family:
    return Family(name=name, kind="counter", help=text, processes=processes, labels=labels)


def _gauge(name: str, text: str, processes: tuple[Process, ...], *labels: str) -> Family:
    return Family(name=name, kind="gauge", help=text, processes=processes, labels=labels)


def _histogram(
    name: str, text: str, processes: tuple[Process, ...], buckets: tuple[float, ...], *labels: str
) -> Family:
    return Family(
        name=name, kind="histogram", help=text, processes=processes, labels=labels, buckets=buckets
    )


def _of_cluster(name: str, text: str, *labels: str) -> Family:
    return Family(
        name=name, kind="gauge", help=text, processes=SERVER, labels=labels, is_of_the_cluster=True
    )


# ---------------------------------------------------------------- every process

BUILD_INFO = _gauge(
    "muster_build_info", "Always 1; the labels say what runs.", EVERYWHERE, "version", "process"
)
POOL_CONNECTIONS = _gauge(
    "muster_database_pool_connections",
    "Connections to the database: in_use, or idle and kept.",
    EVERYWHERE,
    "state",
)
POOL_MAX = _gauge(
    "muster_database_pool_max_connections",
    "Most connections this process opens; requests beyond them wait.",
    EVERYWHERE,
)

# ---------------------------------------------------------------- API server

HTTP_REQUESTS = _counter(
    "muster_http_requests_total",
    "Requests by method, route template and status. Route (none): refused before a route was found.",
    SERVER,
    "method",
    "route",
    "status",
)
HTTP_DURATION = _histogram(
    "muster_http_request_duration_seconds",
    "From the request's head to the end of its answer. Agents' long polls wait on purpose.",
    SERVER,
    REQUEST_BUCKETS_S,
    "method",
    "route",
)
HTTP_IN_PROGRESS = _gauge(
    "muster_http_requests_in_progress", "Requests being answered, long polls included.", SERVER
)
LIVE_CONNECTIONS = _gauge(
    "muster_live_connections", "Open live channels: about one per open browser tab.", SERVER
)
REDIS_CONNECTED = _gauge(
    "muster_redis_connected",
    "1 while hints of other processes are heard; 0 makes live pages poll. Absent without Redis.",
    SERVER,
)
INGEST_RECORDS = _counter(
    "muster_ingest_records_total",
    "Records of agents that were stored, each counted once however often it was sent.",
    SERVER,
    "type",
)
INGEST_ROWS = _counter(
    "muster_ingest_rows_total",
    "Metric rows stored: of every record, the points of its longest series.",
    SERVER,
)
INGEST_POINTS = _counter(
    "muster_ingest_points_total", "Metric points stored: one value of one series.", SERVER
)
INGEST_BYTES = _counter(
    "muster_ingest_bytes_total",
    "Bytes taken from agents: request bodies of records, log bytes stored.",
    SERVER,
    "kind",
)

# ---------------------------------------------------------------- the cluster, from the database

DATABASE_UP = _of_cluster(
    "muster_database_up",
    "1 when the database answered this scrape. At 0 nothing else of the cluster is told.",
)
DATABASE_SIZE = _of_cluster(
    "muster_database_size_bytes", "Size of the database (SQLite: with its write-ahead log)."
)
LAST_BACKUP = _of_cluster(
    "muster_last_backup_timestamp_seconds",
    "When `muster-server backup` last ended well (Unix time). Absent if it never did.",
)
NODES = _of_cluster("muster_nodes", "Nodes by state.", "state")
NODES_SCHEDULING = _of_cluster(
    "muster_nodes_scheduling", "Nodes that are open, cordoned or draining.", "scheduling"
)
NODES_HEALTH = _of_cluster(
    "muster_nodes_health", "Nodes that are ok, degraded or quarantined.", "health"
)
SLOTS = _of_cluster(
    "muster_slots",
    "Slots that are used, free, or unavailable: their node is not ONLINE, not open, quarantined, or "
    "has a problem that blocks.",
    "pool",
    "slot_type",
    "state",
)
SLOT_SECONDS = _of_cluster(
    "muster_slot_seconds",
    "Slot-seconds of the last 7 days (UTC, today included) by what they were spent on.",
    "class",
)
QUEUE_LENGTH = _of_cluster("muster_queue_length", "Trials that wait for slots.")
QUEUE_OLDEST_WAIT = _of_cluster(
    "muster_queue_oldest_wait_seconds",
    "How long the trial that waits for slots longest has done so; 0 for an empty queue.",
)
TRIALS = _of_cluster("muster_trials", "Trials by state, ended ones included.", "state")
EXPERIMENTS = _of_cluster(
    "muster_experiments", "Experiments by state, ended ones included.", "state"
)
TRAINING_SAMPLES = _of_cluster(
    "muster_training_samples_per_second",
    "Samples per second of all running trials together, by the newest measurement of each. Absent "
    "while none measures them.",
)
TRAINING_COMMUNICATION = _of_cluster(
    "muster_training_communication_ratio",
    "Exposed communication over the time of steps, by the newest measurement of every worker, 0 to 1."
    " Absent while none measures it.",
)
CONTROLLER_LED = _of_cluster(
    "muster_controller_led", "1 while a controller holds the lease; at 0 nothing is scheduled."
)
CONTROLLER_EPOCH = _of_cluster(
    "muster_controller_epoch", "How often the leader has changed; grows fast when two fight."
)
WORKER_ALIVE = _of_cluster(
    "muster_worker_alive", "1 while a Celery worker sweeps regularly; 0 when none does."
)
CELERY_QUEUE = _of_cluster(
    "muster_celery_queue_length",
    "Jobs that wait in the Celery queue. Absent without Redis, or while it is away.",
)

# ---------------------------------------------------------------- each node, from its last heartbeat

NODE_CPU = _of_cluster(
    "muster_node_cpu_used_ratio", "Share of the node's processors that is used, 0 to 1.", "node"
)
NODE_LOAD = _of_cluster("muster_node_load1", "Load average of the last minute.", "node")
NODE_MEMORY_USED = _of_cluster("muster_node_memory_used_bytes", "Memory in use.", "node")
NODE_MEMORY = _of_cluster("muster_node_memory_total_bytes", "Memory of the node.", "node")
NODE_DISK_FREE = _of_cluster(
    "muster_node_disk_free_bytes", "Free where the agent keeps its data.", "node"
)
NODE_DISK_READ = _of_cluster(
    "muster_node_disk_read_bytes_per_second", "Read from all disks between two heartbeats.", "node"
)
NODE_DISK_WRITTEN = _of_cluster(
    "muster_node_disk_written_bytes_per_second",
    "Written to all disks between two heartbeats.",
    "node",
)
NODE_SENT = _of_cluster(
    "muster_node_network_sent_bytes_per_second",
    "Sent by an interface between two heartbeats.",
    "node",
    "interface",
)
NODE_RECEIVED = _of_cluster(
    "muster_node_network_received_bytes_per_second",
    "Received by an interface between two heartbeats.",
    "node",
    "interface",
)
NODE_GPU_USE = _of_cluster(
    "muster_node_gpu_used_ratio", "Share of the time in which a kernel ran, 0 to 1.", "node", "gpu"
)
NODE_GPU_MEMORY_USED = _of_cluster(
    "muster_node_gpu_memory_used_bytes", "Memory of a device that is in use.", "node", "gpu"
)
NODE_GPU_MEMORY = _of_cluster(
    "muster_node_gpu_memory_total_bytes", "Memory of a device.", "node", "gpu"
)
NODE_GPU_POWER = _of_cluster("muster_node_gpu_power_watts", "What a device draws.", "node", "gpu")
NODE_GPU_TEMPERATURE = _of_cluster(
    "muster_node_gpu_temperature_celsius", "How warm a device is.", "node", "gpu"
)
NODE_GPU_CLOCK = _of_cluster(
    "muster_node_gpu_clock_hertz", "Present clock of a device's multiprocessors.", "node", "gpu"
)
NODE_GPU_MAX_CLOCK = _of_cluster(
    "muster_node_gpu_max_clock_hertz",
    "Highest clock of a device's multiprocessors.",
    "node",
    "gpu",
)
NODE_GPU_THROTTLED = _of_cluster(
    "muster_node_gpu_throttled",
    "1 while a device lowers its clocks for this reason: power_cap (normal under load), heat, board "
    "or power_supply; else 0. Absent for a device that does not tell.",
    "node",
    "gpu",
    "reason",
)
NODES_LEFT_OUT = _of_cluster(
    "muster_node_left_out",
    "Nodes that are ONLINE and beyond the first 1000 by name, which have no figures here.",
)

# ---------------------------------------------------------------- controller

LEADING = _gauge(
    "muster_controller_leading", "1 in the controller that leads, 0 in those that stand by.",
    CONTROLLER,
)  # fmt: skip
PASS_DURATION = _histogram(
    "muster_controller_pass_duration_seconds",
    "One pass of a control loop: load, decide, apply. A loop with nothing to decide about makes none.",
    CONTROLLER,
    PASS_BUCKETS_S,
    "loop",
)
DECISIONS = _counter(
    "muster_controller_decisions_total", "Decisions that took effect.", CONTROLLER, "loop"
)
TICK_FAILURES = _counter(
    "muster_controller_tick_failures_total",
    "Rounds that ended early: the database was away, or something unexpected was logged.",
    CONTROLLER,
    "cause",
)
LAST_PASS = _gauge(
    "muster_controller_last_tick_timestamp_seconds",
    "When the last round ended well, leading or standing by (Unix time).",
    CONTROLLER,
)

# ---------------------------------------------------------------- Celery worker

TASKS = _counter("muster_tasks_total", "Jobs by task and outcome.", WORKER, "task", "outcome")
TASK_DURATION = _histogram(
    "muster_task_duration_seconds", "How long jobs take.", WORKER, TASK_BUCKETS_S, "task"
)
TASKS_IN_PROGRESS = _gauge("muster_tasks_in_progress", "Jobs being done.", WORKER)

FAMILIES: tuple[Family, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Family)
)
