"""The messages between training processes, shims, agents and the control plane.

One definition for all of them: frozen keyword-only dataclasses, JSON in and out. FastAPI takes
them directly as bodies, so an older server tolerates a newer agent: unknown fields are ignored
here (and only here; what people write by hand is strict).

Numbers that are not finite travel as the strings "NaN", "Infinity" and "-Infinity", because JSON
has no spelling for them and a diverged loss is exactly the point people need to see.

Delivery: server to agent is level-triggered (the complete desired set, again and again); agent to
server is a numbered record stream per allocation (at least once, de-duplicated by number) plus log
bytes by offset. Nothing is exactly-once on the wire; it becomes so by what the server stores.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

PROTOCOL_VERSION = 1

LAUNCHER_LOCAL_RANK = -1
"""`local_rank` under which the launcher's own output and records are filed."""

Number = float | int | str
"""A finite number, or "NaN" | "Infinity" | "-Infinity"."""

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode_number(value: float) -> Number:
    """The wire form of `value`: itself when finite, else its name as a string."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode_number(value: Number) -> float:
    """The float behind a wire number. Raises ValueError for anything else."""
    if isinstance(value, str):
        if value not in _NON_FINITE:
            raise ValueError(f"not a number on the wire: {value!r}")
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"not a number on the wire: {value!r}")
    return float(value)


# ---------------------------------------------------------------- agent → server: who I am


@dataclass(frozen=True, kw_only=True)
class SlotInfo:
    """One schedulable accelerator, or one CPU share."""

    index: int
    slot_type: Literal["cpu", "cuda"]
    name: str
    """What the vendor calls it ("NVIDIA H200"), or the CPU model."""
    memory_bytes: int = 0
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a node is and has. Sent at registration."""

    hostname: str
    address: str
    """The address other nodes reach this one on: rendezvous and collectives use it."""
    platform: str
    num_cpus: int
    memory_bytes: int
    disk_free_bytes: int
    slots: list[SlotInfo]
    python_version: str
    agent_version: str
    torch_version: str = ""
    """Of the default training interpreter; empty when torch is not installed there."""
    cuda_version: str = ""
    driver_version: str = ""
    storage_id: str = ""
    """Of the storage folder; nodes that share one say the same. Empty: nothing can be kept there."""


@dataclass(frozen=True, kw_only=True)
class RunningAllocation:
    """An allocation an agent found on its disk at start, with what its shim says."""

    allocation_id: str
    attempt_no: int
    observed: str
    num_records: int
    """Records in its spool, so the server can say from which one on it still needs them."""


@dataclass(frozen=True, kw_only=True)
class RegisterRequest:
    protocol_version: int
    name: str
    """The node's name, unique in the cluster. A second live agent of that name is refused."""
    pool: str
    labels: dict[str, str]
    boot_id: str
    """Changes when the machine reboots: after that, nothing that ran before can still run."""
    instance_id: str
    """Random per agent process: tells a restart of this agent from a clone of it."""
    inventory: Inventory
    running: list[RunningAllocation] = field(default_factory=list)
    number: int = 0
    """1, 2, 3, … with every registration this process sends: one that arrives after a later one
    is refused, for what it says of `running` is not true any more. 0: not counted."""
    join_id: str = ""
    """With a join token: random per joining, the same when it is asked again because the answer
    did not arrive. Then the token is not used up a second time."""


@dataclass(frozen=True, kw_only=True)
class LogOffset:
    local_rank: int
    stream: Literal["stdout", "stderr"]
    offset: int


@dataclass(frozen=True, kw_only=True)
class AckState:
    """How much of an allocation's spool the server holds durably."""

    allocation_id: str
    acked_seq: int
    logs: list[LogOffset]


@dataclass(frozen=True, kw_only=True)
class RegisterReply:
    node_id: str
    session_epoch: int
    """Fence: calls with an older epoch of this node are answered 410 `agent.session_superseded`."""
    credential: str | None
    """The agent's own credential, given once in exchange for a join token; None afterwards."""
    heartbeat_s: float
    lease_s: float
    adopt: list[AckState]
    """Of `running`, those to keep."""
    forget: list[str]
    """Of `running`, those the server has no use for: kill whatever lives, delete the folder."""


