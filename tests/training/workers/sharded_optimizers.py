"""One of two ranks: steps of LARS and LAMB on halves of tensors against steps on the whole ones."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from muster.training.optimizers import LAMB, LARS

SHAPES = [((6, 4), Shard(0)), ((8, 2), Shard(1)), ((4,), Shard(0)), ((3, 5), Shard(0))]
"""The last one cannot be cut into equal halves."""


def train(kind: Any, options: dict[str, float], mesh: Any) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)

    def make(shape: tuple[int, ...], placement: Shard) -> torch.Tensor:
        whole = torch.randn(shape, generator=generator)
        return whole if mesh is None else distribute_tensor(whole, mesh, [placement])

    weights = [torch.nn.Parameter(make(*spec)) for spec in SHAPES]
    optimizer = kind(weights, weight_decay=0.1, **options)
    for _ in range(3):
        for weight, spec in zip(weights, SHAPES, strict=True):
            weight.grad = make(*spec)
        optimizer.step()
    return [w.detach() if mesh is None else w.detach().full_tensor() for w in weights]


rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
for kind, options in ((LARS, {"lr": 1.0, "trust": 0.1}), (LAMB, {"lr": 0.1})):
    whole, sharded = train(kind, options, None), train(kind, options, mesh)
    close = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(whole, sharded, strict=True))
    print(kind.__name__, "same" if close else "different", flush=True)
dist.destroy_process_group()
os._exit(0)  # gloo's threads are not waited for
