"""The outermost layer: a request id, the log line, and an answer for whatever went wrong inside."""

from __future__ import annotations

import time
import uuid

import structlog
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.api.errors import render

log = structlog.get_logger(__name__)


class RequestContext:
    """Gives every request an id, in the log, in X-Request-Id and in error bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        # Always our own: an id taken from the request would let callers write into the log.
        request_id = uuid.uuid4().hex
        scope["muster.request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started_at = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception as exc:
            if status:
                raise  # the answer has begun; the server can only cut the connection
            await _answer(render(exc, request_id=request_id), scope, receive, send_with_id)
        finally:
            # Heartbeats and probes that go well come by the thousand and say nothing.
            is_routine = scope["path"].startswith(("/agent/", "/healthz", "/readyz"))
            write = log.debug if is_routine and status < 400 else log.info
            write(
                "request",
                method=scope.get("method", "WEBSOCKET"),
                path=scope["path"],
                status=status,
                duration_ms=round((time.perf_counter() - started_at) * 1000, 1),
            )


async def _answer(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await response(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008})
