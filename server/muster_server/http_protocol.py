"""uvicorn's HTTP connection with limits on how large a request's head may be, and how slow.

uvicorn has neither with httptools: a client could send one header without end, or one byte of it a
minute, and a few hundred of the latter hold all the connections there are.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .api.http.errors import http_problem
from .middleware.headers import headers_of_data
from .settings import get_settings

log = structlog.get_logger(__name__)

HEAD_TIMEOUT_S = 10.0
HEAD_MAX_BYTES = 32_768
"""Default limit in bytes of a request's head, used if the configuration for h11 has none."""


class HeadTooLarge(Exception):
    """The head is too large. Raised inside of the parser, which gives the request up."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Answers 431 and closes where a head is larger than allowed, 408 where one is not complete within
    `head_timeout_s` of its start, and 400 where it is none: before there is a request for the
    application, but with the headers and in the form of its errors.

    The parser hands on a header once it is complete, and keeps what it has of it until then. So
    both are counted: the bytes of what was handed on, and those that came since without anything
    being handed on. The latter covers what else has no end of its own, the trailers of a body in
    chunks, and what may follow the size of a chunk.
    """

    head_timeout_s = HEAD_TIMEOUT_S
    _head_timer: asyncio.TimerHandle | None = None
    _has_begun = False
    """Whether a head has begun and is not complete yet."""
    _is_whole = True
    """Whether the latest request has come, body and all; or there was none yet."""
    _is_upgraded = False
    """Whether a WebSocket has taken the connection over, whose limits are its own."""
    _num_head_bytes = 0
    """Bytes of the present request's address, headers and trailers."""
    _num_silent_bytes = 0
    """Bytes received since the parser handed something on."""

    # connections

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_max_bytes = self.config.h11_max_incomplete_event_size or HEAD_MAX_BYTES
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._num_silent_bytes += len(data)
        super().data_received(data)
        if self._num_silent_bytes > self._head_max_bytes and not self.transport.is_closing():
            if self._answers():
                self.transport.close()
            else:
                self._refuse(431)
        if self._waits_for_head():
            # Something came, but not yet a whole head. The time runs from its first byte.
            self._start_head_timer()
        else:
            self._stop_head_timer()

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        if not self.pipeline and self.cycle.more_body:
            # Answered before all of it was there: nobody waits for the rest, which may never come.
            self.transport.close()
        super().on_response_complete()

    def _waits_for_head(self) -> bool:
        if self._is_upgraded:
            return False
        return self._has_begun or (self._is_whole and not self._answers())

    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_timeout_s, self._head_overdue)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_overdue(self) -> None:
        self._head_timer = None
        if self._answers():
            self._start_head_timer()  # it began to ask for more before it had its answer
        elif self._waits_for_head() and not self.transport.is_closing():
            if self._has_begun or self._num_silent_bytes:
                self._refuse(408)
            else:
                self.transport.close()  # it has asked for nothing

    # answers of our own

    def send_400_response(self, msg: str) -> None:
        """Answer 400 when uvicorn's parser gives a request up."""
        if self._answers():
            # In the middle of an answer another one would be taken for a part of it.
            self.transport.close()
        else:
            self._refuse(431 if self._num_head_bytes > self._head_max_bytes else 400)

    def _refuse(self, status: int) -> None:
        request_id = secrets.token_hex(16)
        answer = http_problem(status, request_id=request_id)
        headers = {
            **headers_of_data(get_settings()),
            "Content-Type": "application/json",
            "Content-Length": str(len(answer.body)),
            "X-Request-Id": request_id,
            "Connection": "close",
        }
        lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", bytes(answer.body)]))
        self.transport.close()
        log.info("request", method="", path="", status=status, request_id=request_id)

    # what the parser hands on

    def on_message_begin(self) -> None:
        self._has_begun, self._is_whole, self._num_head_bytes = True, False, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_begun, self._num_silent_bytes = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._num_silent_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_whole, self._num_silent_bytes = True, 0
        super().on_message_complete()

    def _count(self, num_bytes: int) -> None:
        self._num_silent_bytes = 0
        self._num_head_bytes += num_bytes
        if self._num_head_bytes > self._head_max_bytes:
            raise HeadTooLarge
