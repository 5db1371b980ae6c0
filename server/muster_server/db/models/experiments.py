"""Experiments, trials, attempts, allocations and what they leave behind."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from muster.document.experiment import ExperimentConfig
from muster_server.domain.access import Audience
from muster_server.domain.states import AllocationState, AttemptState, ExperimentState, TrialState

from .base import Base, BigId, StateOf, belongs_to


class ProjectRow(Base):
    __tablename__ = "projects"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    weight: Mapped[float] = mapped_column(default=1.0)
    """Its share of a busy cluster, against the weights of the others."""
    quotas: Mapped[list[Any]] = mapped_column(default=list)
    """[{"pool", "slot_type", "slots"}]: slots its trials may hold there at once."""
    budget: Mapped[dict[str, Any] | None]
    """domain.quota.budgets.Budget as JSON."""
    budget_since: Mapped[dt.datetime | None]
    """When an administrator last let the count begin anew; None: everything counts."""
    budget_base: Mapped[dict[str, Any] | None]
    """{"slot_s", "cost"} spent before that moment."""
    exhausted_reason: Mapped[str] = mapped_column(default="")
    """Why nothing of it is placed any more; "" while its budget lasts."""
    exhausted_parts: Mapped[list[Any] | None]
    """Message code and parameters of `exhausted_reason`, for translation (domain.messages)."""
    visibility: Mapped[Audience] = mapped_column(String(8), default="all")
    """Who sees it: all | members."""
    submission: Mapped[Audience] = mapped_column(String(8), default="members")
    """Who may submit to it and use its secrets: all | members."""
    log_retention_days: Mapped[int | None]
    """Age at which logs of its trials are deleted; None: that of the server."""
    metric_retention_days: Mapped[int | None]
    """Age at which long metrics of its trials are downsampled; None: that of the server."""
    guards: Mapped[str] = mapped_column(default="")
    """Guards of what is submitted to it, as YAML; "" for none."""
    created_at: Mapped[dt.datetime]


class ExperimentRow(Base):
    __tablename__ = "experiments"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), index=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    name: Mapped[str] = mapped_column(String(200))
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    notes: Mapped[str] = mapped_column(default="")
    state: Mapped[ExperimentState] = mapped_column(StateOf(ExperimentState), index=True)
    desired: Mapped[str] = mapped_column(String(8), default="run")
    """run | pause | stop | kill: what the user wants; the controller makes it so."""
    document: Mapped[str]
    """The YAML or JSON as submitted."""
    overrides: Mapped[list[Any]] = mapped_column(default=list)
    """["resources.slots=2", …], applied to the document in this order."""
    config: Mapped[ExperimentConfig]
    """The resolved document: every default filled in."""
    blob_sha256: Mapped[str | None] = mapped_column(String(64))
    """Uploaded code bundle, if any."""
    left_out: Mapped[list[Any] | None]
    """Paths that ignore files left out of it; folders end with a slash. None: nothing is known."""
    code_version: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """schemas.operations.CodeVersionIn as JSON; None: its folder is in no git repository. Its diff is
    long, so it is read where it is asked for alone."""
    waits_for: Mapped[list[Any] | None]
    """[{"experiment", "when"}]: experiments that must end before its trials are placed. None: it
    waits for none, or not any more."""
    stop_reason: Mapped[str] = mapped_column(default="")
    """Why it was stopped, where that was not the wish of a user."""
    priority: Mapped[int]
    slots_per_trial: Mapped[int]
    search_state: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """JSON state of the searcher (domain.search); every decision is a function of it. Megabytes for a
    search of thousands of trials, so it is read where it is asked for alone."""
    search_seq: Mapped[int] = mapped_column(default=0)
    """Events the searcher has consumed."""
    search_room: Mapped[int | None]
    """How many trials fit, as its searcher was last told; None: it does not go by that."""
    metric_name: Mapped[str | None] = mapped_column(String(200))
    metric_goal: Mapped[str | None] = mapped_column(String(4))
    best_trial_id: Mapped[int | None]
    best_metric: Mapped[float | None]
    reason: Mapped[str] = mapped_column(default="")
    """One sentence: why it is in this state."""
    termination: Mapped[str | None] = mapped_column(String(32))
    """domain.states.Termination, where the experiment as a whole ended for one reason."""
    budget: Mapped[dict[str, Any] | None]
    """domain.quota.budgets.Budget as JSON: the document's, or what a user set since."""
    exhausted_reason: Mapped[str] = mapped_column(default="")
    """The sentence that names the exhausted budget; set, its trials are stopped for good."""
    exhausted_parts: Mapped[list[Any] | None]
    """Message code and parameters of `exhausted_reason`, for translation (domain.messages)."""
    parent_id: Mapped[int | None] = mapped_column(index=True)
    """The experiment it was forked from; that one may be deleted."""
    source: Mapped[dict[str, Any] | None]
    """Where it comes from, readable after the parent is gone (services.experiments.forks)."""
    purpose: Mapped[str | None] = mapped_column(String(16))
    """domain.insight.probes.Purpose: which question about its parent it was made to answer; null: none."""
    unmanaged: Mapped[str | None] = mapped_column(String(16))
    """Client that reports it from outside, "mlflow" or "wandb"; null: Muster runs it."""
    num_continued: Mapped[int] = mapped_column(default=0)
    """How often it was continued after it had ended."""
    num_guards: Mapped[int] = mapped_column(default=0, server_default="0")
    """Number of guards in its document."""
    created_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
    archived_at: Mapped[dt.datetime | None]
    deleting_at: Mapped[dt.datetime | None]
    """Set, it is gone for everybody; its rows go piece by piece."""

    __table_args__ = (
        Index("ix_experiments_state_priority", "state", "priority"),
        Index("ix_experiments_name_id", "name", "id"),
    )


