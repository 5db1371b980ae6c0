"""Routes whose messages are those of muster.wire, read and written by msgspec.

Working out the parameters of a request and checking its answer takes the framework longer than a call
of an agent takes to be served. A `WireRoute` reads the body with a decoder of its own. What that
refuses goes on to the framework, which judges it and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from .guard import confirm_operation

Reader = Callable[[Request, bytes], Mapping[str, Any] | None]
"""Returns the arguments of an endpoint besides `http` and `agent`; None where it cannot say."""
Endpoint = Callable[..., Awaitable[Any]]
_READER = "muster_reader"
_REQUEST = "muster.request"
"""Where in the scope the request is whose body has been read already."""


def read_by(reader: Reader) -> Callable[[Endpoint], Endpoint]:
    """Have the arguments of an endpoint of a `WireRoute` read by `reader`."""

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _READER, reader)
        return endpoint

    return mark


class WireRequest(Request):
    async def json(self) -> Any:
        try:
            return msgspec.json.decode(await self.body())
        except msgspec.DecodeError:
            # What it refuses (a bare NaN, half a character) is for the usual one to judge.
            return await super().json()


class WireRoute(APIRoute):
    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        reader: Reader | None = getattr(endpoint, _READER, None)
        if reader is not None:
            self.app = _serving(endpoint, reader, judge=self.app)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_wire(http: Request) -> Response:
            read: WireRequest | None = http.scope.get(_REQUEST)
            return await handle(read or WireRequest(http.scope, http.receive))

        return handle_wire


def _serving(endpoint: Endpoint, reader: Reader, *, judge: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        http = WireRequest(scope, receive)
        try:
            body = b"" if http.method == "GET" else await http.body()
        except ClientDisconnect:
            return
        arguments = reader(http, body)
        if arguments is None:
            scope[_REQUEST] = http
            await judge(scope, receive, send)
            return
        await confirm_operation(http)
        reply = await endpoint(http=http, agent=http.state.principal, **arguments)
        if not isinstance(reply, Response):
            reply = Response(msgspec.json.encode(reply), media_type="application/json")
        await reply(scope, receive, send)

    return serve


def is_json(http: Request) -> bool:
    """Return whether the request is JSON, as this version's agents declare it."""
    return http.headers.get("content-type") == "application/json"
