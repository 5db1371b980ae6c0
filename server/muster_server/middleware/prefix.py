"""The path in MUSTER_PUBLIC_URL: taken off requests, and put in front of redirects.

Everything behind this layer sees the paths that a server without a prefix sees. A request without the
prefix is answered, too: some proxies strip it, and probes and agents on the same network use the port itself.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class PathPrefix:
    """Outermost layer of a server below a path; `prefix` looks like "/muster"."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        self.app = app
        self._prefix = prefix
        self._raw = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            # In place, not in a copy: routes hide secrets of the address from uvicorn, which logs its own scope.
            scope["path"] = path.removeprefix(self._prefix) or "/"
            scope["raw_path"] = (scope.get("raw_path") or b"").removeprefix(self._raw) or b"/"

        async def send_below_prefix(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    (name, self._raw + value)
                    if name == b"location" and value.startswith(b"/")
                    else (name, value)
                    for name, value in message.get("headers", ())
                ]
            await send(message)

        await self.app(scope, receive, send_below_prefix)
