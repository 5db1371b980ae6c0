"""Steps that the measured group and a window of the profiler see at once. Each worker comes later than
the one before.

    STRATEGY=ddp|zero1|fsdp|hsdp|tp|pp LATE_S=0.1 windowed.py

Rank 0 prints what both say of the same steps, as JSON lines.
"""

import json
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import muster
from muster.measure import sampling
from muster.measure.collectives import Segment, now_ns
from muster.measure.comm_use import timeline_use
from muster.measure.windows import KernelWindows

late_s = float(os.environ["LATE_S"])
sampling.BUDGET = 1.0  # the measured group records every step
muster.init()
dist.init_process_group(muster.backend("gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
WIDTH = 256
strategy = os.environ["STRATEGY"]
model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
trained: torch.nn.Module = model
if strategy in ("ddp", "zero1"):
    trained = DistributedDataParallel(model, bucket_cap_mb=0.5)
elif strategy in ("fsdp", "hsdp"):
    names = ("replicate", "shard")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names) if strategy == "hsdp" else None
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
elif strategy == "tp":
    styles = (ColwiseParallel, RowwiseParallel)
    plan: dict[str, ParallelStyle] = {str(no): styles[no % 2]() for no in range(4)}
    trained = parallelize_module(model, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), plan)
else:
    assert strategy == "pp"
optimizer: torch.optim.Optimizer
if strategy == "zero1":
    optimizer = ZeroRedundancyOptimizer(trained.parameters(), torch.optim.SGD, lr=0.01)
else:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
pair = dist.new_group(list(range(dist.get_world_size())), group_desc="pair")
timer = muster.StepTimer(max_rows_per_s=0)
timer.watch(trained, optimizer)
windows = KernelWindows(world_size=dist.get_world_size())
x = torch.randn(64, WIDTH)


def train_stage() -> None:
    """Two stages, each of the whole model, that send each other activations and gradients."""
    if rank == 0:
        y = trained(x)
        dist.send(y.detach(), dst=1)
        gradient = torch.empty_like(y)
        dist.recv(gradient, src=1)
        y.backward(gradient)
    else:
        given = torch.empty_like(x)
        dist.recv(given, src=0)
        given.requires_grad_()
        trained(given).sum().backward()
        assert given.grad is not None
        dist.send(given.grad, dst=0)


num_seen = 0
for no in range(48):
    began = now_ns()
    if strategy == "pp":
        train_stage()
    else:
        loss = trained(x).sum()
        time.sleep(late_s * rank)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(torch.ones(1000), group=pair)
    ended = now_ns()
    seen = windows.end_step()
    timer.end_step(no + 1)
    if seen is not None:
        use = timeline_use(seen.activities, [Segment("other", began, ended)])
        windowed = {"comm/exposed_ms": use.exposed / 1e6, "comm/total_ms": use.total / 1e6}
        for (group, kind), of_kind in use.kinds.items():
            windowed[f"comm/{group}/{kind}/count"] = of_kind.count
            windowed[f"comm/{group}/{kind}/bytes"] = of_kind.num_bytes
        if rank == 0:
            print("both " + json.dumps([windowed, timer.last]), flush=True)
        num_seen += 1
        windows.budget.every = 4
    else:
        windows.budget.add_step(ended - began)
    windows.begin_step(no + 1)
assert num_seen > 5, num_seen
dist.destroy_process_group()
