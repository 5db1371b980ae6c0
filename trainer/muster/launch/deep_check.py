"""A thorough check of the devices of this machine: do they compute, keep and move data correctly?

Run by `muster node check --deep`. On a machine without CUDA devices it checks the processors in the same
way. Every result is known beforehand and exact, so there is no tolerance.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZE = 2_048
"""Rows of the matrices: a power of two."""
MEMORY_SHARE = 0.8
"""Share of a device's free memory that is written and read back."""
CPU_BYTES = 256 * 2**20
"""Bytes that are written and read back on processors."""
CHUNK_BYTES = 256 * 2**20
PAIR_TIMEOUT_S = 60.0
NUM_VALUES = 2**22
KERNEL_LOG = Path("/dev/kmsg")


@dataclass(frozen=True, kw_only=True)
class DeepFinding:
    """Result of one check of one device, or of a pair."""

    device: str
    check: str
    problem: str
    """What is wrong, as a clause; "" for nothing."""
    figure: str = ""
    """What was measured."""


def devices() -> list[str]:
    """Return the devices to check, as torch names them."""
    import torch

    if not torch.cuda.is_available():
        return ["cpu"]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def check_all(names: list[str]) -> Iterator[DeepFinding]:
    """Check these devices one after the other, and then every pair of them."""
    for name in names:
        for check, carry_out in (
            ("matrix products", check_products),
            ("memory pattern", check_memory),
            ("copies", check_copies),
        ):
            try:
                problem, figure = carry_out(name)
            except Exception as error:
                problem, figure = (
                    f"failed: {str(error).splitlines()[0] if str(error) else error!r}",
                    "",
                )
            yield DeepFinding(device=name, check=check, problem=problem, figure=figure)
    pairs = list(itertools.combinations(names, 2)) or [(names[0], names[0])] * (names == ["cpu"])
    for pair in pairs:
        problem, figure = check_pair(pair)
        label = " and ".join(pair) if pair[0] != pair[1] else f"two processes on {pair[0]}"
        yield DeepFinding(device=label, check="all-reduce", problem=problem, figure=figure)


def check_products(
    device: str, multiply: Callable[[Any, Any], Any] | None = None
) -> tuple[str, str]:
    """Multiply matrices whose product is known: a Hadamard matrix with its transpose is a multiple of
    the unit matrix. Return the problem and the speed."""
    import torch

    rows = torch.arange(SIZE, device=device)
    signs = rows[:, None] & rows[None, :]
    for shift in (8, 4, 2, 1):  # the parity of the bits
        signs = signs ^ (signs >> shift)
    hadamard = 1.0 - 2.0 * (signs & 1)
    expected = SIZE * torch.eye(SIZE, device=device)
    began = time.perf_counter()
    for kind in (torch.float32, torch.bfloat16):
        one = hadamard.to(kind)
        product = (multiply or torch.matmul)(one, one.T).float()
        num_wrong = int((product != expected).sum().item())
        if num_wrong:
            return f"{num_wrong:,} of {SIZE**2:,} values of a product in {kind} are wrong", ""
    elapsed_s = time.perf_counter() - began
    return "", f"{2 * 2 * SIZE**3 / elapsed_s / 1e9:,.0f} GFLOP/s, starting included"


