"""Ranks, groups, collectives and point-to-point messages of the workers of a job."""

import torch
import torch.distributed as dist

import muster

dist.init_process_group(muster.backend("gloo"))
info = muster.rank_info()
rank, size = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {size}: worker {info.local_rank} of node {info.node_rank}")

# A group of each node, and one of the first worker of each: all ranks create all groups.
per_node = info.local_world_size
nodes = [
    dist.new_group(range(first, first + per_node), group_desc=f"node {first // per_node}")
    for first in range(0, size, per_node)
]
node = nodes[info.node_rank]
leaders = dist.new_group(range(0, size, per_node), group_desc="leaders")

# Collectives: everybody calls them, and everybody gets the result.
total = torch.tensor([float(rank)])
dist.all_reduce(total)
within = torch.tensor([float(rank)])
dist.all_reduce(within, group=node)
if info.local_rank == 0:
    dist.all_reduce(within, group=leaders)
dist.broadcast(within, src=info.node_rank * per_node, group=node)
assert within.item() == total.item() == size * (size - 1) / 2

gathered = [torch.zeros(1) for _ in range(size)]
dist.all_gather(gathered, torch.tensor([float(rank)]))
assert [int(value) for value in gathered] == list(range(size))

# Point to point: a ring, in which each rank sends to the next one.
received = torch.zeros(1)
sending = dist.isend(torch.tensor([float(rank)]), dst=(rank + 1) % size)
dist.recv(received, src=(rank - 1) % size)
sending.wait()
assert received.item() == (rank - 1) % size

muster.log({"sum": total.item(), "from_neighbor": received.item()}, step=0)
print(f"rank {rank}: sum {total.item():.0f}, got {received.item():.0f} from its neighbor")
dist.barrier()
dist.destroy_process_group()
