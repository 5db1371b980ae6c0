"""What a series of metrics can hold: names, steps, times and values. Pure.

Workers, agents and the server keep to these rules. What breaks one is left out by itself and named:
it never costs the values beside it.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.numbers import Number

NAME_MAX_CHARS: Final = 200
NAME_RULE: Final = (
    f"1 to {NAME_MAX_CHARS} characters of any script, without control characters and without blanks "
    "at its ends"
)
STEP_MAX: Final = 2**53 - 1
"""Largest step, and largest time in milliseconds: JavaScript could not hold larger ones exactly."""
_JOINERS = re.compile("[\u200c\u200d]")
"""Characters without a width that several scripts need within words."""
_TEXTS = ("NaN", "Infinity", "-Infinity")
TOO_LARGE: Final = "is too large to be a number"
_INT_MAX = 2**1023
"""Integers beyond it are no floats."""


@functools.lru_cache(maxsize=4_096)  # the same few names are checked again and again
def is_valid_name(name: str) -> bool:
    """Return whether a metric can have this name, see NAME_RULE."""
    bare = _JOINERS.sub("", name)
    return 0 < len(name) <= NAME_MAX_CHARS and bare.isprintable() and bare.strip() == bare != ""


@functools.lru_cache(maxsize=4_096)
def clean_name(name: str) -> str:
    """Return the name under which a metric is stored: its own, if that is valid.

    Of any other name, what does not fit becomes `_` or is cut, and a digest of the whole name follows,
    so that two names never become one.
    """
    if is_valid_name(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    fit = "".join(c if c.isprintable() or _JOINERS.match(c) else "_" for c in name).strip()
    return f"{fit[: NAME_MAX_CHARS - 9].rstrip() or 'unnamed'}~{digest}"


def whole_step(step: Any) -> tuple[int | None, str]:
    """Return a step as it is stored, or None and why it cannot be stored."""
    try:
        found = int(step)
    except Exception:
        return None, f"step {_shown(step)} is no integer"
    if 0 <= found <= STEP_MAX:
        return found, ""
    return None, f"step {_shown(found)} lies outside 0 to {STEP_MAX}"


def why_unstorable(step: Any, time_ms: Any, value: Any) -> str:
    """Return why a point of the wire format cannot be stored; "" if it can.

    value: a finite number, or "NaN", "Infinity" or "-Infinity".
    """
    if type(step) is not int or not 0 <= step <= STEP_MAX:
        return f"step {_shown(step)} lies outside 0 to {STEP_MAX}"
    if type(time_ms) is not int or not 0 <= time_ms <= STEP_MAX:
        return f"time {_shown(time_ms)} lies outside 0 to {STEP_MAX} ms"
    kind = type(value)
    if kind is float:
        return "" if math.isfinite(value) else f"a value {TOO_LARGE}"
    if kind is int:
        return "" if -_INT_MAX < value < _INT_MAX else f"a value {TOO_LARGE}"
    return "" if kind is str and value in _TEXTS else f"value {_shown(value)} is not a number"


def storable(
    steps: Sequence[Any], times_ms: Sequence[Any], values: Sequence[Any]
) -> tuple[Sequence[int], Sequence[int], Sequence[Number], str]:
    """Return the columns of the points that can be stored, and why the first other one cannot.

    The columns are of one length.
    """
    problems = list(map(why_unstorable, steps, times_ms, values))
    if not any(problems):
        return steps, times_ms, values, ""
    kept = [at for at, problem in enumerate(problems) if not problem]
    return (
        [steps[at] for at in kept],
        [times_ms[at] for at in kept],
        [values[at] for at in kept],
        next(filter(None, problems)),
    )


def to_float(value: Any) -> float:
    """Return the float behind a number, a numpy scalar or a one-element tensor.

    Reading a tensor on an accelerator waits for it. Raises TypeError, ValueError or OverflowError for
    anything that is not one number, or whatever an object of the script's raises.
    """
    if type(value) is float:
        return value
    detach = getattr(value, "detach", None)
    # float() of a tensor that requires grad makes torch warn.
    return float(detach() if detach is not None else value)


def number_of(value: Any) -> tuple[float | None, str]:
    """Return the float behind a value, see `to_float`, or None and why there is none."""
    try:
        return to_float(value), ""
    except OverflowError:
        return None, TOO_LARGE
    except Exception:  # Whatever the script's own objects raise.
        return None, "is not one number"


def finite(value: Any) -> float | None:
    """Return the finite float behind a value, see `to_float`; None if there is none."""
    found, _ = number_of(value)
    return found if found is not None and math.isfinite(found) else None


def clean_values(values: Mapping[Any, Any]) -> tuple[dict[str, float], list[str]]:
    """Return names and values as they are stored, and one sentence per change that this needed."""
    cleaned: dict[str, float] = {}
    problems: list[str] = []
    for given, value in values.items():
        name = clean_name(str(given))
        if name != str(given):
            problems.append(f"metric name {given!r} is reported as {name!r}")
        number, why = number_of(value)
        if number is None:
            problems.append(f"metric {name!r} {why} and is left out")
        else:
            cleaned[name] = number
    return cleaned, problems


def _shown(value: Any) -> str:
    if type(value) is int and not -_INT_MAX < value < _INT_MAX:
        return f"of {value.bit_length()} bits"
    return repr(value)[:40]
