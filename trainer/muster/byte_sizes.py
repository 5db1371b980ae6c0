"""Sizes for people."""

from __future__ import annotations


def byte_size(num_bytes: int) -> str:
    """Return a size for people, in powers of 1000, for example "1.2 MB"."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
