"""Operations on submitted experiments."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.document.common import TRIAL_PATTERN
from muster.document.searching import MAX_TRIALS
from muster_server.domain.states import ExperimentState

from .base import Identifier, Input, Output, SafeStr, WireFloat

Overrides = Annotated[list[Annotated[SafeStr, Field(max_length=1000)]], Field(max_length=100)]

LabelName = Annotated[SafeStr, Field(min_length=1, max_length=64)]
LabelValue = Annotated[SafeStr, Field(max_length=256)]

LeftOutNames = Annotated[
    list[Annotated[SafeStr, Field(min_length=1, max_length=1000)]], Field(max_length=200)
]


class CodeVersionIn(Input):
    """Commit of the git repository that a code folder belongs to, and how the folder differs from
    it."""

    commit: Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
    branch: Annotated[SafeStr, Field(max_length=255)] = ""
    """Branch that is checked out; "" for a detached commit."""
    is_dirty: bool
    """Whether the folder differs from the commit, by changed files or untracked ones."""
    diff: Annotated[SafeStr, Field(max_length=65_536)] = ""
    """Changes of tracked files, as `git diff` prints them."""
    is_diff_cut: bool = False
    """Whether the changes are longer than `diff`."""
    untracked: Annotated[
        list[Annotated[SafeStr, Field(min_length=1, max_length=1000)]], Field(max_length=100)
    ] = []
    """Names of untracked files and folders, relative to the code folder."""
    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+!]{0,64}$")] = ""
    """Version that setuptools_scm finds there, for a project that uses it."""


class FileDeletionOut(Output):
    """Deletion of the files of a checkpoint or of a deleted experiment, and its progress."""

    id: int
    experiment_id: int
    experiment_name: str
    checkpoint_id: int | None
    """ID of the checkpoint; null if the files of a whole deleted experiment are deleted."""
    path: str
    """Path relative to the storage folder of its nodes, or to this server's folder in an object
    store."""
    storage_id: str
    storage_url: str
    """URL of the object store; empty for a storage folder."""
    node_name: str
    """A node that had the storage when the deletion was requested."""
    size_bytes: int
    """Size of the checkpoints registered there, in bytes."""
    state: Literal["pending", "done", "refused", "dismissed"]
    message: str
    """Latest message from the agent."""
    waits_for: str
    """Node asked to delete the files of a pending deletion, or why no node can; empty otherwise."""
    freed_bytes: int | None
    requested_by: str
    requested_at: dt.datetime
    ended_at: dt.datetime | None


class KeepIn(Input):
    """Number of checkpoints to keep. A checkpoint is kept if any of these numbers keeps it."""

    last: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Number of newest checkpoints to keep of each trial."""
    best: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Number of best checkpoints to keep of each trial, by the search metric."""
    experiment_best: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of best checkpoints to keep of all trials together, by the search metric."""


class CheckpointVerdict(Output):
    id: int
    trial_id: int
    trial_no: int
    step: int
    size_bytes: int
    value: WireFloat | None
    """Value of the search metric; null if the checkpoint has none."""
    is_kept: bool
    reason: str


class CleaningPlanOut(Output):
    """What a policy keeps of an experiment's checkpoints."""

    experiment_id: int
    policy: str
    metric: str | None
    num_kept: int
    num_dropped: int
    freed_bytes: int
    checkpoints: list[CheckpointVerdict]
    """Verdicts by trial and step, at most 1,000."""


class CleaningOut(Output):
    experiment_id: int
    num_deleted: int
    """Number of checkpoints that can no longer be chosen; agents delete their files."""


class LengthIn(Input):
    """Total training length, counted from step 0, in exactly one unit: steps or epochs. For a
    search whose `max_length` is in samples or seconds, use that unit."""

    steps: Annotated[int, Field(ge=1, le=2**53)] | None = None
    epochs: Annotated[int, Field(ge=1, le=2**53)] | None = None
    samples: Annotated[int, Field(ge=1, le=2**53)] | None = None
    seconds: Annotated[int, Field(ge=1, le=2**53)] | None = None


