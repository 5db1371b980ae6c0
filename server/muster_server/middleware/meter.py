"""Counts requests and times them, for Prometheus and for traces."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.launch import traces
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
        sender = dict(scope["headers"]).get(traces.HEADER.encode(), b"")

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        self._telemetry.request_began()
        parent = traces.sender(sender.decode("latin-1"))
        with traces.span("request", kind="SERVER", parent=parent) as span:
            try:
                await self.app(scope, receive, send_noting_status)
            finally:
                route: str | None = scope.get(ROUTE)
                seconds = time.perf_counter() - began
                self._telemetry.request_ended(scope["method"], route, status, seconds)
                if span is not None and route is not None:
                    span.update_name(f"{scope['method']} {route}")
                    span.set_attributes({"http.route": route, "http.response.status_code": status})
