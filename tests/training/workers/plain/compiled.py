"""A script that says nothing of Muster, and has torch compile the model, then the optimizer, then all."""

import torch
from torch._dynamo.utils import counters

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
fast = torch.compile(model, backend="eager", fullgraph=True)
step = torch.compile(optimizer.step, backend="eager")


def train(x: torch.Tensor) -> torch.Tensor:
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


for i in range(4):
    fast(torch.full((4, 16), float(i))).square().mean().backward()
    step()
    optimizer.zero_grad()
train_fast = torch.compile(train, backend="eager")
for _ in range(3):
    print(f"told loss {train_fast(torch.ones(4, 16)).item():.9f}", flush=True)
print(f"told {dict(counters['stats'])}", flush=True)
