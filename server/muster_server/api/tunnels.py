"""Tunnels into running jobs: the sockets of users and of agents, and what connects them.

A user's socket sends one JSON object (`TunnelIn`), hears {"open": id} or {"error": {…}} as text, and
from then on carries the messages of `muster.wire.tunnels`. The agent learns from its assignments that
it should dial, and is connected with the user's socket here. With several API servers an agent may
reach another one: it is turned away with WRONG_SERVER and dials again until it gets here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from muster.wire import TUNNEL_MESSAGE_BYTES, WRONG_SERVER, TunnelChannel
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.errors import InvalidRequest, MusterError, TooManyRequests
from muster_server.live.watch import ListenerWatch
from muster_server.schemas.tunnels import InteractiveSessionListOut, TunnelIn
from muster_server.services.core.callers import Caller
from muster_server.services.experiments import sessions
from muster_server.services.runtime import tunnels

from .http.deps import By, Db

log = structlog.get_logger(__name__)
router = APIRouter(tags=["trials"])
agent_router = APIRouter(tags=["agents"])

TERMINALS_PER_TRIAL = 4
"""Commands and shells that are open at once in a trial, by API server."""
CONNECTIONS_PER_TRIAL = 64
"""Connections to ports of a trial that are open at once, by API server."""
MAX_S = 8 * 3600.0
"""Seconds after which a tunnel ends."""
IDLE_S = 3600.0
"""Seconds without data from either side after which a tunnel ends."""
FIRST_MESSAGE_S = 10.0
SEND_TIMEOUT_S = 60.0
"""Seconds that one message may wait for a reader."""

POLICY_VIOLATION = 1008
SIGNED_OUT = 4401


@dataclass
class _WaitingUser:
    """A user's tunnel that waits for its agent."""

    node: asyncio.Future[WebSocket]
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Tunnels:
    """The tunnels of this API server."""

    waiting: dict[str, _WaitingUser] = field(default_factory=dict)
    num_open: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Open tunnels by trial, and "port" or "terminal"."""

    @contextlib.asynccontextmanager
    async def counted(self, trial_id: int, kind: str) -> AsyncIterator[None]:
        """Count a tunnel while it is open. Raises TooManyRequests."""
        key = (trial_id, "port" if kind == "port" else "terminal")
        most = CONNECTIONS_PER_TRIAL if kind == "port" else TERMINALS_PER_TRIAL
        if self.num_open[key] >= most:
            raise TooManyRequests(
                "tunnels.too_many",
                f"{most} are open in this trial already.",
                hint="End one of them first.",
            )
        self.num_open[key] += 1
        try:
            yield
        finally:
            self.num_open[key] -= 1
            if not self.num_open[key]:
                del self.num_open[key]


@router.get("/interactive-sessions")
def list_interactive_sessions(db: Db, by: By) -> InteractiveSessionListOut:
    """List the sessions that have not ended: jobs in which somebody works, by ssh or in Jupyter."""
    with db.read() as session:
        return sessions.list_sessions(session, by)


@router.websocket("/trials/{trial_id}/tunnels", name="open_tunnel")
async def open_tunnel(socket: WebSocket, trial_id: int) -> None:
    await socket.accept()
    try:
        wanted = await _first_message(socket)
        async with _tunnels_of(socket).counted(trial_id, wanted.kind):
            await _serve(socket, trial_id, wanted)
    except MusterError as error:
        said = {"code": error.code, "message": error.message, "hint": error.hint}
        await _tell(socket, {"error": said})
        await _close(socket, POLICY_VIOLATION, error.code)
    except (WebSocketDisconnect, OSError, RuntimeError):
        return


@agent_router.websocket("/tunnels/{tunnel_id}", name="agent_tunnel")
async def agent_tunnel(socket: WebSocket, tunnel_id: str) -> None:
    await socket.accept()
    waiting = _tunnels_of(socket).waiting.get(tunnel_id)
    if waiting is None or waiting.node.done():
        await _close(socket, WRONG_SERVER, "no user waits for it at this API server")
        return
    database: Database = socket.app.state.database
    node_id = str(socket.state.principal.node_id)

    def take() -> bool:
        with database.transaction() as session:
            is_its = tunnels.is_of(session, tunnel_id, node_id)
            if is_its:
                tunnels.forget(session, tunnel_id)
            return is_its

    if not await run_in_threadpool(take) or waiting.node.done():
        await _close(socket, POLICY_VIOLATION, "this tunnel is not for this node")
        return
    await _tell(socket, {"open": tunnel_id})
    waiting.node.set_result(socket)
    await waiting.has_ended.wait()  # The user's handler reads and writes this socket until then.


def _tunnels_of(socket: WebSocket) -> Tunnels:
    found: Tunnels = socket.app.state.tunnels
    return found


async def _first_message(socket: WebSocket) -> TunnelIn:
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            text = await socket.receive_text()
        return TunnelIn.model_validate_json(text)
    except TimeoutError:
        raise InvalidRequest(
            "tunnels.unusable", "No request came within 10 s.", hint="Send one JSON object first."
        ) from None
    except (ValidationError, KeyError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"msg": "not text"}
        path = ".".join(str(part) for part in first.get("loc", ()))
        raise InvalidRequest(
            "tunnels.unusable", f"{path or 'The request'}: {first['msg']}."
        ) from None


async def _serve(socket: WebSocket, trial_id: int, wanted: TunnelIn) -> None:
    """Ask for the tunnel, wait for the agent, and pass messages on until either side leaves.
    Raises MusterError."""
    database: Database = socket.app.state.database
    caller = Caller(
        principal=socket.state.principal,
        now=clock.now(),
        remote_addr=socket.client.host if socket.client is not None else "",
    )

    def ask() -> str:
        with database.transaction() as session:
            return tunnels.request(
                session, trial_id, caller=caller, **wanted.model_dump(mode="python")
            )

    def forget() -> None:
        with database.transaction() as session:
            tunnels.forget(session, tunnel_id)

    waiting = _WaitingUser(asyncio.get_running_loop().create_future())
    tunnel_id = await run_in_threadpool(ask)
    mine = _tunnels_of(socket).waiting
    mine[tunnel_id] = waiting
    try:
        async with asyncio.timeout(tunnels.AGENT_WAIT_S):
            node = await waiting.node
    except TimeoutError:
        await run_in_threadpool(forget)
        raise InvalidRequest(
            "tunnels.no_answer",
            f"The node did not answer within {tunnels.AGENT_WAIT_S:g} s.",
            hint="Its agent may be away, or older than this server.",
        ) from None
    finally:
        del mine[tunnel_id]
    try:
        await _tell(socket, {"open": tunnel_id})
        await _relay(socket, node)
    finally:
        waiting.has_ended.set()


async def _relay(user: WebSocket, node: WebSocket) -> None:
    moved_at = time.monotonic()

    async def passing(source: WebSocket, target: WebSocket) -> None:
        nonlocal moved_at
        while True:
            message = await source.receive()
            data = message.get("bytes")
            if message["type"] == "websocket.disconnect" or data is None:
                return
            if len(data) > TUNNEL_MESSAGE_BYTES:
                return
            if len(data) > 1 and data[0] != TunnelChannel.RESIZE:
                moved_at = time.monotonic()
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await target.send_bytes(data)

    async def idle() -> None:
        deadline = time.monotonic() + MAX_S
        # Nothing is polled: it sleeps for as long as nothing can be over.
        while (left_s := min(deadline, moved_at + IDLE_S) - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left_s)

    watch: ListenerWatch = user.app.state.listeners
    with watch.watch(user.state.principal) as signed_out:
        tasks = {
            asyncio.create_task(passing(user, node)),
            asyncio.create_task(passing(node, user)),
            asyncio.create_task(idle()),
            asyncio.create_task(signed_out.wait()),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            code = SIGNED_OUT if signed_out.is_set() else 1000
            await _close(node, 1000, "the user has left")
            await _close(user, code, "")


async def _tell(socket: WebSocket, message: object) -> None:
    with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError):
        await socket.send_text(json.dumps(message))


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError, TimeoutError):
        async with asyncio.timeout(5.0):
            await socket.close(code, reason)
