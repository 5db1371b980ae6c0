"""Parameter server: one worker keeps the model and updates it, the others compute gradients.

Split: the batch, over the workers other than rank 0, which is the server. Sent: each worker's
gradient to the server, and the parameters back: all of it through one node, which is why
all-reduce took over. In memory: P and G on the workers; P and the optimizer's state on the server.

Synchronous (`staleness: 0`): the server waits for all, averages and updates once, so the result is
that of data parallel. Asynchronous (`staleness: k`): it updates with each gradient as it comes and
answers at once; nobody waits for a slow worker until it is k steps behind. A gradient is then one of
older parameters; how many updates were made in between is reported as train/staleness_updates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from muster import comm
from muster.timing import StepTimer
from muster.training.strategies.base import Strategy
from muster.training.strategies.flat import gradients_of, set_gradients, set_parameters

_VERSIONS = 2**23
"""Versions are counted modulo this, so that float32 holds them exactly."""


class ParameterServer(Strategy):
    """Gradients to rank 0 and parameters back, point to point."""

    version = 0
    """On the server: updates made. On a worker: that of its parameters."""

    @property
    def is_server(self) -> bool:
        return self.place.rank == 0

    @property
    def num_workers(self) -> int:
        return self.place.world_size - 1

    @property
    def data_rank(self) -> int:
        return max(self.place.rank - 1, 0)

    @property
    def data_world_size(self) -> int:
        return self.num_workers

    @property
    def computes(self) -> bool:
        return not self.is_server

    @property
    def speaks(self) -> bool:
        return not self.is_server

    @property
    def max_lead(self) -> int:
        return self.options.staleness

    # ------------------------------------------------ training

    def step(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        """A worker computes a gradient and has it used; the server uses as many as there are
        workers, and returns the means of what they report."""
        self.module.train()
        if self.is_server:
            return self._serve(timer)
        values = self.compute_gradients(x, y, timer)
        with timer.optimizer():
            staleness = self._exchange(values)
        return {**values, "train/staleness_updates": staleness}

    def _exchange(self, values: dict[str, float]) -> float:
        """Push the gradient, pull the parameters. Returns how many updates were made since the
        parameters that the gradient is of were pulled."""
        said = [values[name] for name in self.workload.names]
        gradient = gradients_of(self.module)
        with comm.named("ps_push"):
            dist.send(torch.cat([gradient, gradient.new_tensor([self.version, *said])]), 0)
        self.optimizer.zero_grad(set_to_none=True)
        self.optimizer.step()  # does nothing here, but the learning rate's schedule expects it
        answer = gradient.new_empty(len(gradient) + 2)
        with comm.named("ps_pull"):
            dist.recv(answer, 0)
        set_parameters(self.module, answer[:-2])
        self.version = int(answer[-2])
        return float(answer[-1])

    def _serve(self, timer: StepTimer) -> dict[str, float]:
        size = self.num_params + 1 + len(self.workload.names)
        pushed = [torch.empty(size, device=self.place.device) for _ in range(self.num_workers)]
        reports = []
        if self.options.staleness == 0:
            for worker, message in enumerate(pushed, start=1):
                with comm.named("ps_push"):
                    dist.recv(message, worker)
            self._apply(torch.stack([m[: self.num_params] for m in pushed]).sum(0), timer)
            for worker, message in enumerate(pushed, start=1):
                reports.append(self._answer(worker, message))
        else:
            for message in pushed:
                with comm.named("ps_push"):
                    worker = dist.recv(message)
                self._apply(message[: self.num_params], timer)
                reports.append(self._answer(worker, message))
        means = torch.tensor(reports, dtype=torch.float64).mean(0).tolist()
        return dict(zip((*self.workload.names, "train/staleness_updates"), means, strict=True))

    def _apply(self, gradient: Tensor, timer: StepTimer) -> None:
        """Update with a sum of gradients of shares. Divided by their number, so that the updates
        of one step together go as far as a synchronous one."""
        with timer.optimizer():
            set_gradients(self.module, gradient / self.num_workers)
            self.update()
            self.version = (self.version + 1) % _VERSIONS

    def _answer(self, worker: int, message: Tensor) -> list[float]:
        """Send the newest parameters. Returns what the worker reported, and its staleness."""
        # The newest update is this gradient's own.
        pushed_version, *said = message[self.num_params :].tolist()
        staleness = (self.version - 1 - int(pushed_version)) % _VERSIONS
        flat = parameters_to_vector(self.module.parameters()).detach()
        with comm.named("ps_pull"):
            dist.send(torch.cat([flat, flat.new_tensor([self.version, staleness])]), worker)
        return [*said, float(staleness)]

    # ------------------------------------------------ evaluation

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """The server's model is what is judged; workers go on from it."""
        flat = parameters_to_vector(self.module.parameters()).detach()
        news = torch.cat([flat, flat.new_tensor([self.version])])
        dist.broadcast(news, 0)
        if not self.is_server:
            set_parameters(self.module, news[:-1])
            self.version = int(news[-1])
        yield

    # ------------------------------------------------ checkpoints

    def model_part(self) -> dict[str, Tensor]:
        """The server's: a worker's is as old as its last exchange."""
        return super().model_part() if self.is_server else {}

    def optimizer_part(self) -> dict[str, Tensor]:
        return super().optimizer_part() if self.is_server else {}
