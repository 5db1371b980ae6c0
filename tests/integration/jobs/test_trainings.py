"""Trainings on a real stack: submitted as people submit them, and through a crash of the server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from muster.code.bundle import make_bundle
from support.stack import Stack, scripted, wait_for

TRAIN = [{"log": "hello"}, {"train": {"epochs": 2, "steps_per_epoch": 5, "step_s": 0.005}}]


def ended(client: Client, experiment_id: int, timeout_s: float = 60.0) -> dict[str, Any]:
    return client.wait(experiment_id, timeout_s=timeout_s)


def only_trial(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    return trial


def test_a_submission_over_rest_completes_with_metrics_and_logs(client: Client) -> None:
    experiment = client.submit(scripted("rest", TRAIN, slots=2))
    assert ended(client, experiment["id"])["state"] == "COMPLETED"
    trial = only_trial(client, experiment["id"])
    reply = client.get(f"/trials/{trial['id']}/series", name="train/loss", rank=0)
    assert reply["series"][0]["step"] == list(range(1, 11))
    assert reply["series"][0]["last"][-1] == pytest.approx(0.1)
    lines = list(client.log_lines(trial["id"], follow=True))
    assert sorted(x["rank"] for x in lines if x["text"] == "hello") == [0, 1]
    workers = list(client.pages(f"/trials/{trial['id']}/workers"))
    assert [w["rank"] for w in workers] == [0, 1]
    assert all(w["world_size"] == 2 and w["exit_code"] == 0 for w in workers)


def test_a_submission_by_command_sends_code_and_follows_to_the_end(
    stack: Stack, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        "import os, helper\nprint('rank', os.environ['RANK'], helper.WORD, flush=True)\n"
    )
    (tmp_path / "helper.py").write_text("WORD = 'from-the-bundle'\n")
    document = {
        "name": "cli",
        "entrypoint": "train.py",
        "launcher": "direct",
        "resources": {"slots": 2, "nodes": 2},
    }
    path = tmp_path / "experiment.yaml"
    path.write_text(json.dumps(document))

    checked = stack.cli("validate", str(path), "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["valid"]

    done = stack.cli("submit", str(path), "--follow", "--json")
    assert done.returncode == 0, done.stderr
    experiment = json.loads(done.stdout)
    assert experiment["state"] == "COMPLETED"

    logs = stack.cli("logs", str(experiment["id"]), "--follow", "--rank", "1")
    assert "[rank 1] rank 1 from-the-bundle" in logs.stdout
    assert "rank 0" not in logs.stdout

    shown = stack.cli("show", str(experiment["id"]))
    assert "COMPLETED" in shown.stdout
    listed = json.loads(stack.cli("list", "--json", "-q", "cli").stdout)
    assert experiment["id"] in [e["id"] for e in listed]


def test_stop_ends_a_training_and_follow_says_so(stack: Stack, client: Client) -> None:
    document = scripted("to-stop", [{"log": "up"}, {"wait_for_stop": 100}])
    experiment = client.submit(document)
    wait_for("it runs", lambda: client.experiment(experiment["id"])["state"] == "RUNNING")
    stopped = stack.cli("stop", str(experiment["id"]))
    assert stopped.returncode == 0, stopped.stderr
    assert ended(client, experiment["id"])["state"] == "CANCELED"


def test_a_failed_training_is_exit_code_4(stack: Stack) -> None:
    document = scripted("fails", [{"exit": 7}], restarts={"user": 0})
    done = stack.cli("submit", "-", "--follow", stdin=document)
    assert done.returncode == 4
    assert "7" in done.stderr


def test_nodes_are_listed_with_their_slots(stack: Stack) -> None:
    nodes = json.loads(stack.cli("node", "list", "--json").stdout)
    assert sorted(n["name"] for n in nodes) == ["local-1", "local-2"]
    assert all(n["num_slots"] == 2 for n in nodes)
    assert "local-1" in stack.cli("node", "list").stdout


def test_tokens_are_made_listed_and_revoked(stack: Stack) -> None:
    made = stack.cli("token", "create", "ci", "--role", "viewer", "--days", "1", "--json")
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)
    listed = json.loads(stack.cli("token", "list", "--json").stdout)
    assert "secret" not in json.dumps(listed)
    assert token["id"] in [t["id"] for t in listed]
    assert stack.cli("token", "revoke", str(token["id"])).returncode == 0
    joined = stack.cli("agent", "token")
    assert "mst_join_" in joined.stdout


LONG = """\
import time, muster
run = muster.init()
for step in range(1, {steps} + 1):
    run.log({{"train/loss": 1.0 / step}}, step=step)
    print(f"line {{step}}", flush=True)
    time.sleep(0.05)
