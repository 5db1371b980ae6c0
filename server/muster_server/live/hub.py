"""Hands hints to whoever waits in this API process: long polls and live pages."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from .messages import CHANNEL, decode
from .publisher import RETRY_S, Publisher

log = structlog.get_logger(__name__)

EVERYTHING = frozenset({"*"})
"""Given to listeners when hints may have been missed: whatever they look at may have changed."""


class Listener:
    """Collects hints from the moment it is made, so that none falls between a look and a wait."""

    def __init__(self) -> None:
        self.pending: dict[str, int] = {}
        """topic → number of its latest hint. As many entries as topics listened to, at most."""
        self._event = asyncio.Event()

    def notify(self, topic: str, seq: int) -> None:
        self.pending[topic] = seq
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """True when a hint came since the last `take`; False after `timeout_s`."""
        if self._event.is_set():
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> dict[str, int]:
        """What was hinted at, and start afresh."""
        pending, self.pending = self.pending, {}
        self._event.clear()
        return pending


class Hub:
    """One per API process; lives in its event loop.

    Hints are lossy and may come twice: a listener looks at the database, and looks again after a
    while even when nothing came. Within this process every commit is heard; what other processes
    commit is heard through Redis alone.
    """

    def __init__(self, redis_url: str | None) -> None:
        self._redis_url = redis_url
        self._publisher = Publisher(redis_url) if redis_url is not None else None
        self._listeners: dict[str, set[Listener]] = {}
        self._seq = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriber: asyncio.Task[None] | None = None
        self.is_connected = False
        """Whether hints of other processes are heard right now."""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._redis_url is not None:
            self._subscriber = asyncio.create_task(self._subscribe(self._redis_url))

    async def stop(self) -> None:
        if self._subscriber is not None:
            self._subscriber.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._subscriber
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.close)
        self._loop = None

    def on_commit(self, topics: frozenset[str]) -> None:
        """Database.on_commit of this process. Threads: may be called from any; never raises."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop closed under us: nobody listens
                loop.call_soon_threadsafe(self._deliver, topics)
        if self._publisher is not None:
            self._publisher(topics)

    @contextlib.contextmanager
    def listen(self, *topics: str) -> Iterator[Listener]:
        """Collect hints for these topics until the end of the block.

        Look at the database inside the block, then wait: what changes in between is not missed.
        """
        listener = Listener()
        for topic in topics:
            self.add(listener, topic)
        try:
            yield listener
        finally:
            for topic in topics:
                self.remove(listener, topic)

    def add(self, listener: Listener, topic: str) -> None:
        self._listeners.setdefault(topic, set()).add(listener)

    def remove(self, listener: Listener, topic: str) -> None:
        listeners = self._listeners.get(topic)
        if listeners is not None:
            listeners.discard(listener)
            if not listeners:
                del self._listeners[topic]

    async def wait_for(self, topic: str, timeout_s: float) -> bool:
        """True as soon as something about the topic changes; False after `timeout_s`."""
        with self.listen(topic) as listener:
            return await listener.wait(timeout_s)

    def _deliver(self, topics: frozenset[str]) -> None:
        heard = self._listeners.keys() if topics == EVERYTHING else topics
        for topic in list(heard):
            listeners = self._listeners.get(topic)
            if listeners:
                seq = next(self._seq)
                for listener in listeners:
                    listener.notify(topic, seq)

    async def _subscribe(self, url: str) -> None:
        own = self._publisher.origin if self._publisher is not None else ""
        is_away = False
        while True:
            try:
                async with (
                    redis.asyncio.Redis.from_url(url) as connection,
                    connection.pubsub(ignore_subscribe_messages=True) as channel,
                ):
                    await channel.subscribe(CHANNEL)
                    self.is_connected = True
                    if is_away:
                        log.info("hints_are_heard_again")
                        self._deliver(EVERYTHING)
                    is_away = False
                    async for message in channel.listen():
                        origin, topics = decode(message["data"])
                        if origin != own:
                            self._deliver(topics)
            except (RedisError, OSError) as error:
                if not is_away:
                    log.warning("hints_are_not_heard", error=type(error).__name__)
                is_away = True
            finally:
                self.is_connected = False
            await asyncio.sleep(RETRY_S)
