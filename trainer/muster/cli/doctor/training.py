"""The trainings of `muster doctor`, which know nothing of Muster: `training.py CASE STEPS`, by torchrun.

Each prints `loss VALUE` at its end, and runs on the CUDA device of its rank if it sees one.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

WIDTH, BATCH = 256, 16
FIRST_TIMED = 20
"""Step from which the rate is of; those before pay for connections and caches."""
HANGS_AT = 8
"""Step at which rank 1 leaves out what all others wait for, in the case `hangs`."""


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def wrapped(case: str, device: torch.device) -> Any:
    model = layers().to(device)
    if case == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        return model
    if case == "compiled":
        model.compile(backend="inductor" if device.type == "cuda" else "eager")
    ids = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(model, device_ids=ids)


def replay_graph(device: torch.device) -> None:
    """Capture a product as a CUDA graph and replay it beside the training."""
    x = torch.ones(WIDTH, WIDTH, device=device)
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x @ x
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x @ x
    graph.replay()
    assert float(y.sum()) == float(WIDTH**3), "a replayed graph computes something else"


def train(case: str, steps: int) -> float:
    on_device = torch.cuda.is_available()
    device = (
        torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_device else torch.device("cpu")
    )
    if on_device:
        torch.cuda.set_device(device)
    backend = "nccl" if on_device else "gloo"
    dist.init_process_group("cpu:gloo,cuda:nccl" if case == "mixed" else backend)
    rank = dist.get_rank()
    model = wrapped(case, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draw = torch.Generator().manual_seed(rank)
    loss = torch.zeros(())
    began = time.perf_counter()
    for step in range(1, steps + 1):
        if step == FIRST_TIMED:
            loss.item()  # what a GPU was given before is done
            began = time.perf_counter()
        x = torch.randn(BATCH, WIDTH, generator=draw).to(device)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if case == "hangs" and step >= HANGS_AT and rank == 1:
            time.sleep(3600)
        if case == "graph" and step == 2 and on_device:
            replay_graph(device)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
    value = loss.detach().double()
    value.item()
    took_s = time.perf_counter() - began
    if rank == 0 and steps > FIRST_TIMED:
        print(f"rate {(steps - FIRST_TIMED + 1) / took_s:.3f} steps/s", flush=True)
    dist.all_reduce(value)
    dist.destroy_process_group()
    return value.item() / int(os.environ["WORLD_SIZE"])


def openable_devices() -> list[str]:
    """Return the files of NVIDIA devices that this process may open."""
    found = sorted(path for path in Path("/dev").glob("nvidia[0-9]*"))
    return [path.name for path in found if os.access(path, os.R_OK | os.W_OK)]


if __name__ == "__main__":
    print(f"devices {' '.join(openable_devices())}", flush=True)
    print(f"loss {train(sys.argv[1], int(sys.argv[2])):.9f}", flush=True)
