"""The live channel: says that something changed, never what. Pages fetch that by REST.

One socket per browser tab, many topics. Hints are coalesced to at most two per second and topic,
so a slow or greedy client costs a bounded amount, however fast the training runs.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.concurrency import run_in_threadpool

from muster import __version__
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.live.hub import Hub, Listener
from muster_server.schemas.auth import LiveTicket
from muster_server.security.principal import Principal
from muster_server.services import auth, identity
from muster_server.settings import Settings

from .deps import Db, Me

log = structlog.get_logger(__name__)
router = APIRouter(tags=["live"])

TOPICS_MAX = 200
MESSAGE_MAX_BYTES = 65_536
MESSAGES_PER_S = 20
HINT_EVERY_S = 0.5
"""Between two hints of one topic to one client."""
PING_EVERY_S = 15.0
SEND_TIMEOUT_S = 10.0
"""A client that takes nothing for this long is disconnected; it reconnects and refetches."""
RECHECK_EVERY_S = 60.0
"""A revoked token or ended session closes its sockets within this."""

POLICY_VIOLATION = 1008
TOO_BIG = 1009
TRY_AGAIN_LATER = 1013

_TOPIC = re.compile(
    r"cluster|experiments|experiment:[1-9][0-9]{0,18}|"
    r"trial:[1-9][0-9]{0,18}(:(logs|metrics))?|node:[A-Za-z0-9._-]{1,64}"
)


@router.post(
    "/live/tickets",
    operation_id="create_live_ticket",
    summary="A ticket that opens the live channel once",
)
def create_live_ticket(db: Db, me: Me) -> LiveTicket:
    """For callers with an API token: browsers cannot send headers with a WebSocket, and a token
    does not belong in an address. Works once, within a minute."""
    assert me.user_id is not None
    with db.transaction() as session:
        return LiveTicket(
            ticket=auth.create_live_ticket(session, user_id=me.user_id, now=clock.now())
        )


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


class _Refused(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Connection:
    def __init__(self, socket: WebSocket, hub: Hub, principal: Principal) -> None:
        self._socket = socket
        self._hub = hub
        self._principal = principal
        self._listener = Listener()
        self._topics: set[str] = set()

    async def run(self) -> None:
        """Until the client leaves, breaks a rule, stops reading, or may not listen any more."""
        try:
            await self._send(
                {
                    "hello": {
                        "server": __version__,
                        "resumed": False,
                        # False: commits of other processes are not heard, so poll as well.
                        "complete": self._hub.is_connected,
                    }
                }
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read())
                tasks.create_task(self._hint())
                tasks.create_task(self._ping())
        except* (WebSocketDisconnect, TimeoutError, RuntimeError, OSError):
            pass  # gone, or as good as gone
        except* _Refused as group:
            error = group.exceptions[0]
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            assert isinstance(error, _Refused)
            await self._close(error.code, error.reason)
        finally:
            for topic in self._topics:
                self._hub.remove(self._listener, topic)

    async def _read(self) -> None:
        window_started_at, num = time.monotonic(), 0
        while True:
            text = await self._socket.receive_text()
            if len(text) > MESSAGE_MAX_BYTES:
                raise _Refused(TOO_BIG, "message too big")
            now = time.monotonic()
            if now - window_started_at >= 1.0:
                window_started_at, num = now, 0
            num += 1
            if num > MESSAGES_PER_S:
                raise _Refused(POLICY_VIOLATION, "too many messages")
            self._obey(text)

    def _obey(self, text: str) -> None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise _Refused(POLICY_VIOLATION, "not JSON") from None
        if not isinstance(message, dict) or len(message) != 1:
            raise _Refused(POLICY_VIOLATION, "expected one of subscribe, unsubscribe, pong")
        ((verb, value),) = message.items()
        if verb == "pong":
            return
        if verb not in ("subscribe", "unsubscribe") or not isinstance(value, list):
            raise _Refused(POLICY_VIOLATION, "expected one of subscribe, unsubscribe, pong")
        for topic in value:
            if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
                raise _Refused(POLICY_VIOLATION, "no such topic")
            if verb == "unsubscribe":
                self._topics.discard(topic)
                self._hub.remove(self._listener, topic)
            elif topic not in self._topics:
                if len(self._topics) >= TOPICS_MAX:
                    raise _Refused(POLICY_VIOLATION, "too many topics")
                self._topics.add(topic)
                self._hub.add(self._listener, topic)

    async def _hint(self) -> None:
        while True:
            await self._listener.wait(3600.0)
            for topic, seq in self._listener.take().items():
                if topic in self._topics:
                    await self._send({"topic": topic, "seq": seq})
            # What happens meanwhile waits together, one entry per topic.
            await asyncio.sleep(HINT_EVERY_S)

    async def _ping(self) -> None:
        rechecked_at = time.monotonic()
        number = 0
        while True:
            await asyncio.sleep(PING_EVERY_S)
            number += 1
            await self._send({"ping": number})
            if time.monotonic() - rechecked_at >= RECHECK_EVERY_S:
                rechecked_at = time.monotonic()
                if not await run_in_threadpool(self._is_still_allowed):
                    raise _Refused(POLICY_VIOLATION, "signed out")

    def _is_still_allowed(self) -> bool:
        database: Database = self._socket.app.state.database
        with database.read() as session:
            return identity.is_still_valid(session, self._principal, now=clock.now())

    async def _send(self, message: dict[str, Any]) -> None:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await self._socket.send_text(json.dumps(message, separators=(",", ":")))

    async def _close(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.close(code, reason)
        except (RuntimeError, OSError, TimeoutError):
            return
