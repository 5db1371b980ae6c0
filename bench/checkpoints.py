"""How long a checkpoint holds up training: synchronous against asynchronous, in one run.

    python bench/checkpoints.py [--megabytes 200] [--saves 5] [--workers 2] [--folder DIR]
    python bench/checkpoints.py --local [--storage-mb-s 100] [--megabytes 200] [--saves 5] [--folder DIR]

Workers hold the same model and state of AdamW, as in data parallel, and save it with the built-in
trainer's own code to a real disk; between two saves they compute, for longer than a save takes. The
time a call of save does not return is the time training waits. Both ways take turns, so that what
else goes on hits both.

With --local it is one file that a script saves, to the storage and with `checkpoints: {local: true}`. The
storage is a folder of the same disk that lets nobody go before a store of this many MB/s would have.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint

import muster
from muster.measure import agreement
from muster.sdk.checkpoints import FolderStore, Manifest
from muster.sdk.local_store import LocalStore
from muster.training.saving.saver import Saver
from muster_agent.shim.local_checkpoints import LocalCheckpoints, LocalStart


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


class SlowFolder(FolderStore):
    """A storage folder that takes a checkpoint at no more than a given rate."""

    def __init__(self, directory: Path, *, mb_s: float) -> None:
        super().__init__(directory)
        self._mb_s = mb_s

    def commit(self, folder: Path, **facts: Any) -> tuple[Path, Manifest]:
        began = time.monotonic()
        final, manifest = super().commit(folder, **facts)
        time.sleep(max(0.0, manifest.size_bytes / 1e6 / self._mb_s + began - time.monotonic()))
        return final, manifest


async def measure_local(folder: Path, args: argparse.Namespace) -> dict[str, list[float]]:
    """Return ms that a script waits in a save, by way; the second list is until the storage has it."""
    disk = folder / "disk"
    disk.mkdir()
    behind = SlowFolder(folder / "behind", mb_s=args.storage_mb_s)
    copies = LocalCheckpoints(
        disk, behind, found=LocalStart(), record=lambda _: None, warn=sys.exit
    )
    task = asyncio.create_task(copies.run())
    stores = {
        "storage": SlowFolder(folder / "storage", mb_s=args.storage_mb_s),
        "local": LocalStore(disk, behind, say=sys.exit),
    }
    waited: dict[str, list[float]] = {"storage": [], "local": [], "local, until stored": []}
    content = os.urandom(2**20)

    def save(store: FolderStore, step: int) -> float:
        began = time.perf_counter()
        draft = store.begin(step)
        with (draft / "weights").open("wb") as file:
            for _ in range(args.megabytes):
                file.write(content)
        store.commit(draft, step=step)
        return 1000 * (time.perf_counter() - began)

    for step in range(1, args.saves + 1):
        for way, store in stores.items():
            began = time.perf_counter()
            waited[way].append(await asyncio.to_thread(save, store, step))
            while copies.left():
                copies.has_news.set()
                await asyncio.sleep(0.02)
            if way == "local":
                waited["local, until stored"].append(1000 * (time.perf_counter() - began))
    task.cancel()
    return waited


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=200, help="of model and optimizer state")
    parser.add_argument("--saves", type=int, default=5, help="of each kind that count")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument("--local", action="store_true", help="to the node's disk first")
    parser.add_argument("--storage-mb-s", type=float, default=100.0)
    args = parser.parse_args()
    if args.local:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            show(
                f"{args.megabytes} MiB, storage {args.storage_mb_s:g} MB/s",
                asyncio.run(measure_local(Path(name), args)),
            )
        return 0
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
    show(f"{args.megabytes} MiB, {args.workers} workers", found)
    ratio = statistics.median(found["asynchronous"]) / statistics.median(found["synchronous"])
    print(f"  asynchronous / synchronous {ratio:.3f}")
    return 0


def show(what: str, found: dict[str, list[float]]) -> None:
    print(f"{what}, load {os.getloadavg()[0]:.1f}; ms that training waits:")
    for way, values in found.items():
        print(
            f"  {way:19} median {statistics.median(values):8.1f}  "
            f"{min(values):.1f} to {max(values):.1f}  n {len(values)}"
        )


if __name__ == "__main__":
    sys.exit(main())
