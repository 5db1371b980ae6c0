"""What can be done with experiments after their submission."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.document.searching import MAX_TRIALS
from muster_server.domain.states import ExperimentState

from .base import Identifier, Input, Output, SafeStr, WireFloat

Overrides = Annotated[list[Annotated[SafeStr, Field(max_length=1000)]], Field(max_length=100)]

LabelName = Annotated[SafeStr, Field(min_length=1, max_length=64)]
LabelValue = Annotated[SafeStr, Field(max_length=256)]


class FileDeletionOut(Output):
    """Files of a checkpoint, or of a deleted experiment, as far as they are gone."""

    id: int
    experiment_id: int
    experiment_name: str
    checkpoint_id: int | None
    """The one it is about; null: all of a deleted experiment."""
    path: str
    """Relative to the storage folder of its nodes, or to this server's folder in an object store."""
    storage_id: str
    storage_url: str
    """The object store; "" for a storage folder."""
    node_name: str
    """A node that had the storage when the deletion was requested."""
    size_bytes: int
    """Of the checkpoints that were registered there."""
    state: Literal["pending", "done", "refused", "dismissed"]
    message: str
    """What the agent said last."""
    waits_for: str
    """Of a pending one: the node that is asked, or why none can be."""
    freed_bytes: int | None
    requested_by: str
    requested_at: dt.datetime
    ended_at: dt.datetime | None


class KeepIn(Input):
    """How many checkpoints are kept; what any of the numbers keeps is kept."""

    last: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Of each trial, the newest."""
    best: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Of each trial, the best by the search metric."""
    experiment_best: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Of all trials together, the best."""


class CheckpointVerdict(Output):
    id: int
    trial_id: int
    trial_no: int
    step: int
    size_bytes: int
    value: WireFloat | None
    """Of the search metric."""
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
    """By trial and step, at most 1,000 of them."""


class CleaningOut(Output):
    experiment_id: int
    num_deleted: int
    """Checkpoints that nobody can choose any more; agents delete their files."""


class LengthIn(Input):
    """A training length in all, from step 0 on: steps or epochs, one of the two; of a search whose
    max_length is in samples or seconds, those."""

    steps: Annotated[int, Field(ge=1, le=2**53)] | None = None
    epochs: Annotated[int, Field(ge=1, le=2**53)] | None = None
    samples: Annotated[int, Field(ge=1, le=2**53)] | None = None
    seconds: Annotated[int, Field(ge=1, le=2**53)] | None = None


class ContinueIn(Input):
    """How an experiment that has ended goes on. Empty: as it was."""

    length: LengthIn | None = None
    """The new full length, for the built-in trainer and for searches with a max_length."""
    overrides: Overrides = []
    """["resources.slots=4", ...]: what may change are length, resources, restarts, checkpoints,
    environment, budget, measure, on_disconnect, stop_grace_s, log_limit_mb and the entry point."""
    trials: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=10_000)] | (
        None
    ) = None
    """Numbers of the trials that go on. null: those that did not end well; all that ran their
    length when they get more of it; of an asha search those that were stopped together with it."""


class SearchLimitsIn(Input):
    """What changes of a search that goes on. null: stays as it is."""

    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    """In all; not fewer than there are. For `random`, `median` and `asha` with one bracket."""
    concurrent: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] | None = None
    """At once. "auto": as many as fit into the slots that are free or its own, and one more, up to
    256."""


class EnqueueIn(Input):
    """One more point for a search, tried before those it draws."""

    hparams: Annotated[dict[str, Any], Field(max_length=1_000)]
    """Nested as in `hyperparameters`. What is left out of a space is an error; constants may be."""
    point: Identifier | None = None
    """What you call it: asked for again under the same name, it is tried once. Default: a new name."""


class ForkFromIn(Input):
    """The checkpoint to start from. Without checkpoint, trial and experiment: of what is forked."""

    checkpoint: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    trial: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    experiment: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    pick: Literal["latest", "best"] = "latest"
    load: Literal["all", "weights"] = "all"


class ForkIn(Input):
    """A new experiment made from one that exists. Empty: the same document once more."""

    document: Annotated[SafeStr, Field(min_length=1, max_length=262_144)] | None = None
    """null: that of the source, with the overrides it was submitted with."""
    overrides: Overrides = []
    """["hyperparameters.lr=0.01", ...], applied after those."""
    blob_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """null: the code bundle of the source, where the document needs one."""
    from_: Annotated[ForkFromIn | None, Field(alias="from")] = None
    """Start from a checkpoint. null: what the document says, else from nothing."""


Action = Literal[
    "pause", "resume", "stop", "kill", "continue", "archive", "unarchive", "delete", "label"
]
ArchivedFilter = Literal["exclude", "include", "only"]


class FilterIn(Input):
    """Which experiments: all conditions together. The same names as in the list's address."""

    # Not strict: JSON has no enumerations, only their names.
    state: Annotated[
        list[Annotated[ExperimentState, Field(strict=False)]], Field(max_length=10)
    ] = []
    project: Annotated[SafeStr, Field(max_length=128)] | None = None
    label: Annotated[list[Annotated[SafeStr, Field(max_length=321)]], Field(max_length=20)] = []
    """["team=vision", "urgent"]: with this value, or with any."""
    owner: Annotated[SafeStr, Field(max_length=64)] | None = None
    q: Annotated[SafeStr, Field(max_length=200)] | None = None
    """Part of the name, whatever its case."""
    archived: ArchivedFilter = "exclude"
    where: Annotated[list[Annotated[SafeStr, Field(max_length=520)]], Field(max_length=10)] = []
    """Conditions on columns, as the list of experiments takes them."""


