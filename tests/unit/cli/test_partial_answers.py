"""Commands and answers in which a part is null, as the API allows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.cli.app import command_line

from .test_client import Stub


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    stub = Stub()
    monkeypatch.setenv("MUSTER_URL", stub.url)
    monkeypatch.setenv("MUSTER_TOKEN", "mst_usr_x")
    yield stub
    stub.server.shutdown()
    stub.server.server_close()


def run(*words: str) -> str:
    done: Any = CliRunner().invoke(command_line(words), words)
    assert done.exit_code == 0, (done.output, done.exception)
    return str(done.output)


def test_a_trial_that_starts_as_it_is_moved_has_no_place_any_more(stub: Stub) -> None:
    stub.answer = lambda _m, _p: (200, {}, {"num_trials": 1, "first": None})
    assert run("move", "5", "--front") == "1 trial moved\n"
