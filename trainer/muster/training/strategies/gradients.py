"""Norms of gradients that may be split over workers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from muster.training.saving.files import is_sharded


def local(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that lies on this rank."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def global_norm(parameters: Iterable[nn.Parameter], *, also_over: Any = None) -> float:
    """Return the 2-norm of the whole model's gradient, the same on every rank.

    Each rank adds up the squares of its shards; sums are then added over the mesh axes along which
    a gradient is split, and never over those along which it is repeated.

    also_over: a process group whose ranks hold different layers (the stages of a pipeline).
    """
    sums: dict[tuple[Any, ...], Tensor] = {}
    for parameter in parameters:
        grad = parameter.grad
        if grad is None:
            continue
        groups: tuple[Any, ...] = ()
        if is_sharded(grad):
            if any(p.is_partial() for p in grad.placements):
                grad = grad.redistribute(placements=parameter.placements)  # type: ignore[attr-defined]
                parameter.grad = grad
            groups = tuple(
                grad.device_mesh.get_group(axis)
                for axis, placement in enumerate(grad.placements)
                if not placement.is_replicate()
            )
        squares = local(grad).detach().double().square().sum()
        sums[groups] = sums.get(groups, torch.zeros_like(squares)) + squares
    total = 0.0
    device = None
    for groups, squares in sums.items():
        for group in groups:
            dist.all_reduce(squares, group=group)
        total += float(squares)
        device = squares.device
    if also_over is not None:
        both = torch.tensor(total, dtype=torch.float64, device=device)
        dist.all_reduce(both, group=also_over)
        total = float(both)
    return math.sqrt(total)


def scale(parameters: Iterable[nn.Parameter], factor: float) -> None:
    for parameter in parameters:
        if parameter.grad is not None:
            local(parameter.grad).mul_(factor)
