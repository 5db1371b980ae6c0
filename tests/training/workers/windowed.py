"""Steps that the measured group and a window of the profiler see at once. Two workers, of which the
second comes late.

    STRATEGY=ddp|fsdp windowed.py

Rank 0 prints what both say of the same steps, as JSON lines.
"""

import json
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import muster
from muster.measure import sampling
from muster.measure.collectives import Segment, now_ns
from muster.measure.comm_use import timeline_use
from muster.measure.windows import KernelWindows

LATE_S = 0.1
sampling.BUDGET = 1.0  # the measured group records every step
muster.init()
dist.init_process_group(muster.backend("gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
WIDTH = 256
model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
trained: torch.nn.Module
if os.environ["STRATEGY"] == "ddp":
    trained = DistributedDataParallel(model, bucket_cap_mb=0.5)
else:
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    trained = model
optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
pair = dist.new_group([0, 1], group_desc="pair")
timer = muster.StepTimer(max_rows_per_s=0)
timer.watch(trained, optimizer)
windows = KernelWindows(world_size=2)
x = torch.randn(64, WIDTH)
num_seen = 0
for no in range(48):
    began = now_ns()
    loss = trained(x).sum()
    time.sleep(LATE_S * rank)
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
