"""A script that does not know of Muster goes on from its own checkpoint, whatever interrupts it."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from muster.client.outputs import NotFetched, fetch_outputs
from support.guides import last_id, shell
from support.quick_stack import QuickStack
from support.stack import scripted, wait_for

SAVED_EVERY = 20
SCRIPT = f"""
import os, time
from pathlib import Path

saved = Path("saved.txt")
step = int(saved.read_text()) if saved.exists() else 0
print("begins after", step, flush=True)
while True:
    step += 1
    time.sleep(0.05)
    if step % {SAVED_EVERY} == 0:
        Path("saved.new").write_text(str(step))
        os.replace("saved.new", saved)
    print("did", step, flush=True)
"""
DOCUMENT = """
name: plain
entrypoint: train.py
launcher: plain
resources: {slots: 1, priority: 10}
outputs: {every_s: 5}
"""


class Interrupted:
    """The trial of the script, seen through its log and its files."""

    def __init__(self, client: Client, experiment_id: int) -> None:
        self.client = client
        self.experiment_id = experiment_id
        (self.trial,) = client.trials(experiment_id)

    @property
    def state(self) -> str:
        return str(self.client.experiment(self.experiment_id)["state"])

    def steps(self, attempt_no: int) -> list[int]:
        """Numbers that an attempt has said so far: where it begins, then each step it did."""
        lines = self.client.log_lines(self.trial["id"], attempt=attempt_no)
        return [int(line["text"].split()[-1]) for line in lines if line["stream"] == "stdout"]

    def runs(self, after: int = 0) -> int:
        """Wait until an attempt after that number has saved something of its own; return its
        number."""

        def has_saved() -> int | None:
            no = int(self.client.get(f"/trials/{self.trial['id']}")["attempt_no"])
            steps = self.steps(no)
            return no if no > after and len(steps) > 2 * SAVED_EVERY else None

        return wait_for("it trains and saves", has_saved, 90, every_s=0.3)

    def collected(self) -> int:
        """Return the step in the file as it is in the storage; 0 before the first collection."""
        with contextlib.suppress(NotFetched), tempfile.TemporaryDirectory() as folder:
            fetch_outputs(self.client, self.trial["id"], ["saved.txt"], Path(folder))
            return int((Path(folder) / "saved.txt").read_text())
        return 0


@pytest.fixture
def plain(own_quick_stack: QuickStack, tmp_path: Path) -> Iterator[Interrupted]:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "experiment.yaml").write_text(DOCUMENT)
    assert shell(own_quick_stack, "muster submit experiment.yaml", tmp_path).returncode == 0
    with own_quick_stack.client() as client:
        yield Interrupted(client, last_id(own_quick_stack))


def test_it_goes_on_after_a_pause_a_preemption_and_the_loss_of_its_node(
    plain: Interrupted, own_quick_stack: QuickStack
) -> None:
    client = plain.client
    first = plain.runs()
    unsaved = client.experiment(plain.experiment_id)["unsaved"]
    assert unsaved["num_trials"] == 1, "Muster knows of no checkpoint"
    paused = own_quick_stack.cli("pause", str(plain.experiment_id))
    assert "warning: 1 running trial has no checkpoint yet (started " in paused.stderr
    wait_for("it pauses", lambda: plain.state == "PAUSED")
    client.post(f"/experiments/{plain.experiment_id}:resume")
    second = plain.runs(after=first)
    assert_goes_on(plain, first, second)

    script: list[dict[str, Any]] = [{"sleep": 300}]
    resources = {"slots": 2, "nodes": 2, "priority": 90}
    urgent = client.submit(scripted("urgent", script, resources=resources))["id"]

    # No node goes on with it before what it wrote is collected.
    def has_slots() -> bool:
        return client.experiment(urgent)["state"] == "RUNNING"

    wait_for("the urgent one has its slots", has_slots, 120)
    client.kill(urgent)
    assert client.wait(urgent, timeout_s=60)["state"] == "CANCELED"
    third = plain.runs(after=second)
    assert_goes_on(plain, second, third)

    # Its node falls silent: what the other node gets is what was collected until then.
    begun_at = plain.steps(third)[0]
    wait_for("a newer state is collected", lambda: plain.collected() > begun_at, 60, every_s=0.3)
    trial = client.get(f"/trials/{plain.trial['id']}")
    (node,) = trial["attempts"][0]["nodes"]
    agent_pid = own_quick_stack.part_pid(f"agent-{node}")
    os.kill(agent_pid, signal.SIGSTOP)
    try:
        collected = plain.collected()
        last = plain.runs(after=third)
        assert client.get(f"/trials/{plain.trial['id']}")["attempts"][0]["nodes"] != [node]
        assert plain.steps(last)[0] >= collected > begun_at
    finally:
        os.kill(agent_pid, signal.SIGCONT)


def assert_goes_on(plain: Interrupted, before: int, after: int) -> None:
    """Assert that an attempt began within SAVED_EVERY steps of where the one before it ended."""
    reached, begun = plain.steps(before)[-1], plain.steps(after)[0]
    assert 0 <= reached - begun <= SAVED_EVERY, (reached, begun)
