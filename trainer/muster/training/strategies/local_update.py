"""Optimizer steps on the parts of sharded parameters that a worker has.

AdamW, RAdam and SGD do to each element of a tensor what does not depend on the others. Given DTensors
they go through the dispatch of DTensor with every operation, a dozen per parameter, which costs more of
the processor than what they compute. Here they are given the local tensors of parameters, gradients and
state, which share their memory: the numbers are bitwise the same, and so is what is saved.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from muster.training.saving.files import is_sharded

ELEMENTWISE = (torch.optim.AdamW, torch.optim.RAdam, torch.optim.SGD)


class LocalUpdate:
    """Takes the place of `step` of an optimizer some of whose parameters are sharded."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._twin: torch.optim.Optimizer | None = None
        """Copy of the optimizer with local tensors, which share their memory with the
        original's."""
        self._begun: set[int] = set()
        """Parameters, by id, whose state the optimizer has made: a twin's own would be lost."""
        optimizer.register_load_state_dict_post_hook(lambda _: self._forget())

    @staticmethod
    def of(optimizer: torch.optim.Optimizer) -> LocalUpdate | None:
        """None where there is nothing to gain, or where the norm of a whole tensor counts."""
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        if type(optimizer) in ELEMENTWISE and any(is_sharded(p) for p in parameters):
            return LocalUpdate(optimizer)
        return None

    def _forget(self) -> None:
        self._twin = None
        self._begun.clear()

    @torch.no_grad()
    def step(self) -> None:
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        new = {id(p) for p in parameters if p.grad is not None} - self._begun
        if new:
            self._optimizer.step()
            self._twin = None
            self._begun |= new
            return
        if self._twin is None or not self._is_alike(self._twin):
            self._twin = self._made()
        for ours, theirs in zip(self._optimizer.param_groups, self._twin.param_groups, strict=True):
            theirs.update({name: value for name, value in ours.items() if name != "params"})
            for parameter, part in zip(ours["params"], theirs["params"], strict=True):
                if part is not parameter:
                    part.grad = _gradient(parameter)
        self._twin.step()
        for group in self._twin.param_groups:
            for part in group["params"]:
                part.grad = None

    def _is_alike(self, twin: torch.optim.Optimizer) -> bool:
        """Return whether the parameters are still at the same addresses."""
        return all(
            _local(parameter).data_ptr() == part.data_ptr()
            for ours, theirs in zip(self._optimizer.param_groups, twin.param_groups, strict=True)
            for parameter, part in zip(ours["params"], theirs["params"], strict=True)
        )

    def _made(self) -> torch.optim.Optimizer:
        groups: list[dict[str, Any]] = []
        state: dict[Tensor, dict[str, Any]] = {}
        for group in self._optimizer.param_groups:
            parts = [_local(p) for p in group["params"]]
            groups.append({**group, "params": parts})
            for parameter, part in zip(group["params"], parts, strict=True):
                if parameter in self._optimizer.state:
                    held = self._optimizer.state[parameter]
                    state[part] = {name: _local(value) for name, value in held.items()}
        kind: Any = type(self._optimizer)
        twin: torch.optim.Optimizer = kind(groups)
        twin.state.update(state)
        return twin


def _local(value: Any) -> Any:
    """Return the part of a sharded tensor that lies here; anything else is itself."""
    return value.to_local().detach() if is_sharded(value) else value


def _gradient(parameter: Tensor) -> Tensor | None:
    grad: Any = parameter.grad
    if not is_sharded(grad):
        return parameter.grad
    wanted = parameter.placements  # type: ignore[attr-defined]
    if grad.placements != wanted:  # sums that are still to be made
        grad = grad.redistribute(placements=wanted)
    part: Any = grad.to_local()
    # Of a collective that is under way.
    return part.wait() if hasattr(part, "wait") else part  # type: ignore[no-any-return]
