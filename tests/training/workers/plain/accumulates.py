"""A script that says nothing of Muster: DDP that accumulates gradients, with several buckets and buffers."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)) for _ in range(4)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.02)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    for micro in range(3):
        with model.no_sync() if micro < 2 else contextlib.nullcontext():
            model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 2 == 1:
        with torch.no_grad():
            loss = model.module(torch.randn(8, 64)).square().mean()
        dist.reduce(loss, dst=0)
dist.destroy_process_group()
