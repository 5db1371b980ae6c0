"""One keep-alive connection to an API server, as cheap as thousands of them in a process need."""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import urlsplit

import httptools

CALL_TIMEOUT_S = 60.0


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status} {body[:300].decode(errors='replace')}")
        self.status = status


class Connection(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._transport: asyncio.Transport | None = None
        self._lock = asyncio.Lock()
        self._parser: httptools.HttpResponseParser | None = None
        self._body = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def request(
        self, method: str, target: str, *, token: str, body: bytes = b"", kind: str = "json"
    ) -> bytes:
        """The body of a 200. Raises Refused, OSError or TimeoutError."""
        async with self._lock:
            if self._transport is None or self._transport.is_closing():
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: self, self._host, self._port)
            assert self._transport is not None
            self._answer = asyncio.get_running_loop().create_future()
            self._parser, self._body = httptools.HttpResponseParser(self), bytearray()
            head = (
                f"{method} {target} HTTP/1.1\r\nHost: {self._host}\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n"
                f"Content-Type: application/{kind}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    status, answer = await self._answer
            except TimeoutError:
                self.close()
                raise
        if status != 200:
            raise Refused(status, answer)
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit it

    def data_received(self, data: bytes) -> None:
        if self._parser is not None:
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed by the server"))

    # httptools

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), bytes(self._body)))
