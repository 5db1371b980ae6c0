"""The client against a real HTTP server that misbehaves on purpose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from muster.client import (
    Client,
    NotConfigured,
    Refused,
    Target,
    Unreachable,
    find_target,
    write_target,
)

Answer = tuple[int, dict[str, str], Any]


class Stub:
    """Answers with what `answer` returns; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answer: Callable[[str, str], Answer] = lambda _m, _p: (200, {}, {"items": []})
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(size)
                stub.asked.append((self.command, self.path, dict(self.headers)))
                status, headers, body = stub.answer(self.command, self.path)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_any

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def stub() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.server.shutdown()
    stub.server.server_close()


@pytest.fixture
def client(stub: Stub) -> Iterator[Client]:
    with Client(Target(stub.url, "mst_usr_x", "the test"), retry_for_s=5) as client:
        yield client


def fails_first(times: int, failure: Answer, then: Answer) -> Callable[[str, str], Answer]:
    left = iter([failure] * times)
    return lambda _m, _p: next(left, then)


def test_a_busy_server_is_asked_again_as_late_as_it_says(stub: Stub, client: Client) -> None:
    stub.answer = fails_first(2, (503, {"Retry-After": "0"}, {}), (200, {}, {"id": 1}))
    assert client.get("/experiments/1") == {"id": 1}
    assert len(stub.asked) == 3


def test_a_submission_is_repeated_under_one_key(stub: Stub, client: Client) -> None:
    stub.answer = fails_first(1, (502, {"Retry-After": "0"}, b"proxy"), (201, {}, {"id": 7}))
    assert client.submit("name: x")["id"] == 7
    keys = {headers["Idempotency-Key"] for _, _, headers in stub.asked}
    assert len(stub.asked) == 2
    assert len(keys) == 1


def test_a_plain_post_is_not_repeated_after_an_answer(stub: Stub, client: Client) -> None:
    stub.answer = lambda _m, _p: (503, {}, {})
    with pytest.raises(Refused):
        client.post("/tokens", {"name": "x"})
    assert len(stub.asked) == 1


def test_an_error_body_becomes_message_hint_and_fields(stub: Stub, client: Client) -> None:
    field = {"path": "resources.slotz", "message": "unknown key", "hint": "slots"}
    error = {"code": "documents.invalid", "message": "No.", "hint": "h", "fields": [field]}
    stub.answer = lambda _m, _p: (422, {}, {"error": error})
    with pytest.raises(Refused) as caught:
        client.submit("x: 1")
    assert caught.value.code == "documents.invalid"
    assert caught.value.fields == (field,)
    assert caught.value.status == 422


def test_something_that_is_not_muster_is_named(stub: Stub, client: Client) -> None:
    stub.answer = lambda _m, _p: (200, {"Content-Type": "text/html"}, b"<h1>It works!</h1>")
    with pytest.raises(Refused, match="not as a Muster server"):
        client.get("/cluster")


def test_pages_are_followed_to_the_end_or_to_the_limit(stub: Stub, client: Client) -> None:
    def answer(_method: str, path: str) -> Answer:
        start = 100 if "cursor=b" in path else 0
        items = [{"id": start + n} for n in range(100)]
        return 200, {}, {"items": items, "next": None if start else "b"}

    stub.answer = answer
    assert [x["id"] for x in client.pages("/experiments")] == list(range(200))
    assert len(list(client.pages("/experiments", limit=3))) == 3


def test_no_server_is_one_sentence_with_the_address(stub: Stub) -> None:
    stub.server.server_close()
    with (
        Client(Target(stub.url, None, "MUSTER_URL"), retry_for_s=0.2) as client,
        pytest.raises(Unreachable) as caught,
    ):
        client.get("/cluster")
    assert stub.url in caught.value.message
    assert "MUSTER_URL" in (caught.value.hint or "")


