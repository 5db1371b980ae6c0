"""Protection against other people's web pages that use a visitor's browser.

Two checks. The Host header must be one of ours: a page whose name was re-pointed at our address
(DNS rebinding) is otherwise "same-origin" with us. And whatever changes something, or opens the
live channel, must come from our own pages: browsers say so in Origin or Sec-Fetch-Site, which a
page cannot forge or leave out. All methods but the safe ones are covered, not a list of bad ones.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from muster_server.errors import Forbidden, Misdirected
from muster_server.settings import Settings

log = structlog.get_logger(__name__)

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_ANY_HOST = ("/agent/", "/healthz", "/readyz", "/metrics")
"""Paths without cookies that answer to any host name: agents present their own credential and use
whatever name their network has; probes come to a bare address. A re-pointed page gains nothing
there."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class BrowserGuard:
    """Refuses unknown hosts with 421 and foreign pages with 403."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app = app
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        self._public = urlsplit(settings.public_url) if settings.public_url else None
        if self._public is not None and self._public.hostname:
            self._hosts.add(_bracketed(self._public.hostname))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if not scope["path"].startswith(_ANY_HOST):
                self._check_host(headers)
            if scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS:
                self._check_origin(headers, scope)
        await self.app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        values = headers.getlist("host")
        if len(values) == 1 and _host_name(values[0]) in self._hosts:
            return
        log.warning("unknown_host", hosts=[value[:100] for value in values[:3]])
        raise Misdirected(
            "request.unknown_host",
            "This server does not answer under that name.",
            hint="Add it to MUSTER_ALLOWED_HOSTS, or set MUSTER_PUBLIC_URL.",
        )

    def _check_origin(self, headers: Headers, scope: Scope) -> None:
        origins = headers.getlist("origin")
        if origins:
            if len(origins) == 1 and self._is_ours(origins[0], headers.get("host", ""), scope):
                return
            self._refuse(origins[0])
        site = headers.get("sec-fetch-site")
        if site is not None:
            if site in ("same-origin", "none"):
                return
            self._refuse(site)
        # Neither header: not a browser. For a WebSocket every browser sends Origin, so a cookie
        # without it is nobody we know.
        if scope["type"] == "websocket" and headers.get("cookie"):
            self._refuse("")

    def _is_ours(self, origin: str, host: str, scope: Scope) -> bool:
        parts = urlsplit(origin)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path or parts.query:
            return False
        theirs = _place(parts.scheme, parts.netloc)
        if self._public is not None:
            public = _place(self._public.scheme, self._public.netloc)
            if theirs == public:
                return True
            if _host_name(parts.netloc) == _host_name(self._public.netloc) and (
                self._public.scheme == "https"
            ):
                return False  # somebody on the way speaks plain HTTP in our name
        own: str = scope["scheme"]
        scheme = {"ws": "http", "wss": "https"}.get(own, own)
        return theirs == _place(scheme, host)

    def _refuse(self, origin: str) -> None:
        log.warning("foreign_origin", origin=origin[:200])
        raise Forbidden(
            "request.foreign_origin",
            "This request comes from another site.",
            hint="Behind a proxy, set MUSTER_PUBLIC_URL to the address people open.",
        )


def _place(scheme: str, netloc: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port, with the port spelled out; None for an invalid value."""
    host, port = _split_port(netloc)
    if host is None:
        return None
    return scheme, host, port or _DEFAULT_PORTS.get(scheme, 0)


def _host_name(value: str) -> str | None:
    return _split_port(value)[0]


def _split_port(value: str) -> tuple[str | None, int | None]:
    value = value.strip().lower()
    if any(character in value for character in "/?#@\\, \t") or not value:
        return None, None
    if value.startswith("["):
        host, bracket, rest = value.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None, None
        host, port = host + "]", rest[1:]
    else:
        host, _, port = value.partition(":")
        host = host.removesuffix(".")
    if not port:
        return host, None
    if not port.isascii() or not port.isdigit() or len(port) > 5:
        return None, None
    return host, int(port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
