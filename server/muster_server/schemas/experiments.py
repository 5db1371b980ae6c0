"""Experiments and trials."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.document.running import WasteAction
from muster.inference.scores import ClassScore
from muster_server.domain.insight.probes import Purpose

from .analysis.predictions import PredictionProgressOut
from .base import FieldError, Input, Name, Output, PartOut, SafeStr, WireFloat
from .budgets import BudgetOut, SpendingOut
from .operations import (
    CodeVersionIn,
    LabelName,
    LabelValue,
    LeftOutNames,
    ParentOut,
    UnsavedOut,
)


class ExperimentIn(Input):
    document: Annotated[SafeStr, Field(min_length=1, max_length=262_144)]
    """The experiment document, YAML or JSON text."""
    blob_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Code bundle uploaded before with PUT /api/v1/blobs/{sha256}."""
    overrides: Annotated[
        list[Annotated[SafeStr, Field(max_length=1000)]], Field(max_length=100)
    ] = []
    """["resources.slots=2", ...], values parsed as YAML, applied before validation."""
    left_out: LeftOutNames | None = None
    """Paths in the code folder that an ignore file left out of the bundle; those of folders end
    with a slash. A job that misses one of them says so."""
    code_version: CodeVersionIn | None = None
    """Commit that the code folder was at; null for a folder outside of git."""


class PlannedTrial(Output):
    hparams: dict[str, Any]


class PlannedNode(Output):
    node_name: str
    num_slots: int
    command: list[str]


class SearchCostOut(Output):
    """Expected cost of a whole search, from a simulation of its decisions with random results."""

    total_units: int
    """Training length of all trials together, in `unit`."""
    full_units: int
    """Total training length if every trial trained to its full length, in `unit`."""
    unit: str
    unit_s: float | None
    """Seconds a trial needs for one unit. Null if it is neither stated nor measured; the fields
    below are then null too."""
    unit_s_from: str
    """Source of `unit_s`: `search.unit_s`, or an experiment such as `experiment 12`; empty if
    `unit_s` is null."""
    slot_hours: float | None
    full_slot_hours: float | None
    cost: float | None
    """Cost at the pool's price; null also if the pool has no price."""
    currency: str
    duration_s: float | None
    """Duration in seconds if `concurrent` trials of the preview are always running."""
    within_budget: bool | None
    """Whether the expected cost stays within the budget. Null without a budget of slot-hours or
    cost, or if the expected cost is unknown."""


class NoticeOut(Output):
    """What you should know about a search or a script before you read its results."""

    text: str
    parts: list[PartOut]
    """`text` as message parts, for translation."""


class PreviewOut(Output):
    """Result of the checks of a submission; nothing is stored."""

    valid: bool
    errors: list[FieldError]
    warnings: list[FieldError]
    """Problems of a valid document that you may regret later; [] if the document is invalid."""
    guards: list[str]
    """What each guard does, in a sentence."""
    notices: list[NoticeOut] = []
    """Which trials have been run before with the same inputs."""
    config: dict[str, Any] | None
    """Resolved document; null if the document is invalid."""
    origins: dict[str, str]
    """Dotted path → "document" | "override" | "default"."""
    num_trials: int | None
    """Number of trials the search will create; an upper bound if `num_trials_is_upper_bound`."""
    num_trials_is_upper_bound: bool
    concurrent: int | None
    """Number of parallel trials assumed for these figures; null if the document is invalid."""
    concurrent_from: str
    """Source of `concurrent`: `search.concurrent`, or for example `room for 3 trials of 1 cpu slot
    in pool default now`."""
    sampled_trials: list[PlannedTrial]
    """First trials, at most ten, exactly as they will be created."""
    rungs: list[dict[str, Any]]
    """Rungs, such as [{"bracket": 0, "units": 1, "max_trials": 8, "expected_trials": 8}, ...];
    empty for methods that judge trials only at their end."""
    perturbed: list[str]
    """Hyperparameters that clones change (method `pbt`); empty for other methods."""
    copied: list[str]
    """Hyperparameters that clones take over from their parent, whose checkpoint they resume from
    (method `pbt`); empty for other methods."""
    search_cost: SearchCostOut | None
    """Expected cost; null without a `search.max_length`, for a search that is too large to
    simulate, or one that runs outside."""
    plan: list[PlannedNode]
    """Placement of one trial if it started now; empty if it would be queued."""
    fits_now: bool
    fit_reason: str
    """Where the trial would run, or what it would wait for."""
    fit_parts: list[PartOut]
    """`fit_reason` as message parts, for translation."""
    is_impossible: bool
    """Whether the present nodes can never hold one trial, so that it would wait forever."""
    position: int | None
    """Position in the queue for slots of the same type in the same pool; null if the trial would
    start at once."""
    estimated_start_at: dt.datetime | None
    """Expected start if nothing else is submitted; null if there is no reliable estimate or the
    trial would start at once."""
    preempts: list[int]
    """IDs of running trials that would be preempted to make room."""


