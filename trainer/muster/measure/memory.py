"""Memory use of this process. Never waits for an accelerator and never imports torch."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

from muster.measure.collectives import now_ns

_EVERY_NS = 1_000_000_000
_cache: tuple[int, dict[str, float]] = (0, {})
"""Time of the reading, and its values."""


def values() -> dict[str, float]:
    """Return the metrics memory/*, at most a second old: reading them takes the kernel 0.1 ms for a
    process of some hundred MB.

    memory/rss_bytes: resident now (0 where the system does not say); memory/rss_peak_bytes: most so
    far. With CUDA in use also what torch's allocator has given to tensors now and at most
    (memory/allocated_bytes, memory/peak_bytes), and what it holds of the device
    (memory/reserved_bytes).
    """
    global _cache
    now = now_ns()
    if not _cache[1] or now - _cache[0] > _EVERY_NS:
        _cache = (now, {**_host(), **_device()})
    return _cache[1]


def _host() -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "memory/rss_bytes": float(_rss_bytes()),
        "memory/rss_peak_bytes": float(peak * (1 if sys.platform == "darwin" else 1024)),
    }


def _device() -> dict[str, float]:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    return {
        "memory/allocated_bytes": float(cuda.memory_allocated()),
        "memory/reserved_bytes": float(cuda.memory_reserved()),
        "memory/peak_bytes": float(cuda.max_memory_allocated()),
    }


def _rss_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 — half the cost of Path.open
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
