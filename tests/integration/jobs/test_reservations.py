"""A reservation on real processes: an elastic training leaves a node for it, and takes it again after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from support.quick_stack import QuickStack
from support.stack import scripted, wait_for

EPOCHS = [{"train": {"epochs": 100, "steps_per_epoch": 20, "step_s": 0.1}}]


@pytest.fixture
def quick(new_home: Path) -> Iterator[QuickStack]:
    """Two nodes of one slot, on which trials grow as soon as there is room."""
    environment = {"controller": {"MUSTER_SCHEDULER_GROW_AFTER_S": "3"}}
    stack = QuickStack(new_home, agents=2, slots=1, environment=environment)
    stack.start()
    yield stack
    stack.close()


def trial_of(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    return dict(client.get(f"/trials/{trial['id']}"))


def sizes(client: Client, experiment_id: int) -> list[int]:
    """The sizes of its attempts, the first one first."""
    return [a["world_size"] for a in reversed(trial_of(client, experiment_id)["attempts"])]


def test_an_elastic_training_shrinks_for_a_reservation_and_grows_again(quick: QuickStack) -> None:
    with quick.client() as client:
        client.post("/projects", {"name": "vision"})
        elastic = client.submit(
            scripted("elastic", EPOCHS, resources={"slots": 2, "min_slots": 1}, stop_grace_s=5.0)
        )["id"]
        wait_for("it trains on both nodes", lambda: trial_of(client, elastic)["step"] > 3, 60)
        first, second = sorted(node["name"] for node in client.pages("/nodes"))
        assert sorted(trial_of(client, elastic)["attempts"][0]["nodes"]) == [first, second]

        made = quick.cli(
            "reservation", "create", "--node", second, "--for", "project:vision", "--until", "1h",
            "--reason", "deadline", "--json",
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        reservation = json.loads(made.stdout)
        assert [t["experiment_id"] for t in reservation["taken_from"]] == [elastic]
        number = reservation["id"]
        ours = client.submit(scripted("ours", EPOCHS, project="vision"))["id"]
        wait_for("the other project trains", lambda: trial_of(client, ours)["step"] > 0, 60)
        assert trial_of(client, ours)["attempts"][0]["nodes"] == [second]
        wait_for("it goes on alone", lambda: sizes(client, elastic) == [2, 1], 60)
        resumed = trial_of(client, elastic)["attempts"][0]
        assert resumed["nodes"] == [first]
        assert resumed["resume_step"] > 3
        events = client.get(f"/trials/{trial_of(client, elastic)['id']}/events")["items"]
        assert any(
            f"continues elsewhere with 1 of its 2 slots: reservation {number} takes {second}"
            in event["message"]
            for event in events
        )
        waiting = client.submit(scripted("waits", EPOCHS))["id"]
        wait_for("it says why", lambda: trial_of(client, waiting)["pending_reason"], 30)
        client.stop(waiting)

        client.post(f"/experiments/{ours}:kill")
        assert quick.cli("reservation", "cancel", str(number)).returncode == 0
        wait_for("it grows again", lambda: sizes(client, elastic) == [2, 1, 2], 90)
        assert trial_of(client, elastic)["num_restarts"] == 0
        client.post(f"/experiments/{elastic}:kill")
        client.wait(elastic, timeout_s=60)
