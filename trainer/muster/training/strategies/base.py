"""The one interface between the training loop and the ways to share a model and its work.

The loop owns the order of things: data, steps, stops, evaluation, checkpoints. A strategy owns the
model, its optimizer and every exchange between workers. It is used in this order::

    strategy = create(options, place, workload)
    strategy.prepare(model)                  # wrap or shard; the same model on every rank
    strategy.make_optimizer(build)
    strategy.load_model(saved)               # when something is continued
    for ...:                                 # x, y: the share of strategy.data_rank
        values = strategy.step(x, y, timer)
        output = strategy.predict(x)
        tensors = strategy.model_part()

Everything but the properties is called by all ranks together.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from muster.document.strategy import StrategySection
from muster.document.strategy_rules import axes, coordinates
from muster.measure.timing import StepTimer
from muster.training.saving.files import Saved
from muster.training.strategies import gradients, parts
from muster.training.strategies.layers import compile_layers, recompute
from muster.training.strategies.local_update import LocalUpdate
from muster.training.strategies.precision import DTYPES, LossScale

OWN = "own/"
_EPSILON = 1e-6
"""Constant added to the norm, as in torch's clip_grad_norm_."""

BuildOptimizer = Callable[[nn.Module], torch.optim.Optimizer]
"""Makes the optimizer of (this rank's part of) a model."""


