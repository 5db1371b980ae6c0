"""Trainings whose loss of time is known: `train.py CASE FOLDER [sdk]`, one worker or torchrun's two.

Plain scripts to Muster; with `sdk` they mark their phases. Each writes to truth-RANK.json in the folder what
the parts of its steps took by its own clock, from the end of the first step to the end of the last.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
WIDTH = 16


class Truth:
    """What a step's parts took, by name, in ms."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0
        self.parts: dict[str, float] = defaultdict(float)
        self.each: list[float] = []
        """Time that this rank was late, step by step."""

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began, began_cpu = time.perf_counter(), time.thread_time()
        yield
        if not self.began or self.ended:
            return
        ms, cpu_ms = 1e3 * (time.perf_counter() - began), 1e3 * (time.thread_time() - began_cpu)
        if (
            name == "outside"
        ):  # on a busy machine, computing is idle while others have the processor
            self.parts["outside_busy"] += cpu_ms
            self.parts["outside_idle"] += ms - cpu_ms
        self.parts[name] += ms

    def sleep(self, name: str, s: float) -> None:
        with self(name):
            time.sleep(s)

    def write(self, folder: str, steps: int) -> None:
        told = {
            "step": 1e3 * (self.ended - self.began) / steps,
            "parts": {name: ms / steps for name, ms in self.parts.items()},
            "late": self.each,
        }
        Path(folder, f"truth-{RANK}.json").write_text(json.dumps(told))


truth = Truth()


def compute(ms: float) -> None:
    """Keep the processor busy for so long, by the thread's own clock."""
    ends = time.thread_time() + ms / 1e3
    while time.thread_time() < ends:
        pass


class Model(nn.Module):
    """Sleeps or computes, and has a layer to train."""

    def __init__(self, *, nap_ms: float = 0.0, busy_ms: float = 0.0, width: int = WIDTH) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.nap_ms, self.busy_ms, self.width = nap_ms, busy_ms, width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.nap_ms / 1e3)
        compute(self.busy_ms)
        y: torch.Tensor = self.layer(x)
        return y


class Samples(Dataset[torch.Tensor]):
    def __init__(self, num: int, nap_ms: float) -> None:
        self.num, self.nap_ms = num, nap_ms

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, i: int) -> torch.Tensor:
        time.sleep(self.nap_ms / 1e3)
        return torch.full((WIDTH,), float(i % 7))


