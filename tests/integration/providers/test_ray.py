"""Pools whose nodes a real Ray supplies: submitted, used, stopped, killed, and gone again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.batch import pools
from support.batch.pools import nodes_of, running, stack_of, submit, trial_of, trials_of
from support.batch.ray import RayLab, why_missing
from support.quick_stack import QuickStack
from support.stack import scripted, wait_for

pytestmark = [
    pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "Ray is here"),
]

AGENT = str(Path(sys.executable).parent / "muster-agent")
TRAINING = """
name: digits-on-ray
trainer: {model: mlp, data: digits, epochs: 2, batch_size: 32}
resources: {slots: 4, nodes: 2, pool: rays}
checkpoints: {every: {epochs: 1}}
"""
SEARCH = """
name: search-on-ray
trainer: {model: mlp, data: digits, epochs: 1, batch_size: 32}
hyperparameters:
  lr: {log: [0.001, 0.1]}
search: {method: random, metric: val/loss, goal: min, trials: 4, concurrent: 4, seed: 1}
resources: {slots: 1, pool: rays}
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[RayLab]:
    with running("mr-", RayLab) as lab:
        yield lab


@pytest.fixture(scope="module")
def stack(lab: RayLab) -> Iterator[QuickStack]:
    with stack_of({"RAY_AUTH_TOKEN_PATH": str(lab.token)}) as stack:
        yield stack


def create_pool(stack: QuickStack, lab: RayLab, name: str = "rays", **options: str) -> None:
    given = {
        "provider": "ray",
        "address": lab.address,
        "nodes": "0:3",
        "slots-per-node": "2",
        "walltime": "30m",
        "idle": "10s",
        "server-url": stack.url,
        "storage-dir": str(lab.folder / "storage"),
        "agent": AGENT,
        **options,
    }
    words = [f"--{key}={value}" for key, value in given.items()]
    done = stack.cli("pool", "create", name, *words)
    assert done.returncode == 0, done.stderr


pilots_of = partial(pools.pilots_of, pool="rays")


def pilots_up(stack: QuickStack) -> list[dict[str, Any]]:
    return [pilot for pilot in pilots_of(stack) if pilot["state"] == "up"]


def wait_until_gone(stack: QuickStack, lab: RayLab) -> None:
    try:
        wait_for("all pilots have left", lambda: not nodes_of(stack) and not lab.jobs(), 90)
    except AssertionError as error:
        told = f"{nodes_of(stack)}\n{lab.jobs()}\n{pilots_of(stack)}\n{stack.text()[-3000:]}"
        raise AssertionError(f"{error}\n{told}") from None
    wait_for(
        "they are known to have ended",
        lambda: {pilot["state"] for pilot in pilots_of(stack)} <= {"ended"},
        90,
    )


def begin_gang(stack: QuickStack, name: str) -> int:
    """A trial over two nodes that has saved a checkpoint and runs until it is told to stop."""
    script = [
        {"checkpoint": 5, "attempts": [1]},
        {"wait_for_stop": 300, "exit": 0, "attempts": [1]},
        {"log": "second"},
    ]
    resources = {"slots": 4, "nodes": 2, "pool": "rays"}
    experiment_id = submit(stack, scripted(name, script, resources=resources))

    def runs() -> bool:
        attempts = trial_of(stack, experiment_id)["attempts"]
        return [a["state"] for a in attempts] == ["RUNNING"]

    wait_for("it runs", runs, 180)
    wait_for("both pilots are known to be up", lambda: len(pilots_up(stack)) == 2, 60)
    return experiment_id


def wait_until_completed(stack: QuickStack, lab: RayLab, experiment_id: int) -> dict[str, Any]:
    def has_ended() -> bool:
        trials = trials_of(stack, experiment_id)
        return bool(trials) and {t["state"] for t in trials} <= {"COMPLETED", "FAILED"}

    try:
        wait_for("it ends", has_ended, 240)
    except AssertionError as error:
        told = [t["pending_reason"] for t in trials_of(stack, experiment_id)]
        text = f"{error}\n{told}\n{pilots_of(stack)}\n{lab.words()}\n{stack.text()[-3000:]}"
        raise AssertionError(text) from None
    trial = trials_of(stack, experiment_id)[0]
    assert trial["state"] == "COMPLETED", trial["reason"]
    return trial


