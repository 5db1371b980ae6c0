"""Models as one file each."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output


class ExportOut(Output):
    """The model of a checkpoint as one safetensors file, and the progress of the export."""

    id: int
    checkpoint_id: int
    experiment_id: int
    trial_id: int
    trial_no: int
    step: int
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
