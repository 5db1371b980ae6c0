"""Commands against a server that is older than they are: it leaves out what they have come to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.cli import absent
from muster.cli.app import command_line

from .test_client import Stub

LEAST = {"id": 1, "name": "one", "no": 1, "state": "RUNNING"}
"""What has always been there."""
COMMANDS = [
    "node list",
    "node show one",
    "list",
    "show 1",
    "notify targets",
    "queue",
    "progress 1",
    "performance 1",
    "diagnose 1",
    "pool list",
    "project list",
    "secret list",
    "token list",
    "checkpoint list 1",
    "outputs list 1",
    "media list 1",
    "model list",
    "deploy list",
    "deletions",
]


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    stub = Stub()
    stub.answer = lambda _m, _p: (200, {}, {**LEAST, "items": [dict(LEAST)], "next": None})
    monkeypatch.setenv("MUSTER_URL", stub.url)
    monkeypatch.setenv("MUSTER_TOKEN", "mst_usr_x")
    yield stub
    stub.server.shutdown()
    stub.server.server_close()


@pytest.mark.parametrize("command", COMMANDS)
def test_what_an_older_server_leaves_out_is_shown_as_missing(older: Stub, command: str) -> None:
    words = command.split()
    done: Any = CliRunner().invoke(command_line(words), words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert older.asked, done.output
    assert "Traceback" not in done.output


def test_what_is_left_out_is_said_once_and_never_made_up(
    older: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = {**LEAST, "usage": None, "num_slots": 4, "num_slots_used": 3, "problems": []}
    older.answer = lambda _m, _p: (200, {}, {"items": [node], "next": None})
    for command in (["node", "list"], ["node", "list", "--json"]):
        monkeypatch.setattr(absent, "_said", set())
        done: Any = CliRunner().invoke(command_line(command), command)
        if "--json" in command:
            assert json.loads(done.stdout) == [node]
        else:
            assert "scheduling" in done.stdout
            assert done.stderr.count("older than this command") == 1