def check_memory(device: str, num_bytes: int | None = None) -> tuple[str, str]:
    """Write patterns to memory and read them back. Return the problem and how much was checked."""
    import torch

    if num_bytes is None:
        is_cuda = device.startswith("cuda")
        free = torch.cuda.mem_get_info(device)[0] if is_cuda else 0
        num_bytes = int(free * MEMORY_SHARE) if is_cuda else CPU_BYTES
    size = min(CHUNK_BYTES, num_bytes) // 8
    chunks = [
        torch.empty(size, dtype=torch.int64, device=device) for _ in range(num_bytes // 8 // size)
    ]
    places = torch.arange(size, dtype=torch.int64, device=device)
    for pattern in (0x5555555555555555, -0x5555555555555556, None):
        for number, chunk in enumerate(chunks):
            chunk.copy_(places + number * size) if pattern is None else chunk.fill_(pattern)
        for number, chunk in enumerate(chunks):
            wanted = places + number * size if pattern is None else pattern
            num_wrong = int((chunk != wanted).sum().item())
            if num_wrong:
                return f"{num_wrong:,} words of memory did not keep what was written", ""
    return "", f"{len(chunks) * size * 8 / 2**30:.1f} GiB"


def check_copies(device: str) -> tuple[str, str]:
    """Copy to the device, on it and back. Return the problem and the speeds."""
    import torch

    source = torch.randint(2**62, (CHUNK_BYTES // 8,))
    figures = []
    began = time.perf_counter()
    there = source.to(device, copy=True)
    _wait(device)
    figures.append(f"to it {_rate(began)}")
    began = time.perf_counter()
    copied = there.clone()
    _wait(device)
    figures.append(f"on it {_rate(began)}")
    began = time.perf_counter()
    back = copied.to("cpu", copy=True)
    figures.append(f"from it {_rate(began)}")
    return ("" if torch.equal(source, back) else "what came back is not what was sent"), ", ".join(
        figures
    )


def _wait(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def _rate(began: float) -> str:
    return f"{CHUNK_BYTES / (time.perf_counter() - began) / 1e9:.1f} GB/s"


def check_pair(pair: tuple[str, str]) -> tuple[str, str]:
    """Sum over two processes, each on one of the devices. Return the problem and the time."""
    with tempfile.TemporaryDirectory(prefix="muster-check-") as folder:
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "muster.launch.deep_check",
                    f"{folder}/store",
                    str(rank),
                    name,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, name in enumerate(pair)
        ]
        said = []
        try:
            for process in processes:
                out, err = process.communicate(timeout=2 * PAIR_TIMEOUT_S)
                words = err.strip().splitlines()
                if process.returncode:
                    return f"failed: {words[-1] if words else process.returncode}", ""
                said.append(float(out))
        except subprocess.TimeoutExpired:
            return f"did not end within {2 * PAIR_TIMEOUT_S:g} s", ""
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    return "", f"{max(said):.1f} ms for {NUM_VALUES * 4 // 2**20} MiB"


def _take_part(store: str, rank: int, device: str) -> None:
    import torch
    import torch.distributed as dist

    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if device.startswith("cuda") else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=2,
        timeout=dt.timedelta(seconds=PAIR_TIMEOUT_S),
    )
    for _ in range(2):  # connections are made by the first
        values = torch.arange(NUM_VALUES, device=device, dtype=torch.float32) % 1000 + rank
        _wait(device)
        began = time.perf_counter()
        dist.all_reduce(values)
        _wait(device)
        took_ms = (time.perf_counter() - began) * 1000
    expected = 2 * (torch.arange(NUM_VALUES, device=device, dtype=torch.float32) % 1000) + 1
    if not torch.equal(values, expected):
        raise SystemExit("the sum is wrong")
    dist.destroy_process_group()
    sys.stdout.write(f"{took_ms}\n")


def note_passed(names: list[str], log: Path = KERNEL_LOG) -> bool:
    """Write to the kernel log which CUDA devices have passed: the agent of this machine then forgets
    their XID errors. Return whether that was allowed; only root may."""
    import torch

    lines = []
    for name in names:
        if name.startswith("cuda"):
            facts: Any = torch.cuda.get_device_properties(name)
            lines.append(passed_line(facts.pci_domain_id, facts.pci_bus_id, facts.pci_device_id))
    try:
        fd = os.open(log, os.O_WRONLY)
    except OSError:
        return False
    try:
        for line in lines:
            os.write(fd, line.encode())
    finally:
        os.close(fd)
    return True


def passed_line(domain: int, bus: int, device: int) -> str:
    """Return the line that says that the device at this PCI address has passed."""
    return f"muster: GPU at PCI:{domain:04x}:{bus:02x}:{device:02x} passed its check\n"


if __name__ == "__main__":
    _take_part(sys.argv[1], int(sys.argv[2]), sys.argv[3])
