"""Agent to server: the numbered records of an allocation, and its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from muster.numbers import Number

from .predictions import ShardPlanRecord, ShardsRecord
from .work import Rendezvous

LAUNCHER_LOCAL_RANK = -1
"""`local_rank` under which the launcher's own output and records are filed."""
RAS_RANK = -2
"""`rank` and `local_rank` under which a node files what NCCL's RAS threads say of the whole job."""
SERIES_PER_RECORD_MAX = 2_000
"""Most series of one record of metrics."""
SAMPLE_SPANS_MAX = 64
SAMPLE_SAVES_MAX = 64
SAMPLE_ORDER_CHARS = 200
PACKAGES_MAX = 1000
"""Installed packages that are listed of a job's environment."""


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
    """A worker process as known from its environment, or from its own report."""

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
    """Whether the process reports its progress (it said hello on the socket)."""
    attached: bool = False
    """Whether the script itself has not called the SDK: Muster has attached itself to measure."""
    torch_version: str = ""


@dataclass(frozen=True, kw_only=True)
class GroupRecord:
    """A process group and its members by global rank, in group-rank order."""

    type: Literal["group"] = "group"
    name: str
    kind: str
    """Kind of the group: "world", "dp", "tp", "pp", "custom", …"""
    backend: str
    ranks: list[int]


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """A complete checkpoint. Comes after the metrics up to its step."""

    type: Literal["checkpoint"] = "checkpoint"
    step: int
    epoch: float | None = None
    path: str
    """Path relative to the trial's checkpoint folder."""
    size_bytes: int
    files: dict[str, str]
    """SHA-256 by file name."""
    metrics: dict[str, Number] = field(default_factory=dict)
    is_local: bool = False
    """Whether it is on the node's disk alone. It is reported again once the storage has it."""
    attempt_no: int = 0
    """Attempt that saved it on this node's disk, if that was an earlier one; 0: the allocation's own.
    """


@dataclass(frozen=True, kw_only=True)
class SampleSpan:
    """Samples that a rank was given without a break. A position is a number of samples of the epoch's
    order, counted over all ranks, from 0 to `num_samples`."""

    first_epoch: int
    first: int
    """Position in the first epoch at which the rank began."""
    last_epoch: int
    last: int
    """Position in the last epoch up to which all ranks had got once this one had got its share."""
    num_samples: int
    """Number of positions in an epoch."""
    num_ranks: int
    """Number of ranks that the samples are dealt to."""
    order: str
    """What the order follows from, at most SAMPLE_ORDER_CHARS: equal texts have the same samples at
    the same positions."""

    @property
    def begin(self) -> int:
        """Position at which the rank began, on the line of all epochs."""
        return self.first_epoch * self.num_samples + self.first

    @property
    def end(self) -> int:
        """Position up to which all ranks had got, on the line of all epochs."""
        return self.last_epoch * self.num_samples + self.last


@dataclass(frozen=True, kw_only=True)
class SamplesRecord:
    """Samples that a rank was given in this attempt. Replaces earlier records of the rank."""

    type: Literal["samples"] = "samples"
    local_rank: int
    rank: int
    spans: list[SampleSpan]
    """At most SAMPLE_SPANS_MAX, in the order of time."""
    saves: list[list[int]] = field(default_factory=list)
    """[step, epoch, position, num_padded, num_left_out, num_spans] of the newest checkpoints, at most
    SAMPLE_SAVES_MAX: num_spans is the number of spans until then. Versions before 0.3 leave it out."""
    num_padded: int = 0
    """Samples that were given twice to fill the last batch of an epoch, over all ranks."""
    num_left_out: int = 0
    """Samples left out at the ends of epochs, where they made no whole batch, over all ranks."""
    num_spans_cut: int = 0
    """Number of spans beyond the limit, which are not in `spans`."""


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """Quality of a model on samples it was not trained with. A later evaluation of the same name
    replaces it."""

    type: Literal["evaluation"] = "evaluation"
    name: str
    """Name of the samples, such as "test"."""
    step: int
    """Optimizer steps that the model had done."""
    metrics: dict[str, Number] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    """Names of the classes, in the order of `confusion`; empty if there are none."""
    confusion: list[list[int]] = field(default_factory=list)
    """[true class][predicted class] → number of samples."""


@dataclass(frozen=True, kw_only=True)
class ModelResultRecord:
    """What came of a version of a model in this job. A later result of the same name replaces it."""

    type: Literal["model_result"] = "model_result"
    name: str
    """Name of the version among the `models` of the document."""
    result: dict[str, Any]
    """At most MODEL_RESULT_BYTES as JSON. Numbers that are not finite are wire numbers."""


