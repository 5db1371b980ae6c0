"""A script that says nothing of Muster, and sleeps for another time in each phase of a step.

Prints the phases' true times of each step, by its own clock, and how long it was ready to run and
waited for a processor in each ("held"), all in ms.
"""

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

truth: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
step = 1


@contextlib.contextmanager
def taking(phase: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        truth[step][phase] += 1e3 * (time.perf_counter() - began)


def nap(phase: str, s: float) -> None:
    with taking(phase):
        time.sleep(s)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            # Checkpointing calls this once in the forward and once more in the backward.
            nap("backward" if torch._C._current_graph_task_id() != -1 else "forward", 0.06)
        return self.inner(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            nap("forward", 0.03)
            x = checkpoint(self.block, x, use_reentrant=False)
            x.register_hook(lambda _: nap("backward", 0.09))
            return x
        return self.block(x)


class Unlucky(nn.Module):
    def forward(self) -> None:
        nap("forward", 0.08)
        raise ValueError


class Slow:
    def __reduce__(self) -> tuple[type, tuple[()]]:
        nap("checkpoint", 0.12)
        return Slow, ()


def evaluate(model: nn.Module) -> None:
    with torch.no_grad():
        model(torch.ones(2, 8))
        nap("no_grad", 0.15)


def work(s: float) -> None:
    """Keep the processor busy for so long, by the thread's own clock."""
    ends = time.thread_time() + s
    while time.thread_time() < ends:
        pass


def held_ms() -> float:
    """Return how long this thread has waited for a processor so far; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e6
    except FileNotFoundError:
        return 0.0


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
held_out = DataLoader([torch.ones(8)] * 4, batch_size=2)
held = held_ms()
for step in range(1, 10):
    nap("idle", 0.1)  # waits for a batch made by hand
    with taking("busy"):
        work(0.02)
    y = model(torch.ones(2, 8))
    loss = nn.functional.mse_loss(y, torch.zeros(2, 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    held_before, held = held, held_ms()
    truth[step]["held"] = held - held_before
    step += 1
    if step % 4 == 0:
        evaluate(model)
        with contextlib.suppress(ValueError):
            Unlucky()()
    if step % 5 == 0:
        torch.save({"model": model.state_dict(), "slow": Slow()}, "model.pt")
    if step % 6 == 0:
        with torch.inference_mode():
            for batch in held_out:
                model(batch)
                nap("validation", 0.08)
        nap("idle", 0.08)
print("truth " + json.dumps(truth), flush=True)
