"""A small HTTP/1.1 server for one job: bodies are streamed, everything is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import h11

MAX_CONNECTIONS = 512
MAX_HEADERS_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024
DISCARD_MAX_BYTES = 2**30
"""Most bytes that are read of a body that was refused already."""


@dataclass(kw_only=True)
class HttpRequest:
    """One request; `pieces` yields its body once."""

    method: str
    path: str
    """Path without the query, decoded."""
    query: dict[str, Any]
    """Values by name; a list where a name occurs several times."""
    headers: Mapping[str, str]
    """Values by name in lower case."""
    peer_port: int
    """Port from which the client has connected."""
    pieces: Callable[[], AsyncIterator[bytes]]


@dataclass(kw_only=True)
class HttpReply:
    status: int = 200
    body: bytes = b"{}"
    content_type: str = "application/json"
    size: int | None = None
    """Bytes of `pieces`, which are sent in place of `body`."""
    pieces: Iterator[bytes] | None = None

    @staticmethod
    def of(value: Any, status: int = 200) -> HttpReply:
        """Return a reply with a JSON body."""
        return HttpReply(status=status, body=json.dumps(value, separators=(",", ":")).encode())


ConnectionBroken = h11.RemoteProtocolError
"""The client has ended in the middle of a request."""


class BodyTooLarge(Exception):
    """A body is larger than what is read at once; the message says so."""


@dataclass
class HttpServer:
    """Answers requests with `handle`, which does not raise."""

    handle: Callable[[HttpRequest], Awaitable[HttpReply]]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def listen(self) -> int:
        """Listen on the loopback interface and return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host="127.0.0.1", port=0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self, *, timeout_s: float) -> None:
        """Stop listening; answer what has been asked already."""
        if self._server is None:
            return
        self._server.close()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=timeout_s)
            for task in late:
                task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            await HttpConnection(reader, writer).serve(self.handle)
        except (OSError, asyncio.CancelledError, h11.ProtocolError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


class HttpConnection:
    """One connection: requests one after the other, until the client closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADERS_BYTES)

    async def serve(self, handle: Callable[[HttpRequest], Awaitable[HttpReply]]) -> None:
        port = int(self._writer.get_extra_info("peername")[1])
        while True:
            try:
                event = await self._next()
                if not isinstance(event, h11.Request):
                    return
                reply = await handle(_request(event, port, self._pieces))
                # Closing now would reset the connection, and the client would miss the reply.
                is_read = await self._discard()
                await self._send(event, reply, closes=not is_read)
                if not is_read:
                    return
            except h11.RemoteProtocolError as error:
                if self._state.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    body = {"error_code": "BAD_REQUEST", "message": f"not HTTP: {error}"}
                    await self._send(None, HttpReply.of(body, error.error_status_hint))
                return
            if self._state.our_state is not h11.DONE:
                return
            self._state.start_next_cycle()

    async def _next(self) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            if self._state.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._state.send(go_on) or b"")
            self._state.receive_data(await self._reader.read(PIECE_BYTES))
        return event

    async def _pieces(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def _discard(self) -> bool:
        """Read what is left of a body that was refused; return whether that is all of it."""
        if self._state.their_state is not h11.SEND_BODY:
            return True
        if self._state.they_are_waiting_for_100_continue:
            return False
        size = 0
        async for piece in self._pieces():
            size += len(piece)
            if size > DISCARD_MAX_BYTES:
                return False
        return True

    async def _send(
        self, request: h11.Request | None, reply: HttpReply, *, closes: bool = False
    ) -> None:
        size = len(reply.body) if reply.pieces is None else reply.size
        headers = [("Content-Type", reply.content_type), ("Content-Length", str(size))]
        if closes:
            headers.append(("Connection", "close"))
        head = self._state.send(h11.Response(status_code=reply.status, headers=headers)) or b""
        has_body = request is None or request.method != b"HEAD"
        if reply.pieces is None:
            # One write: head and body apart would wait for each other's acknowledgment.
            body = self._state.send(h11.Data(data=reply.body)) if has_body else b""
            self._writer.write(head + (body or b""))
        else:
            self._writer.write(head)
            while has_body and (piece := await asyncio.to_thread(next, reply.pieces, b"")):
                self._writer.write(self._state.send(h11.Data(data=piece)) or b"")
                await self._writer.drain()
        self._writer.write(self._state.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()


async def read_body(request: HttpRequest, *, max_bytes: int) -> bytes:
    """Return the whole body. Raises BodyTooLarge."""
    pieces, size = [], 0
    async for piece in request.pieces():
        size += len(piece)
        if size > max_bytes:
            raise BodyTooLarge(f"the body has more than {max_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _request(
    event: h11.Request, port: int, pieces: Callable[[], AsyncIterator[bytes]]
) -> HttpRequest:
    path, _, query = event.target.decode("ascii", "replace").partition("?")
    values: dict[str, Any] = {}
    if query:
        found = urllib.parse.parse_qs(query, keep_blank_values=True, max_num_fields=10_000)
        values = {name: many[0] if len(many) == 1 else many for name, many in found.items()}
    return HttpRequest(
        method=event.method.decode(),
        path=urllib.parse.unquote(path),
        query=values,
        headers={name.decode(): value.decode("latin-1") for name, value in event.headers},
        peer_port=port,
        pieces=pieces,
    )
