"""The live channel: says that something changed, never what. Pages fetch that by REST.

One socket per browser tab, many topics. Messages, each a JSON object with one key but the hint:

    client  {"subscribe": [topic…]}  {"unsubscribe": [topic…]}  {"pong": n}
    server  {"hello": {"server": version, "resumed": false, "degraded": bool}}   first
            {"topic": topic, "seq": n}   something changed: look; n rises, with gaps
            {"topic": topic, "seq": n, "quiet_s": s}   of a subscription: nothing has changed for s
            {"state": "ok" | "degraded"}   degraded: hints are a timer's, not a change's
            {"error": {"code", "message"}}   of a subscription that was not made
            {"ping": n}

A subscription is answered with a hint at once, so that nothing falls between a page's first look
and its subscription; a page that looked after the last change has no need to look again. Hints are coalesced to at most two per second and topic: the first is sent
at once, the last is never left out. So a slow or greedy client costs a bounded amount, however
fast the training runs. A channel ends within two seconds of the session or token that opened it,
of its user's deactivation, and of a change of what its user may see. Close codes: 4401 signed out, 1013 too slow or too many sockets, 1008 and
1003 not this protocol.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Collection
from typing import Any

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from muster import __version__
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import ExperimentRow, ModelRow, TrialRow
from muster_server.live.hub import STATE, Hub, Listener
from muster_server.live.watch import ListenerWatch
from muster_server.schemas.accounts.auth import LiveTicket
from muster_server.security.principal import Principal
from muster_server.services.core.accounts import auth
from muster_server.settings import Settings

from .http.deps import Db, Me

log = structlog.get_logger(__name__)
router = APIRouter(tags=["live"])

TOPICS_MAX = 200
MESSAGE_MAX_BYTES = 65_536
MESSAGES_PER_S = 20
HINT_EVERY_S = 0.5
"""Seconds between two hints of one topic to one client."""
PING_EVERY_S = 15.0
HINT_ANYWAY_EVERY_PINGS = 2
"""Number of pings after which a hint is sent anyway: a process killed between its commit and its
hint cannot send one."""
SEND_TIMEOUT_S = 10.0
"""Seconds without progress after which a client is disconnected; it reconnects and refetches."""
CLOSE_TIMEOUT_S = 10.0
TICKET_LIFETIME_S = 3600.0
"""Seconds after which a socket opened with a ticket ends, so that its owner's permission is checked
again."""

NOT_TEXT = 1003
POLICY_VIOLATION = 1008
TOO_BIG = 1009
TRY_AGAIN_LATER = 1013
SIGNED_OUT = 4401

_TOPIC = re.compile(
    r"cluster|experiments|experiment:[1-9][0-9]{0,18}|"
    r"trial:[1-9][0-9]{0,18}(:(logs|metrics))?|node:[A-Za-z0-9._-]{1,64}|inbox:[1-9][0-9]{0,18}|"
    r"deployments|maintenance|reservations|models|model:[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
)


@router.post("/live/tickets", summary="A ticket that opens the live channel once")
def create_live_ticket(db: Db, me: Me) -> LiveTicket:
    """Create a ticket for callers with an API token: browsers cannot send headers with a WebSocket,
    and a token does not belong in an address. Works once, within a minute."""
    with db.transaction() as session:
        return LiveTicket(ticket=auth.create_live_ticket(session, principal=me, now=clock.now()))


@router.websocket("/live", name="live")
async def live(socket: WebSocket) -> None:
    hub: Hub = socket.app.state.hub
    settings: Settings = socket.app.state.settings
    counts: dict[int | None, int] = socket.app.state.live_sockets
    principal: Principal = socket.state.principal
    await socket.accept()
    if counts.get(principal.user_id, 0) >= settings.live_sockets_per_user:
        await socket.close(TRY_AGAIN_LATER, "too many live connections of this user")
        return
    counts[principal.user_id] = counts.get(principal.user_id, 0) + 1
    connection = _Connection(socket, hub, principal)
    try:
        await connection.run()
    finally:
        counts[principal.user_id] -= 1
        if not counts[principal.user_id]:
            del counts[principal.user_id]


def seen_topics(database: Database, topics: Collection[str]) -> set[str]:
    """Return those of the topics whose subject the caller sees, or that have none of their own."""
    ids: dict[str, set[Any]] = {"experiment": set(), "trial": set(), "model": set()}
    named = {topic: topic.split(":")[:2] for topic in topics}
    for kind, *name in named.values():
        if name and kind in ids:
            ids[kind].add(name[0] if kind == "model" else int(name[0]))
    columns = {"experiment": ExperimentRow.id, "trial": TrialRow.id, "model": ModelRow.name}
    with database.read() as session:
        seen = {
            (kind, str(found))
            for kind, column in columns.items()
            if ids[kind]
            for found in session.scalars(select(column).where(column.in_(ids[kind])))
        }
    return {
        topic
        for topic, (kind, *name) in named.items()
        if kind not in ids or (kind, name[0]) in seen
    }


class _Refused(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Connection:
    """One client. The data waiting for it is one number per subscribed topic."""

    def __init__(self, socket: WebSocket, hub: Hub, principal: Principal) -> None:
        self._socket = socket
        self._hub = hub
        self._principal = principal
        self._listener = Listener()
        self._topics: set[str] = set()
        self._unanswered: set[str] = set()
        """Subscriptions whose first hint has not been sent."""
        self._hinted_at: dict[str, float] = {}
        """When each topic was last sent, s on the monotonic clock."""
        self._told_connected = hub.is_connected

    async def run(self) -> None:
        """Serve until the client leaves, breaks a rule, stops reading, or loses its permission."""
        self._hub.add(self._listener, STATE)
        try:
            await self._send(
                {
                    "hello": {
                        "server": __version__,
                        "resumed": False,
                        "degraded": not self._told_connected,
                    }
                }
            )
            watch: ListenerWatch = self._socket.app.state.listeners
            with watch.watch(self._principal) as ended:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._end_with(ended))
                    tasks.create_task(self._read())
                    tasks.create_task(self._hint())
                    tasks.create_task(self._ping())
        except* (WebSocketDisconnect, RuntimeError, OSError):
            pass  # gone, or as good as gone
        except* _Refused as group:
            error = group.exceptions[0]
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            assert isinstance(error, _Refused)
            log.info("live_client_refused", code=error.code, reason=error.reason)
            await self._close(error.code, error.reason)
        finally:
            self._hub.remove(self._listener, STATE)
            for topic in self._topics:
                self._hub.remove(self._listener, topic)

    async def _read(self) -> None:
        window_started_at, num = time.monotonic(), 0
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            text = message.get("text")
            if text is None:
                raise _Refused(NOT_TEXT, "expected text")
            if len(text) > MESSAGE_MAX_BYTES:
                raise _Refused(TOO_BIG, "message too big")
            now = time.monotonic()
            if now - window_started_at >= 1.0:
                window_started_at, num = now, 0
            num += 1
            if num > MESSAGES_PER_S:
                raise _Refused(POLICY_VIOLATION, "too many messages")
            await self._obey(text)

    async def _obey(self, text: str) -> None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise _Refused(POLICY_VIOLATION, "not JSON") from None
        match message:
            case {"pong": _, **rest} if not rest:
                pass
            case {"subscribe": [*topics], **rest} if not rest:
                await self._subscribe(topics)
            case {"unsubscribe": [*topics], **rest} if not rest:
                self._unsubscribe(topics)
            case _:
                raise _Refused(POLICY_VIOLATION, "expected one of subscribe, unsubscribe, pong")

    async def _subscribe(self, topics: list[object]) -> None:
        """Subscribe to the known topics; a page of another version keeps those that both know."""
        error: tuple[str, str] | None = None
        heard = {topic for topic in topics if isinstance(topic, str) and self._may_hear(topic)}
        if self._principal.hidden_projects:
            # What is hidden is answered as what does not exist.
            database: Database = self._socket.app.state.database
            heard = await run_in_threadpool(seen_topics, database, heard)
        for topic in topics:
            if not isinstance(topic, str) or topic not in heard:
                error = "live.no_such_topic", "There is no such topic."
                continue
            if topic not in self._topics and len(self._topics) >= TOPICS_MAX:
                error = "live.too_many_topics", f"At most {TOPICS_MAX} topics for one connection."
                break
            self._topics.add(topic)
            self._unanswered.add(topic)
            self._hub.add(self._listener, topic)
            self._hub.tell(self._listener, topic)
        if error is not None:
            await self._send({"error": {"code": error[0], "message": error[1]}})

    def _may_hear(self, topic: str) -> bool:
        """Return whether there is such a topic, and it is not the inbox of somebody else."""
        if topic.startswith("inbox:") and topic != f"inbox:{self._principal.user_id}":
            return False
        return _TOPIC.fullmatch(topic) is not None

    def _unsubscribe(self, topics: list[object]) -> None:
        for topic in topics:
            if isinstance(topic, str) and topic in self._topics:
                self._topics.discard(topic)
                self._unanswered.discard(topic)
                self._hinted_at.pop(topic, None)
                self._hub.remove(self._listener, topic)

    async def _hint(self) -> None:
        waiting: dict[str, int] = {}
        while True:
            await self._listener.wait(self._due_in(waiting))
            waiting |= self._listener.take()
            if waiting.pop(STATE, None) is not None:
                await self._tell_state()
            now = time.monotonic()
            for topic in [topic for topic in waiting if self._due_at(topic) <= now]:
                seq = waiting.pop(topic)
                if topic in self._topics:
                    self._hinted_at[topic] = now
                    message: dict[str, Any] = {"topic": topic, "seq": seq}
                    if topic in self._unanswered:
                        self._unanswered.discard(topic)
                        message["quiet_s"] = round(self._hub.quiet_s(topic), 3)
                    await self._send(message)

    def _due_in(self, waiting: dict[str, int]) -> float:
        """Return the seconds until the first of the waiting hints may be sent."""
        if not waiting:
            return 3600.0
        return max(0.0, min(map(self._due_at, waiting)) - time.monotonic())

    def _due_at(self, topic: str) -> float:
        hinted_at = self._hinted_at.get(topic)
        return 0.0 if hinted_at is None else hinted_at + HINT_EVERY_S

    async def _tell_state(self) -> None:
        is_connected = self._hub.is_connected
        if is_connected != self._told_connected:
            self._told_connected = is_connected
            await self._send({"state": "ok" if is_connected else "degraded"})

    async def _ping(self) -> None:
        started_at = time.monotonic()
        number = 0
        while True:
            await asyncio.sleep(PING_EVERY_S)
            number += 1
            await self._send({"ping": number})
            if number % HINT_ANYWAY_EVERY_PINGS == 0:
                for topic in self._topics:
                    self._hub.tell(self._listener, topic)
            age_s = time.monotonic() - started_at
            if self._principal.by_ticket and age_s >= TICKET_LIFETIME_S:
                raise _Refused(SIGNED_OUT, "ask for a new ticket")

    async def _end_with(self, ended: asyncio.Event) -> None:
        await ended.wait()
        raise _Refused(SIGNED_OUT, "signed out")

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.send_text(json.dumps(message, separators=(",", ":")))
        except TimeoutError:
            raise _Refused(TRY_AGAIN_LATER, "too slow") from None

    async def _close(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close(code, reason)
        except (RuntimeError, OSError, WebSocketDisconnect):
            return