def _given(context: Any, name: str) -> dt.datetime:
    """Another value of the row that is being inserted."""
    value: dt.datetime = context.get_current_parameters()[name]
    return value


class TrialRow(Base):
    __tablename__ = "trials"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    experiment_id: Mapped[int] = belongs_to("experiments.id")
    no: Mapped[int]
    """1, 2, 3, … within the experiment, in the order the searcher asked for them."""
    hparams: Mapped[dict[str, Any]]
    seed: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[TrialState] = mapped_column(StateOf(TrialState))
    desired: Mapped[str] = mapped_column(String(8), default="run")
    """run | stop or kill (by the user) | early or pause (by the searcher)."""
    flags: Mapped[list[Any]] = mapped_column(default=list)
    """Any of STALLED, DEGRADED, UNREACHABLE and QUIET, shown in addition to the state."""
    queued_at: Mapped[dt.datetime]
    """When it was created and first queued."""
    queue_no: Mapped[float] = mapped_column(
        default=lambda context: _given(context, "queued_at").timestamp()
    )
    """Place in the queue among equals, smaller first. Kept over restarts, preemptions and pauses;
    users move it. First it is `queued_at`, in seconds since 1970."""
    waiting_since: Mapped[dt.datetime] = mapped_column(
        default=lambda context: _given(context, "queued_at")
    )
    """When it last became QUEUED."""
    promised_since: Mapped[dt.datetime | None]
    """Since when the scheduler has been keeping slots for it; null: it is not."""
    estimated_start_at: Mapped[dt.datetime | None]
    """Estimate from the last scheduling pass that considered the trial; null if none could be
    made."""
    not_before: Mapped[dt.datetime | None]
    pending_reason: Mapped[str] = mapped_column(default="")
    pending_parts: Mapped[list[Any] | None]
    """Message code and parameters of `pending_reason`, for translation (domain.messages)."""
    attempt_no: Mapped[int] = mapped_column(default=0)
    """Fence: the current attempt. Writes of any other attempt change nothing that is shown."""
    failures_user: Mapped[int] = mapped_column(default=0)
    failures_infra: Mapped[int] = mapped_column(default=0)
    no_progress: Mapped[int] = mapped_column(default=0)
    """Attempts in a row that ended without a newer checkpoint."""
    avoided: Mapped[list[Any]] = mapped_column(default=list)
    """domain.lifecycle.avoidance.Avoided as plain values: nodes that did not fit into its gang."""
    guard_reason: Mapped[str] = mapped_column(default="", server_default="")
    """Why a guard, or a rule on waste, has stopped it; "" if none has."""
    keep_until: Mapped[dt.datetime | None]
    """Time until which its owner keeps it running, whatever the rules on waste say."""
    hparams_before: Mapped[dict[str, Any] | None]
    """Its hyperparameters before guards changed them; null: none has."""
    rolled_back_attempt: Mapped[int] = mapped_column(default=0, server_default="0")
    """Attempt in which a guard took it back to an earlier checkpoint; 0: none has. Nothing starts from
    a checkpoint of this attempt or an earlier one that is newer than `rolled_back_step`."""
    rolled_back_step: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    skipped_samples: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """Samples behind the place of that step's checkpoint that are not used."""
    step: Mapped[int] = mapped_column(BigInteger, default=0)
    epoch: Mapped[float | None]
    progress_at: Mapped[dt.datetime | None]
    """When `step` was last reported."""
    num_steps_planned: Mapped[int | None] = mapped_column(BigInteger)
    summary: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """name → {last, min, max, count, step} of the lowest rank that reports it."""
    metric: Mapped[float | None]
    """The searcher's metric: best value so far."""
    latest_checkpoint_id: Mapped[int | None]
    source_checkpoint_id: Mapped[int | None] = mapped_column(index=True)
    """A checkpoint of another trial that it starts from while it has none of its own."""
    reuse_key: Mapped[str | None] = mapped_column(String(64), index=True)
    """domain.experiments.reuse.key_of its inputs; null where they are not all known."""
    reused_from: Mapped[int | None] = mapped_column(BigInteger, index=True)
    """The trial whose result it takes, with its curves and checkpoints; null: it has run itself."""
    parent_no: Mapped[int | None]
    """The trial of the same experiment it is a clone of (method pbt)."""
    generation: Mapped[int] = mapped_column(default=0)
    """How many rungs its ancestors had passed when it was cloned; 0: it is no clone."""
    is_external: Mapped[bool] = mapped_column(default=False)
    """It is run outside, by whoever asks for it: it has no attempts and takes no slots."""
    heard_at: Mapped[dt.datetime | None]
    """When the client of an unmanaged trial last said anything of it; null for any other trial."""
    point: Mapped[str | None] = mapped_column(String(64))
    """Name under which its hyperparameters were enqueued; null if the search drew them."""
    num_continued: Mapped[int] = mapped_column(default=0)
    """How often it was continued after it had ended."""
    reason: Mapped[str] = mapped_column(default="")
    termination: Mapped[str | None] = mapped_column(String(32))
    """domain.states.Termination."""
    created_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
    logs_complete: Mapped[bool] = mapped_column(default=False)
    downsampled_at: Mapped[dt.datetime | None]
    """When retention looked at all of its metrics; null: it has not, or there are newer ones."""
    num_points_dropped: Mapped[int] = mapped_column(BigInteger, default=0)
    """Number of metric points that retention has deleted."""
    cold_at: Mapped[dt.datetime | None]
    """When all points of its metrics were in a file; null: some are in the database."""

    __table_args__ = (
        UniqueConstraint("experiment_id", "no"),
        Index("ix_trials_state", "state"),
    )

    @property
    def address(self) -> str:
        """The trial as people name it: "36.2" is trial 2 of experiment 36."""
        return f"{self.experiment_id}.{self.no}"

    def is_abandoned(self, *, attempt_no: int, step: int) -> bool:
        """Return whether a guard has gone back to before a checkpoint."""
        return attempt_no <= self.rolled_back_attempt and step > self.rolled_back_step


