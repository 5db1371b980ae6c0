"""Bodies read by a decoder that takes a quarter of the time: agents send megabytes of numbers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute


class FastJsonRequest(Request):
    async def json(self) -> Any:
        try:
            return msgspec.json.decode(await self.body())
        except msgspec.DecodeError:
            # What it refuses (a bare NaN, half a character) is for the usual one to judge.
            return await super().json()


class FastJsonRoute(APIRoute):
    """A route whose body is read by FastJsonRequest."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_fast(request: Request) -> Response:
            return await handle(FastJsonRequest(request.scope, request.receive))

        return handle_fast
