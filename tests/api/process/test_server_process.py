"""The real server process over real sockets: what uvicorn lets through, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as connect_websocket

from muster_server import http_protocol
from support import preloaded
from support.live import serving
from support.ports import free_port

START_TIMEOUT_S = 60


def wait_for(check, timeout_s=START_TIMEOUT_S):
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


class Server:
    def __init__(self, database_url, tmp_path, **settings):
        self.port = free_port()
        self.log = tmp_path / f"server-{self.port}.log"
        self.lifeline_read, self.lifeline = os.pipe()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        self.process = preloaded.start(
            [preloaded.IMPATIENT_SERVER],
            environment={
                **environment,
                "MUSTER_DATABASE_URL": database_url,
                "MUSTER_PORT": str(self.port),
                "MUSTER_REQUEST_TIMEOUT_S": "0.5",
                "MUSTER_LIFELINE_FD": str(self.lifeline_read),
                "MUSTER_LOG_FORMAT": "json",
                **settings,
            },
            folder=tmp_path,
            output=self.log,
            pass_fds=(self.lifeline_read,),
        )
        os.close(self.lifeline_read)
        self.url = f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self):
        def is_ready():
            assert self.process.poll() is None, self.log.read_text()
            try:
                return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        wait_for(is_ready)

    def exchange(self, data: bytes, *, wait_s: float = 10.0) -> bytes:
        """Everything the server answers until it closes the connection or `wait_s` have passed."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.settimeout(wait_s)
            answer = b""
            try:
                connection.sendall(data)
                while piece := connection.recv(65536):
                    answer += piece
            except (TimeoutError, ConnectionError):
                pass
        return answer

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.lifeline)


@pytest.fixture(scope="module")
def server(_sqlite_template, tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("server")
    shutil.copyfile(_sqlite_template, folder / "muster.db")
    server = Server(f"sqlite:///{folder}/muster.db", folder)
    server.wait_until_ready()
    yield server
    server.close()


CHUNKED = (
    b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
HEAD = b"Host: localhost\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * 24_000_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n"
        + HEAD
        + b"".join(b"X-%d: 1\r\n" % i for i in range(2000))
        + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"POST /api/v1/auth/login HTTP/1.1\r\n"
        + HEAD
        + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        b"POST /api/v1/auth/login HTTP/1.1\r\n"
        + HEAD
        + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST /api/v1/auth/login HTTP/1.1\r\n"
        + HEAD
        + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\r\n" * 200_000,
        CHUNKED + b"1;" + b"a" * 400_000,
        CHUNKED + b"1\r\n{\r\n0\r\nX: " + b"a" * 400_000,
        CHUNKED + b"1\r\n{\r\n0\r\n" + b"X: 1\r\n" * 40_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=[
        "huge",
        "many",
        "long",
        "cl-te",
        "cl-cl",
        "xchunked",
        "space",
        "nul",
        "folded",
        "not-ascii",
        "nothing",
        "chunk-extension",
        "trailer",
        "trailers",
        "tls",
    ],
)
def test_malformed_heads_are_refused(server, request_bytes):
    answer = server.exchange(request_bytes, wait_s=5)
    status = answer.split(b" ", 2)[1] if answer else b"closed"
    assert status in (b"400", b"413", b"414", b"431", b"501", b"closed"), answer[:300]
    if answer:
        require_usual_form(answer)
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_head_that_does_not_come_to_an_end_is_cut_off(server):
    for data in (b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "):
        started_at = time.monotonic()
        answer = server.exchange(data)
        assert 0.3 < time.monotonic() - started_at < 8
        if data:
            assert require_usual_form(answer) == (408, "request.timeout")
        else:
            assert answer == b""


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400, "request.malformed"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "request.malformed"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000, 431, "request.headers_too_large"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n", 431, "request.headers_too_large"),
    ],
    ids=["space", "tls", "header", "address"],
)
def test_what_is_refused_before_the_application_looks_alike(server, request_bytes, status, code):
    answer = server.exchange(request_bytes, wait_s=5)
    assert require_usual_form(answer) == (status, code)


