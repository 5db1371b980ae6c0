"""What attaching.py measures: a script that knows nothing of Muster. See there.

WORLD_SIZE=2 RANK=0 … python bench/plain_training.py {ddp,fsdp,tp} STEPS
"""

import json
import os
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

SETTLE = 40
"""Steps that are not timed."""


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(x)))


KIND, STEPS = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
model: Any = nn.Sequential(*[Block(128) for _ in range(4)], nn.Flatten(0, 1), nn.Linear(128, 10))
if KIND == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
elif KIND == "fsdp":
    for block in model[:4]:
        fully_shard(block)
    fully_shard(model)
else:
    mesh = init_device_mesh("cpu", (2,))
    for block in model[:4]:
        plan: dict[str, Any] = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh, plan)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
x, y = torch.randn(16, 32, 128), torch.randint(0, 10, (16 * 32,))
took = []
for step in range(SETTLE + STEPS):
    at = time.perf_counter()
    if step == 0:
        first_at = time.time()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    loss.item()
    took.append(time.perf_counter() - at)
if rank == 0:
    print(json.dumps({"step_s": statistics.median(took[SETTLE:]), "first_at": first_at}))
sys.stdout.flush()
dist.barrier()
os._exit(0)  # torch 2.13 aborts now and then while it takes its process group down
