"""The worker's connection to Redis: one that answers and refuses writes is waited for."""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery.worker.consumer import Consumer  # type: ignore[import-untyped]
from celery.worker.state import maybe_shutdown  # type: ignore[import-untyped]
from redis import RedisError

from muster_server.live.writes import why_refused
from muster_server.settings import get_settings

log = structlog.get_logger(__name__)

TIMEOUT_S = 2.0
LOOK_S = 2.0
SAY_AGAIN_S = 60.0


class PatientConsumer(Consumer):  # type: ignore[misc]
    """Celery's consumer, which connects only when Redis takes writes. Reading a job is one."""

    def connect(self) -> Any:
        """Return the connection, once there can be one. Ends early if the worker is told to end."""
        self._await_writes()
        return super().connect()

    def _await_writes(self) -> None:
        url = get_settings().resolved_redis_url()
        said, said_at = "", 0.0
        while url:
            try:
                refusal = why_refused(url, timeout_s=TIMEOUT_S)
            except (RedisError, OSError):
                return  # Celery waits for one that does not answer, and says so.
            if not refusal:
                return
            now = time.monotonic()
            if refusal != said or now - said_at >= SAY_AGAIN_S:
                said, said_at = refusal, now
                log.warning("redis_refuses_writes", reason=refusal, effect="background jobs wait")
            time.sleep(LOOK_S)
            maybe_shutdown()
