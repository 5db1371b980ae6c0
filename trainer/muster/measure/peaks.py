"""Peak operations per second of devices, from their makers."""

from __future__ import annotations

import sys
from typing import Any

PEAK_FLOPS: tuple[tuple[str, float], ...] = (
    ("B200", 2250e12),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("A10", 125e12),
    ("V100", 125e12),
    ("T4", 65e12),
    ("MI300X", 1307e12),
)
"""Peak operations per second by part of the device's name; the first match counts. They are for
16-bit matrix products without sparsity, from the makers' data sheets; MFU is by convention a
share of these, even where a training computes in 32 bits."""


def device_peak_flops() -> float | None:
    """Return the peak of the GPU this process uses; None for CPUs, for GPUs that are not in the
    list, and before CUDA is used. Imports nothing."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    return peak_flops_of(str(cuda.get_device_name()))


def peak_flops_of(name: str) -> float | None:
    """Return the peak of a device by the name its driver reports, such as "NVIDIA H100 80GB HBM3"."""
    words = name.replace("-", " ").split()
    for part, peak in PEAK_FLOPS:
        wanted = part.split()
        if all(word in words for word in wanted):
            return peak
    return None