@dataclass(frozen=True, kw_only=True)
class InterfaceUsage:
    """A network interface. The loopback is one of them."""

    name: str
    sent_bytes_per_s: float
    received_bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class GpuUsage:
    """An NVIDIA device, by NVML; None is what it does not tell."""

    index: int
    name: str
    use_pct: float | None
    """Share of the last sample period in which a kernel ran."""
    memory_used_bytes: int
    memory_total_bytes: int
    power_w: float | None
    temperature_c: float | None


@dataclass(frozen=True, kw_only=True)
class NodeUsage:
    """Instantaneous use of a node. Percentages are 0..100."""

    cpu_pct: float
    memory_used_bytes: int
    memory_total_bytes: int
    disk_free_bytes: int
    net_sent_bytes_per_s: float = 0.0
    net_received_bytes_per_s: float = 0.0
    load_1m: float = 0.0
    disk_read_bytes_per_s: float = 0.0
    disk_written_bytes_per_s: float = 0.0
    interfaces: list[InterfaceUsage] = field(default_factory=list)
    gpus: list[GpuUsage] | None = None
    """None: not known, and `gpu_problem` says why."""
    gpu_problem: str = ""


@dataclass(frozen=True, kw_only=True)
class NodeProblem:
    """What a check of the agent finds wrong with its node."""

    kind: str
    """disk | memory | clock | device."""
    message: str
    blocks: bool = False
    """Nothing new should be placed there while it lasts."""


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """How a node's clocks stand to the server's (its database's), measured with heartbeats."""

    offset_ms: float
    """The server's Unix time minus the node's boot clock, in milliseconds."""
    error_ms: float
    """It is right to within this."""
    skew_s: float
    """The node's wall clock minus the server's."""


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    node_id: str
    session_epoch: int
    usage: NodeUsage | None = None
    running: list[str] | None = None
    """Allocations of which anything may still live here. With it the server frees the slots of
    forgotten ones as soon as they are gone; without it (None) only a while after registration."""
    accepts_credential: bool = False
    """The agent takes up a `credential` of the reply."""
    clock: ClockReading | None = None
    problems: list[NodeProblem] | None = None
    """All that is wrong with the node now; None: not looked yet."""


@dataclass(frozen=True, kw_only=True)
class LeaseReply:
    lease_s: float
    heartbeat_s: float
    credential: str | None = None
    """To be used from now on; the former one is void once this one has been used."""
    server_time_ms: float | None = None
    """Unix time by the clock of the server's database, taken while the request was served."""


# ---------------------------------------------------------------- server → agent: what to run


@dataclass(frozen=True, kw_only=True)
class CodeSpec:
    """Where the code of a trial comes from."""

    kind: Literal["bundle", "installed", "none"]
    """bundle: `GET /agent/v1/blobs/{sha256}`, a tar.gz extracted into the work folder.
    installed: `path` on the node is the work folder's content, used in place.
    none: an empty work folder (built-in trainer, or an entry point that is installed)."""
    sha256: str = ""
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class AllocationSpec:
    """Everything a shim needs to run its part of an attempt."""

    allocation_id: str
    experiment_id: int
    experiment_name: str
    trial_id: int
    trial_no: int
    attempt_id: int
    attempt_no: int
    node_rank: int
    num_nodes: int
    slots: list[int]
    """Indexes of this node's slots; one worker each."""
    slot_type: Literal["cpu", "cuda"]
    rank_offset: int
    """Ranks of this allocation are expected to be rank_offset .. rank_offset+len(slots)-1; what
    the workers report wins."""
    world_size: int
    launcher: Literal["torchrun", "direct"]
    """direct: the shim starts one process per slot itself with torchrun's environment variables."""
    entrypoint: list[str]
    """["train.py", "--epochs", "3"] or ["-m", "package.module", ...]."""
    code: CodeSpec
    python: str | None
    """Interpreter; None means the agent's default one."""
    environment: dict[str, str]
    hparams: dict[str, Any]
    config: dict[str, Any]
    """The resolved experiment document."""
    seed: int
    checkpoint_dir: str
    """Storage of this trial's checkpoints; relative paths are under the agent's storage folder."""
    resume_from: str | None
    """The checkpoint to continue from: its path under the storage folder, or its URL."""
    resume_step: int
    stop_grace_s: float
    on_disconnect: Literal["continue", "stop"]
    log_limit_bytes: int
    """Per worker and stream; past it the log is cut with a marker that says so."""
    weights_from: str | None = None
    """A checkpoint of which only the model's weights are taken over: its path, or its URL."""
    checkpoint_url: str = ""
    """The trial's folder in an object store. Empty: checkpoints stay in checkpoint_dir."""
    cluster_id: str = ""
    """Of the server: marks its folders in the storage, which another server may have used too."""


@dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """Where rank 0 listens. Known once rank 0's node is READY."""

    host: str
    port: int
    run_id: str


STOP_KINDS: Mapping[str, str] = {
    "user": "a user stopped it for good",
    "early": "the searcher has seen enough of it",
    "preempt": "its slots are needed for something more important; it continues later",
    "resize": "it continues at another world size",
    "pause": "a user paused it; it continues when resumed",
    "drain": "its node is being drained; it continues elsewhere",
    "budget": "a budget is used up",
    "gang": "another worker of the gang has failed or ended",
    "superseded": "a newer attempt of the trial exists",
    "node": "its node asked for it: the agent or the machine is shutting down",
    "signal": "the process got a signal",
}
"""Why workers are asked to stop, as far as a program may want to tell apart. A newer server may
say others."""

Desired = Literal["prepare", "start", "stop", "kill"]
"""What the server wants of an allocation. prepare → start → stop/kill; each includes the one
before. An allocation that is absent from the set is forgotten: killed if alive, folder deleted."""


@dataclass(frozen=True, kw_only=True)
class ProfileOrder:
    """A window of torch's profiler that somebody asked for."""

    no: int
    """1, 2, … within the trial."""
    ranks: list[int]
    """Global ones; the others go on as they are."""
    num_steps: int


@dataclass(frozen=True, kw_only=True)
class Assignment:
    spec: AllocationSpec
    desired: Desired
    rendezvous: Rendezvous | None
    """Set from `start` on when num_nodes > 1."""
    stop_reason: str = ""
    """Told to the workers when desired is stop or kill."""
    stop_kind: str = ""
    """Likewise: one of STOP_KINDS, or empty."""
    stop_grace_s: float | None = None
    """With stop: the time they get in place of the spec's, and no notice before SIGTERM. For a gang
    that has lost a member: what the others could still do is wait for it."""
    stacks_no: int = 0
    """Number of the last time that somebody asked where its workers are: while it is greater than
    what the shim has answered, it answers once more."""
    profile: ProfileOrder | None = None
    """The last one; carried out once, like `stacks_no`."""


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """Files of a deleted experiment. Asked of one node that has the storage, until it says how it
    went; doing it twice is harmless."""

    id: int
    storage_id: str
    """The storage meant; a node that has another one by now refuses."""
    path: str
    """Relative to the storage folder."""
    cluster_id: str
    """The mark that the experiment's folder must carry."""
    storage_url: str = ""
    """An object store that the path is in, below a folder of this server, in place of the storage
    folder. storage_id says nothing then."""


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    id: int
    outcome: Literal["done", "refused", "failed"]
    """refused: not ours to delete, for good. failed: it did not work this time, and is tried again."""
    freed_bytes: int = 0
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class DeletionsRequest:
    """`POST /agent/v1/deletions`."""

    node_id: str
    session_epoch: int
    results: list[DeletionResult]


@dataclass(frozen=True, kw_only=True)
class DeletionsReply:
    num_taken: int


