"""Waste on real processes: a script that stops stepping saves a checkpoint, frees its slots, and goes on."""

from __future__ import annotations

from pathlib import Path

from support.guides import last_id, shell
from support.stack import Stack

SCRIPT = """
import os, sys, time
import muster

run = muster.init()
for step in range(run.resume_step + 1, 41):
    muster.log({"train/loss": 1.0 / step}, step=step)
    time.sleep(0.02)
    while step == 20 and int(os.environ["MUSTER_ATTEMPT_NO"]) == 1:
        time.sleep(0.05)  # and does nothing for as long as nobody asks it to stop
        if muster.should_stop():
            with muster.checkpoint(step=step) as folder:
                (folder / "step.txt").write_text(str(step))
            sys.exit(0)
"""
DOCUMENT = """
name: wasteful
entrypoint: train.py
launcher: plain
waste: {no_step_for_min: 0.1, grace_min: 0, action: checkpoint_and_stop, act_after_min: 0.1}
"""


def test_a_script_that_stops_stepping_is_checkpointed_freed_and_resumed(
    stack: Stack, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "experiment.yaml").write_text(DOCUMENT)
    submitted = shell(stack, "muster submit experiment.yaml", tmp_path)
    assert submitted.returncode == 0, submitted.stderr
    experiment_id = last_id(stack)
    with stack.client() as client:
        found = client.wait(experiment_id, timeout_s=120)
        assert found["state"] == "CANCELED"
        (trial,) = client.trials(experiment_id)
        events = list(client.pages(f"/trials/{trial['id']}/events"))
        assert [e["type"] for e in events[::-1] if e["type"].startswith("waste.")] == [
            "waste.noticed",
            "waste.ended",
        ]
        detail = client.get(f"/trials/{trial['id']}")
        assert (detail["step"], detail["attempts"][0]["ended_at"] is None) == (20, False)
        (saved,) = client.pages(f"/trials/{trial['id']}/checkpoints")
        assert saved["step"] == 20

        resumed = stack.cli("continue", str(experiment_id))
        assert resumed.returncode == 0, resumed.stderr
        assert client.wait(experiment_id, timeout_s=120)["state"] == "COMPLETED"
        detail = client.get(f"/trials/{trial['id']}")
        assert detail["step"] == 40
        assert detail["attempts"][0]["resume_step"] == 20
