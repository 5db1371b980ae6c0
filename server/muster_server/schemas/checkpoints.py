"""Checkpoints of all trials."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output, WireFloat

CheckpointState = Literal["local", "complete", "deleting", "deleted"]


class CheckpointListItem(Output):
    id: int
    experiment_id: int
    experiment_name: str
    project: str
    trial_id: int
    trial_no: int
    attempt_no: int
    step: int
    metric_name: str | None
    """Search metric of the experiment; without one, the reported loss or error that stands for the
    training in lists; null if there is none."""
    metric: WireFloat | None
    """Its value at the step, if it was reported with the checkpoint."""
    size_bytes: int
    num_files: int
    node_name: str
    state: str
    kind: str
    """`saved`: with Muster's SDK. `adopted`: by the script, under a name of its own."""
    path: str
    """Folder within the trial's; of an adopted one, the script's name of the file or folder."""
    is_latest: bool
    """Whether its trial continues from it."""
    created_at: dt.datetime
    pinned_at: dt.datetime | None
    """Time from which no policy may delete the checkpoint; null if it is not pinned."""
    pinned_by: str


class CheckpointTotal(Output):
    state: str
    num_checkpoints: int
    size_bytes: int


class CheckpointListOut(Output):
    items: list[CheckpointListItem]
    next: str | None
    """Cursor of the following page; null means this was the last one."""
    totals: list[CheckpointTotal]
    """Totals by state over all checkpoints of the experiment and project, not over this page
    alone."""
