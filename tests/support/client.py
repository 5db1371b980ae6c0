"""An ordinary httpx client that talks to an application in this process."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from starlette.applications import Starlette

from muster_server.app import create_app
from muster_server.settings import Settings


@functools.cache
def plain_app() -> FastAPI:
    """The application with its defaults, whatever the environment says: to ask what it offers, not to run."""
    return create_app(Settings(_env_file=None))  # type: ignore[call-arg]


class _PortalTransport(httpx.BaseTransport):
    """Carries a synchronous request over to the event loop in which the application lives."""

    def __init__(self, app: Starlette, portal: BlockingPortal, client: tuple[str, int]) -> None:
        self._portal = portal
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False, client=client)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()  # the inner transport wants an asynchronous stream: bytes are both
        async_request = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.content,
            extensions=request.extensions,
        )
        if "content-length" not in request.headers:
            async_request.headers.pop("content-length", None)  # was not sent: chunked
        status, headers, content = self._portal.call(self._exchange, async_request)
        return httpx.Response(status, headers=headers, content=content, request=request)

    async def _exchange(
        self, request: httpx.Request
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        response = await self._inner.handle_async_request(request)
        # As it went over the wire: the outer response undoes the encoding.
        content = b"".join([chunk async for chunk in response.aiter_raw()])
        return response.status_code, response.headers.raw, content


@contextmanager
def running(app: Starlette) -> Iterator[BlockingPortal]:
    """The application's lifespan, in a thread of its own, until the end of the block."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(app.router.lifespan_context(app)),
    ):
        yield portal


def make_client(
    app: Starlette,
    portal: BlockingPortal,
    *,
    token: str | None = None,
    address: str = "127.0.0.1",
) -> httpx.Client:
    """A client of a running application; with a token it sends it as bearer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(
        transport=_PortalTransport(app, portal, (address, 50000)),
        base_url="http://localhost:8470",
        headers=headers,
    )
