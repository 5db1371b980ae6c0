"""What measuring costs: every strategy with everything on against nothing, in the same processes.

    OMP_NUM_THREADS=1 python bench/measuring_overhead.py [--pairs 12] [--block 4] [--only ddp,fsdp]

The plain torch scripts of strategies.py train twice: as they are, over gloo; and with what a script of
one's own gets from Muster, over the measured gloo, phases found by hooks, and every step reported over a unix
socket to a reader in another process. Blocks alternate in an order drawn by chance, between barriers; the
first step of a block is not timed. The ratio of a pair is bare time / measured time: the throughput with
measuring as a share of that without. Printed: the median over pairs with a 95 % interval by resampling them,
by the clock and of the processor's time of rank 0 (all threads, which other programs touch less); the bare
script against itself (A/A); what Muster says of its own cost; and what the SDK's objects hold in memory after
as many steps, counted by tracemalloc. Goal: 0.99. Takes some five minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from strategies import CASES, Plain, interval

import muster
from muster import comm
from muster.testing.forked import fork
from muster.training import allocation, tasks
from muster.training.config import resolve
from muster.training.tasks import Task

READER = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
c, _ = s.accept()
while c.recv(65536): pass
"""
DIVIDES_BATCH = {"ddp", "zero1", "fsdp", "local_sgd"}
"""Strategies whose workers see different samples."""
Times = tuple[float, float]
"""By the clock, and of the processor, in seconds."""


class Measured:
    """A plain script with a StepTimer that reports every step."""

    def __init__(self, plain: Plain, *, is_pipeline: bool) -> None:
        self.plain, self.is_pipeline = plain, is_pipeline
        self.timer = muster.StepTimer(max_rows_per_s=0)
        self.timer.watch(plain.model, plain.optimizer)
        self.num = 0
        self.costs: list[float] = []

    def begin(self) -> None:
        """What lies between two blocks belongs to no step."""
        with self.timer.pause():
            pass

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        rank = self.plain.rank
        around = self.timer.pipeline(rank) if self.is_pipeline else contextlib.nullcontext()
        with around:
            self.plain.step(x, y)
        self.num += 1
        self.timer.end_step(self.num, samples=len(x))
        self.costs.append(self.timer.last["time/instrumentation_pct"])


def work(name: str, folder: Path, args: argparse.Namespace, rank: int) -> None:
    workers, _ = CASES[name]
    torch.set_num_threads(1)
    allocation.keep_freed_memory()
    path = folder / f"socket-{rank}"
    reader = subprocess.Popen([sys.executable, "-c", READER, str(path)])
    while not path.exists():
        time.sleep(0.01)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "MUSTER_CONFIG_FILE": str(folder / "config.json"),
        "MUSTER_REPORT_SOCKET": str(path),
    }
    run = muster.init()
    bare_group = None
    if workers > 1:
        dist.init_process_group(
            comm.backend("gloo"),
            store=dist.FileStore(str(folder / "store"), workers),
            rank=rank,
            world_size=workers,
            timeout=timedelta(minutes=5),
        )
        bare_group = dist.new_group(backend="gloo")
    task = tasks.make(resolve(run.config, {}, seed=1), global_batch=args.batch)
    bare = Plain(name, task, bare_group, rank)
    plain = Plain(name, task, dist.group.WORLD if workers > 1 else None, rank)
    measured = Measured(plain, is_pipeline=name == "pp")
    num_shares = workers if name in DIVIDES_BATCH else 1
    found = compared(task, bare, measured, args, share=(rank % num_shares, num_shares))
    run.close()
    reader.terminate()
    reader.wait()
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))


