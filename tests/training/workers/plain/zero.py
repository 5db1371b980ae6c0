"""A script that says nothing of Muster: DDP with torch's ZeroRedundancyOptimizer and a consolidated state."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(24, 24) for _ in range(5)]))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
for _ in range(5):
    model(torch.randn(4, 24)).square().mean().backward()
    optimizer.step()
    model.zero_grad()
optimizer.consolidate_state_dict(to=0)
dist.barrier()
dist.destroy_process_group()
