"""Liveness and readiness."""

from __future__ import annotations

from typing import Literal

from .base import Output

DatabaseState = Literal["ok", "unreachable", "not_migrated", "schema_mismatch", "disk_full"]
"""not_migrated: an older version's tables, until `muster-server migrate` has run. schema_mismatch: a
newer version's, or changed by something else. disk_full: of SQLite; hardly anything can be written."""
RedisState = Literal["ok", "unreachable", "not_configured"]
PartState = Literal["ok", "absent", "unknown"]
"""absent: not heard of lately. unknown: the database, which would know, does not answer."""
ControllerState = Literal["ok", "failing", "absent", "unknown"]
"""failing: one leads, and has not worked through all of its loops for half a minute."""


class Healthy(Output):
    status: Literal["ok"]


class Ready(Output):
    """Of an API server. Only the database is required: without it nothing can be answered."""

    status: Literal["ready", "not_ready"]
    database: DatabaseState
    redis: RedisState
    """Without Redis live pages fall back to polling."""
    controller: ControllerState
    """Whether one leads and does its work; without it nothing is scheduled, and what runs goes on."""
    failing_loop: str | None
    """In which loop the latest round of a failing controller broke off, if in one."""
    worker: PartState
    """Whether a Celery worker sweeps; without it metrics are read from uncompacted rows."""


class ProcessReady(Output):
    """Of a controller or a Celery worker: ready while it does its work, leading or standing by."""

    status: Literal["ready", "not_ready"]
    process: Literal["controller", "worker"]
    database: DatabaseState
    redis: RedisState
    working: bool
    """It has finished a round lately (the controller), or takes jobs (the worker)."""
