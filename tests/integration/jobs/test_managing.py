"""Budgets, pausing, continuing, forking, deleting and bulk actions by command, on a real stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muster.client import Client
from support.stack import Stack, scripted, wait_for

ENDED = ("COMPLETED", "CANCELED", "FAILED")
LONG = [{"train": {"epochs": 500, "steps_per_epoch": 5, "step_s": 0.02}}]
SHORT = [{"train": {"epochs": 2, "steps_per_epoch": 5, "step_s": 0.01}}]


def only_trial(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    return trial


def checkpoint_folders(stack: Stack, experiment_id: int) -> list[Path]:
    return list(stack.home.glob(f"**/storage/experiment-{experiment_id}"))


def steps_of(client: Client, trial_id: int) -> list[int]:
    reply = client.get(f"/trials/{trial_id}/series", name="train/loss", rank=0, max_points=1000)
    steps: list[int] = reply["series"][0]["step"]
    return steps


def test_a_budget_stops_a_training_with_a_checkpoint_and_more_budget_continues_its_curve(
    stack: Stack, client: Client
) -> None:
    experiment_id = client.submit(scripted("budgeted", LONG))["id"]
    wait_for("it trains", lambda: only_trial(client, experiment_id)["step"] > 5)
    # So much that it is used up soon, however long the worker took to start.
    limit = client.experiment(experiment_id)["spending"]["slot_hours"] + 2 / 3600
    arguments = ("--slot-hours", f"{limit:.6f}", "--alert-at", "0.01")
    assert stack.cli("budget", str(experiment_id), *arguments).returncode == 0
    ended = client.wait(experiment_id, timeout_s=90)
    assert (ended["state"], ended["termination"]) == ("CANCELED", "budget_exhausted")
    assert "has used up its budget" in ended["reason"]
    trial = only_trial(client, experiment_id)
    assert (trial["state"], trial["termination"]) == ("CANCELED", "budget_exhausted")
    newest = next(iter(client.pages(f"/trials/{trial['id']}/checkpoints")))
    assert newest["step"] == trial["step"] > 0, "its last step was saved"
    kinds = [e["type"] for e in client.pages(f"/experiments/{experiment_id}/events")]
    assert (kinds.count("budget.alert"), kinds.count("budget.exhausted")) == (1, 1)
    spent = client.experiment(experiment_id)["spending"]
    assert spent["slot_hours"] >= round(limit, 6)
    assert spent["slots_held"] == 0

    refused = stack.cli("continue", str(experiment_id), "--yes")
    assert refused.returncode == 1
    assert "has used up its budget" in refused.stderr
    went_on = stack.cli("continue", str(experiment_id), "--set", "budget.slot_hours=1")
    assert went_on.returncode == 0, went_on.stderr
    wait_for(
        "it goes past where it was",
        lambda: only_trial(client, experiment_id)["step"] > newest["step"],
    )
    assert stack.cli("kill", str(experiment_id)).returncode == 0
    wait_for("it is killed", lambda: client.experiment(experiment_id)["state"] in ENDED)
    steps = steps_of(client, trial["id"])
    assert steps == list(range(1, len(steps) + 1)), "one curve, without a gap or a repetition"
    assert steps[-1] > newest["step"]


def test_a_finished_training_goes_on_with_its_curve(stack: Stack, client: Client) -> None:
    experiment_id = client.submit(scripted("to-continue", SHORT))["id"]
    assert client.wait(experiment_id, timeout_s=90)["state"] == "COMPLETED"
    refused = stack.cli("continue", str(experiment_id), "--epochs", "4")
    assert refused.returncode == 1
    assert "own code decides how long it trains" in refused.stderr

    longer = json.loads(scripted("", [{"train": {**SHORT[0]["train"], "epochs": 4}}]))
    entrypoint = f"entrypoint={json.dumps(longer['entrypoint'])}"
    went_on = stack.cli("continue", str(experiment_id), "--set", entrypoint)
    assert went_on.returncode == 0, went_on.stderr
    assert client.wait(experiment_id, timeout_s=90)["state"] == "COMPLETED"
    trial = client.get(f"/trials/{only_trial(client, experiment_id)['id']}")
    second, first = trial["attempts"]
    assert (first["state"], second["state"]) == ("SUCCEEDED", "SUCCEEDED")
    assert second["resume_step"] == 10
    assert steps_of(client, trial["id"]) == list(range(1, 21))


def test_a_filter_touches_exactly_what_it_selects(stack: Stack, client: Client) -> None:
    # More slots than the cluster has: they stay as they are until somebody does something.
    def submit(team: str) -> int:
        document = scripted(f"bulk-{team}", SHORT, slots=64, labels={"team": team})
        return int(client.submit(document)["id"])

    selected, others = [submit("a"), submit("a")], [submit("b"), submit("ab")]
    everything = (*selected, *others)
    before = {i: client.experiment(i)["state"] for i in everything}
    try:
        done = stack.cli("kill", "--label", "team=a", "-q", "bulk-", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert sorted(i["id"] for i in json.loads(done.stdout)["items"]) == selected
        wait_for(
            "they are killed",
            lambda: {client.experiment(i)["state"] for i in selected} == {"CANCELED"},
        )
        assert {i: client.experiment(i)["state"] for i in others} == {i: before[i] for i in others}
        assert all(client.trials(i)[0]["state"] == "QUEUED" for i in others)
    finally:
        stack.cli("kill", *map(str, everything), "--yes")


def test_a_fork_starts_from_the_checkpoint_and_deleting_removes_the_files(
    stack: Stack, client: Client
) -> None:
    source = client.submit(scripted("to-fork", SHORT))["id"]
    assert client.wait(source, timeout_s=90)["state"] == "COMPLETED"
    made = stack.cli("fork", str(source), "--checkpoint", "latest", "--load", "weights", "--json")
    assert made.returncode == 0, made.stderr
    fork = json.loads(made.stdout)
    assert fork["parent"]["experiment_id"] == source
    assert client.wait(fork["id"], timeout_s=90)["state"] == "COMPLETED"
    log = list(client.log_lines(only_trial(client, fork["id"])["id"], follow=True))
    assert "weights of step 10" in [line["text"] for line in log]

    folders = checkpoint_folders(stack, source)
    kept = checkpoint_folders(stack, fork["id"])
    assert folders
    assert kept
    shown = stack.cli("delete", str(source), "--dry-run")
    assert "checkpoints" in shown.stderr
    assert all(folder.is_dir() for folder in folders), "a look deletes nothing"
    assert stack.cli("delete", str(source)).returncode == 2, "nobody can be asked"
    gone = stack.cli("delete", str(source), "--yes")
    assert gone.returncode == 0, gone.stderr
    wait_for("its files are gone", lambda: not any(f.exists() for f in folders))
    assert all(folder.is_dir() for folder in kept), "those of others are not touched"
    wait_for(
        "the server knows",
        lambda: (
            {d["state"] for d in client.pages("/deletions") if d["experiment_id"] == source}
            == {"done"}
        ),
    )


def test_a_paused_training_goes_on_with_its_curve(stack: Stack, client: Client) -> None:
    experiment_id = client.submit(scripted("to-pause", LONG))["id"]
    wait_for("it trains", lambda: only_trial(client, experiment_id)["step"] > 5)
    assert stack.cli("pause", str(experiment_id)).returncode == 0
    wait_for("it is paused", lambda: client.experiment(experiment_id)["state"] == "PAUSED")
    paused = only_trial(client, experiment_id)
    # A job of another test may just be ending.
    wait_for("no slot is used", lambda: client.get("/cluster")["num_slots_used"] == 0)
    assert stack.cli("resume", str(experiment_id)).returncode == 0
    wait_for("it goes on", lambda: only_trial(client, experiment_id)["step"] > paused["step"])
    assert stack.cli("stop", str(experiment_id)).returncode == 0
    wait_for("it ends", lambda: client.experiment(experiment_id)["state"] in ENDED)
    steps = steps_of(client, paused["id"])
    assert steps == list(range(1, len(steps) + 1))
