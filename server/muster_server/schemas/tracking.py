"""Runs that scripts have started with a tracking client."""

from __future__ import annotations

import datetime as dt

from .base import Output


class TrackedRunOut(Output):
    run_id: str
    """Id of the run in the client."""
    name: str
    label: str
    """Beginning of the names of its metrics among the trial's, followed by a slash; empty for the run
    that stands for the trial."""
    parent_run_id: str
    """Id of the run above it; empty for none."""
    folder: str
    """Folder of its artifacts within the folder `muster-outputs` of the trial's outputs."""
    attempt_no: int
    """Attempt that reported the run last."""
    status: str
    """RUNNING, SCHEDULED, FINISHED, FAILED, KILLED or DELETED, as the script has it."""
    started_at: dt.datetime
    ended_at: dt.datetime | None
    params: dict[str, str]
    tags: dict[str, str]
    """Tags, those of the client itself among them (`mlflow.…`)."""
