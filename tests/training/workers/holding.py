"""A training that stands still wherever a file says so: HOLD_DIR/PLACE-RANK."""

import os
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


def batches() -> Iterator[None]:
    while True:
        hold("data")
        yield


def main() -> None:
    muster.init()
    dist.init_process_group(muster.backend("gloo"))
    timer = muster.StepTimer()
    for step, _ in enumerate(timer.data(batches()), start=1):
        with timer.forward():
            hold("forward")
            time.sleep(0.01)
        with timer.backward():
            dist.all_reduce(torch.ones(8))
        timer.end_step(step)


main()
