"""Tells other processes, through Redis, that something was committed."""

from __future__ import annotations

import threading
import uuid

import redis
import structlog

from .messages import CHANNEL, encode

log = structlog.get_logger(__name__)

PENDING_MAX = 10_000
"""Topics that wait to be sent. Beyond that hints are dropped: every reader also polls."""
SOCKET_TIMEOUT_S = 2.0
RETRY_S = 2.0


class Publisher:
    """Use as Database.on_commit.

    Never raises and never waits: topics go to a set that a thread of its own sends, so that a
    Redis that hangs costs a commit nothing, and a burst of commits becomes one message. While
    Redis is away hints are lost, which is logged once per outage.
    Threads: may be called from any.
    """

    def __init__(self, redis_url: str, *, origin: str | None = None) -> None:
        self.origin = origin or uuid.uuid4().hex
        self._redis = redis.Redis.from_url(
            redis_url,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
        )
        self._pending: set[str] = set()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="hint-publisher", daemon=True)
        self._thread.start()

    def __call__(self, topics: frozenset[str]) -> None:
        with self._changed:
            if len(self._pending) < PENDING_MAX:
                self._pending |= topics
            self._changed.notify()

    def close(self) -> None:
        """Send what waits, if Redis answers, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout=2 * SOCKET_TIMEOUT_S)
        self._redis.close()

    def _run(self) -> None:
        is_away = False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._is_closed)
                topics, self._pending = self._pending, set()
                if not topics:
                    return
            try:
                self._redis.publish(CHANNEL, encode(self.origin, topics))
            except (redis.RedisError, OSError) as error:
                if not is_away:
                    log.warning("hints_are_lost", error=_describe(error))
                is_away = True
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, timeout=RETRY_S)
            else:
                if is_away:
                    log.info("hints_flow_again")
                is_away = False


def _describe(error: BaseException) -> str:
    # The message may hold the URL with its password; the kind of error is enough to act on.
    return type(error).__name__
