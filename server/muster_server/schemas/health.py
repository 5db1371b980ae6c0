"""Liveness and readiness."""

from __future__ import annotations

from typing import Literal

from .base import Output


class Healthy(Output):
    status: Literal["ok"]


class Ready(Output):
    status: Literal["ready", "not_ready"]
    database: Literal["ok", "unreachable", "not_migrated"]
    redis: Literal["ok", "unreachable", "not_configured"]
    """Reported, not required: without Redis live pages fall back to polling."""
