"""What Muster's own code takes of the processor, per step and per collective: one process, no network.

    OMP_NUM_THREADS=1 .venv/bin/python bench/measuring_cost.py

Whole trainings with and without measuring (measuring_overhead.py) differ by less than a shared machine's
noise. Here nothing is trained: blocks of all-reduces of a group of one, over plain gloo and over
the measured group, the same with fifty broadcasts launched before the first is waited for, and blocks of
empty steps, in turn. What one costs more than the other is own code;
processor's time of all threads, medians over rounds with a 95 % bootstrap interval. The share of a
step of any length follows: (per_step_us + collectives × per_collective_us) / step.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=40)
parser.add_argument("--block", type=int, default=200, help="collectives or steps per block")
parser.add_argument("--step-ms", type=float, default=100.0, help="step whose share is told")
parser.add_argument("--collectives", type=int, default=8, help="of that step")
args = parser.parse_args()

READER = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
c, _ = s.accept()
while c.recv(65536): pass
"""
path = str(Path(tempfile.mkdtemp(prefix="mst")) / "s")
reader = subprocess.Popen([sys.executable, "-c", READER, path])
while not Path(path).exists():
    time.sleep(0.01)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
os.environ |= {"MUSTER_REPORT_SOCKET": path, "RANK": "0", "WORLD_SIZE": "1"}
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

import muster  # noqa: E402
from muster.measure import collectives, comm  # noqa: E402

torch.set_num_threads(1)
run = muster.init()
dist.init_process_group("gloo")
comm.register()
measured = dist.new_group([0], backend=comm.BACKEND)
timer = muster.StepTimer()
tensor = torch.zeros(16)
BURST = 50
SEVERAL = [torch.zeros(16) for _ in range(BURST)]
TIMED_EVERY = collectives.TIMED_EVERY
num_steps = 0


def us_each(block: Callable[[], None]) -> float:
    """Processor's time of one of a block, in µs."""
    began = time.process_time()
    block()
    return (time.process_time() - began) / args.block * 1e6


def all_reduces(group: dist.ProcessGroup | None, *, record: bool, timed_every: int) -> float:
    collectives.log.enabled = record
    collectives.TIMED_EVERY = timed_every

    def block() -> None:
        for _ in range(args.block):
            dist.all_reduce(tensor, group=group)

    took = us_each(block)
    collectives.log.take()
    return took


def broadcasts(group: dist.ProcessGroup | None, *, record: bool) -> float:
    collectives.log.enabled = record

    def block() -> None:
        for _ in range(args.block // BURST):
            works = [dist.broadcast(tensor, 0, group=group, async_op=True) for tensor in SEVERAL]
            for work in works:
                work.wait()

    took = us_each(block)
    collectives.log.take()
    return took


def empty_steps() -> float:
    def block() -> None:
        global num_steps
        for _ in range(args.block):
            with timer.forward():
                pass
            with timer.backward():
                pass
            with timer.optimizer():
                pass
            num_steps += 1
            timer.end_step(num_steps, samples=1, metrics={"train/loss": 0.5})

    return us_each(block)


VARIANTS: dict[str, Callable[[], float]] = {
    "plain": lambda: all_reduces(None, record=False, timed_every=TIMED_EVERY),
    "counted": lambda: all_reduces(measured, record=False, timed_every=TIMED_EVERY),
    "recorded": lambda: all_reduces(measured, record=True, timed_every=TIMED_EVERY),
    "recorded_all_timed": lambda: all_reduces(measured, record=True, timed_every=1),
    "plain_later": lambda: broadcasts(None, record=False),
    "counted_later": lambda: broadcasts(measured, record=False),
    "recorded_later": lambda: broadcasts(measured, record=True),
    "step": empty_steps,
}
took: dict[str, list[float]] = {name: [] for name in VARIANTS}
order = random.Random(0)
for round_no in range(args.rounds + 2):
    for name in order.sample(list(VARIANTS), len(VARIANTS)):
        value = VARIANTS[name]()
        if round_no >= 2:  # the first ones fill caches
            took[name].append(value)


def told(values: list[float]) -> dict[str, float | list[float]]:
    """Median with the 95 % bootstrap interval."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return {
        "us": round(statistics.median(values), 1),
        "us_95": [round(medians[50], 1), round(medians[1949], 1)],
    }


def more(name: str, than: str) -> list[float]:
    return [a - b for a, b in zip(took[name], took[than], strict=True)]


per_step, per_collective = (
    statistics.median(took["step"]),
    statistics.median(more("recorded", "plain")),
)
result = {
    "plain_all_reduce": told(took["plain"]),
    "counting_a_collective": told(more("counted", "plain")),
    "recording_a_collective": told(more("recorded", "plain")),
    "recording_with_each_one_timed": told(more("recorded_all_timed", "plain")),
    "saved_by_timing_one_in_so_many": told(more("recorded_all_timed", "recorded")),
    "counting_one_waited_for_later": told(more("counted_later", "plain_later")),
    "recording_one_waited_for_later": told(more("recorded_later", "plain_later")),
    "a_step": told(took["step"]),
    "share_pct": round((per_step + args.collectives * per_collective) / (args.step_ms * 10), 3),
    "of_a_step": {"ms": args.step_ms, "collectives": args.collectives},
    "rounds": args.rounds,
    "torch": torch.__version__,
    "host_cpus": os.cpu_count(),
    "load_1m": round(os.getloadavg()[0], 2),
}
print(json.dumps(result, indent=1))
run.close()
dist.destroy_process_group()
reader.terminate()
reader.wait()