class HeadlineOut(Output):
    """The metric that stands for an experiment in lists: `TrialOut.headline` of its best or first
    trial."""

    name: str
    trial_id: int
    last: WireFloat
    best: WireFloat | None
    """Least value, or greatest where the search maximizes; null if none was finite."""
    step: int
    """Step of `last`."""


class WasteNoticeOut(NoticeOut):
    """A trial that holds slots and does nothing."""

    at: dt.datetime
    """When that was noticed."""
    action: WasteAction
    """What is done about it at `acts_at`."""
    acts_at: dt.datetime | None
    """When the trial is stopped unless it goes on or is kept; null: it is not."""


class KeepRunningIn(Input):
    """For how long a trial runs on, whatever it does."""

    hours: Annotated[float, Field(gt=0, le=168)] = 8.0


class ExperimentOut(Output):
    id: int
    name: str
    project: str
    owner: str | None
    purpose: Purpose | None
    """Purpose of an experiment that Muster made to measure its parent; null for any other
    experiment."""
    unmanaged: str | None
    """Client that runs and reports it from outside, "mlflow" or "wandb"; null if Muster runs it."""
    labels: dict[str, str]
    notes: str
    state: str
    desired: Literal["run", "pause", "stop", "kill"]
    """State that its users want; `state` follows."""
    reason: str
    is_doubtful: bool
    """Whether it is COMPLETED with exit code 0 although something in it failed or nothing was done;
    `reason` says what."""
    termination: str | None
    """Reason why the experiment as a whole ended, such as "budget_exhausted"; null without one."""
    searcher: str
    """`search.method` of the document; "single" is one trial and no search."""
    metric_name: str | None
    metric_goal: str | None
    best_metric: WireFloat | None
    best_trial_id: int | None
    headline: HeadlineOut | None
    """Null while no trial has reported the metric of its search, a loss or an error."""
    non_finite_metric: str | None
    """Metric of a single running trial whose last value is NaN or infinite, a loss first. Null for
    searches, in which such trials are ordinary."""
    standstill: NoticeOut | None
    """Why a search has stood still for longer than any of its trials ran; null while it moves."""
    is_quiet: bool
    """Whether a trial that runs has printed nothing and made no step for more than two minutes."""
    num_trials: int
    num_trials_by_state: dict[str, int]
    num_trials_planned: int | None
    slots_per_trial: int
    """Number of slots requested per trial; an elastic trial may run on fewer."""
    num_slots_held: int
    """Number of slots that all trials of the experiment hold now."""
    slot_type: str
    pool: str
    priority: int
    progress: float | None
    """Progress over all planned trials, 0 to 1; null if unknown."""
    only_trial_id: int | None
    """ID of the trial if there can be only one (its page is the experiment's page); null
    otherwise."""
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    archived_at: dt.datetime | None
    values: dict[str, float | int | str | bool | None] = {}
    """Values of the requested columns, by column; empty if the request names no columns. Objects
    and lists are JSON text; numbers that are not finite are "NaN", "Infinity" and "-Infinity"."""


