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

from muster.measure.timing import StepTimer
from muster.training.saving.files import Saved
from muster.training.strategies import parts
from muster.training.strategies.base import OWN, Strategy
from muster.training.strategies.flat import gradients_of, set_gradients, set_parameters

LEAD_MAX = 2
"""A wish to stop is heeded so many steps later at most: longer would be time that a preempted trial
does not have."""


class LocalSGD(Strategy):
    """Copies that are averaged every `sync_every` steps."""

    num_steps = 0

    @property
    def max_lead(self) -> int | None:
        # Between two exchanges nobody waits for anybody: not for the votes about stopping either.
        return min(self.options.sync_every - 1, LEAD_MAX)

    def compute_gradients(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        values = super().compute_gradients(x, y, timer)
        if self.num_steps < self.options.local_after and self.exchanges:
            with timer.backward():
                self._average_gradients()
        return values

    def update(self) -> float | None:
        norm = super().update()
        self.num_steps += 1
        if self.num_steps % self.options.sync_every == 0 and self.exchanges:
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

    def model_part(self) -> dict[str, Tensor]:
        with self.evaluating():
            if self.place.rank != 0:
                return {}
            return {n: v.clone() for n, v in super().model_part().items()}

    def optimizer_part(self) -> dict[str, Tensor]:
        """Return the optimizer's state of the first copy, for other strategies; {} on other
        ranks."""
        return super().optimizer_part() if self.place.rank == 0 else {}

    def own_part(self) -> dict[str, Tensor]:
        """This copy with its optimizer: they differ."""
        flat = parameters_to_vector(self.module.parameters()).detach()
        mine = {"parameters": flat} | {
            f"optimizer/{name}": value for name, value in super().optimizer_part().items()
        }
        return {f"copies/{self.place.rank}/{name}": value for name, value in mine.items()}

    def own_state(self) -> dict[str, Any]:
        return {
            **super().own_state(),
            "num_steps": self.num_steps,
            "num_copies": self.place.world_size,
            "groups": parts.groups_of(self.optimizer),
        }

    def load_own(self, state: Mapping[str, Any], saved: Saved) -> None:
        super().load_own(state, saved)
        self.num_steps = int(state["num_steps"])
        if state["num_copies"] == self.place.world_size:  # else all go on from the mean
            mine = f"{OWN}copies/{self.place.rank}"
            set_parameters(self.module, saved.read(f"{mine}/parameters").to(self.place.device))
            parts.load_optimizer(
                self.module, self.optimizer, saved, state["groups"], prefix=f"{mine}/optimizer/"
            )


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

    def load_model_part(self, saved: Saved) -> None:
        super().load_model_part(saved)
        parts.load_model(self._shared, saved)

    def own_part(self) -> dict[str, Tensor]:
        found = super().own_part()
        if self.place.rank == 0:  # the same everywhere
            found |= {f"outer/model/{n}": v for n, v in self._shared.state_dict().items()}
            outer = parts.optimizer_part(self._shared, self._outer)
            found |= {f"outer/optimizer/{n}": v for n, v in outer.items()}
        return found

    def load_own(self, state: Mapping[str, Any], saved: Saved) -> None:
        super().load_own(state, saved)
        shared = {n: saved.read(f"{OWN}outer/model/{n}") for n in self._shared.state_dict()}
        self._shared.load_state_dict(shared)
        parts.load_optimizer(
            self._shared,
            self._outer,
            saved,
            parts.groups_of(self._outer),
            prefix=f"{OWN}outer/optimizer/",
        )
