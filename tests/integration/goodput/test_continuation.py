"""Samples that a killed training has used, by its own record, against what Muster proves of it."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.guides import last_id, shell
from support.quick_stack import QuickStack
from support.stack import wait_for

NUM_SAMPLES, BATCH_SIZE, NUM_EPOCHS, SAVED_EVERY = 160, 2, 2, 20
SCRIPT = f"""
import json, os, time
import torch
import torch.distributed as dist
import muster
from torch.utils.data import DataLoader

run = muster.init()
dist.init_process_group("gloo")
truth = open(os.environ["TRUTH"] + f".{{dist.get_rank()}}", "a", buffering=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
data = list(torch.arange({NUM_SAMPLES}.0).view(-1, 1))
sampler = muster.sampler(data)
loader = DataLoader(data, batch_size={BATCH_SIZE}, sampler=sampler, num_workers=2)
step = run.resume_step
if run.resume_from and "RESTORES" in os.environ:
    sampler.load_state_dict(torch.load(run.resume_from / "state.pt"))
for epoch in range(sampler.epoch, {NUM_EPOCHS}):
    sampler.set_epoch(epoch)
    for batch in sampler.over(loader):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        time.sleep(0.03)
        optimizer.step()
        step += 1
        run.log({{"train/loss": loss.item()}}, step=step)
        ids = [int(x) for x in batch.flatten()]
        truth.write(json.dumps(dict(pid=os.getpid(), epoch=epoch, step=step, ids=ids)) + chr(10))
        if step % {SAVED_EVERY} == 0:
            state = sampler.state_dict()
            if dist.get_rank() == 0:
                with run.checkpoint(step=step) as folder:
                    torch.save(state, folder / "state.pt")
            dist.barrier()
"""
DOCUMENT = """
name: sampled
entrypoint: train.py
resources: {slots: 2}
restarts: {infra: 3, user: 0}
environment: {variables: {TRUTH: PATH, MORE: ""}}
"""


def continuation_at_the_end(stack: QuickStack, experiment_id: int) -> dict[str, Any]:
    with stack.client() as client:
        ended = client.wait(experiment_id, timeout_s=120)
        assert ended["state"] == "COMPLETED", ended["reason"]
        (trial,) = client.trials(experiment_id)
        return client.get(f"/trials/{trial['id']}/goodput")["continuation"]


def lines_of(path: Path) -> list[dict[str, Any]]:
    files = [path.with_name(f"{path.name}.{rank}") for rank in (0, 1)]
    return [json.loads(x) for f in files if f.exists() for x in f.read_text().splitlines()]


@pytest.mark.parametrize("restores", [True, False], ids=["restores", "begins-anew"])
def test_a_killed_training_says_which_samples_it_has_used(
    quick_stack: QuickStack, tmp_path: Path, restores: bool
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    path = tmp_path / "truth"
    document = DOCUMENT.replace("PATH", str(path))
    if restores:
        document = document.replace("MORE", "RESTORES")
    (tmp_path / "experiment.yaml").write_text(document)
    assert shell(quick_stack, "muster submit experiment.yaml", tmp_path).returncode == 0
    experiment_id = last_id(quick_stack)

    def victim() -> int | None:
        reached = [x for x in lines_of(path) if x["step"] >= SAVED_EVERY + 12]
        return reached[0]["pid"] if reached else None

    os.kill(wait_for("it does steps after a checkpoint", victim, 90, every_s=0.02), signal.SIGKILL)
    found = continuation_at_the_end(quick_stack, experiment_id)
    lines = lines_of(path)
    first = {x["pid"] for x in lines if x["step"] == 1}
    resumed_at = min(x["step"] for x in lines if x["pid"] not in first) - 1
    assert resumed_at % SAVED_EVERY == 0
    kept = [x for x in lines if x["pid"] not in first or x["step"] <= resumed_at]
    times = Counter((x["epoch"], sample) for x in kept for sample in x["ids"])
    doubled = sum(n - 1 for n in times.values())
    assert len(times) == NUM_SAMPLES * NUM_EPOCHS
    assert found["num_used"] == NUM_SAMPLES * NUM_EPOCHS
    assert found["num_repeated"] == doubled
    assert found["num_epochs"] == NUM_EPOCHS
    assert found["num_attempts"] == 2
    assert found["is_proven"] is restores, found["verdict"]
    if restores:
        assert doubled == 0
        assert (
            found["verdict"]
            == "Every sample was used once in each epoch: 320 in all, with 1 restart."
        )
    else:
        assert doubled == resumed_at * BATCH_SIZE * 2
        expected = f"{doubled} samples were used more than once: in epoch 1"
        assert found["verdict"].startswith(expected)
        stretch = found["stretches"][0]
        assert (stretch["epoch"], stretch["start"], stretch["stop"]) == (0, 0, doubled)
    said = shell(quick_stack, f"muster goodput {experiment_id}", tmp_path)
    assert found["verdict"] in " ".join(said.stderr.split())


def test_the_built_in_trainer_proves_it_by_itself(quick_stack: QuickStack, tmp_path: Path) -> None:
    document = """
name: built-in
trainer: {model: mlp, data: digits, epochs: 4, batch_size: 16, options: {inject: [{rank: 0, phase: forward, ms: 20}]}}
checkpoints: {every: {steps: 20}}
resources: {slots: 2}
restarts: {infra: 3}
"""
    (tmp_path / "experiment.yaml").write_text(document)
    assert shell(quick_stack, "muster submit experiment.yaml", tmp_path).returncode == 0
    experiment_id = last_id(quick_stack)

    def victim() -> int | None:
        with quick_stack.client() as client:
            (trial,) = client.trials(experiment_id)
            ranks = client.get(f"/trials/{trial['id']}/workers")["items"]
        return next((r["pid"] for r in ranks if r["rank"] == 1 and r["step"] >= 30), None)

    os.kill(wait_for("it does steps after a checkpoint", victim, 90, every_s=0.1), signal.SIGKILL)
    found = continuation_at_the_end(quick_stack, experiment_id)
    assert found["is_proven"], found["verdict"]
    assert found["num_attempts"] == 2
    assert found["num_epochs"] == 4
    assert found["num_used"] == 4 * found["num_samples"]
    assert found["num_left_out"] > 0
    # It ends as one does that nothing has happened to.
    assert found["curve"] == ""
    assert shell(quick_stack, "muster submit experiment.yaml", tmp_path).returncode == 0
    with quick_stack.client() as client:
        assert client.wait(last_id(quick_stack), timeout_s=120)["state"] == "COMPLETED"
    found = continuation_at_the_end(quick_stack, experiment_id)
    assert found["curve"].startswith(
        f"Its train/loss is that of trial {last_id(quick_stack)}.1, which"
    )
