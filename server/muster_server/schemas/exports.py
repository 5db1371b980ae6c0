"""Models as one file each."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output


class ExportOut(Output):
    """The model of a checkpoint as one safetensors file, as far as it is made."""

    id: int
    checkpoint_id: int
    experiment_id: int
    trial_id: int
    trial_no: int
    step: int
    file_name: str
    state: Literal["pending", "done", "failed"]
    message: str
    """Why it failed."""
    waits_for: str
    """Of a pending one: the node that makes it, or why none can."""
    size_bytes: int | None
    """Of the file; null until it is done."""
    sha256: str
    """Of the file; "" until it is done."""
    requested_by: str
    requested_at: dt.datetime
    ended_at: dt.datetime | None
    expires_at: dt.datetime
    """It is deleted then."""
