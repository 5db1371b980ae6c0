"""What measuring costs: the same DDP training with everything on against nothing, in one run.

    OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 bench/measuring_overhead.py

Both variants train the same model in the same processes: one DDP wrapper over plain gloo without a
timer; one over the measured group with a StepTimer that reports every step over a unix socket to a
reader in another process. They alternate step by step in ABBA order, which cancels what drifts on a
shared machine; what remains is the median over pairs of blocks, with the spread of an A/A comparison
beside it. Goal: ratio of throughput with / without ≥ 0.99. On a busy machine the clock says little;
processor_ratio is the same of the processor's time, all threads, which other programs touch less.
Memory is what the SDK's own objects hold after as many steps, counted by tracemalloc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--pairs", type=int, default=60, help="pairs of blocks (plain, measured)")
parser.add_argument("--block", type=int, default=4, help="steps per block")
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--batch", type=int, default=64)
args = parser.parse_args()

READER = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
c, _ = s.accept()
while c.recv(65536): pass
"""

folder = Path(tempfile.mkdtemp(prefix="mst"))
path = str(folder / "s")
reader = subprocess.Popen([sys.executable, "-c", READER, path])
while not Path(path).exists():
    time.sleep(0.01)
os.environ["MUSTER_REPORT_SOCKET"] = path

import muster  # noqa: E402
from muster import collectives, comm  # noqa: E402

run = muster.init()
dist.init_process_group("gloo")
comm.register()
rank, world_size = dist.get_rank(), dist.get_world_size()
measured_group = dist.new_group(list(range(world_size)), backend=comm.BACKEND)

torch.manual_seed(0)
layers: list[nn.Module] = []
for _ in range(args.layers):
    layers += [nn.Linear(args.width, args.width), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(args.width, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(args.batch, args.width), torch.randint(0, 10, (args.batch,))
plain = DistributedDataParallel(model, bucket_cap_mb=5)
measured = DistributedDataParallel(model, process_group=measured_group, bucket_cap_mb=5)
timer = muster.StepTimer(max_rows_per_s=0)
timer._measures_comm = True  # the measured group is not the default one in this bench
step = 0
costs: list[float] = []


def plain_block() -> tuple[float, float]:
    collectives.log.enabled = False
    dist.barrier()
    began, began_cpu = time.perf_counter(), time.process_time()
    for _ in range(args.block):
        loss = nn.functional.cross_entropy(plain(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    return time.perf_counter() - began, time.process_time() - began_cpu


def measured_block() -> tuple[float, float]:
    global step
    dist.barrier()
    with timer.pause():
        pass
    collectives.log.enabled = True
    began, began_cpu = time.perf_counter(), time.process_time()
    for _ in range(args.block):
        with timer.forward():
            loss = nn.functional.cross_entropy(measured(x), y)
        with timer.backward():
            optimizer.zero_grad()
            loss.backward()
        with timer.optimizer():
            optimizer.step()
        step += 1
        timer.end_step(step, samples=args.batch, metrics={"train/loss": loss})
        costs.append(timer.last["time/instrumentation_pct"])
    return time.perf_counter() - began, time.process_time() - began_cpu


for _ in range(3):
    plain_block()
    measured_block()
costs.clear()

ratios, null_ratios, cpu_ratios, null_cpu_ratios, plain_times = [], [], [], [], []
order = random.Random(0)
for _ in range(args.pairs):
    if order.random() < 0.5:
        a, b = plain_block(), measured_block()
    else:
        b, a = measured_block(), plain_block()
    plain_times.append(a[0])
    ratios.append(a[0] / b[0])  # throughput measured / throughput plain
    cpu_ratios.append(a[1] / b[1])
    c, d = plain_block(), plain_block()
    null_ratios.append(c[0] / d[0])
    null_cpu_ratios.append(c[1] / d[1])

tracemalloc.start()
for _ in range(5):
    measured_block()
sdk_files = tracemalloc.Filter(inclusive=True, filename_pattern=f"*{os.sep}muster{os.sep}*")
held = tracemalloc.take_snapshot().filter_traces([sdk_files]).statistics("filename")
tracemalloc.stop()

if rank == 0:

    def interval(values: list[float]) -> list[float]:
        """95 % bootstrap interval of the median."""
        draw = random.Random(1)
        medians = sorted(
            statistics.median(draw.choices(values, k=len(values))) for _ in range(2000)
        )
        return [round(medians[50], 4), round(medians[1949], 4)]

    result = {
        "throughput_ratio": round(statistics.median(ratios), 4),
        "throughput_ratio_95": interval(ratios),
        "null_ratio": round(statistics.median(null_ratios), 4),
        "null_ratio_95": interval(null_ratios),
        "processor_ratio": round(statistics.median(cpu_ratios), 4),
        "processor_ratio_95": interval(cpu_ratios),
        "null_processor_ratio": round(statistics.median(null_cpu_ratios), 4),
        "null_processor_ratio_95": interval(null_cpu_ratios),
        "memory_held_bytes": sum(found.size for found in held),
        "instrumentation_pct": round(statistics.median(costs), 3),
        "step_ms": round(1e3 * statistics.median(plain_times) / args.block, 2),
        "collectives_per_step": timer.last["comm/count"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "workers": world_size,
        "torch": torch.__version__,
        "cpu": platform.processor() or platform.machine(),
        "host_cpus": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(result, indent=1))
run.close()
dist.destroy_process_group()
reader.terminate()
reader.wait()
