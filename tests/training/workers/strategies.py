"""Train with many strategies, one after the other, in processes that are forked once per world.

    python strategies.py FOLDER < cases.json

cases: [{"name", "world", "document", "resumed", "origin", "stopped_rank" (or absent)}]; each is trained in whole and, where
`resumed`, once more from the checkpoint of step RESUME_AT, its own or that of the case `origin`. Writes FOLDER/<name>/{whole,resumed}/reports.jsonl.

Importing torch takes seconds; here it is done once for all.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.optim
import torch.distributed.pipelining
import torch.distributed.tensor.parallel

import muster.sdk.reporter
import muster.sdk.run
from muster.document.train_config import resolve
from muster.measure import agreement, comm
from muster.training import loop
from muster.training.strategies import layers
from support.training.forked import fork
from support.training.strategies import RESUME_AT

layers.COMPILER = "aot_eager"
"""Traces and takes apart as `inductor` does, which would then take a minute for the processor's code."""


def train(
    folder: Path,
    document: dict[str, Any],
    rank: int,
    world: int,
    resume: str = "",
    *,
    url: str = "",
    is_stopped: bool = False,
) -> None:
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"config": document, "seed": 5}))
    if world > 1:
        dist.barrier(group=agreement.control_group())
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MUSTER_CONFIG_FILE": str(folder / "config.json"),
        "MUSTER_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "MUSTER_CHECKPOINT_URL": url,
        "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
        "MUSTER_RESUME_FROM": resume,
    }
    muster.sdk.reporter._reporter = None
    run = muster.init()
    if is_stopped:
        threading.Thread(target=_stop, args=(run, folder), daemon=True).start()
    try:
        config = resolve(run.get_config(), run.get_hparams(), seed=run.seed)
        loop.train_in_group(run, config, torch.device("cpu"), rank, world)
    finally:
        run.close()


def _stop(run: muster.sdk.run.Run, folder: Path) -> None:
    """Ask this worker to stop when another one has reported a step."""
    while '"train/loss"' not in (folder / "reports.jsonl").read_text():
        time.sleep(0.02)
    run.request_stop("the test says so")


def work(folder: Path, cases: list[dict[str, Any]], rank: int, world: int) -> None:
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group(
            comm.backend("gloo", measure=True),
            store=dist.FileStore(str(folder / f"store-{world}"), world),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=60),
        )
    for case in cases:
        here = folder / case["name"]
        is_stopped = case.get("stopped_rank") == rank
        train(here / "whole", case["document"], rank, world, is_stopped=is_stopped)
        if not case["resumed"]:
            continue
        checkpoint = (
            folder
            / (case["origin"] or case["name"])
            / "whole"
            / "checkpoints"
            / f"step-{RESUME_AT:08d}"
        )
        train(here / "resumed", case["document"], rank, world, str(checkpoint))


def main() -> int:
    folder = Path(sys.argv[1])
    cases = json.load(sys.stdin)
    # One process comes last, so that it can go on from what several have left.
    for world in sorted({case["world"] for case in cases}, key=lambda n: (n == 1, n)):
        mine = [case for case in cases if case["world"] == world]
        children: list[int] = []
        for rank in range(world):
            task = functools.partial(work, folder, mine, rank, world)
            children.append(fork(task, f"rank {rank} of {world}"))
        while children:
            pid, status = os.wait()
            children.remove(pid)
            if status:
                for other in children:
                    os.kill(other, signal.SIGKILL)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
