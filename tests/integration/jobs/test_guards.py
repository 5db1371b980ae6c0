"""Guards on real processes: scripts that misbehave, and a controller that is killed meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from support.guides import last_id, shell
from support.stack import Stack, wait_for

SCRIPT = """
import math, os, sys, time
import muster

run = muster.init()
trouble, num_steps = sys.argv[1], 60
lr, attempt = run.hparams["lr"], int(os.environ["MUSTER_ATTEMPT_NO"])
first = run.resume_step + 1
if (folder := muster.resume_folder()) is not None:
    assert (folder / "step.txt").read_text() == str(run.resume_step)
for step in range(first, num_steps + 1):
    is_wrong = step >= 33 and lr > 0.06
    if trouble == "slow":
        is_wrong = step >= 33 and attempt == 1
    loss = 1.0 / step
    if is_wrong and trouble == "nan":
        loss = math.nan
    if is_wrong and trouble == "spike":
        loss = 50.0
    time.sleep(0.3 if is_wrong else 0.02)
    muster.log({"train/loss": loss, "steps_per_s": 4.0 if is_wrong and trouble == "slow" else 50.0},
               step=step)
    if step % 10 == 0:
        with muster.checkpoint(step=step) as folder:
            (folder / "step.txt").write_text(str(step))
    if notice := muster.should_stop():
        print("stops at", step, notice.kind, notice.continues, flush=True)
        with muster.checkpoint(step=step) as folder:
            (folder / "step.txt").write_text(str(step))
        sys.exit(0)
print("finished with lr", lr, flush=True)
"""
DOCUMENT = """
name: {name}
entrypoint: train.py {trouble}
launcher: plain
hyperparameters: {{lr: 0.1}}
guards:
  - {guard}
"""
ROLLBACK = "action: rollback, set: {lr: x0.5}, max_times: 3}"
GUARDS = {
    "nan": "{metric: train/loss, not_finite: true, " + ROLLBACK,
    "spike": "{metric: train/loss, spike: {times: 10, window: 20}, " + ROLLBACK,
    "slow": "{metric: steps_per_s, below_median: {share: 0.5, minutes: 0.02}, "
    "action: restart_elsewhere, max_times: 3}",
}


def submit(stack: Stack, folder: Path, trouble: str) -> int:
    (folder / "train.py").write_text(SCRIPT)
    document = DOCUMENT.format(name=f"guarded-{trouble}", trouble=trouble, guard=GUARDS[trouble])
    (folder / "experiment.yaml").write_text(document)
    submitted = shell(stack, "muster submit experiment.yaml", folder)
    assert submitted.returncode == 0, submitted.stderr
    return last_id(stack)


def ended(client: Client, experiment_id: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The trial, and what its guard has done."""
    assert client.wait(experiment_id, timeout_s=120)["state"] == "COMPLETED"
    (found,) = client.trials(experiment_id)
    trial: dict[str, Any] = client.get(f"/trials/{found['id']}")
    events = client.pages(f"/trials/{found['id']}/events")
    return trial, [e for e in events if e["type"] == "guard.fired"]


def assert_rolled_back(client: Client, experiment_id: int) -> None:
    trial, events = ended(client, experiment_id)
    (event,) = events
    assert (event["data"]["step"], event["data"]["checkpoint_step"]) == (33, 30)
    assert event["data"]["changed"] == {"lr": [0.1, 0.05]}
    second, first = trial["attempts"]
    assert (first["termination"], second["resume_step"]) == ("guard", 30)
    assert (trial["hparams"], trial["hparams_before"]) == ({"lr": 0.05}, {"lr": 0.1})
    lines = [line["text"] for line in client.log_lines(trial["id"])]
    assert "finished with lr 0.05" in lines
    assert any(line.startswith("stops at") and line.endswith("guard True") for line in lines)
    (series,) = client.get(
        f"/trials/{trial['id']}/series", name="train/loss", rank=0, max_points=1000
    )["series"]
    assert series["last"] == [1.0 / step for step in range(1, 61)]


@pytest.mark.parametrize("trouble", ["nan", "spike"])
def test_a_training_goes_back_before_its_trouble_and_ends_well(
    stack: Stack, client: Client, tmp_path: Path, trouble: str
) -> None:
    experiment_id = submit(stack, tmp_path, trouble)
    assert_rolled_back(client, experiment_id)
    shown = stack.cli("guard", "try", str(experiment_id))
    assert shown.returncode == 0, shown.stderr
    if trouble == "nan":
        assert "Would have acted at step 33: train/loss is NaN." in shown.stdout


def test_a_training_leaves_a_slow_node(stack: Stack, client: Client, tmp_path: Path) -> None:
    trial, events = ended(client, submit(stack, tmp_path, "slow"))
    assert len(events) == 1
    assert 33 < events[0]["data"]["step"] < 60
    second, first = trial["attempts"]
    assert first["nodes"] != second["nodes"]
    assert second["resume_step"] >= 30
    assert trial["hparams_before"] is None


