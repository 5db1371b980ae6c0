"""A short way for the three calls that agents make thousands of times a minute.

Finding a route, working out its parameters and checking its answer takes the framework longer than
these calls take to be served. Here they are read and answered directly, by the same functions; what
is not exactly what an agent of this version says goes on to the route, which judges it. It stands
behind the gate: the caller is known, and may do what it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.wire import RECORD_TYPES, LeaseRequest, NumberedRecord, RecordsRequest
from muster_server.security.principal import Principal
from muster_server.services.agents import Fence

from . import agents
from .guard import OPERATION

_JSON = (b"content-type", b"application/json")
_RECORDS_OF = re.compile(r"/agent/v1/allocations/([A-Za-z0-9_-]{1,64})/records\Z")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_WHOLE = re.compile(r"-?[0-9]{1,15}\Z")
_SECONDS = re.compile(r"[0-9]{1,2}(\.[0-9]{1,6})?\Z")
_POLL = {"node_id": _ID, "session_epoch": _WHOLE, "index": _WHOLE, "wait": _SECONDS}
MAX_WAIT_S = 60.0


@dataclass(frozen=True)
class _Numbered:
    """wire.NumberedRecord whose record has not been told apart from the other kinds."""

    seq: int
    at_ms: int
    record: dict[str, Any]


@dataclass(frozen=True)
class _Records:
    """wire.RecordsRequest of such."""

    node_id: str
    session_epoch: int
    attempt_no: int
    records: list[_Numbered]


_LEASE: Final = msgspec.json.Decoder(LeaseRequest)
_RECORDS: Final = msgspec.json.Decoder(_Records)

Short = Callable[[Request, Principal, bytes], Awaitable[bytes] | None]
"""Begins to answer a request with that body; None: it is for the route."""


class AgentLane:
    """ASGI layer, the innermost one: only the routes are behind it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        short = _SHORT.get(scope.get(OPERATION, "")) if scope["type"] == "http" else None
        if short is None:
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = b""
        if scope["method"] == "POST":
            if _JSON not in scope["headers"]:
                await self.app(scope, receive, send)
                return
            try:
                body = await request.body()
            except ClientDisconnect:
                return
        answering = short(request, scope["state"]["principal"], body)
        if answering is None:
            await self.app(scope, _replay(body, receive), send)
            return
        answer = await answering
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", str(len(answer)).encode()), _JSON],
            }
        )
        await send({"type": "http.response.body", "body": answer})


def _replay(body: bytes, receive: Receive) -> Receive:
    is_replayed = False

    async def again() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _lease(request: Request, agent: Principal, body: bytes) -> Awaitable[bytes] | None:
    try:
        said = _LEASE.decode(body)
    except msgspec.DecodeError:
        return None
    return _encoded(agents.renew(request, agent, said))


def _records(request: Request, agent: Principal, body: bytes) -> Awaitable[bytes] | None:
    path = _RECORDS_OF.match(request.scope["path"])
    if path is None:
        return None
    try:
        some = _RECORDS.decode(body)
        said = RecordsRequest(
            node_id=some.node_id,
            session_epoch=some.session_epoch,
            attempt_no=some.attempt_no,
            records=[
                NumberedRecord(
                    seq=one.seq,
                    at_ms=one.at_ms,
                    record=msgspec.convert(one.record, RECORD_TYPES[one.record["type"]]),
                )
                for one in some.records
            ],
        )
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return _encoded(agents.store(request, agent, path[1], said))


def _assignments(request: Request, agent: Principal, body: bytes) -> Awaitable[bytes] | None:
    query = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=len(_POLL))
    except ValueError:
        return None
    said = dict(pairs)
    is_plain = (
        len(pairs) == len(_POLL)
        and said.keys() == _POLL.keys()
        and all(pattern.match(said[name]) for name, pattern in _POLL.items())
        and float(said["wait"]) <= MAX_WAIT_S
    )
    if not is_plain:
        return None
    fence = Fence(said["node_id"], int(said["session_epoch"]))
    return agents.follow(
        request, agent, fence, index=int(said["index"]), wait_s=float(said["wait"])
    )


async def _encoded(answering: Awaitable[Any]) -> bytes:
    return msgspec.json.encode(await answering)


_SHORT: dict[str, Short] = {
    "agent_lease": _lease,
    "agent_records": _records,
    "agent_assignments": _assignments,
}
