"""What a rollback changes of a trial's hyperparameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from muster.document.guards import GuardSection

Value = int | float | str | bool
_FACTOR = re.compile(r"[x×](\d+(\.\d+)?([eE][-+]?\d{1,2})?)")


def factor_of(value: Value) -> float | None:
    """Return 0.5 of "x0.5"; None for a value that is not a factor."""
    found = _FACTOR.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def change(
    hparams: Mapping[str, Any], guard: GuardSection
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the hyperparameters after a rollback, and [old, new] of each that differs.

    Whole numbers stay whole. What is not there, or no number that a factor could change, stays.
    """
    changed = deepcopy(dict(hparams))
    differences: dict[str, list[Any]] = {}
    for name, wanted in guard.set_.items():
        *sections, leaf = name.split(".")
        place: Any = changed
        for section in sections:
            place = place.get(section) if isinstance(place, dict) else None
        if not isinstance(place, dict) or leaf not in place:
            continue
        old, new = place[leaf], _new(place[leaf], wanted)
        if new != old:
            place[leaf] = new
            differences[name] = [old, new]
    return changed, differences


def _new(old: Any, wanted: Value) -> Any:
    factor = factor_of(wanted)
    if factor is None:
        return wanted
    if isinstance(old, bool) or not isinstance(old, int | float):
        return old
    return round(old * factor) if isinstance(old, int) else old * factor
