"""Numbers in JSON, those that are not finite among them."""

from __future__ import annotations

import math

Number = float | int | str
"""A finite number, or "NaN" | "Infinity" | "-Infinity"."""

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode_number(value: float) -> Number:
    """Return the wire form of `value`: itself if finite, else its name as a string."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def decode_number(value: Number) -> float:
    """Return the float behind a wire number. Raises ValueError for anything else."""
    if isinstance(value, str):
        if value not in _NON_FINITE:
            raise ValueError(f"not a number on the wire: {value!r}")
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"not a number on the wire: {value!r}")
    return float(value)
