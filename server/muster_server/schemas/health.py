"""Liveness and readiness."""

from __future__ import annotations

from typing import Literal

from .base import Output

DatabaseState = Literal["ok", "unreachable", "not_migrated", "schema_mismatch", "disk_full"]
"""State of the database. `not_migrated`: the tables are an older version's until you run
`muster-server migrate`. `schema_mismatch`: they lack what this version needs, because something else
has changed them, or a version much newer. `disk_full` (SQLite only): almost nothing can be written."""
RedisState = Literal["ok", "unreachable", "refuses_writes", "not_configured"]
"""State of Redis. `refuses_writes`: it is a replica, or has no room: hints arrive, background jobs wait."""
PartState = Literal["ok", "absent", "unknown"]
"""State of a process. `absent`: it has not been heard of lately. `unknown`: the database, which
records it, does not respond."""
ControllerState = Literal["ok", "failing", "absent", "unknown"]
"""State of the controller. `failing`: one leads, but has not completed a round of all its loops for
half a minute."""


class Healthy(Output):
    status: Literal["ok"]


class Ready(Output):
    """Readiness of an API server. Only the database is required: without it, no request can be
    answered."""

    status: Literal["ready", "not_ready"]
    database: DatabaseState
    redis: RedisState
    """State of Redis, without which live pages fall back to polling."""
    controller: ControllerState
    """Whether a controller leads and does its work. Without one nothing is scheduled, but running
    trials go on."""
    failing_loop: str | None
    """Loop in which the latest round of a failing controller broke off; null if not in a loop."""
    worker: PartState
    """Whether a Celery worker sweeps; without it metrics are read from uncompacted rows."""


class ProcessReady(Output):
    """Readiness of a controller or a Celery worker, which is ready while it does its work, leading
    or standing by."""

    status: Literal["ready", "not_ready"]
    process: Literal["controller", "worker"]
    database: DatabaseState
    redis: RedisState
    working: bool
    """Whether the controller has finished a round lately, or the worker accepts jobs."""