class ExperimentColumnOut(Output):
    column: str
    """Column name, such as "config.resources.slots", "hparam.lr" or "metric.last.train/loss";
    metrics also have min, max and best."""
    num_experiments: int
    """Number of searched experiments that have a value in this column."""


class ExperimentColumnsOut(Output):
    items: list[ExperimentColumnOut]
    """Columns, sorted by name."""
    num_searched: int
    """Number of experiments searched, the newest ones."""


class ColumnStatisticsOut(Output):
    """Statistics of a column over the experiments of a group that have a finite number in it; null
    without any."""

    num_values: int
    mean: float | None
    min: float | None
    max: float | None


class ExperimentGroupOut(Output):
    value: float | str | None
    """Value that the experiments of the group share; null if they have none. Objects and lists are
    JSON text; numbers that are not finite are "NaN", "Infinity" and "-Infinity"."""
    num_experiments: int
    num_by_state: dict[str, int]
    """Number of experiments by state; states without any are left out."""
    columns: dict[str, ColumnStatisticsOut]
    """Column → statistics, for the requested columns."""


class ExperimentGroupsOut(Output):
    by: str
    """Column that the experiments are grouped by."""
    num_groups: int
    items: list[ExperimentGroupOut]
    """Groups, the largest first, at most 200."""


class ExperimentCountOut(Output):
    num_experiments: int


class OrderedExperimentOut(Output):
    """The other end of an `after`: an experiment that this one waits for, or that waits for this
    one."""

    id: int
    name: str | None
    """Null when it was deleted."""
    state: str | None
    """Null when it was deleted."""
    when: Literal["success", "any"]
    """End that is waited for: COMPLETED, or any end."""


class ExperimentDetail(ExperimentOut):
    notices: list[NoticeOut]
    """Notices about a search: a standstill, failed trials with their common cause, and a metric that trials ended
    without; those of its trial for a single training. Most serious first."""
    document: str
    overrides: list[str]
    """Overrides applied to the document; those of continuations come last."""
    config: dict[str, Any]
    blob_sha256: str | None
    left_out: list[str]
    """Paths that ignore files left out of the code bundle, largest first; those of folders end with
    a slash."""
    spending: SpendingOut
    budget: BudgetOut | None
    """Budget of the experiment itself; its project may have another one."""
    parent: ParentOut | None
    """Experiment that this one was forked from, and the checkpoint it started from; null if it is
    not a fork."""
    unsaved: UnsavedOut | None
    """What running trials without any checkpoint would repeat; null if there are none."""
    num_children: int
    """Number of experiments forked from this one."""
    after: list[OrderedExperimentOut]
    """Experiments that its document names in `after`, also those that have ended meanwhile."""
    before: list[OrderedExperimentOut]
    """Experiments that wait for this one now, oldest first; 20 at most."""
    num_before: int
    """Number of experiments that wait for this one now."""
    num_continued: int
    """Number of times the experiment was continued after it had ended."""


class ExperimentPatch(Input):
    name: Name | None = None
    notes: Annotated[SafeStr, Field(max_length=100_000)] | None = None
    labels: dict[LabelName, LabelValue] | None = None
    """All labels, replacing the existing ones; {} removes every label."""
    priority: Annotated[int, Field(ge=0, le=100)] | None = None


class AttemptOut(Output):
    no: int
    state: str
    world_size: int
    num_nodes: int
    nodes: list[str]
    rendezvous_host: str | None
    rendezvous_port: int | None
    resume_step: int
    reason: str
    termination: str | None
    root_rank: int | None
    root_log_tail: list[str]
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None


class MetricSummary(Output):
    """Summary of a metric over the visible curve of one rank, the lowest that reports it."""

    last: WireFloat
    min: float | None
    max: float | None
    count: int
    step: int
    """Step of `last`."""


class ReusedTrialOut(Output):
    """The trial whose result another one takes."""

    id: int
    experiment_id: int
    no: int


