"""The only place the server reads the wall clock. Decisions get `now` as an argument."""

from __future__ import annotations

import datetime as dt


def now() -> dt.datetime:
    """Return the present moment, aware, UTC."""
    return dt.datetime.now(dt.UTC)
