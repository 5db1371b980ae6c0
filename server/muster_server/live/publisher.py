"""Tells other processes, through Redis, that something was committed."""

from __future__ import annotations

import threading
import uuid

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from .messages import ANYTHING, CHANNEL, encode

log = structlog.get_logger(__name__)

PENDING_MAX = 10_000
"""Number of topics that may wait to be sent. Beyond it, all of them are sent as `ANYTHING`."""
SPACING_S = 0.01
"""Seconds between two messages: what is committed meanwhile goes with the second. Hundreds of commits a
second took as much of the processor to tell as to read."""
SOCKET_TIMEOUT_S = 0.5
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 2.0


class Publisher:
    """Use as Database.on_commit.

    Never raises and never waits: topics go to a set that a thread of its own sends, so that a
    Redis that hangs costs a commit nothing, and a burst of commits becomes one message. While
    Redis is away the topics are kept and sent when it is back: a listener whose own connection
    never broke could not know that it missed them. Lost is only what waits when the process ends.
    Threads: may be called from any.
    """

    def __init__(self, redis_url: str, *, origin: str | None = None) -> None:
        self.origin = origin or uuid.uuid4().hex
        self._redis = redis.Redis.from_url(
            redis_url,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._pending: set[str] = set()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="hint-publisher", daemon=True)
        self._thread.start()

    def __call__(self, topics: frozenset[str]) -> None:
        with self._changed:
            self._add(topics)
            self._changed.notify()

    def close(self) -> None:
        """Send pending topics if Redis answers, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout=4 * SOCKET_TIMEOUT_S)
        self._redis.close()

    def _add(self, topics: frozenset[str] | set[str]) -> None:
        self._pending |= topics
        if len(self._pending) > PENDING_MAX:
            self._pending = {ANYTHING}

    def _run(self) -> None:
        retry_s = RETRY_FIRST_S
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
                    # The message may hold the URL with its password; the kind is enough to act on.
                    log.warning("hints_are_held_back", error=type(error).__name__)
                is_away = True
                with self._changed:
                    self._add(topics)
                    if self._changed.wait_for(lambda: self._is_closed, timeout=retry_s):
                        return
                retry_s = min(2 * retry_s, RETRY_MAX_S)
            else:
                if is_away:
                    log.info("hints_flow_again")
                retry_s = RETRY_FIRST_S
                is_away = False
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, timeout=SPACING_S)