class TrialOut(Output):
    id: int
    no: int
    experiment_id: int
    experiment_name: str
    hparams: dict[str, Any]
    hparams_before: dict[str, Any] | None = None
    """Hyperparameters with which it began, if a guard has changed them since; null otherwise."""
    state: str
    flags: list[str]
    reason: str
    termination: str | None
    pending_reason: str
    pending_parts: list[PartOut]
    """`pending_reason` as message parts, for translation."""
    is_impossible: bool
    """Whether the trial waits for something that the present nodes can never provide."""
    num_slots: int
    """Number of slots requested."""
    num_slots_held: int
    """Number of slots held now: fewer than requested while an elastic trial runs on fewer, 0 while
    the trial is queued."""
    parent_no: int | None = None
    """Number of the trial in the same experiment that this one is a clone of (method `pbt`); null
    if it is not a clone."""
    is_reused: bool = False
    """Whether it has not run, but takes the result of a finished trial with the same inputs."""
    reused_from: ReusedTrialOut | None = None
    """Trial whose result it takes; null if it has run itself, and if you do not see the other one."""
    generation: int = 0
    """Number of rungs its ancestors had passed when it was cloned; 0 if it is not a clone."""
    attempt_no: int
    num_restarts: int
    """Number of attempts that followed a failure; attempts after a preemption, a pause or a drain
    do not count."""
    step: int
    epoch: float | None
    num_steps_planned: int | None
    metric: WireFloat | None
    """Best value of the search metric."""
    headline: str | None
    """Name in `summary` of the metric that stands for the trial: that of its search, else a loss or
    error that was reported in the second half of the steps so far, of the validation data before
    one of the training data."""
    summary: dict[str, MetricSummary]
    queued_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    last_report_at: dt.datetime | None
    unmanaged: str | None
    """Client that runs and reports it from outside, "mlflow" or "wandb"; null if Muster runs it."""
    is_silent: bool
    """Whether it is unmanaged and RUNNING, and its client has said nothing for ten minutes."""
    logs_complete: bool


class TrialDetail(TrialOut):
    child_runs: list[str]
    """What the metrics of further runs of the script in this trial begin with, before a slash."""
    desired: str
    """What the trial is meant to do: run, pause, stop or kill. If the experiment is to run, a
    PAUSED trial waits for its search while this is `pause`, and for slots once it is `run`."""
    estimated_start_at: dt.datetime | None
    """Expected start of a QUEUED trial, from the last scheduling pass; null if there is no reliable
    estimate, and for other states."""
    seed: int
    searcher: str
    may_be_sent_on: bool
    """Whether it waits at a rung of its search and can be sent on before the search decides."""
    metric_name: str | None
    metric_goal: str | None
    attempts: list[AttemptOut]
    """Latest attempts, newest first."""
    members: list[RoleMemberOut] = []
    """Members of a gang of roles, in the order of their ranks; empty for a gang of one kind."""
    exit_code: int | None
    """Exit code of the process whose failure ended a FAILED trial; 128 plus the signal's number if a
    signal ended it. Null for other states, and if no process is to blame."""
    config: dict[str, Any]
    notices: list[NoticeOut]
    """Notices about a script of your own: workers that train independently, an end without a step,
    and no loss. Most serious first; usually empty."""
    waste: WasteNoticeOut | None
    """Set while it holds slots and does nothing, by the rules of its pool and its document."""
    keep_until: dt.datetime | None
    """Time until which it is kept running, whatever it does; null if it never was."""
    prediction: PredictionProgressOut | None
    """How far a batch inference is; null for others, and until its rows are counted."""