class BulkIn(Input):
    """An operation on several experiments: those a filter selects, or those listed."""

    action: Action
    filter: FilterIn | None = None
    ids: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=1)] | None = None
    """This or filter."""
    set_labels: Annotated[dict[LabelName, LabelValue], Field(max_length=64)] = {}
    """With label."""
    remove_labels: Annotated[list[LabelName], Field(max_length=64)] = []
    """With label."""
    keep_files: bool = False
    """With delete: leave checkpoint files where they are."""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """From the preview; without it nothing is done."""


class StorageShare(Output):
    """Checkpoint files in one storage folder."""

    storage_id: str
    """`object-store` for the one that the document names; "" when no node said which storage it is:
    then they cannot be deleted by an agent."""
    nodes: list[str]
    """Nodes that have this storage, or had it."""
    is_reachable: bool
    """One of them is ONLINE, so that it will be done at once."""
    num_checkpoints: int
    size_bytes: int


class FreedOut(Output):
    """What deleting takes away."""

    num_trials: int
    num_series: int
    metric_bytes: int
    """As stored, compressed."""
    num_log_streams: int
    log_bytes: int
    """As stored, compressed."""
    num_checkpoints: int
    checkpoint_bytes: int
    storages: list[StorageShare]
    bundle_bytes: int
    """Of code bundles that no other experiment uses."""


class BulkItem(Output):
    id: int
    name: str
    state: str
    outcome: Literal["changes", "unchanged", "refused"]
    """In a preview what would happen, else what has."""
    code: str | None
    """Of a refused one: the error's code."""
    message: str


class BulkPreviewOut(Output):
    """Exactly the experiments that the operation will touch."""

    action: Action
    digest: str
    """Send it back to do it. It names this action on these experiments, and nothing else."""
    num: int
    num_changes: int
    num_refused: int
    items: list[BulkItem]
    """By id."""
    freed: FreedOut | None
    """With delete: what all of them together hold."""


class BulkOut(Output):
    action: Action
    digest: str
    num_changed: int
    num_unchanged: int
    num_refused: int
    items: list[BulkItem]


class DeletionPlanOut(Output):
    """What deleting an experiment would take away, and whether it is possible now."""

    experiment_id: int
    possible: bool
    code: str | None
    reason: str
    """Why not; "" when it is possible."""
    freed: FreedOut


class DeletionOut(Output):
    experiment_id: int
    complete: bool
    """Nothing of it is left in the database. false: the rest goes in the background."""
    file_deletions: list[int]
    """Ids under which GET /deletions tells what becomes of its files."""


class ParentOut(Output):
    """Where an experiment comes from."""

    experiment_id: int
    experiment_name: str
    exists: bool
    """false: it was deleted since."""
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
    """Of the checkpoint it started from, if any."""
    created_at: dt.datetime
