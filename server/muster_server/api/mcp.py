"""The tools for assistants over HTTP; see docs/guides/assistants.md.

A request carries the caller's token. Each call of a tool is made to this service's own routes with that
token, so permissions, hidden projects and the audit trail are theirs. There are no sessions: any process
behind a proxy answers any request.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio.from_thread
import httpx
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.mcp import PRODUCT
from muster_server.errors import NotFound, NotSignedIn

if TYPE_CHECKING:
    from muster.client import Client

_client: ContextVar[Client] = ContextVar("client of the request")


class _OwnRoutes(httpx.BaseTransport):
    """Carries a request from the thread of a tool to the routes of this process."""

    def __init__(self, app: ASGIApp, client: tuple[str, int]) -> None:
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False, client=client)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()  # The inner transport needs an asynchronous stream: bytes are both.
        return anyio.from_thread.run(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        reply = await self._inner.handle_async_request(
            httpx.Request(
                request.method, request.url, headers=request.headers, content=request.content
            )
        )
        content = b"".join([chunk async for chunk in reply.aiter_raw()])
        return httpx.Response(reply.status_code, headers=reply.headers.raw, content=content)


@functools.cache
def _server(*, allows_actions: bool) -> Any:
    # Not before the first call: the SDK takes a second to load, and most servers are asked for no tools.
    from muster.mcp.serving import assistant_server

    return assistant_server(_client.get, allows_actions=allows_actions, is_local=False)


class AssistantDoor:
    """ASGI application that answers an assistant's requests, one by one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if find_spec("mcp") is None:
            raise NotFound(
                "mcp.not_installed",
                "This server has no tools for assistants: the package mcp is not installed.",
                hint='Install "muster-train[mcp]" where the server runs, or use `muster mcp`.',
            )
        request = Request(scope)
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise NotSignedIn(
                "auth.not_signed_in", "Tools for assistants need an API token, not a session."
            )
        from muster.client import Client, Target

        app = scope["app"]
        # Not by the network: the address may be one that this process cannot reach.
        address = f"http://{request.headers['host']}{app.state.settings.path_prefix()}"
        sender = (request.client.host, request.client.port) if request.client else ("", 0)
        allows_actions = request.query_params.get("allow_actions") in ("1", "true")
        server = _server(allows_actions=allows_actions)
        # Host and Origin have been checked (middleware/browser.py): without a host, the SDK checks neither.
        server.streamable_http_app(json_response=True, stateless_http=True, host="")
        manager = server.session_manager
        with Client(
            Target(address, token.strip(), "the request"),
            retry_for_s=0.0,
            product=PRODUCT,
            transport=_OwnRoutes(app, sender),
        ) as client:
            _client.set(client)
            async with manager.run():
                await manager.handle_request(scope, receive, send)


# No GET: it would open a stream of messages from the server, of which there are none without sessions.
route = Route("/mcp", AssistantDoor(), methods=["POST"], name="call_tools")