def require_usual_form(answer: bytes) -> tuple[int, str]:
    """An error of ours: headers that harden it, and the one form of a body. Its status and code."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = httpx.Headers([tuple(line.split(": ", 1)) for line in lines])
    usual = {
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }
    assert {name: headers.get(name) for name in usual} == usual
    assert "sandbox" in headers["content-security-policy"]
    error = json.loads(body)["error"]
    assert error["request_id"] == headers["x-request-id"]
    return int(first.split(" ")[1]), error["code"]


PATIENCE_S = 1.0
"""Long enough for the head of a client on a busy machine."""


@pytest.mark.parametrize("rest", [b"\r\n", b"GET"])
def test_no_connection_is_kept_by_less_than_a_head(server, rest):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(rest)
        while connection.recv(65536):
            pass  # the body of the answer: its end is the end of the connection


def test_an_answer_may_take_longer_than_a_head(monkeypatch):
    """Also where the next request has begun to come behind the one that is being answered."""
    monkeypatch.setattr(http_protocol.BoundedHttpProtocol, "head_timeout_s", PATIENCE_S)

    async def answer_late(request: Request) -> PlainTextResponse:
        await asyncio.sleep(1.5 * PATIENCE_S)
        return PlainTextResponse("late")

    request = b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        serving(FastAPI(routes=[Route("/late", answer_late)])) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
    ):
        connection.sendall(request + request[:20])
        answer = b""
        while b"late" not in answer:
            piece = connection.recv(65536)
            assert piece, answer
            answer += piece


def test_a_websocket_outlives_the_time_for_a_head(monkeypatch):
    monkeypatch.setattr(http_protocol.BoundedHttpProtocol, "head_timeout_s", PATIENCE_S)

    async def echo_late(socket: WebSocket) -> None:
        await socket.accept()
        await asyncio.sleep(1.5 * PATIENCE_S)
        await socket.send_text("late")
        await socket.close()

    with (
        serving(FastAPI(routes=[WebSocketRoute("/echo", echo_late)])) as port,
        connect_websocket(f"ws://127.0.0.1:{port}/echo") as connection,
    ):
        assert connection.recv(timeout=20) == "late"


def test_a_body_that_does_not_come_to_an_end_is_cut_off(server):
    head = (
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    answer = server.exchange(head + b'Content-Length: 100\r\n\r\n{"a', wait_s=8)
    assert answer.startswith(b"HTTP/1.1 408")


def test_an_endless_body_is_refused_before_it_is_stored(server):
    head = (
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    answer = server.exchange(head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 40)
    assert answer.startswith(b"HTTP/1.1 413") or answer == b"", answer[:200]
    declared = server.exchange(head + b"Content-Length: 1000000000\r\n\r\n", wait_s=8)
    assert declared.startswith(b"HTTP/1.1 413")


def test_forwarded_addresses_are_not_believed_by_default(server):
    statuses = {
        httpx.post(
            f"{server.url}/api/v1/auth/one-time",
            json={"token": "x"},
            headers={"X-Forwarded-For": f"10.1.2.{i}"},
        ).status_code
        for i in range(30)
    }
    assert statuses == {401, 429}


@pytest.mark.parametrize("name", ["localhost", "nobody.invalid"])
def test_a_proxy_is_believed_by_its_name(sqlite_url, tmp_path, name):
    server = Server(sqlite_url, tmp_path, MUSTER_FORWARDED_ALLOW_IPS=f'["{name}"]')
    try:
        server.wait_until_ready()
        statuses = {
            httpx.post(
                f"{server.url}/api/v1/auth/one-time",
                json={"token": "x"},
                headers={"X-Forwarded-For": f"10.1.2.{i}"},
            ).status_code
            for i in range(30)
        }
    finally:
        server.close()
    assert statuses == ({401} if name == "localhost" else {401, 429})


def test_answers_do_not_name_the_server_software(server):
    assert "server" not in httpx.get(f"{server.url}/healthz").headers


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer mst_usr_nonsense"}])
def test_the_live_channel_needs_credentials(server, headers):
    url = server.url.replace("http", "ws") + "/api/v1/live"
    for query in ("", "?ticket=nonsense", "?ticket=a&ticket=b"):
        with pytest.raises(InvalidStatus) as caught:
            connect_websocket(url + query, additional_headers=headers).close()
        assert caught.value.response.status_code in (401, 403)


def test_other_paths_do_not_open_as_a_live_channel(server):
    url = server.url.replace("http", "ws")
    for path in ("/", "/api/v1/nothing", "/api/v1/auth/me", "/healthz"):
        with pytest.raises(InvalidStatus):
            connect_websocket(url + path).close()


def test_no_secret_reaches_the_log(server):
    canaries = {"mst_usr_" + "canary" * 7, "canary-password-1", "mst_once_" + "canary" * 7}
    usr, password, once = sorted(canaries, key=len, reverse=True)[0], "canary-password-1", "x"
    httpx.get(f"{server.url}/api/v1/auth/me", headers={"Authorization": f"Bearer {usr}"})
    httpx.get(f"{server.url}/api/v1/auth/me", cookies={"muster_sid": "canary-cookie"})
    httpx.post(f"{server.url}/api/v1/auth/login", json={"username": "a", "password": password})
    httpx.post(f"{server.url}/api/v1/auth/one-time", json={"token": "canary" + once})
    with pytest.raises(InvalidStatus):
        connect_websocket(server.url.replace("http", "ws") + "/api/v1/live?ticket=canary").close()
    log = server.log.read_text()
    assert "canary" not in log
    for line in log.splitlines():
        if line.startswith("{"):
            json.loads(line)


def test_first_start_prints_the_setup_link_once(sqlite_url, tmp_path):
    first = Server(sqlite_url, tmp_path)
    try:
        first.wait_until_ready()
        assert first.log.read_text().count("/setup#token=mst_once_") == 1
    finally:
        first.close()
    second = Server(sqlite_url, tmp_path)
    try:
        second.wait_until_ready()
        assert "mst_once_" not in second.log.read_text()
    finally:
        second.close()


@pytest.mark.parametrize("how", ["lifeline", "sigterm"])
def test_it_ends_in_order_when_its_parent_does(sqlite_url, tmp_path, how):
    server = Server(sqlite_url, tmp_path)
    try:
        server.wait_until_ready()
        if how == "lifeline":
            os.close(server.lifeline)
            server.lifeline = os.open(os.devnull, os.O_RDONLY)
        else:
            server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=20)
        log = server.log.read_text()
        assert "Application shutdown complete" in log
        assert "Traceback" not in log
    finally:
        server.close()


def test_a_port_that_is_taken_is_named(sqlite_url, tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        server = Server(sqlite_url, tmp_path, MUSTER_PORT=str(holder.getsockname()[1]))
        try:
            assert server.process.wait(timeout=START_TIMEOUT_S) == 1
            assert "cannot listen there" in server.log.read_text()
        finally:
            server.close()
