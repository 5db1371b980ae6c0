"""What somebody has dismissed from the list of what needs attention."""

from __future__ import annotations

import datetime as dt

from ..base import Output


class DismissalOut(Output):
    key: str
    """What was dismissed, as the dashboard names it: its kind, its ID and when it happened."""
    dismissed_at: dt.datetime


class DismissalsOut(Output):
    items: list[DismissalOut]
    """Latest first, at most 500."""
