"""Lengths of time as people write them: `90min`, `30m`, `1d12h`."""

from __future__ import annotations

import re

UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|min|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def duration_s(text: str) -> float | None:
    """Return the seconds that `text` stands for; None if it is no length of time. Parts add up."""
    text = text.strip()
    if _DURATION.fullmatch(text) is None:
        return None
    return sum(float(number) * UNITS_S[unit] for number, unit in _PART.findall(text))
