"""Parameter server: one worker keeps the model and updates it, the others compute gradients.

Split: the batch, over the workers other than rank 0, which is the server. Sent: each worker's
gradient to the server, and the parameters back: all of it through one node, which is why
all-reduce took over. In memory: P and G on the workers; P and the optimizer's state on the server.

Synchronous (`staleness: 0`): the server waits for all, averages and updates once, so the result is
that of data parallel. Asynchronous (`staleness: k`): it updates with each gradient as it comes and
answers at once; nobody waits for a slow worker until it is k steps behind. A gradient is then one of
older parameters; how many updates were made in between is reported as train/staleness_updates, and
how often which number came as staleness/*.

Unbounded (`staleness: unbounded`, Hogwild): a worker goes on however far behind another one is. They
meet where the trainer does something with all of them, before a validation or a checkpoint. Wishes to
stop travel with the gradients: the server ends its step, and tells each worker with the next answer
after how many steps of its own all stop; what slow workers were behind by then is left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from muster.measure import comm
from muster.measure.timing import StepTimer
from muster.training.saving.files import Saved
from muster.training.strategies.base import Strategy
from muster.training.strategies.flat import pieces, set_parameters

_VERSIONS = 2**23
"""Versions are counted modulo this, so that float32 holds them exactly."""
_PARTS = 2**20
"""Steps are sent in two parts, for the same reason."""
_HEAD = 3
"""Behind a gradient, before what the worker reports: its version, its vote, and whether it has come
to where all meet, in place of a gradient."""
_TAIL = 5
"""Behind parameters: version, staleness, the vote by which all stop, and after how many steps."""


class ParameterServer(Strategy):
    """Gradients to rank 0 and parameters back, point to point."""

    version = 0
    """On the server: updates made. On a worker: that of its parameters."""
    num_served = 0
    """On the server: steps since the start, of as many gradients as there are workers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[int] = []
        """Workers that wait for all others to reach the meeting point, on the server."""
        self._staleness: Counter[int] = Counter()
        self._rooms: list[Tensor] = []
        self._pulled: Tensor | None = None
        self._views: dict[int, list[Tensor]] = {}
        """Parts of each message (see `_pieces`), by its address. Messages live as long as this
        object."""

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
    def max_lead(self) -> int | None:
        lead = self.options.staleness
        return None if lead == "unbounded" else lead

    # ------------------------------------------------ training

    def step(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        """A worker computes a gradient and has it used; the server uses as many as there are
        workers, and returns the means of what they report."""
        if not self.module.training:
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
        message = self._room(0)
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self._parameters]
        torch._foreach_copy_(self._pieces(message), grads)
        self.optimizer.zero_grad(set_to_none=True)
        self.optimizer.step()  # does nothing here, but the learning rate's schedule expects it
        return self._ask(message, [self.version, self.vote, 0.0, *said])

    def _ask(self, message: Tensor, said: list[float]) -> float:
        message[self.num_params :] = message.new_tensor(said)
        with comm.named("ps_push"):
            dist.send(message, 0)
        answer = self._answers()
        with comm.named("ps_pull"):
            dist.recv(answer, 0)
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, self._pieces(answer))
        version, staleness, vote, high, low = answer[-_TAIL:].tolist()
        self.version = int(version)
        if vote > 0:
            self.agreed = int(vote), int(high) * _PARTS + int(low)
        return float(staleness)

    def _serve(self, timer: StepTimer) -> dict[str, float]:
        reports = []
        if self.options.staleness == 0:
            pushed = [self._room(number) for number in range(self.num_workers)]
            for worker, message in enumerate(pushed, start=1):
                with comm.named("ps_push"):
                    dist.recv(message, worker)
            total, *others = (m[: self.num_params] for m in pushed)
            for gradient in others:
                total += gradient
            self._apply(pushed[0], timer)
            for worker, message in enumerate(pushed, start=1):
                reports.append(self._answer(worker, message))
        else:
            while not reports or (len(reports) < self.num_workers and not self.vote):
                worker, message = self._next()
                if worker in self._waiting:
                    continue
                self._apply(message, timer)
                reports.append(self._answer(worker, message))
        self.num_served += 1
        if self.max_lead is None and self.vote:
            self._stop_all()
        means = torch.tensor(reports, dtype=torch.float64).mean(0).tolist()
        return dict(zip((*self.workload.names, "train/staleness_updates"), means, strict=True))

    def _room(self, number: int) -> Tensor:
        """Return a buffer for a message to the server, which is reused in each step.

        Allocating memory would cost as much as using it.
        """
        size = self.num_params + _HEAD + len(self.workload.names)
        while len(self._rooms) <= number:
            self._rooms.append(torch.empty(size, device=self.place.device))
        return self._rooms[number]

    def _answers(self) -> Tensor:
        """Return the buffer for a message from the server, which is reused in each step."""
        if self._pulled is None:
            self._pulled = torch.empty(self.num_params + _TAIL, device=self.place.device)
        return self._pulled

    @functools.cached_property
    def _parameters(self) -> list[Tensor]:
        return list(self.module.parameters())

    def _pieces(self, message: Tensor) -> list[Tensor]:
        """Return the parts of a room or an answer that are for the parameters, in their order."""
        found = self._views.get(message.data_ptr())
        if found is None:
            found = self._views[message.data_ptr()] = list(pieces(message, self._parameters))
        return found

    def _next(self) -> tuple[int, Tensor]:
        """Whichever message comes first, and whose it is; notes its vote, and who waits."""
        message = self._room(0)
        with comm.named("ps_push"):
            worker = int(dist.recv(message))
        _, vote, waits = message[self.num_params : self.num_params + _HEAD].tolist()
        if self.max_lead is None:
            self.vote = max(self.vote, int(vote))
        if waits:
            self._waiting.append(worker)
        return worker, message

    # ------------------------------------------------ all together, where nothing bounds a lead

    def meet(self) -> None:
        if not self.is_server:
            said = [0.0] * len(self.workload.names)
            self._ask(self._room(0).zero_(), [self.version, self.vote, 1.0, *said])
            return
        while len(self._waiting) < self.num_workers:
            self._next()
        if self.vote:
            self._stop_all()
            return
        for worker in self._waiting:
            self._send(worker, staleness=0)
        self._waiting.clear()

    def _stop_all(self) -> None:
        """Tell each worker, with the answer to what it sends next, after which step all stop."""
        self.agreed = self.vote, self.num_served
        for worker in self._waiting:
            self._send(worker, staleness=0)
        for _ in range(self.num_workers - len(self._waiting)):
            with comm.named("ps_push"):
                worker = int(dist.recv(self._room(0)))
            self._send(worker, staleness=0)
        self._waiting.clear()

    def _apply(self, message: Tensor, timer: StepTimer) -> None:
        """Update with the sum of gradients of shares that it begins with, which is used up. Divided by
        their number, so that the updates of one step together go as far as a synchronous one."""
        with timer.optimizer():
            if self.num_workers > 1:
                message[: self.num_params].div_(self.num_workers)
            for parameter, gradient in zip(self._parameters, self._pieces(message), strict=True):
                parameter.grad = gradient
            self.update()
            self.version = (self.version + 1) % _VERSIONS

    def _answer(self, worker: int, message: Tensor) -> list[float]:
        """Send the newest parameters. Returns what the worker reported, and its staleness."""
        # The newest update is this gradient's own.
        pushed_version, _, _, *said = message[self.num_params :].tolist()
        staleness = (self.version - 1 - int(pushed_version)) % _VERSIONS
        self._staleness[staleness] += 1
        self._send(worker, staleness=staleness)
        return [*said, float(staleness)]

    def _send(self, worker: int, *, staleness: int) -> None:
        answer = self._answers()
        with torch.no_grad():
            torch._foreach_copy_(self._pieces(answer), self._parameters)
        vote, after = self.agreed or (0, 0)
        said = [self.version, staleness, vote, *divmod(after, _PARTS)]
        answer[-_TAIL:] = answer.new_tensor(said)
        with comm.named("ps_pull"):
            dist.send(answer, worker)

    def counts(self) -> dict[str, float]:
        """Gradients by their staleness: each number up to 7, then 8 to 15, 16 to 31, and so on."""
        found: Counter[str] = Counter()
        for staleness, num in self._staleness.items():
            found[f"staleness/{bin_of(staleness)}"] += num
        return {name: float(num) for name, num in found.items()}

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

    def own_state(self) -> dict[str, Any]:
        return {**super().own_state(), "staleness": dict(self._staleness)}

    def load_own(self, state: Mapping[str, Any], saved: Saved) -> None:
        super().load_own(state, saved)
        if self.is_server:
            self._staleness = Counter(state.get("staleness", {}))


def bin_of(staleness: int) -> str:
    """Return the name of the bin of a histogram: "3", "8_15"."""
    if staleness < 8:
        return str(staleness)
    low = 1 << (staleness.bit_length() - 1)
    return f"{low}_{2 * low - 1}"
