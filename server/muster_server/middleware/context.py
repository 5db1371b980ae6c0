"""The outermost layer: a request id, the log line, and a response to unhandled errors."""

from __future__ import annotations

import itertools
import logging
import secrets
import time

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.api.http.errors import response_to

log = structlog.get_logger(__name__)
_ROUTINE = logging.getLogger(__name__)


_VALUES = ("/runs/log-metric", "/runs/log-batch")


def comes_by_the_thousand(path: str) -> bool:
    """Return whether requests for a path are those of agents, probes, or for values."""
    return path.startswith(("/agent/", "/healthz", "/readyz")) or path.endswith(_VALUES)


class RequestContext:
    """Gives every request an id, in the log, in X-Request-Id and in error bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        # Unlike any other's, and nothing that somebody would have to be kept from guessing.
        self._process = secrets.token_hex(10)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        # Always our own: an id taken from the request would let callers write into the log.
        request_id = f"{self._process}{next(self._numbers):012x}"
        scope["muster.request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started_at = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                _name(message, request_id)
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception as exc:
            if status:
                raise  # the answer has begun; the server can only cut the connection
            await _answer(response_to(exc, scope), scope, receive, send_with_id)
        finally:
            # That these go well says nothing.
            is_routine = comes_by_the_thousand(scope["path"])
            if not is_routine or status >= 400 or _ROUTINE.isEnabledFor(logging.DEBUG):
                write = log.debug if is_routine and status < 400 else log.info
                write(
                    "request",
                    method=scope.get("method", "WEBSOCKET"),
                    path=scope["path"],
                    status=status,
                    duration_ms=round((time.perf_counter() - started_at) * 1000, 1),
                )


def _name(message: Message, request_id: str) -> None:
    headers = message.get("headers", ())
    message["headers"] = [*headers, (b"x-request-id", request_id.encode())]


async def _answer(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await response(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008})
