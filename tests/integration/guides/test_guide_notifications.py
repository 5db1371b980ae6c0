"""The guide to notifications, as a reader follows it. See guides.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.guides import run_guide
from support.stack import Stack, started, wait_for


class AllowingStack(Stack):
    """One that sends to receivers of this machine, as the guide says."""

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        allowed = {"MUSTER_NOTIFY_ALLOWED_NETWORKS": '["127.0.0.0/8"]'}
        return Stack.environment(home) | allowed


@pytest.fixture
def allowing_stack() -> Iterator[Stack]:
    with started(lambda home: AllowingStack(home, agents=1, environment={})) as stack:
        yield stack


def test_every_command_of_it_works_and_the_receiver_verifies_each_message(
    allowing_stack: Stack, tmp_path: Path
) -> None:
    run_guide(allowing_stack, "notifications.md", tmp_path)
    received = tmp_path / "received.txt"
    wait_for("three messages", lambda: received.read_text().count("\n") == 3)
    assert received.read_text().splitlines() == [
        "genuine test",
        "genuine trial.failed",
        "genuine experiment.ended",
    ]
    with allowing_stack.client() as client:
        wait_for("the inbox", lambda: client.get("/notifications/inbox/count")["num_unread"] <= 2)
        kinds = {entry["kind"] for entry in client.pages("/notifications/inbox")}
        assert kinds == {"trial.failed", "experiment.ended"}
    for path in allowing_stack.home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not re.search(rb"whsec_[A-Za-z0-9+/]{20}", content), path
            assert b"127.0.0.1:18471/hook" not in content, path
