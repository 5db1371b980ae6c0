"""A node that is cut off, with `on_disconnect` stop and continue, on real processes.

Whether two attempts of a trial ever run at once is told by a lock of the kernel, and by looking at the
processes: not by what Muster says of itself.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.quick_stack import LEASE_S, QuickStack
from support.stack import Stack, wait_for

LATE_S = 5.0
"""What a loaded machine may add between a deadline and the end that follows from it."""
DEAF = [{"fork_daemon": 600}, {"ignore_sigterm": True}, {"hang": True}]


def processes_of_attempt(home: Path, trial_id: int, attempt_no: int) -> list[psutil.Process]:
    """Everything alive that was started for it, daemons included. Another stack beside this one,
    with a home of its own, has a trial of the same number."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if (
                environment.get("MUSTER_TRIAL_ID") == str(trial_id)
                and environment.get("MUSTER_ATTEMPT_NO") == str(attempt_no)
                and any(str(home) in value for value in environment.values())
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


class Cut:
    """A trial in its attempt `no`, on a node whose agent stands still from now on.

    On a loaded machine a lease of seconds may have ended an attempt before: then it is a later one.
    """

    def __init__(self, stack: Stack, witness: Path, on_disconnect: str) -> None:
        self.home = stack.home
        self.witness = witness
        witness.mkdir()
        script = [{"alone": str(witness)}, *DEAF]
        document = {
            "name": f"cut off, {on_disconnect}",
            "entrypoint": ["-m", "support.nodes.scripted", json.dumps(script)],
            "launcher": "direct",
            "on_disconnect": on_disconnect,
            "resources": {"slots": 1},
        }
        with stack.client() as client:
            experiment_id = client.submit(json.dumps(document))["id"]

            def running() -> dict[str, Any] | None:
                trials = client.trials(experiment_id)
                is_running = bool(trials) and trials[0]["state"] == "RUNNING"
                return client.get(f"/trials/{trials[0]['id']}") if is_running else None

            trial = wait_for("the trial runs", running)
        self.trial_id = int(trial["id"])
        self.no = int(trial["attempt_no"])
        wait_for("the attempt is alone", lambda: self.has_started(self.no))
        wait_for("its daemon lives", lambda: len(self.processes(self.no)) >= 2)
        (node,) = next(a["nodes"] for a in trial["attempts"] if a["no"] == self.no)
        self.agent_pid = stack.part_pid(f"agent-{node}")
        os.kill(self.agent_pid, signal.SIGSTOP)

    def processes(self, attempt_no: int) -> list[psutil.Process]:
        return processes_of_attempt(self.home, self.trial_id, attempt_no)

    def has_started(self, attempt_no: int) -> bool:
        starts = self.witness / "starts"
        who = f"rank 0 of attempt {attempt_no} of trial {self.trial_id}\n"
        return starts.exists() and who in starts.read_text()

    def overlaps(self) -> str:
        path = self.witness / "overlaps"
        return path.read_text() if path.exists() else ""

    def mend(self) -> None:
        os.kill(self.agent_pid, signal.SIGCONT)


@pytest.fixture
def cut(own_quick_stack: QuickStack, tmp_path: Path) -> Iterator[Callable[[str], Cut]]:
    cuts = []

    def make(on_disconnect: str) -> Cut:
        cuts.append(Cut(own_quick_stack, tmp_path / "witness", on_disconnect))
        return cuts[-1]

    yield make
    for made in cuts:
        made.mend()


def test_stop_ends_every_process_before_another_attempt_begins(cut: Callable[[str], Cut]) -> None:
    """The shim kills at its own deadline, though its agent cannot tell it anything any more."""
    off = cut("stop")

    def is_dead() -> bool:
        assert not off.has_started(off.no + 1), "the next attempt runs while this one lives"
        return not off.processes(off.no)

    wait_for("the attempt is dead", is_dead, timeout_s=LEASE_S + LATE_S)
    wait_for("the next attempt runs", lambda: off.has_started(off.no + 1), timeout_s=90)
    assert off.overlaps() == ""
    # The agent comes back, hears that it is over, and touches nothing of the next attempt.
    following = {p.pid for p in off.processes(off.no + 1)}
    off.mend()
    wait_for(
        "the agent speaks again",
        lambda: psutil.Process(off.agent_pid).status() != psutil.STATUS_STOPPED,
    )
    assert following <= {p.pid for p in off.processes(off.no + 1)}
    assert off.overlaps() == ""


def test_continue_trains_on_and_the_witness_sees_both(
    cut: Callable[[str], Cut], own_quick_stack: QuickStack
) -> None:
    """What `continue` (the default) is for, and what it costs. It also shows that the lock of the
    other test is one that can fail."""
    off = cut("continue")
    before = {p.pid for p in off.processes(off.no)}
    wait_for("both attempts run", lambda: bool(off.overlaps()), timeout_s=90)
    who = f"rank 0 of attempt {off.no + 1} of trial {off.trial_id}"
    assert off.overlaps().startswith(f"{who} found rank 0 of attempt {off.no} of trial")
    assert {p.pid for p in off.processes(off.no)} == before
    # Back in touch, the older one is told that it is superseded, and ended.
    off.mend()
    wait_for("the older one is ended", lambda: not off.processes(off.no))
    with own_quick_stack.client() as client:
        assert client.get(f"/trials/{off.trial_id}")["attempt_no"] == off.no + 1
