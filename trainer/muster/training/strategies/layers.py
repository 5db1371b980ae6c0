"""The layers of a model, which strategies treat one by one."""

from __future__ import annotations

import functools

from torch import nn
from torch.utils.checkpoint import checkpoint


def layers(model: nn.Module) -> list[nn.Module]:
    """The blocks of a model that has `blocks`; of a plain sequence, its members with parameters;
    else nothing."""
    members: object = getattr(model, "blocks", model)
    if isinstance(members, nn.ModuleDict):  # those of a pipeline's stage
        members = list(members.values())
    if not isinstance(members, nn.ModuleList | nn.Sequential | list):
        return []
    return [m for m in members if any(True for _ in m.parameters())]


def recompute(model: nn.Module) -> None:
    """Keep only the input of each layer for backward, which computes the layer again, with the
    same random numbers. Names of parameters stay."""
    for layer in layers(model):
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