@dataclass(frozen=True, kw_only=True)
class EndpointRecord:
    """Where a worker answers requests from now on. It is ready; health checks say for how long."""

    type: Literal["endpoint"] = "endpoint"
    host: str
    """IP address or name that it listens on; 127.0.0.1 for its own machine alone."""
    port: int


@dataclass(frozen=True, kw_only=True)
class ScheduleRecord:
    """Timeline of a pipeline's worker in one step, in columns of one length. Replaces earlier ones."""

    type: Literal["schedule"] = "schedule"
    local_rank: int
    rank: int
    step: int
    kinds: list[str]
    """Kind of each operation: forward, backward, backward_input, backward_weight; send_ and recv_,
    each with forward and backward."""
    stages: list[int]
    micro_batches: list[int]
    """Micro-batch of each operation, from 0."""
    starts_us: list[int]
    """Start of each operation in µs from the beginning of the step, on this worker's own clock."""
    ends_us: list[int]
    num_left_out: int = 0
    """Number of operations of that step beyond the limit."""


@dataclass(frozen=True, kw_only=True)
class TrackedRunRecord:
    """What is new of a run that the script has started with a tracking client."""

    type: Literal["tracked_run"] = "tracked_run"
    run_id: str
    """32 hexadecimal digits that follow from the trial and the label."""
    name: str
    label: str
    """Beginning of its metrics' names; "" for the run that stands for the trial."""
    folder: str
    """Folder of its artifacts within the outputs that are always kept."""
    parent_id: str
    status: str
    """RUNNING, SCHEDULED, FINISHED, FAILED, KILLED or DELETED."""
    started_ms: int
    """Unix time in milliseconds."""
    ended_ms: int | None = None
    is_new: bool = False
    """Whether it starts afresh: what was known of it does not hold any more."""
    params: dict[str, str] = field(default_factory=dict)
    """Params that are new or changed."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags that are new or changed."""
    removed_tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ModelRegistrationRecord:
    """A model, or a version of one, that the script registers with a tracking client. Sent again with
    every change."""

    type: Literal["model_registration"] = "model_registration"
    no: int
    """Number that the answer repeats: 1, 2, 3, … on this node in this attempt."""
    name: str
    """Name of the model."""
    folder: str = ""
    """Folder among the outputs that the version consists of; "" for the model itself."""
    mlmodel: str = ""
    """Content of the file `MLmodel` in it, which states the signature."""
    description: str | None = None
    """Description, where it is new or changed."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags that are new or changed."""
    removed_tags: list[str] = field(default_factory=list)
    aliases: list[str] | None = None
    """All aliases that are to name the version, where they are new or changed."""
    is_lookup: bool = False
    """Whether it only asks if there is such a model: nothing is registered."""


@dataclass(frozen=True, kw_only=True)
class ModelRegistration:
    """What came of a ModelRegistrationRecord."""

    no: int
    version: int = 0
    """Number of the version; 0 for the model itself."""
    is_new: bool = False
    """Whether there was no such model or version before."""
    error: str = ""
    """Why nothing was registered."""


MediaKind = Literal[
    "image",
    "figure",
    "histogram",
    "text",
    "table",
    "pr_curve",
    "confusion_matrix",
    "audio",
    "video",
]
"""What an item shows; see muster.media for the content of each kind."""


@dataclass(frozen=True, kw_only=True)
class MediaRecord:
    """One item that a rank has logged at a step. Its content is in `data`, or in a file of the outputs
    that is complete before this record."""

    type: Literal["media"] = "media"
    kind: MediaKind
    name: str
    step: int
    rank: int
    time_ms: int
    """Unix time in milliseconds."""
    mime: str
    """Media type of the content."""
    sha256: str
    """SHA-256 of the content."""
    size_bytes: int
    caption: str = ""
    width: int = 0
    """Width of an image or video in pixels; 0 if unknown."""
    height: int = 0
    data: str = ""
    """Content in base64; "" if it is a file."""
    file: str = ""
    """Path of the file, relative to the work folder; "" if the content is in `data`."""


@dataclass(frozen=True, kw_only=True)
class MediaDropsRecord:
    """Items of one rank that were left out since the attempt began. Replaces earlier ones."""

    type: Literal["media_drops"] = "media_drops"
    rank: int
    num: dict[str, int]
    """Number of items by reason; see muster.media.DropReason."""


CHECKPOINT_DAMAGED = "checkpoint.damaged"
"""Type of the event for a checkpoint that cannot be loaded because its files are damaged."""
NEAR_LIMIT = "trial.near_limit"
"""Type of the event that tells that an attempt may soon exceed a limit on one of its nodes."""


