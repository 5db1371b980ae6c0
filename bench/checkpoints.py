"""How long a checkpoint holds up training: synchronous against asynchronous, in one run.

    python bench/checkpoints.py [--megabytes 200] [--saves 5] [--workers 2] [--folder DIR]

Workers hold the same model and state of AdamW, as in data parallel, and save it with the built-in
trainer's own code to a real disk; between two saves they compute, for longer than a save takes. The
time a call of save does not return is the time training waits. Both ways take turns, so that what
else goes on hits both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint

import muster
from muster.measure import agreement
from muster.training.saving.saver import Saver


def work(folder: Path, rank: int, args: argparse.Namespace) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(args.workers),
        "MUSTER_CHECKPOINT_DIR": str(folder / "checkpoints"),
    }
    torch.set_num_threads(1)
    run = muster.init()
    if args.workers > 1:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(str(folder / "store"), args.workers),
            rank=rank,
            world_size=args.workers,
            timeout=timedelta(minutes=5),
        )
    num_tensors = 24  # parameters and two moments of eight layers
    numel = args.megabytes * 2**20 // 4 // num_tensors
    tensors = {f"model/{i}": torch.randn(numel) for i in range(num_tensors)}
    blocked: dict[str, list[float]] = {"synchronous": [], "asynchronous": []}
    savers = {way: Saver(run, background=way == "asynchronous") for way in blocked}
    step = 0
    for i in range(args.saves + 1):
        for way, saver in savers.items():
            step += 1
            agreement.agree_any(False)
            began = time.perf_counter()
            saver.save(step, 0.0, tensors, {}, metrics={})
            seconds = time.perf_counter() - began
            compute()
            saver.finish()
            if i > 0:  # the first one imports and allocates
                blocked[way].append(seconds * 1000)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(blocked))


def compute() -> None:
    """Training, for a moment."""
    a = torch.randn(256, 256)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        a = torch.tanh(a @ a)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=200, help="of model and optimizer state")
    parser.add_argument("--saves", type=int, default=5, help="of each kind that count")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        children = []
        for rank in range(args.workers):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    work(folder, rank, args)
                    code = 0
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            children.append(pid)
        failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
        if failed:
            return 1
        found = json.loads((folder / "found.json").read_text())
    load = os.getloadavg()[0]
    print(f"{args.megabytes} MiB, {args.workers} workers, load {load:.1f}; ms that training waits:")
    for way, values in found.items():
        print(
            f"  {way:13} median {statistics.median(values):8.1f}  "
            f"{min(values):.1f} to {max(values):.1f}  n {len(values)}"
        )
    ratio = statistics.median(found["asynchronous"]) / statistics.median(found["synchronous"])
    print(f"  asynchronous / synchronous {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
