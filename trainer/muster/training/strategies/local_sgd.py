"""Local SGD: workers train copies by themselves and average them now and then.

Split: the batch. Sent: the parameters, one all-reduce every `sync_every` steps, in place of gradients
in every step. In memory on each worker: a whole model and its optimizer state, each its own.

Post-local SGD (`local_after`): gradients are averaged in every step up to that one, copies drift
only afterwards. DiLoCo (`diloco`, Douillard et al. 2023, arXiv:2311.08105): what the copies have
moved on average since the last exchange is taken as a gradient, with which an outer optimizer, SGD
with Nesterov momentum, moves the model that all go on from.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from muster import comm
from muster.timing import StepTimer
from muster.training.strategies import whole
from muster.training.strategies.base import Strategy
from muster.training.strategies.flat import gradients_of, set_gradients, set_parameters


class LocalSGD(Strategy):
    """Copies that are averaged every `sync_every` steps."""

    num_steps = 0

    def compute_gradients(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        values = super().compute_gradients(x, y, timer)
        if self.num_steps < self.options.local_after:
            with timer.backward():
                self._average_gradients()
        return values

    def update(self) -> float | None:
        norm = super().update()
        self.num_steps += 1
        if self.num_steps % self.options.sync_every == 0:
            self.synchronise()
        return norm

    def synchronise(self) -> None:
        """Let all copies be the same."""
        set_parameters(self.module, self._mean())

    def _average_gradients(self) -> None:
        flat = gradients_of(self.module)
        dist.all_reduce(flat)
        set_gradients(self.module, flat / self.place.world_size)

    def _mean(self) -> Tensor:
        """Parameters, flat, averaged over copies."""
        flat = parameters_to_vector(self.module.parameters()).detach()
        dist.all_reduce(flat)
        return flat / self.place.world_size

    # ------------------------------------------------ evaluation and checkpoints

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """The mean of the copies is what is judged; each copy goes on from where it is."""
        mine = parameters_to_vector(self.module.parameters()).detach().clone()
        set_parameters(self.module, self._mean())
        try:
            yield
        finally:
            set_parameters(self.module, mine)

    def model_state(self) -> dict[str, Tensor]:
        with self.evaluating():
            return {n: v.clone() for n, v in super().model_state().items()}

    def own_state(self) -> dict[str, Any]:
        """Each copy with its optimizer: they differ."""
        mine = {
            "parameters": parameters_to_vector(self.module.parameters()).detach(),
            "optimizer": whole.optimizer_state(self.module, self.optimizer),
        }
        is_first = self.place.rank == 0
        copies: list[Any] | None = [None] * self.place.world_size if is_first else None
        dist.gather_object(mine, copies, dst=0, group=comm.control_group())
        return {**super().own_state(), "num_steps": self.num_steps, "copies": copies}

    def load_own_state(self, state: Mapping[str, Any]) -> None:
        super().load_own_state(state)
        self.num_steps = int(state["num_steps"])
        if len(state["copies"]) == self.place.world_size:  # else all go on from the mean
            mine = state["copies"][self.place.rank]
            set_parameters(self.module, mine["parameters"].to(self.place.device))
            whole.load_optimizer_state(self.module, self.optimizer, mine["optimizer"])


class DiLoCo(LocalSGD):
    """Local steps, and an outer optimizer that uses what they have done as a gradient."""

    def share(self) -> None:
        self._shared = copy.deepcopy(self.module)
        """What all copies began from after the last exchange."""
        self._outer = torch.optim.SGD(
            self._shared.parameters(),
            lr=self.options.outer_lr,
            momentum=self.options.outer_momentum,
            nesterov=self.options.outer_momentum > 0,
        )

    def synchronise(self) -> None:
        # Downhill is from where all began to where the copies are on average.
        set_gradients(self._shared, self._shared_flat() - self._mean())
        self._outer.step()
        set_parameters(self.module, self._shared_flat())

    def _shared_flat(self) -> Tensor:
        return parameters_to_vector(self._shared.parameters()).detach()

    def load_model_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_model_state(state)
        whole.load_model_state(self._shared, state)

    def own_state(self) -> dict[str, Any]:
        outer = {
            "model": self._shared.state_dict(),
            "optimizer": self._outer.state_dict(),
        }
        return {**super().own_state(), "outer": outer}

    def load_own_state(self, state: Mapping[str, Any]) -> None:
        super().load_own_state(state)
        self._shared.load_state_dict(state["outer"]["model"])
        self._outer.load_state_dict(state["outer"]["optimizer"])
