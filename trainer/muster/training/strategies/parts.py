"""What a worker has of a model and its optimizer, under the names they have in the whole model.

A tensor's name is that of the parameter or buffer; of the optimizer's state it is that of the
parameter, `/`, and the optimizer's own name for it. So a worker that holds other parts, or more or
fewer of them, finds what it needs.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from muster.sdk.shards import MODEL as MODEL
from muster.training.saving.files import Saved

OPTIMIZER = "optimizer/"


def model_part(model: nn.Module, *, buffers: bool) -> dict[str, Tensor]:
    """Return the part of the model's state_dict that this worker has to save.

    buffers: include the buffers, because this worker's are the ones that count.
    """
    parameters = {name for name, _ in model.named_parameters()}
    return {n: v for n, v in model.state_dict().items() if buffers or n in parameters}


def load_model(model: nn.Module, saved: Saved) -> None:
    """Take this worker's parts. Raises KeyError and RuntimeError when names or shapes differ."""
    wanted = {MODEL + n: v for n, v in model.state_dict().items()}
    read = saved.read_like(wanted)
    model.load_state_dict({n.removeprefix(MODEL): v for n, v in read.items()})


def optimizer_part(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """parameter name/key → tensor, of the parameters whose state this worker has.

    Raises TypeError for a state that is no tensor: it could not be told apart by worker.
    """
    found = {}
    for name, parameter in _parameters(model, optimizer):
        for key, value in optimizer.state.get(parameter, {}).items():
            if value is None:
                continue  # of sgd without momentum
            if not isinstance(value, Tensor):
                raise TypeError(f"{type(optimizer).__name__} keeps {key!r}, which is no tensor")
            found[f"{name}/{key}"] = value
    return found


def groups_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the settings of its parameter groups, which are the same on all workers."""
    return [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]


def load_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    saved: Saved,
    groups: list[dict[str, Any]],
    *,
    prefix: str = OPTIMIZER,
    mine: set[str] | None = None,
) -> None:
    """Take the state of this worker's parameters, those in `mine` or all it has."""
    parameters = _parameters(model, optimizer)
    keys: dict[str, list[str]] = {}
    for stored in saved.names(prefix):
        name, _, key = stored.rpartition("/")
        keys.setdefault(name, []).append(key)
    wanted: dict[str, Tensor] = {}
    for name, parameter in parameters:
        for key in keys.get(name, ()) if mine is None or name in mine else ():
            stored = f"{prefix}{name}/{key}"
            shape = saved.shape(stored)
            # What has the parameter's shape is sharded like it.
            wanted[stored] = (
                parameter if shape == parameter.shape else torch.empty(shape, device="meta")
            )
    entries: dict[int, dict[str, Tensor]] = {}
    numbers = {name: i for i, (name, _) in enumerate(parameters)}
    for stored, value in saved.read_like(wanted).items():
        name, _, key = stored.removeprefix(prefix).rpartition("/")
        entries.setdefault(numbers[name], {})[key] = value
    number = itertools.count()
    settings = [
        given | {"params": [next(number) for _ in own["params"]]}
        for given, own in zip(groups, optimizer.param_groups, strict=True)
    ]
    optimizer.load_state_dict({"state": entries, "param_groups": settings})


def _parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, Tensor]]:
    """Return the names and parameters in the order of their numbers in the optimizer's
    state_dict."""
    by_id = {id(p): name for name, p in model.named_parameters()}
    return [(by_id[id(p)], p) for group in optimizer.param_groups for p in group["params"]]
