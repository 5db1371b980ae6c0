"""Parameters and gradients of a model as one vector each, to be sent in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector


def pieces(flat: Tensor, like: Iterable[Tensor]) -> Iterator[Tensor]:
    """Views of a vector in the shapes of `like`, in order."""
    start = 0
    for tensor in like:
        yield flat[start : start + tensor.numel()].view_as(tensor)
        start += tensor.numel()


@torch.no_grad()
def set_parameters(model: nn.Module, flat: Tensor) -> None:
    parameters = list(model.parameters())
    for parameter, value in zip(parameters, pieces(flat, parameters), strict=True):
        parameter.copy_(value)


def gradients_of(model: nn.Module) -> Tensor:
    """Return all gradients; zeros where a parameter has none."""
    found = (p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters())
    return parameters_to_vector(found)


def set_gradients(model: nn.Module, flat: Tensor) -> None:
    """Gradients become parts of `flat`, which is not to be used for anything else until they have
    been."""
    parameters = list(model.parameters())
    for parameter, value in zip(parameters, pieces(flat, parameters), strict=True):
        parameter.grad = value