class Training:
    """The loop that all of them have; each replaces a piece of it."""

    steps = 60
    nap_ms = 20.0
    busy_ms = 0.0
    """How long the model sleeps and computes in a step."""

    def __init__(self, folder: str, *, with_sdk: bool) -> None:
        self.folder, self.with_sdk = folder, with_sdk
        self.timer: Any = None
        self.model: Any = self.make_model()
        self.trained: Any = self.model
        if SIZE > 1:
            dist.init_process_group("gloo")
            self.trained = DistributedDataParallel(self.model)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def make_model(self) -> nn.Module:
        return Model(nap_ms=self.nap_ms, busy_ms=self.busy_ms)

    def batches(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.ones(2, WIDTH)

    def mark(self, phase: str) -> contextlib.AbstractContextManager[None]:
        return self.timer.phase(phase) if self.timer is not None else contextlib.nullcontext()

    def learn(self, x: torch.Tensor, step: int) -> None:
        with truth("computing"), self.mark("forward"):
            loss = self.trained(x).square().mean()
        # Over two workers it is short, and waits for the other.
        with truth("computing" if SIZE == 1 else "backward"), self.mark("backward"):
            loss.backward()

    def update(self) -> None:
        with truth("optimizer"), self.mark("optimizer"):
            self.optimizer.step()

    def after(self, step: int) -> None:
        """What follows a step; counts in the next one."""

    def train(self) -> None:
        batches = iter(self.batches())
        for step in range(1, self.steps + 1):
            with self.mark("data_wait"):
                x = next(batches)
            self.learn(x, step)
            self.update()
            if self.timer is not None:
                self.timer.end_step(step)
            if step == self.steps:
                break
            if step == 1:
                if self.with_sdk:
                    import muster

                    self.timer = muster.StepTimer()
                truth.began = time.perf_counter()
            self.optimizer.zero_grad()
            self.after(step)
        truth.ended = time.perf_counter()
        truth.write(self.folder, self.steps - 1)
        if SIZE > 1:
            dist.destroy_process_group()

    def be_late(self, ms: float) -> None:
        """Sleep, and note for how long in this step."""
        began = time.perf_counter()
        time.sleep(ms / 1e3)
        truth.each.append(1e3 * (time.perf_counter() - began))


class Loader(Training):
    num_workers = 0

    def batches(self) -> Iterator[torch.Tensor]:
        data = Samples(2 * self.steps, 15.0)
        loader = iter(DataLoader(data, batch_size=2, num_workers=self.num_workers))
        while True:
            with truth("data"):
                x = next(loader)
            yield x


class LoaderWorker(Loader):
    nap_ms = 5.0
    num_workers = 1


class HandSleeps(Training):
    def batches(self) -> Iterator[torch.Tensor]:
        while True:
            truth.sleep("outside", 0.03)
            yield torch.ones(2, WIDTH)


class HandComputes(Training):
    def batches(self) -> Iterator[torch.Tensor]:
        while True:
            with truth("outside"):
                compute(30)
                x = torch.ones(2, WIDTH)
            yield x


class SleepsAtTheEnd(Training):
    def after(self, step: int) -> None:
        truth.sleep("outside", 0.04)


class EvaluatesByHand(Training):
    steps = 81

    def after(self, step: int) -> None:
        if step % 10 == 0:
            self.model.eval()
            with truth("no_grad"), torch.no_grad(), self.mark("no_grad"):
                for _ in range(10):
                    self.model(torch.ones(2, WIDTH))
                    time.sleep(0.02)
            self.model.train()


class EvaluatesWithALoader(Training):
    steps = 81

    def after(self, step: int) -> None:
        if step % 10 == 0:
            with contextlib.ExitStack() as stack:
                stack.enter_context(truth("validation"))
                if self.timer is not None:
                    stack.enter_context(self.timer.pause())
                with torch.no_grad():
                    for x in DataLoader(Samples(20, 10.0), batch_size=2):
                        self.model(x)


class LogsOnOneRank(Training):
    def after(self, step: int) -> None:
        self.be_late(30 if RANK == 0 else 0)
        if RANK == 0:
            print(f"step {step}", flush=True)


class PausesNowAndThen(Training):
    nap_ms = 40.0

    def after(self, step: int) -> None:
        self.be_late(300 if RANK == 0 and step % 5 == 0 else 0)


class IsAlwaysLate(Training):
    def after(self, step: int) -> None:
        self.be_late(40 if RANK == 1 else 0)


class IsLateByTurns(Training):
    nap_ms = 40.0

    def after(self, step: int) -> None:
        self.be_late(60 if step % 2 == RANK else 0)


class IsLateInBursts(Training):
    nap_ms = 40.0

    def after(self, step: int) -> None:
        self.be_late(80 if RANK == 1 and step % 20 >= 12 else 0)


class HasVariableLengths(Training):
    """Each rank's batch is of another length; who has the longer one is chance."""

    nap_ms = 0.0

    def learn(self, x: torch.Tensor, step: int) -> None:
        ms = random.Random(f"{step} {RANK}").choice((40, 60, 120))
        self.model.nap_ms = float(ms)
        if step > 1:
            truth.each.append(float(ms))
        super().learn(x, step)


class SavesNowAndThen(Training):
    def after(self, step: int) -> None:
        if step % 5 == 0:
            state = {"model": self.model.state_dict(), "slow": SlowToSave()}
            with truth("checkpoint"), self.mark("checkpoint"):
                torch.save(state, Path(self.folder) / f"model-{RANK}.pt")


class SlowToSave:
    def __reduce__(self) -> tuple[type, tuple[()]]:
        time.sleep(0.15)
        return SlowToSave, ()


class SmallMessages(Training):
    """Both ranks in step, so that nobody waits for the other for long."""

    nap_ms = 10.0
    num = 60
    numel = 1

    def after(self, step: int) -> None:
        sent = torch.ones(self.numel)
        dist.barrier()
        with truth("communication"):
            for _ in range(self.num):
                dist.all_reduce(sent)


class LargeMessage(SmallMessages):
    num = 1
    numel = 16_000_000


class Barriers(Training):
    nap_ms = 10.0

    def after(self, step: int) -> None:
        dist.barrier()
        with truth("communication"):
            for _ in range(60):
                dist.barrier()


class WaitsLater(Training):
    def after(self, step: int) -> None:
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        truth.sleep("outside", 0.04)
        work.wait()


class Recomputes(Training):
    busy_ms = 15.0
    nap_ms = 0.0

    def learn(self, x: torch.Tensor, step: int) -> None:
        with truth("computing"):
            with self.mark("forward"):
                x.requires_grad_()
                loss = checkpoint(self.trained, x, use_reentrant=False).square().mean()
            with self.mark("backward"):
                loss.backward()


class Pipeline(Training):
    """Rank 0 hands what it computed to rank 1, which hands the gradient back."""

    nap_ms = 30.0

    def __init__(self, folder: str, *, with_sdk: bool) -> None:
        super().__init__(folder, with_sdk=with_sdk)
        self.trained = self.model

    def learn(self, x: torch.Tensor, step: int) -> None:
        staged = self.timer.pipeline(RANK) if self.timer is not None else contextlib.nullcontext()
        with staged:
            if RANK == 0:
                with self.mark("forward"):
                    y = self.model(x)
                dist.send(y.detach(), 1)
                slope = torch.empty_like(y)
                with truth("bubble"):
                    dist.recv(slope, 1)
                with self.mark("backward"):
                    y.backward(slope)
            else:
                given = torch.empty(2, WIDTH)
                with truth("bubble"):
                    dist.recv(given, 0)
                given.requires_grad_()
                with self.mark("forward"):
                    loss = self.model(given).square().mean()
                with self.mark("backward"):
                    loss.backward()
                dist.send(given.grad if given.grad is not None else given, 0)


class Accumulates(Training):
    nap_ms = 0.0
    busy_ms = 10.0

    def learn(self, x: torch.Tensor, step: int) -> None:
        for last in (False, False, True):
            alone = contextlib.nullcontext() if last else self.trained.no_sync()
            with alone:
                super().learn(x, step)


class Computes(Training):
    nap_ms = 0.0
    busy_ms = 30.0


class OptimizesForLong(Training):
    nap_ms = 5.0

    def make_model(self) -> nn.Module:
        return nn.ModuleDict({"used": Model(nap_ms=5.0), "unused": nn.Linear(2000, 2000)})

    def __init__(self, folder: str, *, with_sdk: bool) -> None:
        super().__init__(folder, with_sdk=with_sdk)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def learn(self, x: torch.Tensor, step: int) -> None:
        with self.mark("forward"):
            loss = self.model["used"](x).square().mean()
        with self.mark("backward"):
            loss.backward()
        for parameter in self.model["unused"].parameters():
            parameter.grad = torch.ones_like(parameter)


class CopiesOnTheHost(Training):
    nap_ms = 5.0
    large = torch.ones(8_000_000)

    def after(self, step: int) -> None:
        with truth("outside"):
            for _ in range(3):
                self.large = self.large.clone()


class HasNoModule(Training):
    def make_model(self) -> nn.Module:
        return nn.Linear(600, 600)

    def learn(self, x: torch.Tensor, step: int) -> None:
        weight = self.model.weight
        with truth("outside"):
            y = torch.ones(600, 600)
            for _ in range(10):
                y = torch.tanh(y @ weight)
            loss: Any = y.square().mean()
        loss.backward()


class IsCompiled(Training):
    nap_ms = 0.0

    def make_model(self) -> nn.Module:
        return nn.Sequential(*[nn.Linear(400, 400) for _ in range(6)])

    def __init__(self, folder: str, *, with_sdk: bool) -> None:
        super().__init__(folder, with_sdk=with_sdk)
        self.trained = torch.compile(self.model, backend="eager")

    def batches(self) -> Iterator[torch.Tensor]:
        x = torch.ones(400, 400)
        while True:
            yield x


class HasATeacher(Training):
    nap_ms = 10.0

    def __init__(self, folder: str, *, with_sdk: bool) -> None:
        super().__init__(folder, with_sdk=with_sdk)
        self.teacher = Model(nap_ms=30.0)

    def learn(self, x: torch.Tensor, step: int) -> None:
        with truth("no_grad"), torch.no_grad(), self.mark("no_grad"):
            self.teacher(x)
        super().learn(x, step)


CASES: dict[str, type[Training]] = {
    kind.__name__: kind
    for kind in globals().copy().values()
    if isinstance(kind, type) and issubclass(kind, Training)
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    CASES[sys.argv[1]](sys.argv[2], with_sdk="sdk" in sys.argv[3:]).train()
