"""Sizes as people read and write them: "1.2 MB", "50GB"."""

from __future__ import annotations

import re

UNITS_BYTES = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
MAX_SIZE_BYTES = 2**53
SIZE_EXAMPLES = "write a size such as 500MB, 50GB or 1.5TiB"
_SIZE = re.compile(r"(\d{1,16}(?:\.\d{1,6})?) ?([A-Za-z]{0,3})")


def byte_size(num_bytes: int) -> str:
    """Return a size for people, in powers of 1000, for example "1.2 MB"."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def parse_size(text: str) -> int:
    """Return a size in bytes, at least 1 and at most MAX_SIZE_BYTES. Units are those of SI (kB, MB, GB, TB)
    and their binary forms (KiB, MiB, GiB, TiB), in any case; without one the number is of bytes.

    Raises ValueError, whose text follows the name of the field.
    """
    found = _SIZE.fullmatch(text.strip())
    unit = UNITS_BYTES.get(found[2].upper()) if found is not None else None
    if found is None or unit is None:
        raise ValueError("is not a size")
    size = round(float(found[1]) * unit)
    if not 1 <= size <= MAX_SIZE_BYTES:
        raise ValueError("must be between 1 byte and 9,007 TB")
    return size
