"""Optimizers by name: SGD, AdamW and RAdam of torch, and LARS and LAMB for large batches.

LARS and LAMB scale the step of each tensor by the norm of its weights against that of its update.
The norm has to be that of the whole tensor. Sharded tensors (DTensor: fully sharded and tensor
parallel) are asked for it, which makes every rank of the mesh add up its part; an optimizer that
shares out whole tensors (ZeRO, pipeline stages) has them whole. A flat buffer that holds parts of
several tensors would give wrong norms, and is used by no strategy here.

The libraries that have both were considered: timm's needs torchvision, and those of
pytorch-optimizer 4.1 raise errors for sharded tensors (`aten.clamp_`, `aten._foreach_copy_`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from muster.document.train_config import TrainConfig


def build(config: TrainConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer that `config` names, over the parameters of `model`, which may be
    sharded."""
    lr = config.lr
    groups = parameter_groups(
        model, weight_decay=config.weight_decay, matrices_only=config.decay_matrices_only
    )
    betas = (config.beta1, config.beta2)
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=config.momentum, nesterov=config.nesterov)
    if config.optimizer == "radam":
        return torch.optim.RAdam(groups, lr=lr, betas=betas, decoupled_weight_decay=True)
    if config.optimizer == "lars":
        return LARS(groups, lr=lr, momentum=config.momentum, trust=config.trust)
    if config.optimizer == "lamb":
        return LAMB(groups, lr=lr, betas=betas)
    return torch.optim.AdamW(groups, lr=lr, betas=betas)


def parameter_groups(
    model: nn.Module, *, weight_decay: float, matrices_only: bool
) -> list[dict[str, Any]]:
    """Return all parameters in one group; with `matrices_only` those with less than two dimensions
    (biases, and scales of norms) in a second one without weight decay."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not matrices_only:
        return [{"params": parameters, "weight_decay": weight_decay}]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class _ByTensor(torch.optim.Optimizer, ABC):
    """Updates one tensor after the other, each by norms of its own."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(group, weight, weight.grad)
        return result

    @abstractmethod
    def _update(self, group: dict[str, Any], weight: Tensor, grad: Tensor) -> None:
        """Change `weight` in place."""


class LARS(_ByTensor):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, arXiv:1708.03888, equations
    5 and 6, algorithm 1), for a weight w with gradient g:

        λ = trust × ‖w‖ / (‖g‖ + weight_decay × ‖w‖)
        v ← momentum × v + lr × λ × (g + weight_decay × w);  w ← w − v

    λ is 1 where one of the norms is 0, and for tensors with less than two dimensions (biases and
    scales of norms), as is usual since MLPerf's reference. Those take steps of lr itself: choose
    `trust` so that lr is one that plain SGD could use, or warm up.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], weight: Tensor, grad: Tensor) -> None:
        decay = group["weight_decay"]
        update = grad.add(weight, alpha=decay) if decay else grad.clone()
        if weight.ndim >= 2:
            weight_norm, grad_norm = norm(weight), norm(grad)
            update.mul_(
                _ratio(group["trust"] * weight_norm, grad_norm + decay * weight_norm, weight_norm)
            )
        state = self.state[weight]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(weight)
        velocity = state["velocity"]
        velocity.mul_(group["momentum"]).add_(update, alpha=group["lr"])
        weight.sub_(velocity)


class LAMB(_ByTensor):
    """Layer-wise adaptive moments (You et al. 2020, arXiv:1904.00962, algorithm 2, φ(z) = z), for a
    weight w with gradient g at step t:

        m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²
        u = (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + eps) + weight_decay × w
        w ← w − lr × (‖w‖ / ‖u‖) × u

    The ratio is 1 where one of the norms is 0, and for tensors with less than two dimensions.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], weight: Tensor, grad: Tensor) -> None:
        state = self.state[weight]
        if not state:
            state["step"] = torch.tensor(0.0)  # a tensor on the CPU, as in torch's own optimizers
            state["mean"] = torch.zeros_like(weight)
            state["square"] = torch.zeros_like(weight)
        beta1, beta2 = group["betas"]
        mean, square = state["mean"], state["square"]
        state["step"] += 1
        steps = state["step"].item()
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = (square / (1 - beta2**steps)).sqrt_().add_(group["eps"])
        update = (mean / (1 - beta1**steps)).div_(root)
        if group["weight_decay"]:
            update.add_(weight, alpha=group["weight_decay"])
        if weight.ndim >= 2:
            weight_norm, update_norm = norm(weight), norm(update)
            update.mul_(_ratio(weight_norm, update_norm, weight_norm))
        weight.sub_(update, alpha=group["lr"])


def norm(tensor: Tensor) -> Tensor:
    """Euclidean norm of the whole tensor, float32 scalar, the same on every rank that holds a part
    of it. All of them must call it."""
    found = torch.linalg.vector_norm(tensor, dtype=torch.float32)
    # Asked for what it can do: to import DTensor takes a quarter of what torch takes.
    whole: Callable[[], Tensor] = getattr(found, "full_tensor", lambda: found)
    return whole()


def _ratio(over: Tensor, under: Tensor, weight_norm: Tensor) -> Tensor:
    """over / under, and 1 where the weight's norm or `under` is 0. No transfer from the device."""
    return torch.where((weight_norm > 0) & (under > 0), over / under, torch.ones_like(over))
