"""Response headers that restrict what browsers may do with responses."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.security.cookies import is_https
from muster_server.settings import Settings

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
"""Policy of the dashboard: nothing from elsewhere, nothing inline, no eval. Its build is made for
this."""

VIEWER_POLICY = (
    PAGE_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    .replace("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'")
    .replace("connect-src 'self'", "connect-src 'self' blob:")
)
"""Policy of the trace viewer, a third-party build: it writes styles into the page and compiles
WebAssembly of its own, and the trace is handed to it as a blob. Scripts from elsewhere, inline
or by eval are as forbidden as above."""

DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Policy of everything else: a browser may not run or load anything from it."""

_COMMON = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    # A page that we open may be spoken to: a trace is handed to Perfetto. Who opens us may not.
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_CACHING = (b"cache-control", b"no-store")
_VIEWER_PATH = "/viewer/"
_DATA_PATHS = (
    "/api/",
    "/mlflow/api/",
    "/agent/",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/metrics",
)


def _encoded(headers: dict[str, str]) -> dict[bytes, bytes]:
    return {name.lower().encode(): value.encode() for name, value in headers.items()}


def headers_of_data(settings: Settings) -> dict[str, str]:
    """Return the headers of every response that is not a page, except its request id."""
    found = {**_common(settings), "Content-Security-Policy": DATA_POLICY}
    return {**found, "Cache-Control": "no-store"}


def _common(settings: Settings) -> dict[str, str]:
    if is_https(settings):
        return {**_COMMON, "Strict-Transport-Security": "max-age=31536000"}
    return _COMMON


class SecurityHeaders:
    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app = app
        common = _common(settings)
        self._of_pages = _encoded({**common, "Content-Security-Policy": PAGE_POLICY})
        self._of_viewer = _encoded({**common, "Content-Security-Policy": VIEWER_POLICY})
        self._of_data = _encoded({**common, "Content-Security-Policy": DATA_POLICY})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        is_data = scope["path"].startswith(_DATA_PATHS)
        ours = self._of_pages
        if is_data:
            ours = self._of_data
        elif scope["path"].startswith(_VIEWER_PATH):
            ours = self._of_viewer

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                # Ours replace what a route may say of the same.
                headers = [pair for pair in message.get("headers", ()) if pair[0] not in ours]
                if is_data and all(name != _CACHING[0] for name, _ in headers):
                    headers.append(_CACHING)
                message["headers"] = [*headers, *ours.items()]
            await send(message)

        await self.app(scope, receive, send_with_headers)