EXPORT_PIECE_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Export:
    """A model that is to be made into one file and sent in pieces. Asked of one node that can read
    its checkpoint, until it says how that went; doing it twice is harmless, for the pieces are the
    same."""

    id: int
    storage_id: str
    """The storage meant; a node that has another one by now says so."""
    path: str
    """Relative to the storage folder."""
    cluster_id: str
    """The mark that the experiment's folder must carry."""
    max_bytes: int
    """A larger file is not taken."""
    storage_url: str = ""
    """An object store that the path is in, below a folder of this server, in place of the storage
    folder. storage_id says nothing then."""


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    id: int
    outcome: Literal["done", "failed"]
    size_bytes: int = 0
    sha256: str = ""
    message: str = ""
    """Why it failed: nothing that would go better by itself."""


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """`POST /agent/v1/exports`, after all its pieces: `POST /agent/v1/exports/{id}/pieces/{idx}`, of
    EXPORT_PIECE_BYTES each but the last."""

    node_id: str
    session_epoch: int
    result: ExportResult


@dataclass(frozen=True, kw_only=True)
class ExportReply:
    taken: bool
    """False: it is not wanted any more."""


@dataclass(frozen=True, kw_only=True)
class PreflightPeer:
    rank: int
    node_name: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class PreflightStore:
    """Where the processes of an all-reduce find each other: on rank 0."""

    host: str
    port: int


PreflightStage = Literal["listen", "connect", "reduce"]


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What this node tries together with others. `stage` is what is to be done now, once; one that
    is not wanted any more is ended."""

    id: int
    stage: PreflightStage
    rank: int
    token: str
    """Shown to each other by the nodes that take part."""
    python: str | None
    """Interpreter; None means the agent's default one."""
    slots: list[int]
    """CUDA devices to try."""
    peers: list[PreflightPeer]
    """All that take part, this node included; empty at `listen`."""
    store: PreflightStore | None = None
    """At `reduce`."""


@dataclass(frozen=True, kw_only=True)
class PreflightLink:
    """What a node found when it tried another one."""

    rank: int
    message: str
    """What went wrong; "" when nothing did."""
    ms: float | None
    """connect: the quickest round trip; reduce: an all-reduce of 1 MiB between the two."""


@dataclass(frozen=True, kw_only=True)
class PreflightReport:
    """How a stage went on this node."""

    id: int
    stage: PreflightStage
    problems: list[str] = field(default_factory=list)
    """What is wrong with the node itself."""
    host: str = ""
    """listen: where the others reach it."""
    port: int = 0
    """0: nowhere."""
    store_port: int | None = None
    """connect: of rank 0's store."""
    torch_version: str = ""
    """connect: empty when torch is not installed."""
    links: list[PreflightLink] = field(default_factory=list)
    reduce_ms: float | None = None
    """reduce: of the all-reduce of all of them."""


@dataclass(frozen=True, kw_only=True)
class PreflightRequest:
    """`POST /agent/v1/preflights`."""

    node_id: str
    session_epoch: int
    report: PreflightReport


@dataclass(frozen=True, kw_only=True)
class PreflightReply:
    taken: bool
    """False: it was known already, or is not wanted any more."""


@dataclass(frozen=True, kw_only=True)
class AssignmentsReply:
    index: int
    """Pass it back as `index`; the call then waits until something has changed."""
    assignments: list[Assignment]
    """The COMPLETE set this node should have."""
    deletions: list[Deletion] = field(default_factory=list)
    """All folders this node should delete from its storage; each stays here until it is reported."""
    preflights: list[Preflight] = field(default_factory=list)
    """All preflights this node takes part in now."""
    exports: list[Export] = field(default_factory=list)
    """All models this node should make into one file; each stays here until it is reported."""


# ---------------------------------------------------------------- the record stream of an allocation


@dataclass(frozen=True, kw_only=True)
class SeriesPoints:
    """Consecutive points of one metric of one rank."""

    name: str
    steps: list[int]
    times_ms: list[int]
    """Unix time in milliseconds."""
    values: list[Number]


@dataclass(frozen=True, kw_only=True)
class MetricsRecord:
    """Points of one worker. Names are `group/name_unit`."""

    type: Literal["metrics"] = "metrics"
    local_rank: int
    rank: int
    series: list[SeriesPoints]
    step: int = 0
    """Highest step in this record."""
    epoch: float | None = None
    num_steps_planned: int | None = None


