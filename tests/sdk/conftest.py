"""A real unix socket in the shim's place."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.sdk.run import Run


def wait_until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


class FakeShim:
    """Listens where a shim would; keeps every complete line it was sent."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        self.num_connections = self.num_open = 0
        self.reading = threading.Event()
        self.reading.set()
        self._connections: list[socket.socket] = []
        self._listener: socket.socket | None = None

    def start(self) -> FakeShim:
        Path(self.path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        while self._connections:
            connection = self._connections.pop()
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def send(self, message: wire.Control | dict[str, Any]) -> None:
        for connection in self._connections:
            connection.sendall((wire.dump(message) + "\n").encode())

    def drain(self, run: Run, timeout_s: float = 20.0) -> None:
        """Wait until everything `run` was given has been read here."""
        run.message("drained")
        assert run.flush(timeout_s)
        wait_until(lambda: any(m["text"] == "drained" for m in self.of("message")), timeout_s)
        self.lines = [line for line in self.lines if line.get("text") != "drained"]

    def wait_closed(self) -> None:
        """Wait until every worker has hung up and all it sent has been read."""
        wait_until(lambda: self.num_connections and not self.num_open, 20.0)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["type"] == kind]

    def points(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric in the order received."""
        return [
            (step, wire.decode_number(value))
            for line in self.of("metrics")
            for series in line["series"]
            if series["name"] == name
            for step, value in zip(series["steps"], series["values"], strict=True)
        ]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.num_open += 1
            self.num_connections += 1
            self._connections.append(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        try:
            self._read_lines(connection)
        finally:
            self.num_open -= 1

    def _read_lines(self, connection: socket.socket) -> None:
        rest = b""
        with connection:
            while True:
                self.reading.wait()
                try:
                    data = connection.recv(65536)
                except OSError:
                    return
                if not data:
                    return  # a partial last line is dropped, as the protocol says
                *lines, rest = (rest + data).split(b"\n")
                self.lines += [json.loads(line) for line in lines]


@pytest.fixture
def shim() -> Iterator[FakeShim]:
    # Not tmp_path: a unix socket's path must stay below about 100 bytes.
    with tempfile.TemporaryDirectory(prefix="mst") as folder:
        fake = FakeShim(f"{folder}/s")
        yield fake
        fake.reading.set()
        fake.stop()


@pytest.fixture
def until() -> Callable[..., None]:
    return wait_until