class AttemptRow(Base):
    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    no: Mapped[int]
    state: Mapped[AttemptState] = mapped_column(StateOf(AttemptState), index=True)
    world_size: Mapped[int]
    num_nodes: Mapped[int]
    rendezvous_host: Mapped[str | None] = mapped_column(String(255))
    rendezvous_port: Mapped[int | None]
    resume_checkpoint_id: Mapped[int | None]
    resume_step: Mapped[int] = mapped_column(BigInteger, default=0)
    """Step of the checkpoint that the attempt goes on from; 0 without one."""
    controller_epoch: Mapped[int]
    reason: Mapped[str] = mapped_column(default="")
    termination: Mapped[str | None] = mapped_column(String(32))
    root_rank: Mapped[int | None]
    """The earliest failing rank."""
    root_log_tail: Mapped[list[Any]] = mapped_column(default=list)
    yield_kind: Mapped[str | None] = mapped_column(String(16))
    """domain.states.YieldKind: it was asked to give up its slots; null: it was not."""
    yield_reason: Mapped[str] = mapped_column(default="")
    yield_slots: Mapped[int | None]
    """The world size a resize is for."""
    yield_at: Mapped[dt.datetime | None]
    stuck_at: Mapped[dt.datetime | None]
    """When it had not moved for so long that its stacks were taken; once per attempt."""
    stuck_reason: Mapped[str] = mapped_column(default="")
    """Why it is to be ended for that, where its document says so; empty: it is not."""
    waste: Mapped[dict[str, Any] | None]
    """domain.runtime.waste.Notice as plain values while it wastes its slots; null: it does not."""
    created_at: Mapped[dt.datetime]
    started_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]

    __table_args__ = (UniqueConstraint("trial_id", "no"),)