@dataclass(frozen=True, kw_only=True)
class WorkerRecord:
    """A worker process as it is: from its environment, or from what it reported itself."""

    type: Literal["worker"] = "worker"
    local_rank: int
    rank: int
    world_size: int
    node_rank: int
    pid: int
    host: str
    master_addr: str
    master_port: int
    device: str = ""
    backend: str = ""
    reports: bool = False
    """True when the process uses the SDK (it said hello on the socket)."""
    torch_version: str = ""


@dataclass(frozen=True, kw_only=True)
class GroupRecord:
    """A process group and its members by global rank, in group-rank order."""

    type: Literal["group"] = "group"
    name: str
    kind: str
    """"world", "dp", "tp", "pp", "custom", …"""
    backend: str
    ranks: list[int]


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """A checkpoint that is complete on storage. Comes after the metrics up to its step."""

    type: Literal["checkpoint"] = "checkpoint"
    step: int
    epoch: float | None = None
    path: str
    """Relative to the trial's checkpoint folder."""
    size_bytes: int
    files: dict[str, str]
    """File name → sha256."""
    metrics: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """What a model was found to be worth on samples it was not trained with. A later one of the
    same name takes its place."""

    type: Literal["evaluation"] = "evaluation"
    name: str
    """Of the samples: "test"."""
    step: int
    """Optimizer steps the model had done."""
    metrics: dict[str, Number] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    """Names, in the order of `confusion`; empty where there are no classes."""
    confusion: list[list[int]] = field(default_factory=list)
    """[true class][predicted class] → number of samples."""


@dataclass(frozen=True, kw_only=True)
class MessageRecord:
    """Something a user should read in the trial's events."""

    type: Literal["message"] = "message"
    level: Literal["info", "warning", "error"]
    text: str


@dataclass(frozen=True, kw_only=True)
class GroupProgress:
    """Collectives of one process group on one rank. Messages between two ranks are not counted."""

    group: str
    kind: str = ""
    """Of the last one enqueued."""
    num_enqueued: int
    num_completed: int


ProcessState = Literal["", "runs", "sleeps", "blocked", "stopped"]
"""Of a worker, by the operating system; "" is not known. blocked: in a system call that nothing can
interrupt, such as a read from a lost network disk. stopped: by SIGSTOP or a debugger."""


@dataclass(frozen=True, kw_only=True)
class WorkerProgress:
    """How far a worker is."""

    local_rank: int
    rank: int
    process: ProcessState = ""
    reports: bool = False
    """What follows is known: the process uses the SDK."""
    num_reports: int = 0
    """Rows logged."""
    step: int | None = None
    """Of the last row logged."""
    phase: str = ""
    """Of the step, as a StepTimer has it; "" without one."""
    phase_since_ms: int | None = None
    """Unix time by the node's clock."""
    groups: list[GroupProgress] = field(default_factory=list)
    waits_for: int | None = None
    """The rank at the other end of a message that it waits for."""
    waits_kind: str = ""


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """How far the workers of an allocation are, told when it has changed."""

    type: Literal["progress"] = "progress"
    workers: list[WorkerProgress]


@dataclass(frozen=True, kw_only=True)
class StacksRecord:
    """Where a worker was when that was asked for."""

    type: Literal["stacks"] = "stacks"
    no: int
    """Assignment.stacks_no."""
    local_rank: int
    rank: int
    text: str = ""
    """Of all its threads, as Python's faulthandler or py-spy writes them."""
    problem: str = ""
    """Why there is no text; one clause."""
    is_cut: bool = False


@dataclass(frozen=True, kw_only=True)
class ProfileRecord:
    """A piece of the trace of one rank, or why there is none. Pieces come in order."""

    type: Literal["profile"] = "profile"
    no: int
    """ProfileOrder.no."""
    local_rank: int
    rank: int
    first_step: int | None = None
    last_step: int | None = None
    size_bytes: int = 0
    """Of the whole trace: a gzip of Chrome's trace events in JSON."""
    index: int = 0
    """0, 1, …"""
    data: str = ""
    """base64."""
    problem: str = ""
    """Why there is no trace; one clause."""


Observed = Literal[
    "ASSIGNED", "PREPARING", "READY", "PREPARE_FAILED", "STARTING", "RUNNING", "STOPPING", "EXITED"
]


