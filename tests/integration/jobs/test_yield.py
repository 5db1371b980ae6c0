"""Giving up slots on real processes: drained nodes, requests at another size, and the queue's commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from muster.client import Client
from support.stack import Stack, scripted, wait_for

NUM_STEPS = 120
LONG = [{"train": {"epochs": 1, "steps_per_epoch": NUM_STEPS, "step_s": 0.1}}]
DEAF = [{"checkpoint": 3}, {"ignore_sigterm": True}, {"hang": True, "attempts": [1]}]


def only_trial(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    detail: dict[str, Any] = client.get(f"/trials/{trial['id']}")
    return detail


def node_of(client: Client, trial: dict[str, Any]) -> dict[str, Any]:
    """The node that its newest attempt runs on."""
    (name,) = trial["attempts"][0]["nodes"]
    (node,) = [n for n in client.pages("/nodes") if n["name"] == name]
    return dict(node)


@pytest.fixture
def drain(client: Client) -> Iterator[Any]:
    drained: list[str] = []

    def begin(node: dict[str, Any]) -> None:
        client.patch(f"/nodes/{node['id']}", {"scheduling": "draining"})
        drained.append(node["id"])

    yield begin
    for node_id in drained:
        client.patch(f"/nodes/{node_id}", {"scheduling": "open"})


def test_a_drained_trial_goes_on_elsewhere_with_the_curve_of_an_uninterrupted_one(
    client: Client, drain: Any
) -> None:
    experiment = client.submit(scripted("drained", LONG))
    wait_for("it reports", lambda: only_trial(client, experiment["id"])["step"] > 5)
    first = node_of(client, only_trial(client, experiment["id"]))
    drain(first)
    assert client.wait(experiment["id"], timeout_s=200)["state"] == "COMPLETED"

    trial = only_trial(client, experiment["id"])
    second, before = trial["attempts"]
    assert (before["state"], before["termination"]) == ("PREEMPTED", "drained")
    assert before["nodes"] != second["nodes"]
    assert second["resume_step"] > 5
    lines = [x["text"] for x in client.log_lines(trial["id"], attempt=1)]
    assert (
        f"stopping at step {second['resume_step']} (drain): {first['name']} is being drained"
        in (lines)
    )
    reply = client.get(f"/trials/{trial['id']}/series", name="train/loss", rank=0, max_points=1000)
    series = reply["series"][0]
    assert series["step"] == list(range(1, NUM_STEPS + 1))
    assert series["last"] == [1.0 / step for step in range(1, NUM_STEPS + 1)]


def test_who_ignores_the_request_is_killed_and_charged_nothing(client: Client, drain: Any) -> None:
    document = scripted("deaf", DEAF, stop_grace_s=1.0, restarts={"user": 0, "infra": 0})
    experiment = client.submit(document)
    wait_for(
        "it has a checkpoint",
        lambda: any(
            client.pages(f"/trials/{only_trial(client, experiment['id'])['id']}/checkpoints")
        ),
    )
    drain(node_of(client, only_trial(client, experiment["id"])))
    assert client.wait(experiment["id"], timeout_s=120)["state"] == "COMPLETED"
    second, before = only_trial(client, experiment["id"])["attempts"]
    assert (before["state"], before["termination"]) == ("PREEMPTED", "drained")
    assert second["resume_step"] == 3


def test_the_queue_is_shown_and_reordered_by_command(stack: Stack, client: Client) -> None:
    # More slots than the cluster has: they wait whatever else runs.
    waiting = [client.submit(scripted(f"waits-{i}", LONG, slots=64))["id"] for i in range(3)]

    def order() -> list[int]:
        items = json.loads(stack.cli("queue", "--json").stdout)
        return [i["experiment_id"] for i in items if i["experiment_id"] in waiting]

    try:
        a, b, c = waiting
        assert order() == [a, b, c]
        moved = stack.cli("move", str(c), "--before", str(b))
        assert moved.returncode == 0, moved.stderr
        assert order() == [a, c, b]
        assert stack.cli("priority", str(b), "80").returncode == 0
        assert order() == [b, a, c]
        refused = stack.cli("move", str(a), "--before", str(b))
        assert refused.returncode == 1
        assert "has priority 80, this one 50" in refused.stderr
        shown = stack.cli("queue")
        assert re.search(rf"{b}\.1 +waits-1", shown.stdout)
        assert "64 cpu" in shown.stdout
    finally:
        for experiment_id in waiting:
            client.stop(experiment_id)


TRAINING = {
    "trainer": {"model": "mlp", "steps": 60, "batch_size": 32, "options": {"rows_per_s": 0}},
    "resources": {"slots": 2},
    "checkpoints": {"every": None},
}


def curves(client: Client, trial: dict[str, Any]) -> dict[tuple[str, int], Any]:
    """(metric, rank) → (steps, values) of the visible curve."""
    found = {}
    for name, rank in (("train/loss", 0), ("train/loss", 1), ("val/loss", 0)):
        reply = client.get(f"/trials/{trial['id']}/series", name=name, rank=rank, max_points=1000)
        series = reply["series"][0]
        found[name, rank] = (series["step"], series["last"])
    return found


@pytest.mark.torch
def test_a_real_training_that_moves_repeats_the_uninterrupted_one_exactly(
    client: Client, drain: Any
) -> None:
    def submit(name: str, **options: Any) -> dict[str, Any]:
        trainer = {**TRAINING["trainer"]}
        trainer["options"] = {**trainer["options"], "dropout": 0.2, **options}
        return client.submit(json.dumps({**TRAINING, "name": name, "trainer": trainer}))

    whole = submit("whole")
    assert client.wait(whole["id"], timeout_s=280)["state"] == "COMPLETED"

    # Slow, so that it can be asked in the middle.
    slow = [{"rank": 0, "ms": 250}]
    moved = submit("moved", inject=slow)
    wait_for("it trains", lambda: only_trial(client, moved["id"])["step"] > 5, 120)
    drain(node_of(client, only_trial(client, moved["id"])))
    assert client.wait(moved["id"], timeout_s=280)["state"] == "COMPLETED"

    trial = only_trial(client, moved["id"])
    second, first = trial["attempts"]
    assert (first["state"], first["termination"]) == ("PREEMPTED", "drained")
    assert first["nodes"] != second["nodes"]
    assert first["world_size"] == second["world_size"] == 2
    assert 5 < second["resume_step"] < 60
    assert curves(client, trial) == curves(client, only_trial(client, whole["id"]))
