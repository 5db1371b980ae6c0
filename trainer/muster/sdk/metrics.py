"""Metric names and values. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MEASURED = ("time/", "comm/", "throughput/", "memory/", "pipeline/", "progress/", "network/")
"""Prefixes of the names of metrics that Muster measures by itself."""
MAX_NAME_LENGTH = 200
_ALLOWED = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_./-]+")


class Row(NamedTuple):
    """Values of one worker at one step."""

    step: int
    time_ms: int
    """Unix time in milliseconds."""
    values: dict[str, float]
    """May hold NaN and infinities: a diverged loss is data."""
    epoch: float | None = None
    num_steps_planned: int | None = None


@functools.lru_cache(maxsize=4_096)
def clean_name(name: str) -> str:
    """Return `name` as it is stored: letters, digits, `_ . -`, parts separated by single slashes.

    Everything else becomes `_`; a name with nothing left becomes `unnamed`.
    """
    if len(name) <= MAX_NAME_LENGTH and _ALLOWED.fullmatch(name):
        return name
    parts = [p for p in _NOT_ALLOWED.sub("_", name).split("/") if p]
    return "/".join(parts)[:MAX_NAME_LENGTH].rstrip("/") or "unnamed"


def to_float(value: Any) -> float:
    """Return the float behind a number, a numpy scalar or a one-element tensor.

    Reading a tensor on an accelerator waits for it. Raises TypeError or ValueError for anything
    that is not one number.
    """
    if type(value) is float:
        return value
    detach = getattr(value, "detach", None)
    # float() of a tensor that requires grad makes torch warn.
    return float(detach() if detach is not None else value)


def clean_values(values: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return names and values as they are stored, and one sentence per change that this needed."""
    cleaned: dict[str, float] = {}
    problems: list[str] = []
    for name, value in values.items():
        good_name = clean_name(str(name))
        if good_name != name:
            problems.append(f"metric name {name!r} is reported as {good_name!r}")
        try:
            cleaned[good_name] = to_float(value)
        except (TypeError, ValueError, RuntimeError):
            problems.append(f"metric {name!r} is not one number and is left out")
    return cleaned, problems