@dataclass(frozen=True, kw_only=True)
class WorkerExit:
    local_rank: int
    rank: int
    exit_code: int | None = None
    signal: int | None = None
    at_ms: int = 0
    message: str = ""
    """The worker's last words: exception and message when known."""
    blames_peer: bool = False
    """They say that another worker was gone, or did not answer: it was not the first to fail."""


@dataclass(frozen=True, kw_only=True)
class ExitInfo:
    """How an allocation ended. `cause` is for machines, `message` is one sentence for people."""

    cause: Literal[
        "success",
        "user_error",
        "killed_by_signal",
        "out_of_memory",
        "disk_full",
        "stopped",
        "killed",
        "launcher_failed",
        "node_rebooted",
        "shim_lost",
        "unkillable",
        "start_timeout",
        "port_in_use",
    ]
    message: str
    exit_code: int | None = None
    signal: int | None = None
    first_failure: WorkerExit | None = None
    """The earliest worker to fail on this node."""
    workers: list[WorkerExit] = field(default_factory=list)
    log_tail: list[str] = field(default_factory=list)
    """Last lines (at most 40) of the first failing worker's stderr."""
    unix_at_boot_ms: float | None = None
    """All times here minus this are milliseconds on the node's boot clock, which the server knows
    how to compare with those of other nodes (ClockReading)."""
    at_error_ms: float | None = None
    """Set by the server, when it has put the times on its own clock: they are right to within this."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """What an allocation would run with on its node. "" is none, or not known."""

    python_version: str = ""
    torch_version: str = ""
    muster_version: str = ""
    cuda_version: str = ""
    """That torch was built for."""
    driver_version: str = ""
    """Filled in by the server, from the inventory."""
    code_hash: str = ""
    """Of the files of an installed code folder; bundles are the same everywhere by their name."""


@dataclass(frozen=True, kw_only=True)
class StateRecord:
    """A step of the allocation's own state machine. EXITED is the last record of a stream and is
    sent only after every log byte has been acknowledged. STOPPING with `exit` says at once what the
    end will be, when a member has failed: the rest of its gang must not wait for its log."""

    type: Literal["state"] = "state"
    observed: Observed
    rendezvous: Rendezvous | None = None
    """With READY of node_rank 0 when num_nodes > 1."""
    message: str = ""
    exit: ExitInfo | None = None
    facts: NodeFacts | None = None
    """With READY, of a gang that spans nodes."""
    blames: Literal["node", "request"] = "request"
    """With PREPARE_FAILED: the node, when it could not do what another one can; a node that fails
    so again and again is quarantined. Else what was asked for: an entry point that does not exist."""
    passes: bool = False
    """With PREPARE_FAILED that blames the node: its health checks find the same, and when it is
    over (a full disk). They keep new work away meanwhile, so it is no reason to quarantine it."""


Record = (
    MetricsRecord
    | WorkerRecord
    | GroupRecord
    | CheckpointRecord
    | EvaluationRecord
    | MessageRecord
    | ProgressRecord
    | StacksRecord
    | ProfileRecord
    | StateRecord
)


@dataclass(frozen=True, kw_only=True)
class NumberedRecord:
    seq: int
    """1, 2, 3, … without gaps, per allocation, in the order things happened."""
    at_ms: int
    record: Record


@dataclass(frozen=True, kw_only=True)
class RecordsRequest:
    """`POST /agent/v1/allocations/{allocation_id}/records`. At most 1,000 records, 4 MiB."""

    node_id: str
    session_epoch: int
    attempt_no: int
    records: list[NumberedRecord]


@dataclass(frozen=True, kw_only=True)
class RecordsReply:
    acked_seq: int
    """Everything up to it is durable. The next request starts with acked_seq + 1."""
    superseded: bool = False
    """A newer attempt exists: records are kept for the audit but change nothing. Kill and stop."""


@dataclass(frozen=True, kw_only=True)
class LogsReply:
    """Answer to `POST /agent/v1/allocations/{id}/logs/{local_rank}/{stream}?offset=N`, whose body
    is the raw bytes from that offset (at most 1 MiB). A wrong offset changes nothing and is
    answered with 200 and the offset to resume from."""

    next_offset: int


# ---------------------------------------------------------------- worker ↔ shim (unix socket)
# One JSON object per line. Worker → shim: {"type": "hello", ...WorkerRecord fields}, and the
# records metrics, group, checkpoint, evaluation, message above, and {"type": "progress", ...fields of
# WorkerProgress}, which the shim keeps and tells with those of the others, and {"type": "profile",
# ...fields of WorkerProfile}. Shim → worker: the Control below, whenever it changes and once after hello.


@dataclass(frozen=True, kw_only=True)
class WorkerProfile:
    """What became of a ProfileOrder: the trace lies in the folder agreed on, or there is none."""

    no: int
    first_step: int | None = None
    last_step: int | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Control:
    type: Literal["control"] = "control"
    should_stop: bool
    reason: str = ""
    kind: str = ""
    """One of STOP_KINDS, or empty."""
    deadline_boot_s: float | None = None
    """The shim kills whatever still runs then; by the machine's boot clock (CLOCK_BOOTTIME)."""
    profile: ProfileOrder | None = None


