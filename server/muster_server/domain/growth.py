"""When a disk is full at the pace of the last days; nothing is said from too little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WINDOW_DAYS = 7
"""Growth is that of so many days."""
HISTORY_MIN_DAYS = 2.0
"""Days of history below which nothing is said: one busy day is no pace."""

Reason = Literal["", "not_enough_history", "no_growth", "unknown_disk"]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    days: int | None
    """Days until the disk is full; None if that cannot be said."""
    reason: Reason
    """Why it cannot be said; "" if it can."""


def per_day(added_bytes: int, history_days: float) -> int | None:
    """Return what was added per day; None after less than two days of history.

    history_days: age of the oldest of it, at most WINDOW_DAYS count.
    """
    if history_days < HISTORY_MIN_DAYS:
        return None
    return round(added_bytes / min(history_days, WINDOW_DAYS))


def forecast(*, added_bytes: int, history_days: float, free_bytes: int | None) -> Forecast:
    """Return the days until `free_bytes` are used up; None: the disk is not known."""
    pace = per_day(added_bytes, history_days)
    if pace is None:
        return Forecast(days=None, reason="not_enough_history")
    if free_bytes is None:
        return Forecast(days=None, reason="unknown_disk")
    if pace == 0:
        return Forecast(days=None, reason="no_growth")
    return Forecast(days=free_bytes // pace, reason="")
