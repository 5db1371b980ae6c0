"""The files that jobs wrote."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster.wire import OutputState

from .base import Input, Output, SafeStr, WireFloat
from .exports import ExportOut

OutputPath = Annotated[SafeStr, Field(min_length=1, max_length=4200)]
OUTPUTS_PER_REQUEST = 2000
"""Most files that one request names."""


class OutputFileOut(Output):
    """A file that a job wrote, as it was collected last."""

    path: str
    """Path within the work folder. Where nodes wrote different content under the same path, the
    files of all but the first node have ` @node1` behind it."""
    state: OutputState
    """`kept`: complete in the storage. `growing`: still written, kept up to size_bytes. `link`: a
    symbolic link to `target`. `left_out`: not kept, for the `reason`."""
    size_bytes: int
    modified_at: dt.datetime
    sha256: str
    """Digest of the content; empty for links and what was left out."""
    num_parts: int
    """Number of parts of 256 MiB, the last one shorter, that can be downloaded one by one."""
    target: str
    reason: str
    node_ranks: list[int]
    """Nodes of the trial that have this file, by rank."""
    nodes: list[str]
    """Names of these nodes."""
    is_conflict: bool
    """Whether another node wrote other content under the same path."""


class NodeOutputsOut(Output):
    """What one node of a trial has in the storage."""

    node_rank: int
    node_name: str
    attempt_no: int
    """Attempt whose files these are; 0 as long as nothing was collected from the node."""
    state: Literal["collecting", "final", "missing"]
    """`collecting`: the attempt runs, or its last collection is under way. `final`: everything is
    in the storage. `missing`: the attempt has ended, and its last files have not been collected."""
    num_files: int
    size_bytes: int
    num_left_out: int
    left_out_bytes: int
    problem: str
    """Reason why files are missing; empty if none is."""
    is_reachable: bool
    """Whether a node is online that can read the storage."""
    updated_at: dt.datetime | None


class KeepOutputsOut(Output):
    """Which outputs of its trials an experiment keeps, as its document says."""

    days: float | None
    """Days after their last change after which outputs are deleted; null for no limit."""
    max_bytes: int | None
    """Bytes of the whole experiment beyond which the oldest are deleted; null for no limit."""
    experiment_best: int
    """Number of trials, the best by the search metric, whose outputs stay regardless."""


class OutputsSummaryOut(Output):
    """What is there of a trial's outputs."""

    trial_id: int
    state: Literal["off", "none", "collecting", "complete", "incomplete", "deleted"]
    """`off`: the document says `outputs: null`. `none`: the trial has not started. `collecting`: it
    runs, or is being collected. `complete`: it does not run, and everything is in the storage.
    `incomplete`: a node has ended and not everything of it was collected. `deleted`: it was in the
    storage until somebody, or the experiment's policy, deleted it."""
    num_files: int
    """Number of files in the storage, equal ones of several nodes counted once."""
    size_bytes: int
    num_left_out: int
    left_out_bytes: int
    num_conflicts: int
    """Number of files that another node wrote with other content."""
    max_export_bytes: int
    """Largest file that is downloaded in one piece."""
    deleted_at: dt.datetime | None
    """When what was there was deleted to keep within an age or a size; null if it was not."""
    deleted_bytes: int
    """Size of what was deleted then, equal files of several nodes counted for each."""
    keep: KeepOutputsOut | None
    """What the document says of keeping outputs; null if they stay until somebody deletes them."""
    expires_at: dt.datetime | None
    """When `keep.days` have passed since the last change. The outputs are deleted then unless something
    holds them, or the trial is among the best. Null without that limit, and without files."""
    held: str
    """Why they stay for now, whatever the policy; empty if nothing holds them."""
    nodes: list[NodeOutputsOut]


class OutputsPolicyIn(Input):
    """Which outputs of an experiment are deleted. At least one of the limits is given."""

    older_than_days: Annotated[float, Field(gt=0, le=36_500)] | None = None
    """Outputs whose last change was collected longer ago are deleted."""
    max_bytes: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """The oldest are deleted until those of the experiment have no more bytes."""
    keep_best: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Number of trials, the best by the search metric, whose outputs stay regardless."""


class OutputsVerdictOut(Output):
    """Whether the outputs of a trial stay."""

    trial_id: int
    trial_no: int
    num_files: int
    size_bytes: int
    """Size over all nodes, equal files counted for each."""
    collected_at: dt.datetime
    value: WireFloat | None
    """Best value of the search metric; null if the trial has none."""
    is_kept: bool
    reason: str


class OutputsCleaningPlanOut(Output):
    """What a policy keeps of the outputs of an experiment."""

    experiment_id: int
    policy: str
    num_kept: int
    """Number of trials whose outputs stay."""
    num_dropped: int
    kept_bytes: int
    freed_bytes: int
    trials: list[OutputsVerdictOut]
    """Verdicts by number of the trial, at most 1,000; trials without files are not among them."""


class OutputsCleaningOut(Output):
    """What was deleted of the outputs of an experiment."""

    experiment_id: int
    num_deleted: int
    """Number of trials whose outputs can no longer be fetched; agents delete their files."""
    freed_bytes: int


class OutputsExportIn(Input):
    """Outputs to download."""

    paths: (
        Annotated[list[OutputPath], Field(min_length=1, max_length=OUTPUTS_PER_REQUEST)] | None
    ) = None
    """Paths as they are listed; null for all."""
    part: Annotated[int, Field(ge=0, lt=2**20)] | None = None
    """Only this part of 256 MiB, from 0, of the one path given."""


class OutputsPreviewIn(Input):
    """File to show."""

    path: OutputPath


class OutputsExportOut(Output):
    """Files to download. One output is sent as it is, several are one tar archive for each storage
    that has some of them, or several archives where one would be too large."""

    exports: list[ExportOut]
