"""Hands hints to whoever waits in this API process: long polls and live pages."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator

import redis.asyncio
import structlog
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from .messages import ANYTHING, CHANNEL, decode
from .publisher import RETRY_FIRST_S, RETRY_MAX_S, Publisher

log = structlog.get_logger(__name__)

STATE = "state"
"""Topic sent to this process's listeners alone when `is_connected` has changed."""

DEGRADED_POLL_S = 2.0
"""Seconds between forced looks at the database while other processes are not heard."""
CONNECT_TIMEOUT_S = 1.0
SILENCE_S = 5.0
"""Seconds without a hint after which Redis is pinged; after twice as long it counts as lost. A
connection whose other end vanished looks like one on which nothing is said."""

HEARD_TOPICS_MAX = 10_000
"""Topics of which the hub remembers when they last changed; of the others it knows the least age."""

_ANYTHING = frozenset({ANYTHING})


class Listener:
    """Collects hints from the moment it is made, so that none falls between a look and a wait."""

    def __init__(self) -> None:
        self.pending: dict[str, int] = {}
        """Number of the latest hint, by topic. At most as many entries as topics listened to."""
        self._event = asyncio.Event()

    def notify(self, topic: str, seq: int) -> None:
        self.pending[topic] = seq
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a hint; return True if one came since the last `take`, False after `timeout_s`."""
        if self._event.is_set():
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> dict[str, int]:
        """Return the topics with hints, and start afresh."""
        pending, self.pending = self.pending, {}
        self._event.clear()
        return pending


class Hub:
    """One per API process; lives in its event loop.

    Hints are lossy and may come twice: a listener looks at the database, and looks again after a
    while even when nothing came. Within this process every commit is heard; what other processes
    commit is heard through Redis alone. When that breaks, and when it works again, listeners are
    told as if everything had changed, and in between every `DEGRADED_POLL_S`.
    """

    def __init__(self, redis_url: str | None) -> None:
        self._redis_url = redis_url
        self._publisher = Publisher(redis_url) if redis_url is not None else None
        self._listeners: dict[str, set[Listener]] = {}
        self._seq = itertools.count(1)
        self._heard_at: dict[str, float] = {}
        """When topics last changed, s on the monotonic clock; the longest ago comes first."""
        self._deaf_until = time.monotonic()
        """Changes up to then may not have been heard, or are forgotten."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._was_tried = asyncio.Event()
        self.is_connected = False
        """Whether hints of other processes are heard right now."""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks.append(asyncio.create_task(self._poll()))
        if self._redis_url is not None:
            self._tasks.append(asyncio.create_task(self._subscribe(self._redis_url)))
            # So that the first page is not told of a degraded state that lasts milliseconds.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self._was_tried.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.close)
        self._loop = None

    def on_commit(self, topics: frozenset[str]) -> None:
        """Publish a commit of this process; for Database.on_commit. Any thread may call it; never
        raises."""
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

    def tell(self, listener: Listener, topic: str) -> None:
        """Send a hint to one listener alone, numbered like the others."""
        listener.notify(topic, next(self._seq))

    def quiet_s(self, topic: str) -> float:
        """Return for how many seconds, at least, nothing has changed about the topic; 0 while other
        processes are not heard."""
        if not self.is_connected:
            return 0.0
        return time.monotonic() - max(self._heard_at.get(topic, 0.0), self._deaf_until)

    async def wait_for(self, topic: str, timeout_s: float) -> bool:
        """Return True as soon as something about the topic changes; False after `timeout_s`."""
        with self.listen(topic) as listener:
            return await listener.wait(timeout_s)

    def _deliver(self, topics: frozenset[str]) -> None:
        self._remember(topics)
        # The state is nobody's to announce but ours: see `_set_connected`.
        heard = self._listeners.keys() if ANYTHING in topics else topics
        for topic in [topic for topic in heard if topic != STATE]:
            self._tell_all(topic)

    def _remember(self, topics: frozenset[str]) -> None:
        now = time.monotonic()
        if ANYTHING in topics:
            self._heard_at.clear()
            self._deaf_until = now
            return
        for topic in topics:
            self._heard_at.pop(topic, None)
            self._heard_at[topic] = now
        while len(self._heard_at) > HEARD_TOPICS_MAX:
            self._deaf_until = self._heard_at.pop(next(iter(self._heard_at)))

    def _tell_all(self, topic: str) -> None:
        listeners = self._listeners.get(topic)
        if listeners:
            # One count for all topics: a topic's numbers rise, with gaps, and never start again
            # when its last listener leaves and another comes.
            seq = next(self._seq)
            for listener in listeners:
                listener.notify(topic, seq)

    def _set_connected(self, is_connected: bool) -> None:
        changed = is_connected != self.is_connected
        self.is_connected = is_connected
        self._was_tried.set()
        if changed:
            self._tell_all(STATE)
            self._deliver(_ANYTHING)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(DEGRADED_POLL_S)
            if not self.is_connected:
                self._deliver(_ANYTHING)

    async def _subscribe(self, url: str) -> None:
        is_away = False
        retry_s = RETRY_FIRST_S
        while True:
            try:
                async with (
                    redis.asyncio.Redis.from_url(
                        url,
                        socket_connect_timeout=CONNECT_TIMEOUT_S,
                        # Reconnecting is ours to do: a silent reconnect would be a silent gap.
                        retry=Retry(NoBackoff(), 0),
                    ) as connection,
                    connection.pubsub() as channel,
                ):
                    await channel.subscribe(CHANNEL)
                    await self._await_answer(channel)
                    if is_away:
                        log.info("hints_are_heard_again")
                    is_away, retry_s = False, RETRY_FIRST_S
                    self._set_connected(True)
                    await self._hear(channel)
            except (RedisError, OSError) as error:
                if not is_away:
                    log.warning("hints_are_not_heard", error=type(error).__name__)
                is_away = True
            finally:
                self._set_connected(False)
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)

    async def _hear(self, channel: PubSub) -> None:
        """Hand out what comes, until the connection breaks or stays silent when asked."""
        own = self._publisher.origin if self._publisher is not None else ""
        while True:
            message = await channel.get_message(timeout=SILENCE_S)
            if message is None:
                await channel.ping()
                message = await self._await_answer(channel)
            if message["type"] == "message":
                origin, topics = decode(message["data"])
                if origin != own:
                    self._deliver(topics)

    async def _await_answer(self, channel: PubSub) -> dict[str, object]:
        message: dict[str, object] | None = await channel.get_message(timeout=SILENCE_S)
        if message is None:
            raise TimeoutError("Redis does not answer")
        return message
