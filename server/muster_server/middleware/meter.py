"""Counts requests and times them, for Prometheus."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.telemetry.process import ServerTelemetry

ROUTE = "muster.route"
"""Key in the scope under which the guard stores the template of the route."""


class RequestMeter:
    """Counts and times requests. Outside of what answers errors, so that these count, too. A live
    channel is not a request."""

    def __init__(self, app: ASGIApp, *, telemetry: ServerTelemetry) -> None:
        self.app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        self._telemetry.request_began()
        try:
            await self.app(scope, receive, send_noting_status)
        finally:
            self._telemetry.request_ended(
                scope["method"], scope.get(ROUTE), status, time.perf_counter() - began
            )
