"""A script that says nothing of Muster: gradients averaged by hand, in groups of its own, asynchronously."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
pair = dist.new_group(list(range(world)), group_desc="pair")
alone = [dist.new_group([r]) for r in range(world)][rank]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 4))
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0, group=pair)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    model(torch.randn(6, 12) + rank).square().mean().backward()
    works = []
    for no, parameter in enumerate(model.parameters()):
        assert parameter.grad is not None
        parameter.grad /= world
        group = pair if no % 2 else dist.group.WORLD
        works.append(dist.all_reduce(parameter.grad, group=group, async_op=True))
    for work in works:
        work.wait()
    optimizer.step()
    optimizer.zero_grad()
    norms = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(norms, torch.ones(1) * step, group=pair)
    dist.all_reduce(torch.ones(3, dtype=torch.float64), group=alone)
    everyone = torch.zeros(2 * world, dtype=torch.int64)
    dist.all_to_all_single(everyone, torch.arange(2 * world), group=pair)
dist.destroy_process_group()
