"""A worker that calls everything of muster.hvd and checks what it gives."""

from __future__ import annotations

import torch

import muster.hvd as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
assert (size, hvd.local_rank(), hvd.local_size()) == (2, rank, 2)
assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)

own = torch.tensor([1.0, 3.0]) * (rank + 1)
assert hvd.allreduce(own).tolist() == [1.5, 4.5], "an average, as in Horovod"
assert hvd.allreduce(own, op=hvd.Sum).tolist() == [3.0, 9.0]
assert hvd.allreduce(own, average=False).tolist() == [3.0, 9.0]
assert hvd.allreduce(torch.tensor([rank + 1])).tolist() == [1]
assert own.tolist() == [1.0 * (rank + 1), 3.0 * (rank + 1)], "what was given stays"
ragged = torch.full((rank + 1, 2), float(rank))
assert hvd.allgather(ragged).tolist() == [[0, 0], [1, 1], [1, 1]]
assert hvd.broadcast(torch.tensor([rank]), root_rank=1).tolist() == [1]
assert hvd.broadcast_object({"rank": rank}) == {"rank": 0}
assert hvd.allgather_object(rank) == [0, 1]


def train(*, every: int, compression: torch.dtype | None = hvd.Compression.none) -> torch.nn.Module:
    """Train on this worker's half of each batch; parameters begin differently."""
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if rank == 0:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    wrapped = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=every,
        compression=compression,
    )
    for x, y in DATA[rank::2]:
        wrapped.zero_grad()
        (model(x) - y).square().mean().backward()
        wrapped.step()
    return model


def alone(every: int) -> torch.nn.Module:
    """Train on whole batches in one process, from what rank 0 begins with."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for i in range(0, len(DATA), 2 * every):
        optimizer.zero_grad()
        for x, y in DATA[i : i + 2 * every]:
            ((model(x) - y).square().mean() / (2 * every)).backward()
        optimizer.step()
    return model


generator = torch.Generator().manual_seed(5)
DATA = [
    (torch.randn(6, 4, generator=generator), torch.randn(6, 1, generator=generator))
    for _ in range(16)
]
for every in (1, 2):
    ours, expected = train(every=every), alone(every)
    for a, b in zip(ours.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
halved = train(every=1, compression=hvd.Compression.fp16)
for a, b in zip(halved.parameters(), alone(1).parameters(), strict=True):
    torch.testing.assert_close(a, b, rtol=0.1, atol=0.05)
hvd.barrier()
hvd.shutdown()
print("fine")
