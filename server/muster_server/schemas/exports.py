"""Models and outputs as one file each."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output


class ExportOut(Output):
    """The model of a checkpoint as one safetensors file, or outputs of a trial as they are or as a
    tar archive, and the progress of the export."""

    id: int
    checkpoint_id: int | None
    """Null for outputs."""
    experiment_id: int
    trial_id: int
    trial_no: int
    step: int
    """Step of the checkpoint; 0 for outputs."""
    num_files: int
    """Number of outputs in the file; 0 for a model."""
    file_name: str
    state: Literal["pending", "done", "failed"]
    message: str
    """Why the export failed."""
    waits_for: str
    """Node that makes a pending export, or why no node can; empty otherwise."""
    size_bytes: int | None
    """Size of the file in bytes; null until the export is done."""
    sha256: str
    """Digest of the file; empty until the export is done."""
    requested_by: str
    requested_at: dt.datetime
    ended_at: dt.datetime | None
    expires_at: dt.datetime
    """Time when the file is deleted."""