class AllocationRow(Base):
    __tablename__ = "allocations"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    attempt_id: Mapped[int] = belongs_to("attempts.id", index=True)
    trial_id: Mapped[int] = mapped_column(BigInteger, index=True)
    attempt_no: Mapped[int]
    node_id: Mapped[str] = mapped_column(String(32), index=True)
    node_name: Mapped[str] = mapped_column(String(128))
    """Kept beside the id: a node may be removed, its history stays."""
    node_rank: Mapped[int]
    slots: Mapped[list[Any]]
    rank_offset: Mapped[int]
    role: Mapped[str] = mapped_column(String(32), default="")
    """Role of a member of a gang of several kinds of jobs; "" for any other job. `node_rank` is the number
    of the member in the gang."""
    role_index: Mapped[int] = mapped_column(default=0)
    """Number of the member within its role."""
    address: Mapped[str] = mapped_column(String(270), default="")
    """Host and port at which the others find the member, from its READY; "" for any other job."""
    desired: Mapped[str] = mapped_column(String(8))
    """wire.Desired, or forget."""
    stop_reason: Mapped[str] = mapped_column(default="")
    stop_grace_s: Mapped[float | None]
    """Time to end in when it is told to stop; None: the document's `stop_grace_s`."""
    stop_kind: Mapped[str] = mapped_column(String(16), default="")
    """wire.STOP_KINDS."""
    observed: Mapped[AllocationState] = mapped_column(StateOf(AllocationState))
    acked_seq: Mapped[int] = mapped_column(default=0)
    """Records durably applied; the next one must be acked_seq + 1."""
    stacks_no: Mapped[int] = mapped_column(default=0)
    """How often its workers' stacks were asked for."""
    profile: Mapped[dict[str, Any] | None]
    """wire.ProfileOrder, the last one."""
    shards: Mapped[dict[str, Any] | None]
    """wire.ShardOrders, the last ones."""
    message: Mapped[str] = mapped_column(default="")
    is_node_at_fault: Mapped[bool] = mapped_column(default=False)
    """Whether the node caused a PREPARE_FAILED, so that another node would have succeeded."""
    exit: Mapped[dict[str, Any] | None]
    """wire.ExitInfo."""
    spec: Mapped[dict[str, Any]]
    """wire.AllocationSpec as sent."""
    facts: Mapped[dict[str, Any] | None]
    """wire.NodeFacts, from its READY."""
    environment: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """wire.JobEnvironment, from the READY of the first node; None on the other ones."""
    price_per_slot_hour: Mapped[float] = mapped_column(default=0.0)
    """Price of the node's pool when the slots were reserved. Later price changes do not affect
    it."""
    created_at: Mapped[dt.datetime]
    """When its slots were reserved."""
    state_since: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    """Time when the slots became free again, or their node was lost; null before that."""

    __table_args__ = (
        Index("ix_allocations_node_id_created_at", "node_id", "created_at"),
        Index(
            "ix_allocations_held",
            "observed",
            sqlite_where=text("observed != 'CLEANED'"),
            postgresql_where=text("observed != 'CLEANED'"),
        ),
    )


class WorkerRow(Base):
    __tablename__ = "workers"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    allocation_id: Mapped[str] = belongs_to("allocations.id")
    trial_id: Mapped[int] = mapped_column(BigInteger)
    attempt_no: Mapped[int]
    rank: Mapped[int]
    local_rank: Mapped[int]
    node_rank: Mapped[int]
    world_size: Mapped[int]
    node_name: Mapped[str] = mapped_column(String(128))
    slot: Mapped[int]
    pid: Mapped[int]
    host: Mapped[str] = mapped_column(String(255))
    master_addr: Mapped[str] = mapped_column(String(255))
    master_port: Mapped[int]
    device: Mapped[str] = mapped_column(String(128), default="")
    backend: Mapped[str] = mapped_column(String(32), default="")
    reports: Mapped[bool] = mapped_column(default=False)
    step: Mapped[int] = mapped_column(BigInteger, default=0)
    latest: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """name → last value, of the names every rank reports (time/*, comm/*, throughput/*, memory/*)."""
    last_report_at: Mapped[dt.datetime | None]
    progress: Mapped[dict[str, Any] | None]
    """wire.WorkerProgress, the last one that was new."""
    moved_at: Mapped[dt.datetime | None]
    """When that came."""
    samples: Mapped[dict[str, Any] | None]
    """wire.SamplesRecord, the last one; None if the worker does not tell which samples it is given."""
    exit_code: Mapped[int | None]
    signal: Mapped[int | None]
    exit_message: Mapped[str] = mapped_column(default="")
    started_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]

    __table_args__ = (
        UniqueConstraint("allocation_id", "local_rank"),
        Index("ix_workers_trial_id_attempt_no", "trial_id", "attempt_no"),
    )


