"""Batch inference: every row once under kills, and its throughput against a plain script.

    python bench/predictions.py [--rows 100000] [--workers 2] [--kills 8] [--rounds 3]

The plain script reads its share of the rows, calls the same function with the same batches, and writes a
file; `--workers` of them run at once, on halves of the rows. Times of both are from the first row read to the
last row written, without the start of processes: of the job, from the orders with the first shards to the
manifest. Rounds alternate. Then a job is disturbed: workers, their computing processes and the agent are
killed and frozen at random moments, and its bytes are compared with those of the plain script.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from support.stack import Stack  # noqa: E402

BATCH = 250
SHARD_ROWS = 2_000
CODE = """
import os
import torch
from muster.inference.loading import load

torch.set_num_threads(1)
torch.set_grad_enabled(False)
loaded = load(os.environ["MUSTER_MODEL_MODEL"])

def predict(rows):
    x = torch.tensor([row["x"] for row in rows]).reshape(len(rows), 1, 8, 8)
    scores, labels = loaded.module(x).softmax(-1).max(-1)
    return [{"label": a, "score": b} for a, b in zip(labels.tolist(), scores.tolist())]
"""
PLAIN = """
import json, sys, time
from itertools import islice
from mine import predict

batch, first, end, target = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
with open(sys.argv[5], "rb") as lines, open(target, "wb") as out:
    rows = islice(lines, first, end)
    while some := [json.loads(line) for line in islice(rows, batch)]:
        for row, found in zip(some, predict(some)):
            line = json.dumps({"id": row["id"], "prediction": found}, separators=(",", ":"))
            out.write(line.encode() + b"\\n")
print(time.perf_counter() - began, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, default=2048, help="Width of the model.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-predict-") as name:
        bench = Bench(Path(name), options)
        try:
            print(json.dumps(bench.run()), flush=True)
        finally:
            bench.stack.close()