class ContinueIn(Input):
    """How to continue an experiment that has ended. Without any field it continues unchanged."""

    length: LengthIn | None = None
    """New full length, for the built-in trainer and for searches with a `max_length`."""
    overrides: Overrides = []
    """Changes of the document, such as ["resources.slots=4", ...]. You can change length,
    resources, restarts, checkpoints, environment, budget, measure, on_disconnect, stop_grace_s,
    log_limit_mb and the entry point."""
    trials: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=10_000)] | (
        None
    ) = None
    """Numbers of the trials to continue. If null: those that did not end well; if the length grows,
    all that trained to their full length; for an asha search, those that were stopped together with
    it."""


class SearchLimitsIn(Input):
    """Changes to a running search. A null field stays as it is."""

    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    """Total number of trials, not fewer than the search already has. For `random`, `median`, and
    `asha` with one bracket."""
    concurrent: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] | None = None
    """Maximum number of parallel trials. "auto" means as many as fit into the slots that are free
    or held by the search, plus one, up to 256."""


class EnqueueIn(Input):
    """A point for a search to try before those it draws itself."""

    hparams: Annotated[dict[str, Any], Field(max_length=1_000)]
    """Hyperparameters, nested as in `hyperparameters`. Every searched parameter needs a value;
    constants may be left out."""
    point: Identifier | None = None
    """Name of the point. A point enqueued again under the same name is tried only once. Default: a
    new name."""


class ForkFromIn(Input):
    """Checkpoint to start from. Without `checkpoint`, `trial` and `experiment`, it is one of the
    forked experiment."""

    checkpoint: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    trial: Annotated[str, Field(pattern=TRIAL_PATTERN)] | None = None
    """Trial such as "36.2", or "36" for the only one of experiment 36."""
    experiment: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    pick: Literal["latest", "best"] = "latest"
    load: Literal["all", "weights"] = "all"


class ForkIn(Input):
    """A new experiment made from an existing one. Without any field, it has the same document."""

    document: Annotated[SafeStr, Field(min_length=1, max_length=262_144)] | None = None
    """Document of the fork; null for the source's document with the overrides it was submitted
    with."""
    overrides: Overrides = []
    """Overrides such as ["hyperparameters.lr=0.01", ...], applied after those of the source."""
    blob_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Code bundle of the fork; null for the source's bundle, if the document needs one."""
    left_out: LeftOutNames | None = None
    """Paths that ignore files left out of that bundle; those of folders end with a slash."""
    code_version: CodeVersionIn | None = None
    """Commit that the folder of that bundle was at."""
    from_: Annotated[ForkFromIn | None, Field(alias="from")] = None
    """Checkpoint to start from; null for what the document says, or else none."""


Action = Literal[
    "pause", "resume", "stop", "kill", "continue", "archive", "unarchive", "delete", "label"
]
ArchivedFilter = Literal["exclude", "include", "only"]


class FilterIn(Input):
    """Selection of experiments that meet all conditions. The names are the query parameters of the
    list of experiments."""

    # Not strict: JSON has no enumerations, so states arrive as names.
    state: Annotated[
        list[Annotated[ExperimentState, Field(strict=False)]], Field(max_length=10)
    ] = []
    project: Annotated[SafeStr, Field(max_length=128)] | None = None
    label: Annotated[list[Annotated[SafeStr, Field(max_length=321)]], Field(max_length=20)] = []
    """Labels such as ["team=vision", "urgent"]: with the given value, or with any value."""
    owner: Annotated[SafeStr, Field(max_length=64)] | None = None
    q: Annotated[SafeStr, Field(max_length=200)] | None = None
    """Part of the name; case does not matter."""
    archived: ArchivedFilter = "exclude"
    where: Annotated[list[Annotated[SafeStr, Field(max_length=520)]], Field(max_length=10)] = []
    """Conditions on columns, in the syntax of the list of experiments."""


