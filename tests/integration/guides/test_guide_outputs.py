"""The guide to the files that a job writes, as a reader follows it. See guides.py."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from support.guides import last_id, run_guide, shell
from support.stack import Stack, wait_for

pytestmark = pytest.mark.torch


def test_what_two_nodes_wrote_is_listed_and_fetched(stack: Stack, tmp_path: Path) -> None:
    before = last_id(stack)
    run_guide(stack, "outputs.md", tmp_path)
    with stack.client() as client:
        (trial,) = client.trials(before + 1)
        summary = client.get(f"/trials/{trial['id']}/outputs/summary")
        files = {f["path"]: f for f in client.get(f"/trials/{trial['id']}/outputs")["items"]}
    assert summary["num_conflicts"] == 1
    kept = {path for path, file in files.items() if file["state"] == "kept"}
    assert kept == {"loss.csv", "state.txt", "weights.bin", "weights.bin @node1"}
    fetched = tmp_path / f"outputs-{before + 1}"
    for path in kept:
        digest = hashlib.sha256((fetched / path).read_bytes()).hexdigest()
        assert digest == files[path]["sha256"], path
    # torchrun numbers nodes in the order in which they meet.
    both = {(fetched / name).read_bytes() for name in ("weights.bin", "weights.bin @node1")}
    assert both == {b"0" * 4096, b"1" * 4096}
    assert {p.name for p in (tmp_path / "results").iterdir()} == {"state.txt", "loss.csv"}


RESUMING = """
name: resumes
entrypoint: train.py
resources: {slots: 2, nodes: 2}
outputs: {every_s: 5}
"""
SCRIPT = """
import os, time
from pathlib import Path

state = Path("state.txt")
begun = int(state.read_text()) if state.exists() else 0
print("begins after", begun, flush=True)
for step in range(begun + 1, begun + 1000):
    if Path("enough").exists() or (begun and step > begun + 3):
        break
    state.write_text(str(step))
    time.sleep(0.1)
Path(f"node-{os.environ['GROUP_RANK']}.txt").write_text("done")
"""


def test_a_plain_script_on_two_nodes_goes_on_after_a_pause(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "experiment.yaml").write_text(RESUMING)
    assert shell(stack, "muster submit experiment.yaml", tmp_path).returncode == 0
    experiment_id = last_id(stack)
    with stack.client() as client:

        def log() -> list[str]:
            lines = client.log_lines(experiment_id=experiment_id)
            return [line["text"] for line in lines if "begins after" in line["text"]]

        wait_for("both nodes train", lambda: log().count("begins after 0") == 2, 90)
        shell(stack, f"muster pause {experiment_id}", tmp_path)
        wait_for("it pauses", lambda: client.experiment(experiment_id)["state"] == "PAUSED", 60)
        shell(stack, f"muster resume {experiment_id}", tmp_path)
        assert client.wait(experiment_id, timeout_s=90)["state"] == "COMPLETED"
        begun = [int(line.rsplit(" ", 1)[1]) for line in log()]
        assert len(begun) == 4
        assert min(begun[2:]) > 0, "it started again from nothing"
        (trial,) = client.trials(experiment_id)
        wait_for(
            "all is collected",
            lambda: client.get(f"/trials/{trial['id']}/outputs/summary")["state"] == "complete",
            60,
        )