# ---------------------------------------------------------------- JSON

T = TypeVar("T")

RECORD_TYPES: dict[str, type[Any]] = {
    "metrics": MetricsRecord,
    "worker": WorkerRecord,
    "group": GroupRecord,
    "checkpoint": CheckpointRecord,
    "evaluation": EvaluationRecord,
    "message": MessageRecord,
    "progress": ProgressRecord,
    "stacks": StacksRecord,
    "profile": ProfileRecord,
    "state": StateRecord,
}


def dump(message: Any) -> str:
    """JSON text of a wire dataclass (or plain value). Raises ValueError on a bare NaN."""
    plain = dataclasses.asdict(message) if dataclasses.is_dataclass(message) else message  # type: ignore[arg-type]
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def load(cls: type[T], value: Any) -> T:
    """Build `cls` from decoded JSON. Unknown keys are ignored; a missing or mistyped one raises
    ValueError with its path."""
    return typing.cast(T, _load(cls, value, getattr(cls, "__name__", str(cls))))


def loads(cls: type[T], text: str | bytes) -> T:
    return load(cls, json.loads(text))


@functools.lru_cache(maxsize=256)
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _load(tp: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(tp)
    if tp is Any:
        return value
    if tp is Record or (
        origin in (typing.Union, types.UnionType) and MetricsRecord in typing.get_args(tp)
    ):
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in RECORD_TYPES:
            raise ValueError(f"{path}: unknown record type {kind!r}")
        return _load(RECORD_TYPES[kind], value, path)
    if origin in (typing.Union, types.UnionType):
        for option in typing.get_args(tp):
            try:
                return _load(option, value, path)
            except ValueError:
                continue
        raise ValueError(f"{path}: {value!r} is none of {tp}")
    if origin is Literal:
        if value not in typing.get_args(tp):
            raise ValueError(f"{path}: {value!r} is not one of {typing.get_args(tp)}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise ValueError(f"{path}: expected a list")
        (item,) = typing.get_args(tp)
        return [_load(item, v, f"{path}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{path}: expected an object")
        _, item = typing.get_args(tp)
        return {str(k): _load(item, v, f"{path}.{k}") for k, v in value.items()}
    if isinstance(tp, type) and dataclasses.is_dataclass(tp):
        if not isinstance(value, dict):
            raise ValueError(f"{path}: expected an object")
        hints = _hints(tp)
        kwargs: dict[str, Any] = {}
        for f in dataclasses.fields(tp):
            if f.name in value:
                kwargs[f.name] = _load(hints[f.name], value[f.name], f"{path}.{f.name}")
            elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                raise ValueError(f"{path}.{f.name}: missing")
        return tp(**kwargs)
    if tp is type(None):
        if value is not None:
            raise ValueError(f"{path}: expected null")
        return None
    if tp is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{path}: expected a number, got {value!r}")
        return float(value)
    if tp is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{path}: expected an integer, got {value!r}")
        return value
    if not isinstance(value, tp):
        raise ValueError(f"{path}: expected {tp.__name__}, got {value!r}")
    return value