def compared(
    task: Task,
    bare: Plain,
    measured: Measured,
    args: argparse.Namespace,
    *,
    share: tuple[int, int],
) -> dict[str, Any]:
    """share: (which, of how many) of a batch this worker sees."""
    draw = random.Random(args.seed)  # the same on all workers
    at = {"bare": 0, "measured": 0}

    def stepped(way: str, step: Callable[[Any, Any], None]) -> None:
        which, num = share
        step(*task.batch(at[way] % task.steps_per_epoch, rank=which, world_size=num))
        at[way] += 1

    def block(way: str) -> Times:
        if way == "measured":
            measured.begin()
        step = bare.step if way == "bare" else measured.step
        stepped(way, step)
        began = clocks(bare.group)
        for _ in range(args.block):
            stepped(way, step)
        ended = clocks(bare.group)
        return ended[0] - began[0], ended[1] - began[1]

    pairs: list[tuple[Times, Times]] = []
    null: list[tuple[Times, Times]] = []
    for i in range(args.pairs + 1):
        took = {way: block(way) for way in draw.sample(("bare", "measured"), 2)}
        both = block("bare"), block("bare")
        if i > 0:  # the first one allocates, and makes the optimizers' state
            pairs.append((took["bare"], took["measured"]))
            null.append(both)
    tracemalloc.start()
    block("measured")
    files = tracemalloc.Filter(inclusive=True, filename_pattern=f"*{os.sep}muster{os.sep}*")
    held = tracemalloc.take_snapshot().filter_traces([files]).statistics("filename")
    tracemalloc.stop()
    return {
        "pairs": pairs,
        "null": null,
        "collectives": measured.timer.last.get("comm/count", 0.0),
        "instrumentation_pct": statistics.median(measured.costs),
        "held_bytes": sum(of_file.size for of_file in held),
    }


def clocks(group: Any) -> Times:
    if group is not None:
        dist.barrier(group)
    return time.perf_counter(), time.process_time()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of blocks")
    parser.add_argument("--block", type=int, default=4, help="timed steps per block")
    parser.add_argument("--batch", type=int, default=64, help="samples per step, of all workers")
    parser.add_argument("--width", type=int, default=128, help="of the model (vit, four blocks)")
    parser.add_argument("--only", default=",".join(CASES), help="which, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{args.pairs} pairs of {args.block} steps, batch {args.batch}, width {args.width}")
    titles = ("measured, clock", "measured, processor", "A/A, clock", "A/A, processor")
    head = "   ".join(f"{title:20}" for title in titles)
    print(f"{'strategy':10} {'workers':>7} {'step':>9}   {head}  collectives  said    held  load")
    for name in args.only.split(","):
        workers, _ = CASES[name]
        with tempfile.TemporaryDirectory(prefix="mst") as made:
            folder = Path(made)
            text = json.dumps({"config": document(args), "seed": 1})
            (folder / "config.json").write_text(text)
            children = [
                fork(functools.partial(work, name, folder, args, rank), f"{name}, rank {rank}")
                for rank in range(workers)
            ]
            failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
            if failed:
                return 1
            found = json.loads((folder / "found.json").read_text())
        step_ms = statistics.median(a[0] for a, _ in found["pairs"]) / args.block * 1e3
        shown = [
            "{:.3f} [{:.3f}, {:.3f}]".format(
                *interval([a[which] / b[which] for a, b in found[of]], args.seed)
            )
            for of in ("pairs", "null")
            for which in (0, 1)
        ]
        print(
            f"{name:10} {workers:7} {step_ms:6.0f} ms   {'   '.join(shown)}  "
            f"{found['collectives']:11.0f}  {found['instrumentation_pct']:.2f} %  "
            f"{found['held_bytes'] / 1e3:3.0f} kB  {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    return 0


def document(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "trainer": {
            "model": "vit",
            "data": "synthetic",
            "samples": 64 * args.batch,
            "width": args.width,
            "depth": 4,
            "heads": 4,
            "patch": 4,
            "steps": 1,
            "test": False,
            "batch_size": args.batch,
        },
        "resources": {"slots": 1},
    }


if __name__ == "__main__":
    sys.exit(main())
