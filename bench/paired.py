"""Two ways of training in turn, in the same processes: what strategies.py and measuring_overhead.py share."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from support.training.forked import fork

Times = tuple[float, float]
"""By the clock, and of this process's processor, in seconds."""


def options(description: str, *, pairs: int, cases: list[str]) -> argparse.ArgumentParser:
    """pairs: of blocks, unless told otherwise."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=pairs, help="pairs of blocks")
    parser.add_argument("--block", type=int, default=4, help="timed steps per block")
    parser.add_argument("--batch", type=int, default=64, help="samples per step, of all workers")
    parser.add_argument("--width", type=int, default=128, help="of the model (vit, four blocks)")
    parser.add_argument("--only", default=",".join(cases), help="which, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def trainer(args: argparse.Namespace) -> dict[str, Any]:
    """The model and data that both ways train, as a document says them."""
    return {
        "model": "vit",
        "data": "synthetic",
        "width": args.width,
        "depth": 4,
        "heads": 4,
        "patch": 4,
        "test": False,
    }


def clocks(group: Any) -> Times:
    """Now, once all members are there."""
    if group is not None:
        dist.barrier(group)
    return time.perf_counter(), time.process_time()


def since(began: Times, group: Any) -> Times:
    now = clocks(group)
    return now[0] - began[0], now[1] - began[1]


def run(
    name: str, workers: int, config: dict[str, Any], work: Callable[[Path, int], Any]
) -> dict[str, Any]:
    """What the first of so many forked workers found. Exits when one of them fails.

    work: given a folder with config.json in it, and the worker's rank."""
    with tempfile.TemporaryDirectory(prefix="mst") as made:
        folder = Path(made)
        (folder / "config.json").write_text(json.dumps({"config": config, "seed": 1}))

        def worker(rank: int) -> Callable[[], None]:
            def runs() -> None:
                found = work(folder, rank)
                if rank == 0:
                    (folder / "found.json").write_text(json.dumps(found))

            return runs

        children = [fork(worker(rank), f"{name}, rank {rank}") for rank in range(workers)]
        if [pid for pid in children if os.waitpid(pid, 0)[1]]:
            raise SystemExit(1)
        return dict(json.loads((folder / "found.json").read_text()))


def print_head(args: argparse.Namespace, way: str, *more: str) -> None:
    """way: what is compared with the plain script."""
    print(f"{args.pairs} pairs of {args.block} steps, batch {args.batch}, width {args.width}")
    titles = (f"{way}, clock", f"{way}, processor", "A/A, clock", "A/A, processor")
    head = "   ".join(f"{title:20}" for title in titles)
    print(f"{'strategy':10} {'workers':>7} {'step':>9}   {head}  {'  '.join((*more, 'load'))}")


def print_row(
    name: str,
    workers: int,
    found: dict[str, Any],
    args: argparse.Namespace,
    *more: str,
    whole: bool = False,
) -> None:
    """found: "pairs" and "null", lists of (plain, compared) `Times` of blocks.

    whole: compare the time of all blocks together, for a cost that few of them have.
    """
    step_ms = statistics.median(plain[0] for plain, _ in found["pairs"]) / args.block * 1e3
    shown = [
        "{:.3f} [{:.3f}, {:.3f}]".format(
            *interval([(a[which], b[which]) for a, b in found[of]], args.seed, whole=whole)
        )
        for of in ("pairs", "null")
        for which in (0, 1)
    ]
    cells = "  ".join((*more, f"{os.getloadavg()[0]:.1f}"))
    print(
        f"{name:10} {workers:7} {step_ms:6.0f} ms   {'   '.join(shown)}  {cells}",
        flush=True,
    )


def interval(pairs: list[Times], seed: int, *, whole: bool = False) -> tuple[float, float, float]:
    """Median ratio of the pairs, and the middle 95 % of it in 2,000 samples drawn with replacement.

    whole: the ratio of the sums in place of the median ratio.
    """
    draw = random.Random(seed)

    def ratio(of: list[Times]) -> float:
        if whole:
            return sum(a for a, _ in of) / sum(b for _, b in of)
        return statistics.median(a / b for a, b in of)

    drawn = sorted(ratio(draw.choices(pairs, k=len(pairs))) for _ in range(2000))
    return ratio(pairs), drawn[50], drawn[1949]