@dataclass(frozen=True, kw_only=True)
class MessageRecord:
    """Message for the user in the trial's events."""

    type: Literal["message"] = "message"
    level: Literal["info", "warning", "error"]
    text: str
    event: str = ""
    """Type of the event that the message becomes: CHECKPOINT_DAMAGED or NEAR_LIMIT. A server that does
    not know the type, or finds "", adds a plain message."""
    resume_step: int | None = None
    """Step that the attempt continues from, with CHECKPOINT_DAMAGED of the checkpoint that the server has
    chosen on this node's disk; 0: the beginning."""


@dataclass(frozen=True, kw_only=True)
class GroupProgress:
    """Collectives of one process group on one rank. Messages between two ranks are not counted."""

    group: str
    kind: str = ""
    """Kind of the last one enqueued; where nothing moves and `source` is known, of the first unfinished one."""
    num_enqueued: int
    """Sequence number of the last one enqueued: the same collective has the same number on every member."""
    num_completed: int
    source: str = ""
    """Line of the script that called it, such as "train.py:42 in step"; "" if unknown."""


ProcessState = Literal["", "runs", "sleeps", "blocked", "stopped"]
"""State of a worker in the operating system; "" if unknown. `blocked`: in a system call that
nothing can interrupt, such as a read from a lost network disk. `stopped`: by SIGSTOP or a
debugger."""


@dataclass(frozen=True, kw_only=True)
class WorkerProgress:
    """Progress of a worker."""

    local_rank: int
    rank: int
    process: ProcessState = ""
    reports: bool = False
    """Whether the following fields are known: the process uses the SDK."""
    num_reports: int = 0
    """Number of rows logged."""
    step: int | None = None
    """Step of the last row logged."""
    phase: str = ""
    """Phase of the step, as a StepTimer has it; "" without one."""
    phase_since_ms: int | None = None
    """Unix time in milliseconds by the node's clock at which the phase began."""
    groups: list[GroupProgress] = field(default_factory=list)
    waits_for: int | None = None
    """Rank at the other end of a message that it waits for."""
    waits_kind: str = ""


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """Progress of the workers of an allocation, reported when it has changed."""

    type: Literal["progress"] = "progress"
    workers: list[WorkerProgress]


@dataclass(frozen=True, kw_only=True)
class StacksRecord:
    """Stacks of a worker at the time of the request."""

    type: Literal["stacks"] = "stacks"
    no: int
    """Number of the request, from Assignment.stacks_no."""
    local_rank: int
    rank: int
    text: str = ""
    """Stacks of all its threads, as Python's faulthandler or py-spy writes them."""
    problem: str = ""
    """Reason why there is no text; one clause."""
    is_cut: bool = False


@dataclass(frozen=True, kw_only=True)
class ProfileRecord:
    """A piece of the trace of one rank, or the reason why there is none. Pieces come in order."""

    type: Literal["profile"] = "profile"
    no: int
    """Number of the order, from ProfileOrder.no."""
    local_rank: int
    rank: int
    first_step: int | None = None
    last_step: int | None = None
    size_bytes: int = 0
    """Bytes of the whole trace: a gzip of Chrome's trace events in JSON."""
    index: int = 0
    """Index of the piece, from 0."""
    data: str = ""
    """Content of the piece in base64."""
    problem: str = ""
    """Reason why there is no trace; one clause."""


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
    """Last output of the worker: exception and message if known."""
    blames_peer: bool = False
    """Whether the message blames another worker, which was gone or did not answer: this one was not
    the first to fail."""