class Bench:
    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.rows = folder / "rows.jsonl"
        self.code = folder / "code"
        self.code.mkdir()
        (self.code / "mine.py").write_text(CODE)
        (folder / "plain.py").write_text(PLAIN)
        self.stack = Stack(folder / "home", agents=1, slots=options.workers)

    def run(self) -> dict[str, Any]:
        options = self.options
        self._make_rows()
        self._make_model()
        self.stack.start()
        done = self.stack.cli("model", "upload", "reader", str(self.folder / "model"))
        assert done.returncode == 0, done.stderr
        plain, jobs = [], []
        expected = b""
        for _ in range(options.rounds):
            seconds, expected = self._plain()
            plain.append(seconds)
            with self.stack.client() as client:
                experiment_id = self._submit()
                client.wait(experiment_id, timeout_s=600, poll_s=0.2)
                jobs.append(self._seconds(client, experiment_id))
                assert self._parts(experiment_id) == expected, "the bytes differ"
            print(f"plain {plain[-1]:.2f} s, job {jobs[-1]:.2f} s", file=sys.stderr, flush=True)
        disturbed = self._disturbed(expected)
        ratios = [a / b for a, b in zip(plain, jobs, strict=True)]
        return {
            "rows": options.rows,
            "workers": options.workers,
            "plain_rows_per_s": round(options.rows / statistics.median(plain)),
            "job_rows_per_s": round(options.rows / statistics.median(jobs)),
            "throughput_ratio": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
            **disturbed,
            "sha256": hashlib.sha256(expected).hexdigest()[:16],
        }

    def _make_rows(self) -> None:
        draw = random.Random(5)
        pixels = [round(draw.random(), 3) for _ in range(4_096)]
        with self.rows.open("w") as file:
            for no in range(self.options.rows):
                at = no * 31 % (len(pixels) - 64)
                file.write(json.dumps({"id": no, "x": pixels[at : at + 64]}) + "\n")

    def _make_model(self) -> None:
        from safetensors.torch import save_file

        from muster.document.model_config import ModelConfig
        from muster.document.train_config import resolve
        from muster.training import models

        trainer = {"model": "mlp", "data": "digits", "width": self.options.width, "depth": 3}
        config = ModelConfig.of(settings := resolve({"trainer": trainer}, {}, seed=1))
        assert config.shape is not None
        assert config.classes is not None
        module = models.build(settings, inputs=config.shape, classes=config.classes)
        (self.folder / "model").mkdir()
        save_file(module.state_dict(), self.folder / "model/model.safetensors")
        (self.folder / "model/config.json").write_text(config.text())

    def _plain(self) -> tuple[float, bytes]:
        """Return the seconds of the slowest of the plain scripts, and what they wrote."""
        options = self.options
        environment = Stack.environment(self.stack.home) | {
            "MUSTER_MODEL_MODEL": str(self.folder / "model"),
            "PYTHONPATH": str(self.code),
        }
        share = -(-options.rows // options.workers // BATCH) * BATCH
        started, targets = [], []
        for no in range(options.workers):
            first, end = no * share, min(options.rows, (no + 1) * share)
            targets.append(self.folder / f"plain-{no}.jsonl")
            command = [
                sys.executable, str(self.folder / "plain.py"), str(BATCH), str(first), str(end),
                str(targets[-1]), str(self.rows),
            ]  # fmt: skip
            started.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        began = time.perf_counter()
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in started:
            assert process.wait() == 0
        return time.perf_counter() - began, b"".join(t.read_bytes() for t in targets)

    def _submit(self, lease_s: float = 120.0) -> int:
        document = {
            "name": "predict",
            "predict": {
                "model": "reader",
                "inputs": [str(self.rows)],
                "function": "mine:predict",
                "key": "id",
                "batch_size": BATCH,
                "shard_rows": SHARD_ROWS,
                "lease_s": lease_s,
            },
            "code": {"path": str(self.code)},
            "resources": {"slots": self.options.workers},
            "restarts": {"infra": 100},
        }
        path = self.folder / "document.json"
        path.write_text(json.dumps(document))
        done = self.stack.cli("submit", str(path))
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def _seconds(self, client: Any, experiment_id: int) -> float:
        """Return the time from the first grant to the manifest, which the job has measured."""
        (use,) = client.pages(f"/experiments/{experiment_id}/model-uses")
        return float(use["result"]["seconds_of_work"])

    def _parts(self, experiment_id: int) -> bytes:
        target = self.folder / f"results-{experiment_id}"
        done = self.stack.cli(
            "outputs", "get", str(experiment_id), "--wait", "--output", str(target)
        )
        assert done.returncode == 0, done.stderr
        folder = target / "muster-outputs/predictions"
        manifest = json.loads((folder / "_manifest.json").read_text())
        return b"".join((folder / part["part"]).read_bytes() for part in manifest["parts"])

    def _disturbed(self, expected: bytes) -> dict[str, Any]:
        draw = random.Random(3)
        counts = {"worker": 0, "computing": 0, "frozen": 0, "agent": 0}
        began = time.perf_counter()
        with self.stack.client() as client:
            experiment_id = self._submit(lease_s=4.0)
            (trial,) = client.trials(experiment_id)
            left = ["agent"] + [draw.choice(["worker", "computing", "frozen"]) for _ in range(99)]
            left = left[: self.options.kills]
            next_at = 0.0
            done = -1
            while client.experiment(experiment_id)["state"] not in ("COMPLETED", "FAILED"):
                found = client.get(f"/trials/{trial['id']}")
                progress = found["prediction"]
                moved = progress is not None and progress["num_done"] > done
                if left and moved and time.monotonic() > next_at and found["state"] == "RUNNING":
                    done = progress["num_done"]
                    kind = left.pop(draw.randrange(len(left)))
                    counts[kind] += self._hurt(client, trial["id"], kind, draw)
                    next_at = time.monotonic() + draw.uniform(0.2, 1.0)
                time.sleep(0.1)
            found = client.get(f"/trials/{trial['id']}")
            assert found["state"] == "COMPLETED", found["reason"]
            seconds = time.perf_counter() - began
            data = self._parts(experiment_id)
        ids = [json.loads(line)["id"] for line in data.splitlines()]
        return {
            "disturbed": counts,
            "disturbed_attempts": found["attempt_no"],
            "disturbed_seconds": round(seconds, 1),
            "every_row_once": ids == list(range(self.options.rows)),
            "digest_equal": data == expected,
        }

    def _hurt(self, client: Any, trial_id: int, kind: str, draw: random.Random) -> int:
        """Kill or freeze something; return whether it was there."""
        if kind == "agent":
            (agent,) = (p["name"] for p in self.stack.state()["parts"] if "agent" in p["name"])
            self.stack.kill_part(agent)
            return 1
        workers = [w for w in client.pages(f"/trials/{trial_id}/workers") if w["ended_at"] is None]
        if not workers:
            return 0
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(draw.choice(workers)["pid"])
            if kind == "worker":
                process.kill()
            elif kind == "frozen":
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(draw.uniform(0.2, 6.0))
                os.kill(process.pid, signal.SIGCONT)
            else:
                below = [p for p in process.children(recursive=True) if p.ppid() != process.pid]
                below[0].kill()
            return 1
        return 0


if __name__ == "__main__":
    main()
