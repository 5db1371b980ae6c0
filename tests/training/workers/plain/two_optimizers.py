"""A script that says nothing of Muster: two optimizers step in turn, and later one of them alone."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

first, second = nn.Linear(8, 8), nn.Linear(8, 1)
optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (first, second)]
loader = DataLoader(TensorDataset(torch.randn(60, 8)), batch_size=6)
for i in range(2):
    for (x,) in loader:
        for optimizer in optimizers[i:]:
            second(first(x)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