@dataclass(frozen=True, kw_only=True)
class ExitInfo:
    """How an allocation ended. `cause` is for programs, `message` is one sentence for people."""

    cause: Literal[
        "success",
        "user_error",
        "killed_by_signal",
        "out_of_memory",
        "disk_full",
        "limit_exceeded",
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
    """Cause of the end. The last two are set by the server for what could not be prepared: blames
    "placement", and "document". Agents say cannot_run of what cannot be started at all, now or later;
    those of before say unkillable where a process has outlived SIGKILL, whatever the end was."""
    message: str
    exit_code: int | None = None
    signal: int | None = None
    first_failure: WorkerExit | None = None
    """Earliest worker to fail on this node."""
    workers: list[WorkerExit] = field(default_factory=list)
    log_tail: list[str] = field(default_factory=list)
    """Last lines (at most 40) of the first failing worker's stderr."""
    doubt: str = ""
    """What makes an end with exit code 0 doubtful, as a clause; "" for nothing."""
    site_stop_at_ms: int = 0
    """Unix time at which all processes of the node were told to end, as by a batch system or a service
    manager, where it ended for that and the server had not been told in time; 0 otherwise."""
    unix_at_boot_ms: float | None = None
    """All times here minus this are milliseconds on the node's boot clock, which the server knows
    how to compare with those of other nodes (ClockReading)."""
    at_error_ms: float | None = None
    """Largest error in milliseconds, set by the server when it has put the times on its own clock.
    """


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """Environment of an allocation on its node. "" is none, or unknown."""

    python_version: str = ""
    torch_version: str = ""
    muster_version: str = ""
    cuda_version: str = ""
    """CUDA version that torch was built for."""
    driver_version: str = ""
    """Version of the driver, filled in by the server from the inventory."""
    image_id: str = ""
    """Id of the container image."""
    code_hash: str = ""
    """Hash of the files of an installed code folder; bundles are the same everywhere by their name.
    """
    data_hash: str = ""
    """Hash of the digests of all data sets that are folders."""


@dataclass(frozen=True, kw_only=True)
class DataRead:
    """A data set that is a folder, as a job found it when it started."""

    path: str
    version: str = ""
    """What the document calls it."""
    digest: str = ""
    """Digest of its files' names and contents ("sha256:…"); "" if it was not computed."""
    num_files: int = 0
    size_bytes: int = 0
    problem: str = ""
    """Why there is no digest, as one clause."""


@dataclass(frozen=True, kw_only=True)
class JobEnvironment:
    """What the processes of an attempt run with, for people who want to repeat it. "" is none, or
    unknown."""

    python: str
    """Path of the interpreter."""
    python_version: str
    torch_version: str = ""
    cuda_version: str = ""
    """CUDA version that torch was built for."""
    driver_version: str = ""
    """Version of the driver, filled in by the server from the inventory."""
    muster_version: str = ""
    image: str = ""
    """Name of the container image, with its registry."""
    image_id: str = ""
    image_digest: str = ""
    """Name with the digest by which the same image can be pulled; "" for one that was built or
    imported on its node."""
    variables: dict[str, str] = field(default_factory=dict)
    """Variables that decide how its workers communicate, such as NCCL_ALGO, of the document and the node."""
    packages: list[str] = field(default_factory=list)
    """Installed packages such as "numpy==2.1.0", sorted; at most PACKAGES_MAX."""
    num_packages: int = 0
    """Number of all installed packages."""
    data: dict[str, DataRead] = field(default_factory=dict)
    """Data sets that are folders, by name."""


@dataclass(frozen=True, kw_only=True)
class StateRecord:
    """A step of the allocation's own state machine. EXITED is the last record of a stream and is
    sent only after every log byte has been acknowledged. STOPPING with `exit` says at once what the
    end will be, when a member has failed: the rest of its gang must not wait for its log."""

    type: Literal["state"] = "state"
    observed: Observed
    rendezvous: Rendezvous | None = None
    """Rendezvous, sent with READY of node_rank 0 when num_nodes > 1."""
    message: str = ""
    exit: ExitInfo | None = None
    facts: NodeFacts | None = None
    """Facts to compare, sent with READY of a gang that spans nodes."""
    environment: JobEnvironment | None = None
    """What the workers run with, sent with READY of node_rank 0."""
    blames: Blame = ""
    """Blame, sent with PREPARE_FAILED."""
    passes: bool = False
    """Whether it goes by itself, with PREPARE_FAILED that blames the node: a full disk, which the health
    checks find as well and keep new work away from, or something that took too long. It is no
    reason to quarantine the node."""


Record = (
    MetricsRecord
    | WorkerRecord
    | GroupRecord
    | CheckpointRecord
    | EvaluationRecord
    | SamplesRecord
    | ModelResultRecord
    | EndpointRecord
    | ScheduleRecord
    | TrackedRunRecord
    | ModelRegistrationRecord
    | MediaRecord
    | MediaDropsRecord
    | MessageRecord
    | ProgressRecord
    | StacksRecord
    | ProfileRecord
    | ShardPlanRecord
    | ShardsRecord
    | StateRecord
)


@dataclass(frozen=True, kw_only=True)
class NumberedRecord:
    seq: int
    """Number of the record per allocation: 1, 2, 3, … without gaps, in the order of events."""
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
    """Number up to which every record is durable. The next request starts with acked_seq + 1."""
    superseded: bool = False
    """Whether a newer attempt exists: records are kept for the audit but change nothing. Kill and
    stop."""
    models: list[ModelRegistration] = field(default_factory=list)
    """What came of the models that the records register."""


@dataclass(frozen=True, kw_only=True)
class LogsReply:
    """Answer to `POST /agent/v1/allocations/{id}/logs/{local_rank}/{stream}?offset=N`, whose body
    is the raw bytes from that offset (at most 1 MiB). A wrong offset changes nothing and is
    answered with 200 and the offset to resume from."""

    next_offset: int