"""


def test_no_point_and_no_line_is_lost_or_doubled_when_the_server_is_killed(
    stack: Stack, client: Client, tmp_path: Path
) -> None:
    # Long enough to outlive two restarts of the server, also on a busy machine.
    num_steps = 900
    (tmp_path / "train.py").write_text(LONG.format(steps=num_steps))
    bundle = make_bundle(tmp_path)
    document = {"name": "through-a-crash", "entrypoint": "train.py", "launcher": "direct"}
    experiment = client.submit(json.dumps(document), blob_sha256=client.upload(bundle))
    bundle.remove()
    wait_for(
        "it reports",
        lambda: (
            (t := only_trial(client, experiment["id"]))["state"] == "RUNNING" and t["step"] > 20
        ),
    )
    pid = next(iter(client.pages(f"/trials/{only_trial(client, experiment['id'])['id']}/workers")))[
        "pid"
    ]
    for _ in range(2):
        stack.kill_part("server")
        step = only_trial(client, experiment["id"])["step"]
        wait_for(
            "it goes on", lambda before=step: only_trial(client, experiment["id"])["step"] > before
        )
    assert ended(client, experiment["id"], 110)["state"] == "COMPLETED"

    trial = only_trial(client, experiment["id"])
    assert trial["num_restarts"] == 0
    (worker,) = client.pages(f"/trials/{trial['id']}/workers")
    assert worker["pid"] == pid
    series = client.get(
        f"/trials/{trial['id']}/series", name="train/loss", rank=0, max_points=1000
    )["series"][0]
    assert series["step"] == list(range(1, num_steps + 1))
    assert series["last"] == [1.0 / step for step in range(1, num_steps + 1)]
    lines = [x["text"] for x in client.log_lines(trial["id"], ranks=[0], follow=True)]
    assert [x for x in lines if x.startswith("line ")] == [
        f"line {step}" for step in range(1, num_steps + 1)
    ]


@pytest.mark.parametrize(
    "part", ["controller", "worker", "valkey", "agent-local-1", "agent-local-2"]
)
def test_a_training_goes_on_when_a_part_is_killed(stack: Stack, client: Client, part: str) -> None:
    options = {"epochs": 1, "steps_per_epoch": 150, "step_s": 0.02}
    experiment = client.submit(
        scripted(
            f"without-{part}", [{"train": options}], slots=2, resources={"slots": 2, "nodes": 2}
        )
    )
    wait_for("it reports", lambda: only_trial(client, experiment["id"])["step"] > 3)
    stack.kill_part(part)
    assert ended(client, experiment["id"])["state"] == "COMPLETED"
    trial = only_trial(client, experiment["id"])
    assert (trial["num_restarts"], trial["attempt_no"]) == (0, 1)
    for rank in (0, 1):
        reply = client.get(f"/trials/{trial['id']}/series", name="train/loss", rank=rank)
        assert reply["series"][0]["step"] == list(range(1, 151))
    deadline = time.monotonic() + 30
    while client.get("/cluster")["num_nodes_online"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)


POPULATION = """
name: population
trainer: {model: mlp, data: digits, test: false, options: {rows_per_s: 0}}
hyperparameters: {lr: {log: [1.0e-3, 1.0e-2]}, width: {choice: [8, 16, 32]}, batch_size: {choice: [64, 128]}}
search: {method: pbt, metric: val/loss, goal: min, population: 4, quantile: 0.5, resample: 0,
  max_length: {epochs: 2}, interval: {epochs: 1}, seed: 1}
"""


def test_clones_of_a_population_train_on_with_the_shape_of_their_parents(
    stack: Stack, client: Client
) -> None:
    experiment = client.submit(POPULATION)
    assert ended(client, experiment["id"], timeout_s=240)["state"] == "COMPLETED"
    trials = {trial["no"]: trial for trial in client.trials(experiment["id"])}
    clones = [trial for trial in trials.values() if trial["parent_no"] is not None]
    assert len(clones) == 2
    for clone in clones:
        assert (clone["state"], clone["epoch"]) == ("COMPLETED", 2.0), clone["reason"]
        parent = trials[clone["parent_no"]]
        assert clone["hparams"]["lr"] != parent["hparams"]["lr"]
        for copied in ("width", "batch_size"):
            assert clone["hparams"][copied] == parent["hparams"][copied]
    detail = client.experiment(experiment["id"])
    assert detail["notices"] == []


PLAIN_POPULATION = """
name: population
entrypoint: train.py
launcher: direct
hyperparameters: {lr: {log: [1.0e-3, 1.0e-1]}, saves: false}
search: {method: pbt, metric: val/loss, goal: min, population: 4, max_length: {epochs: 8}, seed: 1}
"""
SCRIPT = """
import time
import muster

run = muster.init()
folder = muster.resume_from()
first = int((folder / "epoch").read_text()) + 1 if folder is not None else 1
for epoch in range(first, 9):
    time.sleep(0.25)
    muster.log({"val/loss": run.hparams["lr"] / epoch}, step=epoch, epoch=epoch)
    if run.hparams["saves"]:
        with muster.checkpoint(step=epoch, epoch=epoch) as folder:
            (folder / "epoch").write_text(str(epoch))
    if muster.should_stop():
        break
"""


def test_a_population_of_scripts_that_train_past_their_rungs_comes_to_its_end(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    bundle = make_bundle(tmp_path)
    blob = client.upload(bundle)
    bundle.remove()
    saving = client.submit(
        PLAIN_POPULATION, overrides=["hyperparameters.saves=true"], blob_sha256=blob
    )
    plain = client.submit(PLAIN_POPULATION, blob_sha256=blob)
    for experiment in (saving, plain):
        end = ended(client, experiment["id"], timeout_s=240)
        assert (end["state"], end["notices"]) == ("COMPLETED", []), end["reason"]
        assert max(trial["epoch"] for trial in client.trials(experiment["id"])) == 8.0
    # Without a checkpoint there is nothing to clone.
    assert not any(trial["parent_no"] for trial in client.trials(plain["id"]))
