"""A script that nobody wrote for Muster, on two nodes: its own checkpoints are known to Muster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muster.client import Client
from support.guides import last_id, shell
from support.quick_stack import QuickStack
from support.stack import wait_for

SCRIPT = """
import os, random, time
from pathlib import Path

out = Path("out"); out.mkdir(exist_ok=True)

def number(path): return int(path.stem.split("-")[1])

saved = sorted(out.glob("ckpt-*.pt"), key=number)
step = number(saved[-1]) if saved else 0
rng = random.Random(saved[-1].read_text() if saved else "begin")
print("begins after", step, flush=True)
while not Path("enough").exists():
    step += 1
    time.sleep(0.05)
    if step % 40 == 0:
        new = out / "new"
        new.write_text(f"weights of step {step} " + "w" * 10_000)
        new.rename(out / f"ckpt-{step}.pt")
        saved.append(out / f"ckpt-{step}.pt")
        for old in saved[:-2]:
            old.unlink()
        saved = saved[-2:]
"""
DOCUMENT = """
name: rotates
entrypoint: train.py
launcher: shell
resources: {slots: 2, nodes: 2}
outputs: {every_s: 5}
checkpoints: {adopt: "out/ckpt-*.pt", keep: {last: 3}}
"""


def checkpoints(client: Client, trial_id: int) -> list[dict[str, Any]]:
    return list(client.pages(f"/trials/{trial_id}/checkpoints"))


def begun(client: Client, experiment_id: int) -> list[int]:
    lines = client.log_lines(experiment_id=experiment_id)
    return [int(line["text"].split()[-1]) for line in lines if "begins after" in line["text"]]


def test_listed_paused_resumed_forked_and_pinned_while_outputs_go(
    quick_stack: QuickStack, tmp_path: Path
) -> None:
    def run(line: str) -> str:
        done = shell(quick_stack, line, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "experiment.yaml").write_text(DOCUMENT)
    run("muster submit experiment.yaml")
    first_id = last_id(quick_stack)
    with quick_stack.client() as client:
        (trial,) = client.trials(first_id)

        def known(num: int) -> list[dict[str, Any]] | None:
            found = [c for c in checkpoints(client, trial["id"]) if c["state"] == "complete"]
            return found if len(found) >= num else None

        oldest = wait_for("its checkpoints are known", lambda: known(2), 90)[-1]
        assert (oldest["kind"], oldest["path"]) == ("adopted", f"out/ckpt-{oldest['step']}.pt")
        run(f"muster checkpoint pin {oldest['id']}")
        assert client.experiment(first_id)["unsaved"] is None

        run(f"muster pause {first_id}")
        wait_for("it pauses", lambda: client.experiment(first_id)["state"] == "PAUSED", 60)
        num = len(known(1) or [])
        run(f"muster resume {first_id}")
        wait_for("both go on", lambda: len(begun(client, first_id)) == 4, 60)
        assert min(begun(client, first_id)[2:]) >= 40, "each from its own file"
        wait_for("more are known", lambda: known(num + 1), 60)
        run(f"muster stop {first_id}")
        client.wait(first_id, timeout_s=60)

        def is_collected() -> bool:
            return bool(client.get(f"/trials/{trial['id']}/outputs/summary")["state"] == "complete")

        wait_for("all is collected", is_collected, 60)
        client.post(
            f"/experiments/{first_id}/checkpoints:clean",
            {"last": 1, "best": 0, "experiment_best": 0},
        )
        client.post(f"/checkpoints/{oldest['id']}:unpin")
        run(f"muster outputs clean {first_id} --max-size 1B")
        client.post(f"/checkpoints/{oldest['id']}:pin")

        def is_deleted() -> bool:
            done = list(client.pages("/deletions"))
            return bool(done) and all(d["state"] == "done" for d in done)

        wait_for("agents delete", is_deleted, 60)
        listed = json.loads(run(f"muster checkpoint list {first_id} --json"))
        states = {c["step"]: c["state"] for c in listed}
        assert {s for s, state in states.items() if state == "complete"} == {
            oldest["step"], max(states),
        }  # fmt: skip
        run(f"muster checkpoint export {oldest['id']} ckpt.pt")
        assert (tmp_path / "ckpt.pt").read_text().startswith(f"weights of step {oldest['step']} ")

        run(f"muster submit experiment.yaml --set from.checkpoint={oldest['id']}")
        fork_id = last_id(quick_stack)
        wait_for("the fork begins", lambda: len(begun(client, fork_id)) == 2, 60)
        assert begun(client, fork_id) == [oldest["step"]] * 2
        run(f"muster stop {fork_id}")
        client.wait(fork_id, timeout_s=60)
