"""A script that says nothing of Muster: DDP, a DataLoader, a validation. Rank 1's data are late."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
DELAY_S = float(os.environ["DELAY_S"])


class Digits(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return 80

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        if rank == 1 and torch.is_grad_enabled():
            time.sleep(DELAY_S / 4)  # of a sample; four are a batch
        return torch.full((16,), float(i % 7)), torch.tensor(i % 3)


torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Digits()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
loss = torch.zeros(1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for _ in loader:
            time.sleep(10 * DELAY_S / len(loader))

assert dist.get_backend() == "gloo"
dist.barrier()
print(f"loss {loss.item():.9f}", flush=True)
dist.destroy_process_group()
