"""A training that stands still wherever a file says so: HOLD_DIR/PLACE-RANK."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

import muster

FOLDER = Path(os.environ["HOLD_DIR"])


def hold(place: str) -> None:
    while (FOLDER / f"{place}-{dist.get_rank()}").exists():
        time.sleep(0.02)


def dump() -> None:
    """Dump as NCCL's monitor does when a collective times out."""
    while not (FOLDER / "dump").exists():
        time.sleep(0.02)
    path = Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(dist.get_rank()))
    path.with_suffix(".new").write_bytes(torch._C._distributed_c10d._dump_fr_trace())
    path.with_suffix(".new").rename(path)


def batches() -> Iterator[None]:
    while True:
        hold("data")
        yield


def main() -> None:
    muster.init()
    dist.init_process_group(muster.backend("gloo"))
    threading.Thread(target=dump, daemon=True).start()
    timer = muster.StepTimer()
    for step, _ in enumerate(timer.data(batches()), start=1):
        with timer.forward():
            hold("forward")
            time.sleep(0.01)
        with timer.backward():
            dist.all_reduce(torch.ones(8))
        timer.end_step(step)


main()