def agents_of(lab: RayLab) -> dict[str, psutil.Process]:
    """Those that run as pilots, by name."""
    found = {}
    for process in lab.processes():
        with suppress(psutil.NoSuchProcess):
            if process.name() == "muster-agent":
                words = process.cmdline()
                found[words[words.index("--name") + 1]] = process
    return found


def last_end(trial: dict[str, Any]) -> str:
    """How the latest attempt of a trial ended."""
    return str(max(trial["attempts"], key=lambda attempt: attempt["no"])["termination"])


@pytest.mark.torch
def test_a_training_over_two_ray_nodes_and_a_search_finish_and_pilots_leave(
    stack: QuickStack, lab: RayLab
) -> None:
    create_pool(stack, lab)
    training = submit(stack, TRAINING)
    reasons = set()

    def starts() -> bool:
        trial = trial_of(stack, training)
        reasons.add(trial["pending_reason"])
        return trial["state"] not in ("QUEUED", "WAITING")

    wait_for("it starts", starts, 180)
    assert any(f"2 pilots of Ray cluster {lab.address[7:]}" in reason for reason in reasons)
    trial = wait_until_completed(stack, lab, training)
    assert trial["num_restarts"] == 0
    assert trial["summary"]["train/loss"]["last"] is not None
    (attempt,) = trial["attempts"]
    assert len(set(attempt["nodes"])) == 2
    jobs = {job["submission_id"]: job for job in lab.ask("GET", "/api/jobs/")}
    used = {jobs[f"muster-{name}"]["driver_node_id"] for name in attempt["nodes"]}
    assert len(used) == 2, "one pilot on each node of Ray"
    search = submit(stack, SEARCH)
    wait_until_completed(stack, lab, search)
    assert len(trials_of(stack, search)) == 4
    wait_until_gone(stack, lab)
    shown = stack.cli("pool", "provider", "rays")
    assert f"Ray cluster {lab.address[7:]}" in shown.stdout
    assert "problem" not in shown.stdout


def test_a_job_that_is_stopped_in_ray_costs_its_trial_no_restart(
    stack: QuickStack, lab: RayLab
) -> None:
    create_pool(stack, lab)
    experiment_id = begin_gang(stack, "stopped")
    stopped = pilots_up(stack)[0]
    lab.ask("POST", f"/api/jobs/{stopped['ref']}/stop")
    trial = wait_until_completed(stack, lab, experiment_id)
    assert trial["num_restarts"] == 0
    ends = {attempt["no"]: attempt["termination"] for attempt in trial["attempts"]}
    assert ends == {1: "drained", 2: "success"}
    wait_until_gone(stack, lab)
    ended = next(pilot for pilot in pilots_of(stack) if pilot["id"] == stopped["id"])
    assert "stopped in Ray" in ended["reason"] or "has left" in ended["reason"]


def test_a_killed_pilot_is_replaced_and_the_trial_goes_on(stack: QuickStack, lab: RayLab) -> None:
    create_pool(stack, lab)
    experiment_id = begin_gang(stack, "killed")
    agents_of(lab)[pilots_up(stack)[0]["id"]].kill()
    trial = wait_until_completed(stack, lab, experiment_id)
    assert last_end(trial) == "success"
    killed = [pilot for pilot in pilots_of(stack) if "ended with code 137" in pilot["reason"]]
    assert killed or any("has left" in pilot["reason"] for pilot in pilots_of(stack))
    wait_until_gone(stack, lab)
    wait_for("nothing of the pilots is left", lambda: not agents_of(lab), 60)


def test_what_no_node_has_is_told_in_the_trials_reason(stack: QuickStack, lab: RayLab) -> None:
    create_pool(stack, lab, "wrong", cpus="64")
    document = scripted("waits", [], resources={"slots": 1, "pool": "wrong"})
    experiment_id = submit(stack, document)
    words = "no node of the cluster has 64 CPU: the most on one is 2 CPU (INFEASIBLE)"
    wait_for("it is told", lambda: words in trial_of(stack, experiment_id)["pending_reason"], 60)
    assert stack.cli("pool", "release", "wrong").returncode == 0
    with stack.client() as client:
        client.post(f"/experiments/{experiment_id}:kill")
