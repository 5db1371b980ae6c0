"""A script that makes a StepTimer of its own, in the middle of its training."""

import torch
from torch import nn

import muster

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train_one() -> None:
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()


for _ in range(3):
    train_one()
timer = muster.StepTimer(max_rows_per_s=0)
for step in range(100, 105):
    train_one()
    timer.end_step(step, samples=4)
