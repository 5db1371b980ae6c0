"""Experiments and trials."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster_server.domain.insight.probes import Purpose

from .base import FieldError, Input, Name, Output, PartOut, SafeStr, WireFloat
from .budgets import BudgetOut, SpendingOut
from .operations import LabelName, LabelValue, ParentOut


class ExperimentIn(Input):
    document: Annotated[SafeStr, Field(min_length=1, max_length=262_144)]
    """The experiment document, YAML or JSON text."""
    blob_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Code bundle uploaded before with PUT /api/v1/blobs/{sha256}."""
    overrides: Annotated[
        list[Annotated[SafeStr, Field(max_length=1000)]], Field(max_length=100)
    ] = []
    """["resources.slots=2", ...], values parsed as YAML, applied before validation."""


class PlannedTrial(Output):
    hparams: dict[str, Any]


class PlannedNode(Output):
    node_name: str
    num_slots: int
    command: list[str]


class SearchCostOut(Output):
    """What a whole search is expected to take: its deciding code, played with random results."""

    total_units: int
    """Trained by all trials together, in the unit of `max_length`."""
    full_units: int
    """If every trial trained in full."""
    unit: str
    unit_s: float | None
    """Seconds one trial takes for a unit; null: neither stated nor measured, and then nothing
    below is known."""
    unit_s_from: str
    """Where it is from: `search.unit_s`, or `experiment 12`; empty where it is null."""
    slot_hours: float | None
    full_slot_hours: float | None
    cost: float | None
    """At the pool's price; null also where it has none."""
    currency: str
    duration_s: float | None
    """If as many trials as `concurrent` of the preview always run."""
    within_budget: bool | None
    """Null: there is no budget of slot-hours or cost, or it is not known."""


class PreviewOut(Output):
    """The same checks as a submission, nothing stored."""

    valid: bool
    errors: list[FieldError]
    warnings: list[FieldError]
    """What may be regretted although it is valid; [] when it is not."""
    config: dict[str, Any] | None
    """Resolved document; null when invalid."""
    origins: dict[str, str]
    """Dotted path → "document" | "override" | "default"."""
    num_trials: int | None
    """Trials the search will create (exactly, or at most: see `num_trials_is_upper_bound`)."""
    num_trials_is_upper_bound: bool
    concurrent: int | None
    """Trials at once it was counted with; null when invalid."""
    concurrent_from: str
    """Where that is from: `search.concurrent`, or `room for 3 trials of 1 cpu slot in pool default now`."""
    sampled_trials: list[PlannedTrial]
    """The first up to ten, exactly as they will be created."""
    rungs: list[dict[str, Any]]
    """[{"bracket": 0, "units": 1, "max_trials": 8, "expected_trials": 8}, ...]; empty for methods that
    judge no trial before its end."""
    perturbed: list[str]
    """Method pbt: the hyperparameters that clones change; empty for other methods."""
    copied: list[str]
    """Method pbt: those that clones have from their parent, whose checkpoint they go on from."""
    search_cost: SearchCostOut | None
    """Null where `search.max_length` is not given, or the search is too large to be played."""
    plan: list[PlannedNode]
    """Where one trial would run now; empty when it would wait."""
    fits_now: bool
    fit_reason: str
    """Where it would run, or what it would wait for."""
    fit_parts: list[PartOut]
    """The same for other languages."""
    is_impossible: bool
    """The present nodes can never hold one trial: it would wait for ever."""
    position: int | None
    """Its place among those who wait for slots of the same type in the same pool; null when it
    would start at once."""
    estimated_start_at: dt.datetime | None
    """When it should start if nothing else is submitted; null: no honest estimate, or at once."""
    preempts: list[int]
    """Running trials that would be asked to make room for it."""


class ExperimentOut(Output):
    id: int
    name: str
    project: str
    owner: str | None
    purpose: Purpose | None
    """Made to find out something about its parent; null: a training of its own."""
    labels: dict[str, str]
    notes: str
    state: str
    desired: Literal["run", "pause", "stop", "kill"]
    """What its users want; the state follows."""
    reason: str
    termination: str | None
    """Where it ended for one reason as a whole: "budget_exhausted"."""
    searcher: str
    """"single", "grid", "random", "asha", "hyperband", "median"."""
    metric_name: str | None
    metric_goal: str | None
    best_metric: WireFloat | None
    best_trial_id: int | None
    non_finite_metric: str | None
    """Of a single running trial: a metric whose last value is NaN or infinite, a loss first. Null
    for searches, in which such trials are ordinary."""
    num_trials: int
    num_trials_by_state: dict[str, int]
    num_trials_planned: int | None
    slots_per_trial: int
    """Asked for; an elastic trial may run on fewer."""
    num_slots_held: int
    """By all of its trials, now."""
    slot_type: str
    pool: str
    priority: int
    progress: float | None
    """0..1 over all planned trials; null when unknown."""
    only_trial_id: int | None
    """The trial, when there can be only one (its page is the experiment's page)."""
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    archived_at: dt.datetime | None
    values: dict[str, float | int | str | bool | None] = {}
    """Of a list that was asked for columns: by column what stands there. Objects and lists as JSON
    text; "NaN", "Infinity" and "-Infinity" for numbers that are none."""


class ExperimentColumnOut(Output):
    column: str
    """ "config.resources.slots", "hparam.lr", "metric.last.train/loss"; a metric has min, max and
    best as well."""
    num_experiments: int
    """Of those that were looked at: how many have a value."""


class ExperimentColumnsOut(Output):
    items: list[ExperimentColumnOut]
    """By name."""
    num_searched: int
    """Experiments that were looked at: the newest ones."""


class ExperimentCountOut(Output):
    num_experiments: int


