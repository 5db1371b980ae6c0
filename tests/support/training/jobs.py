"""Start real workers of a training, without a server, and read what they reported. For tests."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.ports import free_port
from support.training import forked
from support.training.forked import ForkedWorker

PARTS = (
    "time/data_wait_ms",
    "time/host_to_device_ms",
    "time/forward_ms",
    "time/backward_ms",
    "comm/exposed_ms",
    "time/optimizer_ms",
    "time/no_grad_ms",
    "time/checkpoint_ms",
    "time/other_ms",
)
"""They sum to time/step_ms, with pipeline/bubble_ms where there is a pipeline."""


@dataclasses.dataclass
class Job:
    """The workers of one training and their folder."""

    folder: Path
    workers: Sequence[subprocess.Popen[str] | ForkedWorker]

    def wait(self, timeout_s: float = 300) -> Job:
        """Until every worker has exited; AssertionError with their output unless all did so with 0."""
        outputs = [w.communicate(timeout=timeout_s)[0] for w in self.workers]
        codes = [w.returncode for w in self.workers]
        assert not any(codes), f"exit codes {codes}\n" + "\n".join(outputs)
        return self

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def lines(self, kind: str | None = None) -> list[dict[str, Any]]:
        path = self.folder / "reports.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if kind in (None, line["type"])]

    def rows(self, rank: int) -> dict[int, dict[str, float]]:
        """step → metric → value, of one rank."""
        rows: dict[int, dict[str, float]] = {}
        for line in self.lines("metrics"):
            if line["rank"] != rank:
                continue
            for series in line["series"]:
                for step, value in zip(series["steps"], series["values"], strict=True):
                    rows.setdefault(step, {})[series["name"]] = value
        return rows

    def series(self, name: str, rank: int = 0) -> dict[int, float]:
        return {s: row[name] for s, row in self.rows(rank).items() if name in row}


Start = Callable[..., Job]


def start_job(
    folder: Path,
    *,
    workers: int = 1,
    nodes: int = 1,
    trainer: dict[str, Any] | None = None,
    hparams: dict[str, Any] | None = None,
    document: dict[str, Any] | None = None,
    seed: int = 5,
    script: Path | None = None,
    torchrun: bool = False,
    resume_from: Path | None = None,
    **environ: str,
) -> Job:
    """Start `workers` processes of the built-in trainer, or of `script`.

    Reports go to reports.jsonl and checkpoints to checkpoints/ in `folder`. In the variables, `{node}` stands
    for the number of the node of a worker; they are dealt to `nodes` nodes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "hparams": hparams or {},
        "config": {"trainer": trainer or {}, **(document or {})},
        "seed": seed,
    }
    (folder / "config.json").write_text(json.dumps(config))
    base = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "PYTEST_"))}
    base["OMP_NUM_THREADS"] = "1"
    own = {
        "MUSTER_CONFIG_FILE": str(folder / "config.json"),
        "MUSTER_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
        "MUSTER_RESUME_FROM": str(resume_from or ""),
        **environ,
    }
    target = [str(script)] if script else ["-m", "muster.training"]
    if torchrun:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*launcher, f"--nproc-per-node={workers}", *target]
        return Job(folder, [_start(command, base | own)])
    # What `launcher: direct` does: torchrun's variables, without the two seconds torchrun takes.
    num_local = workers // nodes
    ranks = [
        {
            **{name: value.replace("{node}", str(r // num_local)) for name, value in own.items()},
            "RANK": str(r),
            "LOCAL_RANK": str(r % num_local),
            "WORLD_SIZE": str(workers),
            "LOCAL_WORLD_SIZE": str(num_local),
            "GROUP_RANK": str(r // num_local),
            "MASTER_ADDR": "127.0.0.1",
        }
        for r in range(workers)
    ]
    if platform.system() == "Linux":  # and without the two seconds that each of them imports torch
        return Job(folder, forked.parent(base).start(target, ranks, folder=folder))
    port = str(free_port())
    return Job(
        folder,
        [_start([sys.executable, *target], base | rank | {"MASTER_PORT": port}) for rank in ranks],
    )


def _start(command: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Poll until `condition` holds; AssertionError when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)