def test_log_lines_are_followed_until_the_log_is_complete(stub: Stub, client: Client) -> None:
    def page(texts: list[str], complete: bool) -> Answer:
        lines = [{"text": t, "rank": 0} for t in texts]
        return 200, {}, {"lines": lines, "newer": "c", "complete": complete}

    pages = iter([page(["a"], False), page([], False), page(["b"], True), page([], True)])
    stub.answer = lambda _m, _p: next(pages)
    lines = client.log_lines(1, follow=True, poll_s=0)
    assert [line["text"] for line in lines] == ["a", "b"]


def test_the_target_comes_from_the_environment_else_from_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_URL", raising=False)
    monkeypatch.delenv("MUSTER_TOKEN", raising=False)
    with pytest.raises(NotConfigured, match="No server is known"):
        find_target()
    path = write_target(Target("http://h:1", "t", ""))
    assert path.stat().st_mode & 0o777 == 0o600
    assert find_target() == Target("http://h:1", "t", str(path))
    monkeypatch.setenv("MUSTER_URL", "http://other:2/")
    assert find_target() == Target("http://other:2", None, "MUSTER_URL")
    monkeypatch.delenv("MUSTER_URL")
    path.write_text("{")
    with pytest.raises(NotConfigured, match=r"cli\.json"):
        find_target()


@pytest.mark.parametrize("url", ["127.0.0.1:8470", "ftp://x", "http://[", ""])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with (
        pytest.raises((NotConfigured, Unreachable)) as caught,
        Client(Target(url, None, "MUSTER_URL"), retry_for_s=0.1) as client,
    ):
        client.get("/cluster")
    assert repr(url) in caught.value.message or url in caught.value.message


def _log_page(texts: list[str], **more: Any) -> Answer:
    lines = [{"text": t, "rank": 0} for t in texts]
    return 200, {}, {"lines": lines, "newer": "c", "older": None, "complete": False, **more}


def test_a_search_that_ran_out_of_time_is_continued(stub: Stub, client: Client) -> None:
    # A page of a search may be empty only because the server stopped looking for a while.
    pages = iter(
        [
            _log_page([], search_stopped=True),
            _log_page(["found"], search_stopped=True),
            _log_page([], complete=True, search_stopped=False),
        ]
    )
    stub.answer = lambda _m, _p: next(pages)
    assert [line["text"] for line in client.log_lines(1, query="found")] == ["found"]


def test_the_last_lines_may_be_more_than_one_page(stub: Stub, client: Client) -> None:
    total = 5000

    def answer(_method: str, path: str) -> Answer:
        query = dict(part.partition("=")[::2] for part in path.partition("?")[2].split("&"))
        if query.get("cursor") == "end":
            return _log_page([], complete=True)
        end = int(query.get("cursor", total))
        start = max(0, end - int(query["limit"]))
        assert int(query["limit"]) <= 2000
        more = {"older": str(start) if start else None, "newer": "end"}
        return _log_page([str(n) for n in range(start, end)], **more)

    stub.answer = answer
    for tail in (1, 2000, 2001, 4500, 9000):
        texts = [line["text"] for line in client.log_lines(1, tail=tail)]
        assert texts == [str(n) for n in range(max(0, total - tail), total)]


def test_a_follower_outlasts_a_server_that_is_away_for_long(stub: Stub) -> None:
    away = (503, {"Retry-After": "0"}, {})
    answers = iter([_log_page(["a"]), *[away] * 4, _log_page(["b"], complete=True)])
    stub.answer = lambda _m, _p: next(answers, _log_page([], complete=True))
    said: list[str] = []
    with Client(Target(stub.url, None, "the test"), retry_for_s=0) as client:
        with client.patience(lambda error: said.append(error.code)):
            lines = list(client.log_lines(1, follow=True, poll_s=0))
        assert [line["text"] for line in lines] == ["a", "b"]
        assert said == ["http.503"], "once"
        stub.answer = lambda _m, _p: away
        with pytest.raises(Refused):
            client.get("/cluster")