def test_a_controller_that_is_killed_in_between_changes_nothing(
    own_stack: Stack, tmp_path: Path
) -> None:
    own_stack.start()
    with own_stack.client() as client:
        experiment_id = submit(own_stack, tmp_path, "nan")

        def step() -> int:
            return int(client.trials(experiment_id)[0]["step"])

        wait_for("it comes near the trouble", lambda: step() >= 20, 60, every_s=0.05)
        # Nobody judges what comes now, and then one process after another begins to.
        os.kill(own_stack.part_pid("controller"), signal.SIGSTOP)
        wait_for("the loss is not finite any more", lambda: step() >= 34, 60, every_s=0.05)
        for _ in range(3):
            own_stack.kill_part("controller")
        assert_rolled_back(client, experiment_id)


WAITING = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2000):
    time.sleep(0.06 if os.environ["RANK"] == "1" else 0.01)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_a_rank_that_the_others_wait_for_is_named(
    stack: Stack, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(WAITING)
    (tmp_path / "experiment.yaml").write_text(
        "name: waits\nentrypoint: train.py\nresources: {slots: 2}\n"
        "guards: [{straggler: {share: 0.3, minutes: 0.03}, action: stop, max_times: 3}]\n"
    )
    submitted = shell(stack, "muster submit experiment.yaml", tmp_path)
    assert submitted.returncode == 0, submitted.stderr
    experiment_id = last_id(stack)
    assert client.wait(experiment_id, timeout_s=120)["state"] == "CANCELED"
    (trial,) = client.trials(experiment_id)
    (event,) = client.get(f"/trials/{trial['id']}/events", type="guard.fired")["items"]
    assert "rank 1 has held up the others for" in event["message"]
    assert 0.3 < event["data"]["value"] < 1
    shown = stack.cli("guard", "try", str(experiment_id))
    assert f"Would have acted at step {event['data']['step']:,}: rank 1 has held" in shown.stdout


SAMPLED = """
import math, time
import torch
import muster

run = muster.init()
sampler = muster.sampler(range(480))
order = torch.randperm(480, generator=torch.Generator().manual_seed(sampler.seed)).tolist()
bad, step = order[260], 0
if (folder := muster.resume_folder()) is not None:
    saved = torch.load(folder / "state.pt")
    sampler.load_state_dict(saved["sampler"])
    step = saved["step"]
for batch in sampler.over(torch.utils.data.DataLoader(range(480), batch_size=8, sampler=sampler)):
    step += 1
    time.sleep(0.1)
    muster.log({"train/loss": math.nan if bad in batch.tolist() else 1.0 / step}, step=step)
    if step % 10 == 0:
        with muster.checkpoint(step=step) as folder:
            torch.save({"sampler": sampler.state_dict(), "step": step}, folder / "state.pt")
    if muster.should_stop():
        break
"""
OWN = """
import torch

def digits():
    x, y = torch.randn(480, 1, 8, 8), torch.arange(480) % 10
    x[260] = torch.nan
    return {"train": (x, y), "val": (x[:20], y[:20]), "test": (x[:20], y[:20])}
"""
GUARD = "guards: [{metric: train/loss, not_finite: true, action: rollback, skip_samples: true}]\n"
SKIPPING = {
    "script": "name: skips\nentrypoint: train.py\nlauncher: plain\n" + GUARD,
    "trainer": "name: skips\ncode: {path: .}\ncheckpoints: {every: {steps: 5}}\n" + GUARD
    + "trainer: {model: cnn, data: 'own:digits', epochs: 1, batch_size: 8,"
    " options: {width: 8, inject: [{rank: 0, phase: forward, ms: 100}]}}\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", SKIPPING)
def test_a_training_goes_on_behind_the_samples_of_its_trouble(
    stack: Stack, client: Client, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "train.py").write_text(SAMPLED)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "experiment.yaml").write_text(SKIPPING[kind])
    submitted = shell(stack, "muster submit experiment.yaml", tmp_path)
    assert submitted.returncode == 0, submitted.stderr
    trial, events = ended(client, last_id(stack))
    (event,) = events
    data = event["data"]
    num = 8 * (data["step"] - data["checkpoint_step"])
    assert data["num_skipped"] == num > 0
    assert [attempt["resume_step"] for attempt in trial["attempts"]] == [data["checkpoint_step"], 0]
    seal = client.get(f"/trials/{trial['id']}/goodput")["continuation"]
    # The trainer takes as many steps as planned, the last ones in another epoch.
    num_used = 480 if kind == "trainer" else 480 - num
    assert (seal["num_skipped"], seal["num_repeated"], seal["num_used"]) == (num, 0, num_used)
    (series,) = client.get(
        f"/trials/{trial['id']}/series", name="train/loss", rank=0, max_points=1000
    )["series"]
    assert all(isinstance(value, float) for value in series["last"])
