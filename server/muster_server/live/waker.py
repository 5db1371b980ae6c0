"""Wakes a waiting thread when a hint for its topic comes through Redis."""

from __future__ import annotations

import threading
import time

import redis
import structlog

from .messages import ANYTHING, CHANNEL, decode
from .publisher import RETRY_MAX_S, SOCKET_TIMEOUT_S

log = structlog.get_logger(__name__)

LEAST_WAIT_S = 0.1
"""Least seconds between two returns of `wait`, so that frequent hints do not make the waiter spin.
"""


class HintWaker:
    """An interruptible sleep. Without Redis it is an ordinary interval.

    A hint that comes while nobody waits is kept: the next `wait` returns at once, or
    `LEAST_WAIT_S` after the one before.
    """

    def __init__(self, redis_url: str | None, topic: str) -> None:
        self._topics = {topic, ANYTHING}
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._returned_at = 0.0
        if redis_url is not None:
            self._redis = redis.Redis.from_url(
                redis_url,
                socket_timeout=SOCKET_TIMEOUT_S,
                socket_connect_timeout=SOCKET_TIMEOUT_S,
            )
            threading.Thread(target=self._listen, name="hint-waker", daemon=True).start()

    def wait(self, timeout_s: float) -> None:
        """Return when a hint came, after `timeout_s` at the latest, or when woken."""
        if self._woken.wait(timeout_s):
            self._closed.wait(max(0.0, self._returned_at + LEAST_WAIT_S - time.monotonic()))
        self._woken.clear()
        self._returned_at = time.monotonic()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()

    def _listen(self) -> None:
        is_away = False
        while not self._closed.is_set():
            try:
                with self._redis.pubsub(  # type: ignore[no-untyped-call]
                    ignore_subscribe_messages=True
                ) as channel:
                    channel.subscribe(CHANNEL)
                    if is_away:
                        log.info("hints_are_heard_again")
                        self._woken.set()  # something may have been said meanwhile
                    is_away = False
                    while not self._closed.is_set():
                        message = channel.get_message(timeout=1.0)
                        if message is not None and self._topics & decode(message["data"])[1]:
                            self._woken.set()
            except (redis.RedisError, OSError) as error:
                if not is_away:
                    log.warning("hints_are_not_heard", error=type(error).__name__)
                is_away = True
                self._closed.wait(RETRY_MAX_S)
