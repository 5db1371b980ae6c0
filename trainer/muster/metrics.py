"""Metric names, values and the averaging of several steps into one row. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MEASURED = ("time/", "comm/", "throughput/", "memory/", "pipeline/", "progress/", "network/")
"""Beginnings of the names of what Muster measures by itself."""
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
    """`name` as it is stored: letters, digits, `_ . -`, parts separated by single slashes.

    Everything else becomes `_`; a name with nothing left becomes `unnamed`.
    """
    if len(name) <= MAX_NAME_LENGTH and _ALLOWED.fullmatch(name):
        return name
    parts = [p for p in _NOT_ALLOWED.sub("_", name).split("/") if p]
    return "/".join(parts)[:MAX_NAME_LENGTH].rstrip("/") or "unnamed"


def to_float(value: Any) -> float:
    """The float behind a number, a numpy scalar or a one-element tensor.

    Reading a tensor on an accelerator waits for it. Raises TypeError or ValueError for anything
    that is not one number.
    """
    if type(value) is float:
        return value
    detach = getattr(value, "detach", None)
    # float() of a tensor that requires grad makes torch warn.
    return float(detach() if detach is not None else value)


class Window:
    """Averages the rows of consecutive steps, so that fast steps do not flood the dashboard.

    A value is the mean of those steps of the window that gave one (NaN if any of them was NaN);
    step, time and epoch are the last one's.
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._last: Row | None = None

    def add(self, row: Row) -> None:
        for name, value in row.values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1
        self._last = row

    def take(self) -> Row | None:
        """The averaged row, and start over. None when nothing was added."""
        last = self._last
        if last is None:
            return None
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        self._sums, self._counts, self._last = {}, {}, None
        return last._replace(values=means)


def clean_values(values: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Names and values as they are stored, and one sentence per thing that had to be changed."""
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
