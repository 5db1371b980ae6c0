"""Batch inference on a real stack while what runs it is killed and frozen: every row once, and the
same bytes as from one process that nothing happened to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.client import Client
from support.stack import Stack, wait_for

pytestmark = pytest.mark.torch

NUM_ROWS = 5_000
BATCH, SHARD_ROWS = 50, 250
LEASE_S = 4.0
CODE = """
import os, time
import torch
from muster.inference.loading import load

loaded = None

def slow(rows):
    global loaded
    if loaded is None:
        torch.set_num_threads(1)
        loaded = load(os.environ["MUSTER_MODEL_MODEL"])
    time.sleep(float(os.environ.get("BATCH_S", "0")))
    x = torch.tensor([row["x"] for row in rows]).reshape(len(rows), 1, 8, 8)
    return [{"label": int(p.argmax()), "scores": p.tolist()} for p in loaded.module(x).softmax(-1)]
"""


def save_version(folder: Path) -> None:
    """Leave what a version of a model consists of in a folder."""
    from safetensors.torch import save_file

    from muster.document.model_config import ModelConfig
    from muster.document.train_config import resolve
    from muster.training import models

    folder.mkdir()
    settings = resolve({"trainer": {"model": "mlp", "data": "digits", "width": 16}}, {}, seed=4)
    config = ModelConfig.of(settings)
    assert config.shape is not None
    assert config.classes is not None
    module = models.build(settings, inputs=config.shape, classes=config.classes)
    save_file(module.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(config.text())


class Job:
    def __init__(self, stack: Stack, client: Client, folder: Path, **options: Any) -> None:
        self.stack, self.client, self.folder = stack, client, folder
        slots, seconds = options["slots"], options["batch_s"]
        document = {
            "name": f"predict with {slots}",
            "predict": {
                "model": "digits",
                "inputs": [str(folder / "rows-*.jsonl")],
                "function": "mine:slow",
                "key": "id",
                "batch_size": BATCH,
                "shard_rows": SHARD_ROWS,
                "lease_s": LEASE_S,
            },
            "code": {"path": str(folder / "code")},
            "resources": {"slots": slots},
            "environment": {"variables": {"BATCH_S": str(seconds)}},
        }
        path = folder / f"document-{slots}.json"
        path.write_text(json.dumps(document))
        done = stack.cli("submit", str(path))
        assert done.returncode == 0, done.stderr
        self.experiment_id = int(done.stdout)

    @property
    def trial(self) -> dict[str, Any]:
        (trial,) = self.client.trials(self.experiment_id)
        found: dict[str, Any] = self.client.get(f"/trials/{trial['id']}")
        return found

    def has_done(self, num_shards: int) -> int:
        """Wait until so many shards are done; then their number."""

        def look() -> int | None:
            progress = self.trial["prediction"]
            return progress["num_done"] if progress and progress["num_done"] >= num_shards else None

        return wait_for(f"{num_shards} shards of {self.experiment_id}", look, 90)

    def worker(self, rank: int) -> psutil.Process:
        """The worker of the newest attempt, once it lives."""

        def look() -> psutil.Process | None:
            trial = self.trial
            for found in self.client.pages(f"/trials/{trial['id']}/workers"):
                with contextlib.suppress(psutil.Error):
                    if found["rank"] == rank and found["ended_at"] is None:
                        return psutil.Process(found["pid"])
            return None

        return wait_for(f"rank {rank} of {self.experiment_id}", look, 60)

    def computing(self, rank: int) -> psutil.Process:
        """The process of a worker that calls the model."""

        def look() -> psutil.Process | None:
            with contextlib.suppress(psutil.Error):
                below = self.worker(rank).children(recursive=True)
                return next((p for p in below if p.parent() != self.worker(rank)), None)
            return None

        return wait_for(f"the model of rank {rank}", look, 60)

    def results(self) -> tuple[dict[str, Any], bytes]:
        """Wait for the end; then the manifest, and all parts in its order."""
        self.client.wait(self.experiment_id, timeout_s=150)
        trial = self.trial
        events = [e["message"] for e in self.client.pages(f"/trials/{trial['id']}/events")]
        assert trial["state"] == "COMPLETED", (trial["reason"], events)
        target = self.folder / f"results-{self.experiment_id}"
        done = self.stack.cli(
            "outputs", "get", str(self.experiment_id), "--wait", "--output", str(target)
        )
        assert done.returncode == 0, done.stderr
        parts = target / "muster-outputs/predictions"
        manifest = json.loads((parts / "_manifest.json").read_text())
        data = [(parts / part["part"]).read_bytes() for part in manifest["parts"]]
        for part, content in zip(manifest["parts"], data, strict=True):
            assert part["sha256"] == hashlib.sha256(content).hexdigest()
            assert part["rows"] == content.count(b"\n")
        return manifest, b"".join(data)


@pytest.fixture
def two_nodes(new_home: Path) -> Iterator[Stack]:
    """Two nodes of one slot: what a job writes on one of them, the other does not see."""
    stack = Stack(new_home, agents=2, slots=1, environment={})
    yield stack
    stack.close()


def test_every_row_is_predicted_once_whatever_is_killed_and_frozen(
    two_nodes: Stack, tmp_path: Path
) -> None:
    import torch

    save_version(tmp_path / "model")
    (tmp_path / "code").mkdir()
    (tmp_path / "code/mine.py").write_text(CODE)
    rows = torch.rand(NUM_ROWS, 64, generator=torch.Generator().manual_seed(1)).tolist()
    for no in range(2):
        lines = [
            json.dumps({"id": f"a\n{i}", "x": [round(v, 3) for v in rows[i]]})
            for i in range(no * NUM_ROWS // 2, (no + 1) * NUM_ROWS // 2)
        ]
        (tmp_path / f"rows-{no}.jsonl").write_text("\n".join(lines))
    two_nodes.start()
    with two_nodes.client() as client:
        uploaded = two_nodes.cli("model", "upload", "digits", str(tmp_path / "model"))
        assert uploaded.returncode == 0, uploaded.stderr
        hit = Job(two_nodes, client, tmp_path, slots=2, batch_s=0.15)
        frozen = hit.worker(0)
        hit.has_done(1)
        hit.computing(1).kill()
        frozen.send_signal(signal.SIGSTOP)
        two_nodes.kill_part("agent-local-2")
        hit.has_done(6)
        hit.has_done(9)
        frozen.send_signal(signal.SIGCONT)
        hit.computing(0).send_signal(signal.SIGSTOP)
        hit.has_done(12)
        os.kill(hit.worker(1).pid, signal.SIGKILL)
        manifest, data = hit.results()
        alone = Job(two_nodes, client, tmp_path, slots=1, batch_s=0)
        expected_manifest, expected = alone.results()
        trial = hit.trial
        (use,) = client.pages(f"/experiments/{hit.experiment_id}/model-uses")
    assert trial["attempt_no"] == 2
    assert trial["prediction"]["rows_done"] == NUM_ROWS
    assert "throughput/rows_per_s" in trial["summary"]
    assert [json.loads(line)["id"] for line in data.splitlines()] == [
        f"a\n{i}" for i in range(NUM_ROWS)
    ]
    assert data == expected
    assert manifest["rows"] == expected_manifest["rows"] == NUM_ROWS
    assert manifest["model"]["name"] == "digits"
    assert use["result"]["rows"] == NUM_ROWS