class ProcessGroupRow(Base):
    __tablename__ = "process_groups"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    attempt_no: Mapped[int]
    name: Mapped[str] = mapped_column(String(128))
    kind: Mapped[str] = mapped_column(String(32))
    backend: Mapped[str] = mapped_column(String(32))
    ranks: Mapped[list[Any]]
    """Global ranks in group-rank order."""

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no", "name"),)


class ScheduleRow(Base):
    """What a worker of a pipeline did when, in one step."""

    __tablename__ = "schedules"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    attempt_no: Mapped[int]
    rank: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    operations: Mapped[list[Any]]
    """[kind, stage, micro-batch, start, end in µs from the worker's own beginning of the step]."""
    num_left_out: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no", "rank", "step"),)


class StacksRow(Base):
    """Where a worker was when somebody asked."""

    __tablename__ = "stacks"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    attempt_no: Mapped[int]
    no: Mapped[int]
    """1 for the first time that this attempt was asked, …"""
    rank: Mapped[int]
    node_name: Mapped[str] = mapped_column(String(128))
    text: Mapped[str]
    problem: Mapped[str]
    is_cut: Mapped[bool]
    at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no", "no", "rank"),)


class CheckpointRow(Base):
    __tablename__ = "checkpoints"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    attempt_no: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    epoch: Mapped[float | None]
    path: Mapped[str]
    node_name: Mapped[str] = mapped_column(String(128))
    storage_id: Mapped[str] = mapped_column(String(64), default="")
    """The storage folder it lies in, which several nodes may share; "" when not known."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    files: Mapped[dict[str, Any]]
    metrics: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(String(16), default="complete")
    created_at: Mapped[dt.datetime]
    pinned_at: Mapped[dt.datetime | None]
    """Since when nothing but its experiment's deletion may delete it; null: policies may."""
    pinned_by: Mapped[str] = mapped_column(String(160), default="")
    kind: Mapped[str] = mapped_column(String(16), default="saved")
    """`saved`: by the SDK, which can resume from it. `adopted`: files that the script saved under a
    name of its own, which is in `path`."""
    parts: Mapped[list[Any]] = mapped_column(default=list, deferred=True)
    """Where the files of an adopted one lie, and their list, by node rank."""

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no", "step"),)


class EvaluationRow(Base):
    """What a trial's model was found to be worth on some samples."""

    __tablename__ = "evaluations"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    name: Mapped[str] = mapped_column(String(64))
    """Name of the samples, for example "test"."""
    attempt_no: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    metrics: Mapped[dict[str, Any]]
    classes: Mapped[list[Any]]
    """Names."""
    confusion: Mapped[list[Any]]
    """[true class][predicted class] → number of samples."""
    at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("trial_id", "name"),)


class EventRow(Base):
    """What happened to an experiment, trial or node, for people to read."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[dt.datetime]
    level: Mapped[str] = mapped_column(String(8))
    """info | warning | error."""
    type: Mapped[str] = mapped_column(String(64))
    message: Mapped[str]
    experiment_id: Mapped[int | None]
    trial_id: Mapped[int | None]
    attempt_no: Mapped[int | None]
    node_id: Mapped[str | None] = mapped_column(String(32))
    project_id: Mapped[int | None]
    """Project of an event that concerns the project as a whole; null for any other event."""
    data: Mapped[dict[str, Any]] = mapped_column(default=dict)

    __table_args__ = (
        Index("ix_events_experiment_id_id", "experiment_id", "id"),
        Index("ix_events_trial_id_id", "trial_id", "id"),
        Index("ix_events_node_id_id", "node_id", "id"),
        Index("ix_events_project_id_id", "project_id", "id"),
    )


class SearchEventRow(Base):
    """Every event a searcher consumed and what it decided, in the transaction that applied it."""

    __tablename__ = "search_events"

    experiment_id: Mapped[int] = belongs_to("experiments.id", primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(128))
    """Natural key of the event (e.g. "validation:3:9"), so that one delivered twice counts once."""
    event: Mapped[dict[str, Any]]
    actions: Mapped[list[Any]]
    at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("experiment_id", "key"),)
