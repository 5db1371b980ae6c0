"""The client of scripts: one implementation for threads and event loops."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import muster
from muster.ask_tell import AsyncDrive, Drive
from muster.client import AsyncClient, Client, Frame, NotConfigured, Unreachable
from muster.client.waiting import streaming, waiting


@pytest.mark.parametrize(("plain", "other"), [(Client, AsyncClient), (Drive, AsyncDrive)])
def test_both_kinds_have_the_same_methods(plain: type, other: type) -> None:
    def names(kind: type) -> set[str]:
        return {n for n, _ in inspect.getmembers(kind, callable) if not n.startswith("_")}

    # Parts of other methods' work, such as sending one piece of an upload, have no other kind.
    parts = {"patience", "log_batches", "submit", "continue_to", "send_piece"}
    assert names(plain) - names(other) <= parts
    assert names(other) - names(plain) == set()


class Handler(BaseHTTPRequestHandler):
    """Answers that an experiment has ended at the third look."""

    looks = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        kind = type(self)
        with kind.lock:
            kind.looks += 1
            state = "COMPLETED" if kind.looks > 2 else "RUNNING"
        body = json.dumps({"id": 7, "state": state}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.looks = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_waiting_in_a_thread_and_in_a_loop(url: str) -> None:
    with muster.Client(url) as client:
        assert client.wait(7, poll_s=0.01)["state"] == "COMPLETED"
    assert Handler.looks == 3

    async def many() -> list[str]:
        Handler.looks = -100
        async with muster.AsyncClient(url) as client:
            # More waits than there are threads, and a call that is not held up by them.
            waits = [asyncio.create_task(client.wait(7, poll_s=0.01)) for _ in range(40)]
            found = await client.experiment(7)
            assert found["state"] == "RUNNING"
            return [(await task)["state"] for task in waits]

    assert asyncio.run(many()) == ["COMPLETED"] * 40


def test_a_wait_that_is_canceled_stops_looking(url: str) -> None:
    async def cancel() -> None:
        Handler.looks = -1_000_000
        async with muster.AsyncClient(url) as client:
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.wait(7, poll_s=0.01)

    asyncio.run(cancel())


def test_a_timeout(url: str) -> None:
    Handler.looks = -1_000_000
    with muster.Client(url) as client, pytest.raises(TimeoutError, match="7 is still RUNNING"):
        client.wait(7, timeout_s=0.05, poll_s=0.01)


def test_errors_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("MUSTER_URL", raising=False)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    with pytest.raises(NotConfigured) as missing:
        muster.Client()
    assert "muster up" in str(missing.value.hint)
    with (
        muster.Client("http://127.0.0.1:9", retry_for_s=0.01) as client,
        pytest.raises(Unreachable, match="No Muster server answers at"),
    ):
        client.me()


def test_streams_pause_between_batches() -> None:
    @streaming
    def numbers() -> Iterator[list[int] | float]:
        yield [1, 2]
        yield 0.01
        yield [3]

    began = time.monotonic()
    assert list(numbers()) == [1, 2, 3]
    assert time.monotonic() - began >= 0.01


def test_an_error_ends_a_wait() -> None:
    @waiting
    def failing() -> Iterator[float]:  # type: ignore[misc]
        yield 0.0
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        failing()


def test_columns() -> None:
    columns = Frame.of_rows([{"a": 1}, {"a": 2, "b": "x"}])
    assert len(columns) == 2
    assert columns.by_name == {"a": [1, 2], "b": [None, "x"]}
    assert list(columns.rows()) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    assert len(Frame.of_rows([])) == 0
