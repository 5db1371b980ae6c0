"""Take X-Forwarded-* headers from proxies of ours alone: from anybody else they are claims."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

ASK_AGAIN_S = 5.0
"""Seconds for which the addresses of a name are taken to be the same."""


class BehindProxies:
    """Take the client's address and scheme from proxies that are given by address, network or name.

    A container gets another address when it is made again, and something else may get its old one:
    names are looked up again and again.
    """

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        self._app = app
        self._names = [proxy for proxy in proxies if not _is_address(proxy)]
        self._fixed = [proxy for proxy in proxies if proxy not in self._names]
        self._asked_at = -ASK_AGAIN_S
        self._believing = self._with(self._fixed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._names and any(name == b"x-forwarded-for" for name, _ in scope.get("headers", ())):
            await self._look_up()
        await self._believing(scope, receive, send)  # type: ignore[arg-type]

    async def _look_up(self) -> None:
        if time.monotonic() - self._asked_at < ASK_AGAIN_S:
            return
        self._asked_at = time.monotonic()
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(
            *(loop.getaddrinfo(name, None, type=socket.SOCK_STREAM) for name in self._names),
            return_exceptions=True,
        )
        addresses = [
            str(one[4][0]) for answer in found if isinstance(answer, list) for one in answer
        ]
        self._believing = self._with([*self._fixed, *addresses])

    def _with(self, addresses: list[str]) -> ProxyHeadersMiddleware:
        return ProxyHeadersMiddleware(self._app, addresses)  # type: ignore[arg-type]


def _is_address(proxy: str) -> bool:
    try:
        ipaddress.ip_network(proxy, strict=False)
    except ValueError:
        return proxy == "*"
    return True
