"""Response headers that tell browsers how little they may do with what we send."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.security.cookies import is_https
from muster_server.settings import Settings

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
"""For the dashboard: nothing from elsewhere, nothing inline, no eval. Its build is made for this."""

DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""For everything else: whatever a browser takes an answer for, it may not run or load a thing."""

_COMMON = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_DATA_PATHS = ("/api/", "/agent/", "/openapi.json", "/healthz", "/readyz", "/metrics")


class SecurityHeaders:
    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app = app
        self._common = dict(_COMMON)
        if is_https(settings):
            self._common["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        is_data = scope["path"].startswith(_DATA_PATHS)

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in self._common.items():
                    headers[name] = value
                headers["Content-Security-Policy"] = DATA_POLICY if is_data else PAGE_POLICY
                if is_data:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)
