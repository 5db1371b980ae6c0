"""Asynchronous pipeline with weight stashing (PipeDream, Narayanan et al. 2019, arXiv:1806.03377).

Split and sent: as in pipeline.py. Each stage updates its weights after the backward of every
micro-batch, without waiting for the others. A micro-batch that is under way meanwhile has gone
forward with older weights; its backward needs just those, so each forward keeps a copy. In memory:
the own stage, and as many copies of its weights as there are micro-batches under way, most on the
first stage.

The pipeline runs empty at the end of each step, so that stops, validation and checkpoints see one
state; the more micro-batches a step has (`accumulate`), the less that costs.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from muster.measure.pipelining import Computing
from muster.measure.timing import StepTimer
from muster.training.strategies.base import Means
from muster.training.strategies.mesh import make_mesh
from muster.training.strategies.pipeline import Pipeline


class _UnderWay(NamedTuple):
    """A micro-batch between its forward and its backward on this stage."""

    x: Tensor
    weights: dict[str, Tensor]
    """What it went forward with; backward leaves the gradients there."""
    result: Tensor
    """Activations [n, …], or on the last stage the loss."""
    version: int
    number: int
    """Which micro-batch of the step."""


class AsyncPipeline(Pipeline):
    """One stage per worker, one forward and one backward in turn, an update after each backward."""

    version = 0
    """Updates made on this stage."""

    def share(self) -> None:
        self._check_share()
        self._divide(make_mesh(self.options, self.place))
        self._at = self.coordinates["pp"]
        self._part = self.module[0]

    # ------------------------------------------------ training

    def step(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        if not self.module.training:
            self.module.train()
        with timer.pipeline(self._at):
            self.timer = timer
            try:
                return self._through_and_back(x, y, timer)
            finally:
                self.timer = None

    def _through_and_back(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        self._means, staleness = Means(), []
        xs, ys = torch.split(x, self.micro_batch), torch.split(y, self.micro_batch)
        micros = list(zip(xs, ys, strict=True))
        under_way: deque[_UnderWay] = deque()
        self._sends = []
        num_forward = num_backward = 0
        while num_backward < len(micros):
            # The first backward comes when the first micro-batch has been to the end and back.
            room = len(under_way) < self._num_stages - self._at
            if room and num_forward < len(micros):
                self._micro = num_forward
                under_way.append(self._forward(*micros[num_forward], timer))
                num_forward += 1
            else:
                micro = under_way.popleft()
                self._micro = micro.number
                staleness.append(self.version - micro.version)
                self._backward(micro, timer)
                num_backward += 1
        for work, _ in self._sends:
            work.wait()
        values = self._sent_to_first_stage(self._means.values())
        return {**values, "train/staleness_updates": sum(staleness) / len(staleness)}

    def _forward(self, x: Tensor, y: Tensor, timer: StepTimer) -> _UnderWay:
        if not self._has_first:
            x = self._received(self._at - 1).requires_grad_()
        weights = {n: p.detach().clone().requires_grad_() for n, p in self._part.named_parameters()}
        with timer.forward(), self._operation("forward", timer):
            with self.casting():
                output: Tensor = functional_call(self._part, weights, (x,)).float()
            self.workload.before_forward()
            result = self._micro_loss(output, y) if self._has_last else output
        if not self._has_last:
            self._send(output.detach(), self._at + 1)
        return _UnderWay(x, weights, result, self.version, self._micro)

    def _operation(
        self, kind: Computing, timer: StepTimer
    ) -> contextlib.AbstractContextManager[None]:
        if self.place.device.type != "cpu":
            return contextlib.nullcontext()  # it computes later than it is told to
        return timer.operation(kind, stage=self._at, micro_batch=self._micro)

    def _backward(self, micro: _UnderWay, timer: StepTimer) -> None:
        gradient = None if self._has_last else self._received(self._at + 1)
        with timer.backward(), self._operation("backward", timer):
            micro.result.backward(gradient)  # type: ignore[no-untyped-call]
        if not self._has_first:
            assert micro.x.grad is not None
            self._send(micro.x.grad, self._at - 1)
        with timer.optimizer():
            for name, parameter in self._part.named_parameters():
                parameter.grad = micro.weights[name].grad
            self.update()
        self.version += 1
