"""A real server on a real port, and a client of its live channel."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from websockets import Origin
from websockets.sync.client import ClientConnection, connect

from muster_server.http_protocol import BoundedHttpProtocol

START_S = 20.0


@contextmanager
def serving(app: FastAPI, *, send_buffer_bytes: int | None = None) -> Iterator[int]:
    """The application behind uvicorn, in a thread, until the end of the block; gives the port.

    send_buffer_bytes: of each connection, so that a client that reads nothing is felt soon.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if send_buffer_bytes is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        ws="websockets-sansio",
        ws_max_size=65_536,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), timeout_s=START_S)
        assert server.started, "the server did not start"
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class LiveClient:
    """A connection to the live channel that remembers what it was told."""

    def __init__(
        self,
        port: int,
        *,
        token: str | None = None,
        cookie: str | None = None,
        ticket: str | None = None,
        origin: str | None = None,
        prefix: str = "",
    ) -> None:
        headers = {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if cookie is not None:
            headers["Cookie"] = f"muster_sid={cookie}"
        query = f"?ticket={ticket}" if ticket is not None else ""
        self._exit = ExitStack()
        self.connection: ClientConnection = self._exit.enter_context(
            connect(
                f"ws://127.0.0.1:{port}{prefix}/api/v1/live{query}",
                additional_headers=headers,
                origin=Origin(origin) if origin is not None else None,
                compression=None,
                proxy=None,
                ping_interval=None,
                close_timeout=1,
            )
        )

    def send(self, message: object) -> None:
        self.connection.send(json.dumps(message))

    def receive(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """The next message. Raises TimeoutError, or ConnectionClosed with the server's code."""
        message: dict[str, Any] = json.loads(self.connection.recv(timeout=timeout_s))
        return message

    def expect(self, key: str, value: object = None, *, timeout_s: float = 5.0) -> dict[str, Any]:
        """The next message with this key (and value), past all others."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self.receive(max(0.0, deadline - time.monotonic()))
            if key in message and (value is None or message[key] == value):
                return message

    def subscribe(self, *topics: str) -> None:
        """Returns when each was confirmed by its first hint."""
        self.send({"subscribe": list(topics)})
        missing = set(topics)
        while missing:
            missing.discard(self.expect("topic")["topic"])

    def collect(self, duration_s: float) -> list[dict[str, Any]]:
        """Whatever comes within this time."""
        deadline = time.monotonic() + duration_s
        found = []
        while (left := deadline - time.monotonic()) > 0:
            try:
                found.append(self.receive(left))
            except TimeoutError:
                break
        return found

    def close(self) -> None:
        self._exit.close()


def until(condition: Callable[[], object], *, timeout_s: float = 5.0) -> None:
    """Returns when the condition holds. Raises AssertionError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)