class RoleMemberOut(Output):
    """A member of a gang of roles, in its current or last attempt."""

    name: str
    """How people name it: "rollout/0"."""
    role: str
    index: int
    node_name: str
    state: str
    """State of its allocation; once it has ended, SUCCEEDED, STOPPED (as it was asked to) or FAILED."""
    num_slots: int
    ranks: list[int]
    """Ranks of its workers within the gang, which tell its log and metrics from those of others."""
    address: str
    """Host and port at which the others find it; "" before its node has chosen them."""
    on_end: str
    on_failure: str
    message: str
    """What its node says of it, such as how often it was started again; usually empty."""
    exit: str
    """How it ended by itself, in a sentence; "" while it has not, and if it was stopped."""


class WorkerOut(Output):
    rank: int
    member: str = ""
    """Worker of a gang of roles as people name it, "rollout/0"; "" for any other."""
    local_rank: int
    node_rank: int
    world_size: int
    node_name: str
    slot: int
    host: str
    pid: int
    master_addr: str
    master_port: int
    device: str
    backend: str
    reports: bool
    step: int
    latest: dict[str, WireFloat]
    last_report_at: dt.datetime | None
    exit_code: int | None
    signal: int | None
    exit_message: str
    started_at: dt.datetime
    ended_at: dt.datetime | None


class ProcessGroupOut(Output):
    name: str
    kind: str
    backend: str
    size: int
    ranks: list[int]
    """Global ranks in group-rank order: the position is the rank within the group."""


class CheckpointOut(Output):
    id: int
    attempt_no: int
    step: int
    epoch: float | None
    kind: str
    """`saved`: with Muster's SDK. `adopted`: by the script, under a name of its own."""
    path: str
    """Folder within the trial's; of an adopted one, the script's name of the file or folder."""
    node_name: str
    size_bytes: int
    num_files: int
    metrics: dict[str, WireFloat]
    state: str
    is_latest: bool
    is_best: bool
    created_at: dt.datetime
    pinned_at: dt.datetime | None
    """Time from which no policy may delete the checkpoint; null if it is not pinned."""
    pinned_by: str


class EvaluationOut(Output):
    name: str
    attempt_no: int
    step: int
    at: dt.datetime
    metrics: dict[str, WireFloat]
    classes: list[ClassScore]
    """Scores by class; empty if there are no classes."""
    confusion: list[list[int]]
    """[true class][predicted class] → number of samples, in the order of `classes`."""


class RungTrial(Output):
    trial_id: int
    trial_no: int
    metric: WireFloat | None
    promoted: bool
    """Whether the trial continued past this rung."""
    stopped: bool
    """Whether the trial was behind at this rung and was stopped for it."""
    outran: bool
    """Whether the trial was behind at this rung but reached its end before the stop did: it is
    COMPLETED."""


class RungOut(Output):
    bracket: int
    """Index of the bracket, from 0; trials compete only within their bracket."""
    index: int
    """Index within the bracket, from 0, the shortest training first."""
    units: float
    """Training length at which the rung is judged."""
    cutoff: float | None
    """Metric a trial must reach now to continue; null while too few trials have reported. For
    `promotion` and `synchronous` it is the metric of the last trial that may continue, for `median`
    the median."""
    num_trials: int
    """Number of trials that have reached the rung, failed ones included."""
    num_promoted: int
    num_outran: int
    """Number of trials that were behind at this rung and are COMPLETED all the same."""
    trials: list[RungTrial]
    """Trials, best first. Of more than 300, the best 150 and others evenly spaced by rank down to
    the last."""


class SearchOut(Output):
    method: str
    rule: str
    """Rule applied at a rung: "none", "stopping", "promotion", "synchronous", "median" or
    "population"."""
    sampler: str
    finish_reason: str
    """Why the search creates no more trials; empty while it does."""
    metric_name: str | None
    metric_goal: str | None
    unit: str | None
    """"steps" | "epochs"."""
    num_trials_planned: int | None
    has_fixed_trials: bool
    """Whether the number of trials follows from the document and cannot be changed."""
    num_trials_created: int
    concurrent: int | None
    """Maximum number of parallel trials; null for as many as fit."""
    finished: bool
    rungs: list[RungOut]


class BlobOut(Output):
    sha256: str
    size_bytes: int
