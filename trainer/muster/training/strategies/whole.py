"""State in the form of a whole model on one worker, whatever it is split into.

A model's state is its state_dict. An optimizer's is its state_dict too, but with the names of
parameters in place of numbers, so that a worker that holds a part finds its part.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """The state_dict, shards put together. All ranks that hold shards must call it."""
    return {name: gathered(value) for name, value in model.state_dict().items()}


def load_model_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a whole state_dict, each rank keeping its shards of it.

    Raises RuntimeError when names or shapes differ.
    """
    mine = model.state_dict()
    shards = {n: shard(v, mine[n]) if n in mine else v for n, v in state.items()}
    model.load_state_dict(shards)


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """{"state": {parameter name: {…}}, "param_groups": [{…, "params": [names]}]}, shards put
    together. All ranks that hold shards must call it."""
    names = _names(model, optimizer)
    given = optimizer.state_dict()
    state = {
        names[i]: {key: gathered(value) for key, value in entry.items()}
        for i, entry in given["state"].items()
    }
    groups = [g | {"params": [names[i] for i in g["params"]]} for g in given["param_groups"]]
    return {"state": state, "param_groups": groups}


def load_optimizer_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
) -> None:
    """Load what `optimizer_state` gave for the whole model into an optimizer of a part of it."""
    names = _names(model, optimizer)
    parameters = [p for g in optimizer.param_groups for p in g["params"]]
    entries = {
        i: {key: shard(value, parameters[i]) for key, value in state["state"][name].items()}
        for i, name in enumerate(names)
        if name in state["state"]
    }
    number = itertools.count()
    groups = [
        given | {"params": [next(number) for _ in mine["params"]]}
        for given, mine in zip(state["param_groups"], optimizer.param_groups, strict=True)
    ]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})


def is_sharded(value: Any) -> TypeGuard[DTensor]:
    """Whether it is a DTensor. Their module takes 0.7 s to import: only who shards does."""
    return hasattr(value, "full_tensor")


def gathered(value: Any) -> Any:
    return value.full_tensor() if is_sharded(value) else value


def shard(value: Any, like: Tensor) -> Any:
    """This rank's part of a whole tensor that belongs to `like`; anything else as it is."""
    if not is_sharded(like) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    # No exchange: every rank has read the whole.
    return distribute_tensor(
        value.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )


def _names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Names of the optimizer's parameters in the order of their numbers in its state_dict."""
    by_id = {id(p): name for name, p in model.named_parameters()}
    return [by_id[id(p)] for group in optimizer.param_groups for p in group["params"]]
