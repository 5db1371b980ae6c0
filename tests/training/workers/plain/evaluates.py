"""A script that says nothing of Muster: DDP with an evaluation whose results are gathered as objects."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for _ in range(3):
        loss: torch.Tensor = nn.functional.cross_entropy(
            model(torch.randn(4, 8)), torch.randint(3, (4,))
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        scores = {"rank": rank, "worst": "x" * (10 * rank + epoch), "seen": 4 + rank}
    every = [None] * world
    dist.all_gather_object(every, scores)
    at_first = [None] * world if rank == 0 else None
    dist.gather_object(scores, at_first, dst=0)
    best = [max(epoch, 1)] if rank == 0 else [None]
    dist.broadcast_object_list(best, src=0)
    seen = torch.tensor([4.0 + rank, 1.0])
    dist.all_reduce(seen)
    assert seen[1].item() == world
dist.destroy_process_group()
