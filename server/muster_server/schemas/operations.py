"""What can be done with experiments after their submission."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output


class FileDeletionOut(Output):
    """Checkpoint files of a deleted experiment, as far as they are gone."""

    id: int
    experiment_id: int
    experiment_name: str
    path: str
    """Relative to the storage folder of its nodes."""
    storage_id: str
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