@dataclass(frozen=True, kw_only=True)
class RankPosition:
    """Where this worker stands."""

    rank: int
    world_size: int
    device: torch.device


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained, whoever does which part of it."""

    loss: Callable[[Tensor, Tensor], Tensor]
    """(output, target) of a micro-batch → its mean loss, a scalar."""
    measures: Callable[[Tensor, Tensor], Mapping[str, float]]
    """(output, target) → further means over the micro-batch, such as {"train/accuracy": 0.5}."""
    names: tuple[str, ...]
    """Names of the values that a step returns: "train/loss" and the measures."""
    sample: Callable[[int], tuple[Tensor, Tensor]]
    """(number of samples) → inputs and targets like those of training, for measuring and shapes."""
    batch_size: int
    """Samples per slot and micro-batch."""
    global_batch: int
    """Samples per optimizer step, of all workers."""
    before_forward: Callable[[], None] = lambda: None
    """Called in the forward of each micro-batch (delays put there deliberately)."""


class Strategy:
    """Trains a model on this worker together with the others. This base does everything for a
    model that is whole on each rank; subclasses change what they share."""

    module: nn.Module
    """The model as this rank holds it, with the names of the bare model: not a wrapper."""
    optimizer: torch.optim.Optimizer
    """Its learning rate is what a schedule sets."""
    num_params: int
    """Number of parameters of the whole model."""
    names: set[str]
    """Names in the state_dict of the whole model."""
    exchanges = True
    """False: gradients and parameters stay on this worker, to see what sending them costs. For
    strategies whose workers each hold a whole model (probes)."""
    vote = 0
    """Where max_lead is None: whether this rank wants to stop, as a vote of muster.sdk.stops. Set before
    each step."""
    agreed: tuple[int, int] | None = None
    """Where max_lead is None: the vote by which all ranks stop now, and after how many steps since
    the start that is. Set in `step` and `meet`."""
    _local_update: LocalUpdate | None = None
    casts_itself = False
    """Whether the wrapped model takes care of the precision."""

    def __init__(self, options: StrategySection, place: RankPosition, workload: Workload) -> None:
        self.options = options
        self.place = place
        self.workload = workload
        self.sizes = axes(options, place.world_size)
        """Sizes of the mesh's axes, by name."""
        self.coordinates = coordinates(self.sizes, place.rank)
        """Position of this worker on each axis, by name."""
        self.loss_scale = LossScale(options.precision)

    # ------------------------------------------------ who sees what

    @property
    def data_rank(self) -> int:
        """Which share of each global batch this rank sees. Ranks that hold parts of one model
        see the same share."""
        at = self.coordinates
        return at["replicate"] * self.sizes["shard"] + at["shard"]

    @property
    def data_world_size(self) -> int:
        """Into how many shares a global batch is dealt."""
        return self.sizes["replicate"] * self.sizes["shard"]

    @property
    def speaks(self) -> bool:
        """Whether this rank counts for its share: it knows the output, and of all ranks with the
        same share it is the only one that says so."""
        return True

    @property
    def computes(self) -> bool:
        """Whether this rank works on the samples of its share."""
        return True

    @property
    def max_lead(self) -> int | None:
        """How many steps a rank may be ahead of another. None: any number, and the strategy itself
        sees to it that all stop after the same step."""
        return 0

    def meet(self) -> None:
        """Wait until all ranks have reached this step, before they act together.

        Used only where max_lead is None.
        """

    @property
    def micro_batch(self) -> int:
        """Samples per micro-batch at most."""
        return self.workload.batch_size

    # ------------------------------------------------ set up

    def prepare(self, model: nn.Module) -> None:
        """Take the model, the same on every rank, and wrap or shard it."""
        self.num_params = sum(p.numel() for p in model.parameters())
        self.names = set(model.state_dict())
        if self.options.recompute:
            recompute(model)
        if self.options.compile:
            compile_layers(model, self.place.device)
        self.module = model
        self.share()

    def share(self) -> None:
        """Wrap or shard `module`."""

    def make_optimizer(self, build: BuildOptimizer) -> torch.optim.Optimizer:
        """Return the optimizer of what this rank updates. After `prepare`."""
        self.optimizer = build(self.module)
        self._local_update = LocalUpdate.of(self.optimizer)
        return self.optimizer

    # ------------------------------------------------ training

    def step(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        """Take one optimizer step on this rank's share of a global batch: x [n, …], y [n, …].

        Returns means over the share: "train/loss" and the workload's measures. Empty on ranks that do
        not see the output.
        """
        if not self.module.training:  # it goes through all modules
            self.module.train()
        values = self.compute_gradients(x, y, timer)
        with timer.optimizer():
            norm = self.update()
        return values if norm is None else {**values, "train/grad_norm": norm}

    def compute_gradients(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        """Forward and backward, micro-batch by micro-batch; gradients of all workers are combined
        with the last one.

        The share is cut into micro-batches of at most `micro_batch`, so with fewer workers than
        slots there are more of them. Each counts by its samples: shares differ by one when the
        global batch cannot be divided evenly, and gradients are averaged over shares.
        """
        means = Means()
        num_micro = math.ceil(len(x) / self.micro_batch)
        for i in range(num_micro):
            micro_x, micro_y = x[i::num_micro], y[i::num_micro]
            self.combine_in_backward(i == num_micro - 1)
            with timer.forward():
                output = self.forward(micro_x)
                loss = self.workload.loss(output, micro_y)
                self.workload.before_forward()
            weight = len(micro_x) * self.data_world_size / self.workload.global_batch
            with timer.backward():
                (loss * weight * self.loss_scale.value).backward()  # type: ignore[no-untyped-call]
            means.add(len(micro_x), loss, self.workload.measures(output.detach(), micro_y))
        return means.values()

    def combine_in_backward(self, last: bool) -> None:
        """Called before each micro-batch. Gradients stay local until the `last` one's backward:
        one exchange per step."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the model's output as float32, computed with the precision asked for."""
        if self.casts_itself or self.options.precision == "fp32":
            return self.run_model(x)
        with torch.autocast(self.place.device.type, DTYPES[self.options.precision]):
            output = self.run_model(x)
        return output.float()

    def run_model(self, x: Tensor) -> Tensor:
        output: Tensor = self.module(x)
        return output

    def update(self) -> float | None:
        """Use the gradients and clear them. Returns their norm before clipping, where it is known.

        A step whose gradients overflowed in fp16 is left out.
        """
        norm: float | None = None
        is_finite = True
        scale = self.loss_scale.value
        if self.options.clip_norm is not None or self.loss_scale.is_used:
            norm = self.grad_norm() / scale
            is_finite = math.isfinite(norm) or not self.loss_scale.is_used
            limit = self.options.clip_norm
            shrink = limit / (norm + _EPSILON) if limit is not None else 1.0
            gradients.scale(self.module.parameters(), min(shrink, 1.0) / scale)
        if is_finite:
            (self._local_update or self.optimizer).step()
        self.loss_scale.update(is_finite=is_finite)
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def grad_norm(self) -> float:
        """Return the norm of the whole model's gradient, which is the same on every rank."""
        return gradients.global_norm(self.module.parameters())

    def counts(self) -> dict[str, float]:
        """Return what this rank has counted since training began, reported with each validation."""
        return {}

    # ------------------------------------------------ evaluation

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor | None:
        """Return the model's output without dropout; None on ranks that do not see it.

        Ranks that share parameters must call it equally often.
        """
        self.module.eval()
        return self.forward(x)

    def evaluating(self) -> contextlib.AbstractContextManager[None]:
        """Around the calls of `predict` that judge the model."""
        return contextlib.nullcontext()

    # ------------------------------------------------ checkpoints

    def model_part(self) -> dict[str, Tensor]:
        """Return the tensors of the model's state_dict that this worker has to save.

        Those of all workers together are the whole model. Sharded tensors are DTensors; any other
        is the same on all workers that have it.
        """
        # Running statistics are of what a worker has seen: those of the first share count.
        return parts.model_part(self.module, buffers=self.data_rank == 0)

    def load_model(self, saved: Saved) -> None:
        """Take this worker's parts of the model, whatever strategy saved it. RuntimeError when it
        is of another model."""
        found = saved.names(parts.MODEL)
        if found != self.names:
            missing, unknown = sorted(self.names - found), sorted(found - self.names)
            raise RuntimeError(f"missing: {missing}, not known here: {unknown}")
        self.load_model_part(saved)

    def load_model_part(self, saved: Saved) -> None:
        parts.load_model(self.module, saved)

    def optimizer_part(self) -> dict[str, Tensor]:
        """Return the tensors of the optimizer's state that this worker has to save, like
        `model_part`."""
        return parts.optimizer_part(self.module, self.optimizer)

    def load_optimizer(self, saved: Saved, groups: list[dict[str, Any]]) -> None:
        """Take the state of this worker's parameters, whatever strategy saved it.

        groups: what `parts.groups_of` gave.
        """
        parts.load_optimizer(self.module, self.optimizer, saved, groups)

    def own_part(self) -> dict[str, Tensor]:
        """Return the other tensors that exact resumption needs.

        Another strategy ignores them, so only what can be rebuilt may be lost with them.
        """
        return {}

    def own_state(self) -> dict[str, Any]:
        """Return the other state that exact resumption needs and that is not a tensor. Only rank
        0's is saved."""
        return {"loss_scale": self.loss_scale.state()}

    def load_own(self, state: Mapping[str, Any], saved: Saved) -> None:
        """Take what the same kind of strategy saved: the tensors' names begin with OWN."""
        self.loss_scale.load(state["loss_scale"])


class Means:
    """Means over samples of what micro-batches report."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._num_samples = 0

    def add(self, num_samples: int, loss: Tensor, measures: Mapping[str, float]) -> None:
        for name, value in {"train/loss": float(loss.detach()), **measures}.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * num_samples
        self._num_samples += num_samples

    def values(self) -> dict[str, float]:
        """Empty when nothing was added."""
        return {name: total / self._num_samples for name, total in self._sums.items()}