class NoticeOut(Output):
    """What has to be known of a search before its results are read."""

    text: str
    parts: list[PartOut]
    """The same for other languages."""


class ExperimentDetail(ExperimentOut):
    notices: list[NoticeOut]
    """Of a search: trials that failed, with their common cause, and a metric that trials ended
    without. Most serious first; empty for a single training."""
    document: str
    overrides: list[str]
    """Applied to the document, those it was continued with at the end."""
    config: dict[str, Any]
    blob_sha256: str | None
    spending: SpendingOut
    budget: BudgetOut | None
    """Its own; its project may have one as well."""
    parent: ParentOut | None
    """What it was forked from, and the checkpoint it started with."""
    num_children: int
    """Experiments forked from it."""
    num_continued: int
    """How often it went on after it had ended."""


class ExperimentPatch(Input):
    name: Name | None = None
    notes: Annotated[SafeStr, Field(max_length=100_000)] | None = None
    labels: dict[LabelName, LabelValue] | None = None
    """All of them; {} for none."""
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
    """Of one metric of one rank (the lowest that reports it) over the visible curve."""

    last: WireFloat
    min: float | None
    max: float | None
    count: int
    step: int
    """Of `last`."""
    recent_mean: float | None = None
    """Of the newest finite values (time/, comm/ and throughput/ only): one step says little."""
    recent_count: int = 0
    """How many values that mean is over, at most 100; beyond that older ones fade."""


class TrialOut(Output):
    id: int
    no: int
    experiment_id: int
    experiment_name: str
    hparams: dict[str, Any]
    state: str
    flags: list[str]
    reason: str
    termination: str | None
    pending_reason: str
    pending_parts: list[PartOut]
    """The same for other languages."""
    is_impossible: bool
    """It waits, and the present nodes can never satisfy what it asks for."""
    num_slots: int
    """Asked for."""
    num_slots_held: int
    """Now; fewer than asked for while an elastic trial runs on fewer, 0 while it waits."""
    parent_no: int | None = None
    """The trial of the same experiment it is a clone of, by number (method pbt)."""
    generation: int = 0
    """How many rungs its ancestors had passed when it was cloned; 0: it is no clone."""
    attempt_no: int
    num_restarts: int
    """Attempts that followed a failure; those after a preemption, a pause or a drain are none."""
    step: int
    epoch: float | None
    num_steps_planned: int | None
    metric: WireFloat | None
    """The search metric's best value."""
    summary: dict[str, MetricSummary]
    queued_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    last_report_at: dt.datetime | None
    logs_complete: bool


class TrialDetail(TrialOut):
    desired: str
    """What it is meant to do: run, pause, stop or kill. A PAUSED trial of an experiment that is to run waits for its search
    while this is `pause`, and for slots once it is `run`."""
    seed: int
    searcher: str
    metric_name: str | None
    metric_goal: str | None
    attempts: list[AttemptOut]
    """The latest ones, newest first."""
    config: dict[str, Any]


class WorkerOut(Output):
    rank: int
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
    """Global ranks in group-rank order: position is the group-relative rank."""


class CheckpointOut(Output):
    id: int
    attempt_no: int
    step: int
    epoch: float | None
    path: str
    node_name: str
    size_bytes: int
    num_files: int
    metrics: dict[str, WireFloat]
    state: str
    is_latest: bool
    is_best: bool
    created_at: dt.datetime
    pinned_at: dt.datetime | None
    """Since when no policy may delete it; null: it is not pinned."""
    pinned_by: str


class ClassScoreOut(Output):
    """Of one class; shares are 0..1, and null without a sample to judge by."""

    name: str
    num_samples: int
    """That are of this class."""
    num_predicted: int
    """That were taken for it."""
    precision: float | None
    """Of those that were taken for it, the share that is."""
    recall: float | None
    """Of those that are of it, the share that was recognised."""
    f1: float | None
    """Harmonic mean of precision and recall."""


class EvaluationOut(Output):
    name: str
    attempt_no: int
    step: int
    at: dt.datetime
    metrics: dict[str, WireFloat]
    classes: list[ClassScoreOut]
    """Empty where there are no classes."""
    confusion: list[list[int]]
    """[true class][predicted class] → number of samples, in the order of `classes`."""


class RungTrial(Output):
    trial_id: int
    trial_no: int
    metric: WireFloat | None
    promoted: bool
    """Went on past this rung."""
    stopped: bool
    """Behind at this rung, and ended for it."""
    outran: bool
    """Behind at this rung, and at its end before the stop reached it: it is COMPLETED."""


class RungOut(Output):
    bracket: int
    """From 0; trials compete within one."""
    index: int
    """From 0 within the bracket, the shortest training first."""
    units: float
    """Training length at which the rung is judged."""
    cutoff: float | None
    """Metric a trial must reach now to go on; null while too few have reported. promotion and
    synchronous: that of the last who may go on; median: the median."""
    num_trials: int
    """All that have come to it, failed ones included."""
    num_promoted: int
    num_outran: int
    """Behind here, and COMPLETED all the same."""
    trials: list[RungTrial]
    """Best first; of more than 300 the best 150, and others evenly by rank to the last."""


class SearchOut(Output):
    method: str
    rule: str
    """What follows at a rung: "none", "stopping", "promotion", "synchronous", "median"."""
    sampler: str
    finish_reason: str
    """Why the search creates no more trials; "" while it does."""
    metric_name: str | None
    metric_goal: str | None
    unit: str | None
    """"steps" | "epochs"."""
    num_trials_planned: int | None
    num_trials_created: int
    concurrent: int | None
    """Trials at once at most; null: as many as there is room for."""
    finished: bool
    rungs: list[RungOut]


class BlobOut(Output):
    sha256: str
    size_bytes: int
