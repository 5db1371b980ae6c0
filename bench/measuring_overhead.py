"""What measuring costs: every strategy with everything on against nothing, in the same processes.

    OMP_NUM_THREADS=1 python bench/measuring_overhead.py [--pairs 40] [--block 4] [--only ddp,fsdp] [--windows]

The plain torch scripts of strategies.py train twice: as they are, over gloo; and with what a script of
one's own gets from Muster, over the measured gloo, phases found by hooks, and rows (at most 20 a second)
reported over a unix socket to a reader in another process. First the measured one makes some steps, in which
it finds of how many it records the collectives. Then blocks alternate in an order drawn by chance, between
barriers; the first step of a block is not timed. The ratio of a pair is bare time / measured time: the
throughput with measuring as a share of that without. Printed: the median over pairs with a 95 % interval by
resampling them, by the clock and of the processor's time of rank 0 (all threads, which other programs touch
less); the bare script against itself (A/A), every fourth time; collectives of a step, share of the steps in which
they were recorded; what Muster says of its own cost; and what the SDK's objects hold in memory after as many steps,
counted by tracemalloc. Goal: 0.99. Takes some seven minutes.

With --windows, no process group is measured: windows of the profiler open over the processor's operations, as
they do on a GPU over NCCL's kernels. Few blocks have one, so the ratio is that of the whole time of all
blocks. Use blocks of 100 steps or more, and so many that some windows open: "recorded" says in how many steps.
Windows are kept so rare that few can be timed. --window-budget 0.05 lets them take ten times their share: what they
then cost, against 1 - 0.05, shows whether they keep to what they are allowed, which holds at any share.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import random
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import paired
import torch
import torch.distributed as dist
from paired import Times
from strategies import CASES, Plain

import muster
from muster.document.train_config import resolve
from muster.measure import comm, windows
from muster.training import allocation, tasks
from muster.training.tasks import Task

READER = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
c, _ = s.accept()
while c.recv(65536): pass
"""
DIVIDES_BATCH = {"ddp", "zero1", "fsdp", "local_sgd"}
"""Strategies whose workers see different samples."""
NULL_EVERY = 4
"""Pairs of which one is followed by one of the bare script with itself."""


class Measured:
    """A plain script with a StepTimer."""

    def __init__(self, plain: Plain, *, is_pipeline: bool) -> None:
        self.plain, self.is_pipeline = plain, is_pipeline
        self.timer = muster.StepTimer()
        self.timer.watch(plain.model, plain.optimizer)
        self.num = 0
        self.num_collectives: list[float] = []
        self.costs: list[float] = []
        self.recorded: list[float] = []

    def begin(self) -> None:
        """What lies between two blocks belongs to no step, and to no window."""
        with self.timer.pause():
            pass

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        rank = self.plain.rank
        around = self.timer.pipeline(rank) if self.is_pipeline else contextlib.nullcontext()
        with around:
            self.plain.step(x, y)
        self.num += 1
        self.timer.end_step(self.num, samples=len(x))
        told = self.timer.last
        self.costs.append(told["time/instrumentation_pct"])
        recorded_pct = told.get("comm/recorded_pct", 100.0 if "comm/count" in told else 0.0)
        self.recorded.append(recorded_pct)
        if "comm/count" in told:
            self.num_collectives.append(told["comm/count"])


def work(name: str, args: argparse.Namespace, folder: Path, rank: int) -> dict[str, Any]:
    workers, _ = CASES[name]
    torch.set_num_threads(1)
    allocation.keep_freed_memory()
    windows.BUDGET = args.window_budget
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
        windows.SWITCH: "cpu" if args.windows else "",
        "KINETO_LOG_LEVEL": "6",
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
    task = tasks.make(resolve(run.get_config(), {}, seed=1), global_batch=args.batch)
    bare = Plain(name, task, bare_group, rank, label="bare")
    group = dist.group.WORLD if workers > 1 else None
    plain = Plain(name, task, group, rank, label="measured")
    measured = Measured(plain, is_pipeline=name == "pp")
    num_shares = workers if name in DIVIDES_BATCH else 1
    found = compared(task, bare, measured, args, share=(rank % num_shares, num_shares))
    run.close()
    reader.terminate()
    reader.wait()
    return found


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
        began = paired.clocks(bare.group)
        for _ in range(args.block):
            stepped(way, step)
        took = paired.since(began, bare.group)
        if way == "measured":
            measured.begin()
        return took

    measured.begin()
    for _ in range(args.settle):
        stepped("measured", measured.step)
    pairs: list[tuple[Times, Times]] = []
    null: list[tuple[Times, Times]] = []
    for i in range(args.pairs + 1):
        took = {way: block(way) for way in draw.sample(("bare", "measured"), 2)}
        if i > 0:  # the first one allocates, and makes the optimizers' state
            pairs.append((took["bare"], took["measured"]))
        if i % NULL_EVERY == 1:
            null.append((block("bare"), block("bare")))
    tracemalloc.start()
    block("measured")
    files = tracemalloc.Filter(inclusive=True, filename_pattern=f"*{os.sep}muster{os.sep}*")
    held = tracemalloc.take_snapshot().filter_traces([files]).statistics("filename")
    tracemalloc.stop()
    return {
        "pairs": pairs,
        "null": null,
        "collectives": statistics.fmean(measured.num_collectives or [0.0]),
        "recorded_pct": statistics.fmean(measured.recorded[args.settle :]),
        "instrumentation_pct": statistics.fmean(measured.costs[args.settle :]),
        "held_bytes": sum(of_file.size for of_file in held),
    }


def main() -> None:
    parser = paired.options(str(__doc__), pairs=40, cases=list(CASES))
    parser.add_argument(
        "--settle", type=int, default=40, help="measured steps before the first pair"
    )
    parser.add_argument(
        "--windows",
        action="store_true",
        help="windows of the profiler in place of a measured group",
    )
    parser.add_argument(
        "--window-budget",
        type=float,
        default=windows.BUDGET,
        metavar="SHARE",
        help="of the time that windows may take, 0 to 1",
    )
    args = parser.parse_args()
    paired.print_head(args, "measured", "collectives", "recorded", "said", "held")
    document = {
        "trainer": {
            **paired.trainer(args), "samples": 64 * args.batch, "steps": 1, "batch_size": args.batch,
        },
        "resources": {"slots": 1},
    }  # fmt: skip
    for name in args.only.split(","):
        workers, _ = CASES[name]
        found = paired.run(name, workers, document, functools.partial(work, name, args))
        paired.print_row(
            name, workers, found, args,
            f"{found['collectives']:11.1f}",
            f"{found['recorded_pct']:6.2f} %",
            f"{found['instrumentation_pct']:.2f} %",
            f"{found['held_bytes'] / 1e3:3.0f} kB",
            whole=args.windows,
        )  # fmt: skip


if __name__ == "__main__":
    main()