class BulkIn(Input):
    """An operation on several experiments, selected by a filter or listed by ID."""

    action: Action
    filter: FilterIn | None = None
    ids: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=1)] | None = None
    """IDs of the experiments; give either this or `filter`."""
    set_labels: Annotated[dict[LabelName, LabelValue], Field(max_length=64)] = {}
    """Labels to set, for the action `label`."""
    remove_labels: Annotated[list[LabelName], Field(max_length=64)] = []
    """Labels to remove, for the action `label`."""
    keep_files: bool = False
    """Whether to leave checkpoint files in place, for the action `delete`."""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Digest from the preview; without it, nothing is changed."""


class StorageShare(Output):
    """Checkpoints and outputs in one storage folder."""

    storage_id: str
    """`object-store` for the store that the document names. Empty if no node reported which storage
    it is; agents cannot delete these files."""
    nodes: list[str]
    """Nodes that have, or had, this storage."""
    is_reachable: bool
    """Whether one of the nodes is ONLINE, so that the files are deleted at once."""
    num_checkpoints: int
    size_bytes: int


class FreedOut(Output):
    """What a deletion removes."""

    num_trials: int
    num_series: int
    metric_bytes: int
    """Stored size of metrics in bytes, compressed."""
    num_log_streams: int
    log_bytes: int
    """Stored size of logs in bytes, compressed."""
    num_checkpoints: int
    checkpoint_bytes: int
    num_outputs: int
    """Number of files that jobs wrote, node by node."""
    outputs_bytes: int
    storages: list[StorageShare]
    bundle_bytes: int
    """Size in bytes of code bundles that no other experiment uses."""


class BulkItem(Output):
    id: int
    name: str
    state: str
    outcome: Literal["changes", "unchanged", "refused"]
    """Outcome: in a preview the expected one, otherwise the actual one."""
    code: str | None
    """Error code if the outcome is `refused`; null otherwise."""
    message: str


class UnsavedOut(Output):
    """Running trials of scripts without any checkpoint. What they have done is repeated when they are
    paused or preempted, unless they save one when asked to stop, or go on from files of their own:
    their work folders are kept."""

    num_trials: int
    longest_s: float
    """Seconds since the first of their current attempts began to run."""


class BulkPreviewOut(Output):
    """Exactly the experiments that the operation will affect."""

    action: Action
    digest: str
    """Digest to send back to run the operation. It stands for this action on these experiments and
    nothing else."""
    num: int
    num_changes: int
    num_refused: int
    items: list[BulkItem]
    """Experiments, sorted by ID."""
    freed: FreedOut | None
    """Total that all experiments hold, for the action `delete`; null otherwise."""
    unsaved: UnsavedOut | None
    """What running trials without any checkpoint would repeat, for the actions `pause`, `stop` and
    `kill`; null if there are none."""


class BulkOut(Output):
    action: Action
    digest: str
    num_changed: int
    num_unchanged: int
    num_refused: int
    items: list[BulkItem]


class DeletionPlanOut(Output):
    """What deleting an experiment would remove, and whether it can be deleted now."""

    experiment_id: int
    possible: bool
    code: str | None
    reason: str
    """Why the experiment cannot be deleted; empty if it can."""
    freed: FreedOut


class DeletionOut(Output):
    experiment_id: int
    complete: bool
    """Whether nothing of the experiment is left in the database. If false, the rest is deleted in
    the background."""
    file_deletions: list[int]
    """IDs under which GET /deletions reports the progress of its files."""


class ParentOut(Output):
    """Experiment and checkpoint that an experiment was forked from."""

    experiment_id: int
    experiment_name: str
    exists: bool
    """False if the experiment has been deleted since."""
    checkpoint_id: int | None
    checkpoint_experiment_id: int | None
    trial_id: int | None
    trial_no: int | None
    step: int | None
    load: Literal["all", "weights"] | None


class ChildOut(Output):
    """An experiment that was forked from this one."""

    id: int
    name: str
    state: str
    owner: str | None
    step: int | None
    """Step of the checkpoint it started from; null without one."""
    created_at: dt.datetime
