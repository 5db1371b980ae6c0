"""Ranks 0 and 1 have a StepTimer, rank 2 only logs its steps."""

import time

import torch
import torch.distributed as dist

import muster


def main() -> None:
    run = muster.init()
    dist.init_process_group(muster.backend("gloo"))
    timer = muster.StepTimer() if run.info.rank < 2 else None
    for step in range(1, 100_000):
        dist.all_reduce(torch.ones(8) @ torch.ones(8, 8))
        time.sleep(0.01)
        if timer is not None:
            timer.end_step(step)
        else:
            muster.log({"train/loss": 1.0}, step=step)


main()
