"""How long collectives of all workers take by themselves, by kind and size.

A training shows the few sizes that it sends. Latency and bandwidth cannot be told from each other by
them: of one size, both together are all that is seen. So a short run that is to say how a training scales
(`trainer.options.time_network`) tries some sizes of its own when its last step is done.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

KINDS = ("all_reduce", "all_gather")
"""Collectives that send gradients and sharded parameters. Over gloo a reduce_scatter is an
all_reduce."""
SIZES_BYTES = (4 * 1024, 64 * 1024, 1024 * 1024)
"""Sizes of the tensor that is reduced, or of the result of a gather."""
WARM_UPS = 2
MIN_TIMES, MAX_TIMES = 5, 40
BUDGET_S = 0.4
"""Time spent per kind and size, unless MIN_TIMES repetitions take longer."""


def metric(kind: str, num_bytes: int) -> str:
    """Return the name of the reported metric, which is in ms."""
    return f"network/{kind}/{num_bytes}/ms"


def time_network(device: torch.device) -> dict[str, float]:
    """metric → ms: the median over some tens of times, of the worker for which it is longest. Every
    worker calls it, with nothing else to send meanwhile; all get the same."""
    world_size = dist.get_world_size()
    found: dict[str, float] = {}
    for kind in KINDS:
        for size in SIZES_BYTES:
            num = max(size // 4 // world_size, 1)
            whole = torch.zeros(num * world_size, device=device)
            part = torch.zeros(num, device=device)

            def send(
                kind: str = kind, whole: torch.Tensor = whole, part: torch.Tensor = part
            ) -> None:
                if kind == "all_reduce":
                    dist.all_reduce(whole)
                else:
                    dist.all_gather_into_tensor(whole, part)

            found[metric(kind, 4 * num * world_size)] = _median_ms(send, device)
    return found


def network_facts(*, interfaces: Path = Path("/sys/class/net")) -> dict[str, float]:
    """Return what this host knows of the interface that gloo uses: `network/mtu_bytes`, and
    `network/link_mbit_per_s` of a physical one whose driver says it or `network/is_loopback`. Empty
    where the interface is unknown. Virtual interfaces give a made-up rate."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    folder = interfaces / name
    found: dict[str, float] = {}
    mtu = _number_in(folder / "mtu") if name else None
    if mtu is None:
        return found
    found["network/mtu_bytes"] = mtu
    if name == "lo":
        found["network/is_loopback"] = 1.0
    elif (folder / "device").exists() and (rate := _number_in(folder / "speed")) is not None:
        found["network/link_mbit_per_s"] = rate
    return found


def _number_in(path: Path) -> float | None:
    """Return the positive number in a file; None if there is none."""
    try:
        value = float(path.read_text())
    except (OSError, ValueError):
        return None
    return value if value > 0 else None


def _median_ms(send: Callable[[], None], device: torch.device) -> float:
    first = [_took_s(send, device) for _ in range(WARM_UPS)]
    each_s = _longest(first[-1], device)
    num = min(max(int(BUDGET_S / each_s), MIN_TIMES), MAX_TIMES)
    return 1e3 * _longest(statistics.median(_took_s(send, device) for _ in range(num)), device)


def _took_s(send: Callable[[], None], device: torch.device) -> float:
    began = time.perf_counter()
    send()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def _longest(seconds: float, device: torch.device) -> float:
    """Return the largest value among all workers, so that all of them continue in the same way;
    above 0."""
    told = torch.tensor([seconds], dtype=torch.float64, device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return max(float(told.item()), 1e-9)
