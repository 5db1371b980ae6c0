"""The ledger of real processes: what was done to them is what it says, within 2 % or 1 s."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.client import Client
from support.guides import last_id, shell
from support.quick_stack import QuickStack
from support.stack import wait_for

SAVED_EVERY, NUM_STEPS = 40, 200
SCRIPT = f"""
import json, os, time
import torch
import muster

run = muster.init()
truth = open(os.environ["TRUTH"], "a", buffering=1)

def say(kind, **more):
    truth.write(json.dumps({{"kind": kind, "at": time.time(), "pid": os.getpid(), **more}}) + chr(10))

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return {NUM_STEPS} + 1
    def __getitem__(self, no):
        time.sleep(7.0 if no == 150 and run.resume_step else 0.01)  # a loader that hangs once
        return torch.full((4,), float(no))

say("began")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
step = 0
if run.resume_from:
    model.load_state_dict(torch.load(run.resume_from / "model.pt"))
    step = run.resume_step
for no, batch in enumerate(torch.utils.data.DataLoader(Data(), batch_size=1), start=0):
    if no <= step:
        continue
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.05)
    optimizer.step()
    step += 1
    run.log({{"train/loss": loss.item()}}, step=step)
    if step % {SAVED_EVERY} == 0:
        began = time.time()
        with run.checkpoint(step=step) as folder:
            torch.save(model.state_dict(), folder / "model.pt")
            time.sleep(0.5)
        say("saved", step=step, took_s=time.time() - began)
    say("stepped", step=step)
    if step == {NUM_STEPS}:
        break
time.sleep(4)
say("ended")
"""
DOCUMENT = """
name: accounted
entrypoint: train.py
resources: {slots: 1}
restarts: {infra: 3, user: 0}
environment: {variables: {TRUTH: PATH}}
"""


class Truth:
    """What the script and the test have done, by the clock of the machine."""

    def __init__(self, path: Path) -> None:
        self.lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.pids = list(dict.fromkeys(line["pid"] for line in self.lines))

    def of(self, attempt: int, kind: str) -> list[dict[str, Any]]:
        pid = self.pids[attempt]
        return [line for line in self.lines if line["pid"] == pid and line["kind"] == kind]


def wait_for_step(path: Path, step: int, attempt: int) -> int:
    """Wait until an attempt has done a step; return the process that did it."""

    def stepped() -> int | None:
        truth = Truth(path) if path.exists() else None
        if truth is None or len(truth.pids) <= attempt:
            return None
        lines = truth.of(attempt, "stepped")
        return truth.pids[attempt] if lines and lines[-1]["step"] >= step else None

    return wait_for(f"it does step {step}", stepped, 90, every_s=0.02)


def test_what_was_done_to_a_training_is_what_its_ledger_says(
    own_quick_stack: QuickStack, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    path = tmp_path / "truth.jsonl"
    (tmp_path / "experiment.yaml").write_text(DOCUMENT.replace("PATH", str(path)))
    assert shell(own_quick_stack, "muster submit experiment.yaml", tmp_path).returncode == 0
    experiment_id = last_id(own_quick_stack)

    pid = wait_for_step(path, 75, 0)
    killed_at = time.time()
    os.kill(pid, signal.SIGKILL)

    pid = wait_for_step(path, 105, 1)
    process = psutil.Process(pid)
    process.suspend()
    time.sleep(8)
    process.resume()

    with own_quick_stack.client() as client:
        ended = client.wait(experiment_id, timeout_s=120)
        assert ended["state"] == "COMPLETED", ended["reason"]
        found = ledger(client, experiment_id)
        spent = client.experiment(experiment_id)["spending"]["slot_hours"]
        shown = json.loads(own_quick_stack.cli("goodput", str(experiment_id), "--json").stdout)
    assert shown == found
    assert "stalled" in own_quick_stack.cli("goodput", str(experiment_id)).stdout
    wait_for(
        "the worker has counted it", lambda: "PROJECT" in own_quick_stack.cli("goodput").stdout, 90
    )
    assert own_quick_stack.cli("goodput", "--csv").stdout.startswith("day,")
    truth = Truth(path)
    assert len(truth.pids) == 2

    classes = found["classes"]
    assert found["allocated_s"] == pytest.approx(3600 * spent, rel=5e-3)
    assert sum(classes.values()) == pytest.approx(found["allocated_s"], rel=5e-3)
    first, second = truth.of(0, "stepped"), truth.of(1, "stepped")
    kept_at = next(line["at"] for line in first if line["step"] == SAVED_EVERY)
    kept_s = kept_at - first[0]["at"] + 0.06
    second_s = second[-1]["at"] - second[0]["at"] + 0.06
    # The time of a save is that of the step after it, and after the last one there is none.
    saves = [truth.of(0, "saved"), truth.of(1, "saved")[:-1]]
    saved_s = [sum(line["took_s"] for line in of_attempt) for of_attempt in saves]
    expected = {
        # Steps that the killed process had not reported yet are part of what nobody noticed.
        "repeated, undetected": killed_at - kept_at,
        "stalled": 8.0 + 7.0,
        "saving": sum(saved_s),
        "productive": kept_s - saved_s[0] + second_s - saved_s[1] - 15.0,
    }
    found_of_these = {
        kinds: sum(classes.get(kind, 0.0) for kind in kinds.split(", ")) for kinds in expected
    }
    for kind, seconds in expected.items():
        assert found_of_these[kind] == pytest.approx(seconds, rel=0.02, abs=1.0), (
            kind,
            found_of_these,
            expected,
        )
    (end,) = truth.of(1, "ended")
    assert classes["finishing"] >= end["at"] - second[-1]["at"] - 1.0
    assert found["parts"]["data"] == pytest.approx(0.01 * NUM_STEPS, abs=1.0)
    assert [attempt["kept_step"] for attempt in found["attempts"]] == [SAVED_EVERY, None]
    assert classes["restoring"] > 0
    assert classes["repeated"] > 0


def ledger(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    return client.get(f"/trials/{trial['id']}/goodput")
