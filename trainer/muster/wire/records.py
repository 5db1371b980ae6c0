"""Agent to server: the numbered records of an allocation, and its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .numbers import Number
from .work import Rendezvous

LAUNCHER_LOCAL_RANK = -1
"""`local_rank` under which the launcher's own output and records are filed."""


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
    """True when the process reports what it does (it said hello on the socket)."""
    attached: bool = False
    """True when the script itself has not called the SDK: Muster has put itself in to measure."""
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
class ScheduleRecord:
    """What a worker of a pipeline did when in one step, in columns of one length. Takes the place of
    earlier ones."""

    type: Literal["schedule"] = "schedule"
    local_rank: int
    rank: int
    step: int
    kinds: list[str]
    """forward, backward, backward_input, backward_weight; send_ and recv_, each with forward and
    backward."""
    stages: list[int]
    micro_batches: list[int]
    """From 0."""
    starts_us: list[int]
    """From the beginning of the step on this worker's own clock."""
    ends_us: list[int]
    num_left_out: int = 0
    """Operations of that step beyond what is kept."""


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


Blame = Literal["", "node", "placement", "document", "request"]
"""Why an allocation could not be prepared. node: this one could not do what it should (a full disk);
when that happens again and again it is quarantined. placement: what is wanted is not here, and may be
on another node (an interpreter, a package). document: no node could (an entry point that its code
does not have). "" is none of these: it is tried again. request: what agents of before said for all
but the first; taken as ""."""


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
        "invalid_hparams",
        "not_on_node",
        "cannot_run",
    ]
    """The last two are set by the server for what could not be prepared: blames "placement", and
    "document"."""
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
    blames: Blame = ""
    """With PREPARE_FAILED."""
    passes: bool = False
    """With PREPARE_FAILED that blames the node: its health checks find the same, and when it is
    over (a full disk). They keep new work away meanwhile, so it is no reason to quarantine it."""


Record = (
    MetricsRecord
    | WorkerRecord
    | GroupRecord
    | CheckpointRecord
    | EvaluationRecord
    | ScheduleRecord
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
