"""Checks of what requests carry: metrics, params and tags, with MLflow's own limits."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from muster.series_rules import STEP_MAX, TOO_LARGE, clean_name, number_of, whole_step

from .errors import invalid

T = TypeVar("T")

BATCH_METRICS_MAX = 1_000
BATCH_PARAMS_MAX = 100
BATCH_TAGS_MAX = 100
BATCH_ITEMS_MAX = 1_000
KEY_MAX_CHARS = 250
PARAM_MAX_CHARS = 6_000
TAG_MAX_CHARS = 8_000
NAME_MAX_CHARS = 500

TIME_MIN_MS = 946_684_800_000
"""Times before the year 2000 are taken for steps or seconds in the wrong place."""
_SECONDS_MIN, _SECONDS_END = TIME_MIN_MS // 1000, 4_102_444_800
_DAY_MS = 86_400_000
_KNOWN_KEYS_MAX = 10_000


class TrackedPoint(NamedTuple):
    """A value of a metric."""

    key: str
    step: int
    time_ms: int
    value: float


_known_keys: set[str] = set()


def key_of(item: Mapping[str, Any], what: str) -> str:
    """Return the valid key of a metric, param or tag."""
    key = item.get("key")
    if isinstance(key, str) and key in _known_keys:
        return key
    if not isinstance(key, str) or not key:
        raise invalid(f"Missing value for required parameter 'key' of a {what}")
    if len(key) > KEY_MAX_CHARS:
        raise invalid(
            f"The key of a {what} has {len(key)} characters ({key[:40]!r}…); at most "
            f"{KEY_MAX_CHARS} are allowed"
        )
    if not key.isprintable():
        raise invalid(f"Invalid {what} name: {key!r}. Names cannot contain control characters.")
    if posixpath.normpath(key) != key or key.startswith((".", "/")):
        raise invalid(
            f"Invalid {what} name: {key!r}. Names must be unique as paths; write "
            f"{posixpath.normpath(key).lstrip('./')!r}"
        )
    if len(_known_keys) < _KNOWN_KEYS_MAX:
        _known_keys.add(key)
    return key


def point_of(item: Any, *, on_bad: Callable[[str], None], now_ms: int) -> TrackedPoint | None:
    """Return the point that a metric of a request states; None for one that cannot be stored.

    on_bad: is told of one that MLflow's own server would take.
    now_ms: time of a metric without one that can be stored.
    """
    if not isinstance(item, dict):
        raise invalid("a metric must be an object with key, value, timestamp and step")
    key = key_of(item, "metric")
    step, problem = whole_step(_whole(item.get("step"), "step", key))
    time_ms = _whole(item.get("timestamp"), "timestamp", key)
    value = _number(item.get("value"), key)
    if value is None:
        on_bad(f"The metric {key!r} has a value that {TOO_LARGE}: it is left out.")
    elif step is None:
        on_bad(f"The metric {key!r} has values that are left out: {problem}.")
    else:
        return TrackedPoint(key, step, time_ms if 0 <= time_ms <= STEP_MAX else now_ms, value)
    return None


def sane_time(time_ms: int, started_ms: int) -> int:
    """Return the time of a point for charts: some scripts give seconds, and some a step, which then
    counts from the start of the run."""
    if time_ms >= TIME_MIN_MS:
        return time_ms
    if _SECONDS_MIN <= time_ms < _SECONDS_END:
        return time_ms * 1000
    return started_ms + min(time_ms, _DAY_MS)


def pair_of(
    item: Any, what: str, *, on_cut: Callable[[str], None] = lambda told: None
) -> tuple[str, str]:
    """Return the key and the text of a param or tag.

    on_cut: is told of a text that is too long, which is cut, as MLflow's server does by default.
    """
    if not isinstance(item, dict):
        raise invalid(f"a {what} must be an object with key and value")
    key, value = key_of(item, what), item.get("value", "")
    limit = PARAM_MAX_CHARS if what == "param" else TAG_MAX_CHARS
    text = value if isinstance(value, str) else str(value)
    if len(text) > limit:
        on_cut(f"The {what} {key!r} has {len(text):,} characters: the first {limit:,} are kept.")
    return key, text[:limit]


def items_of(body: Mapping[str, Any], name: str, limit: int) -> list[Any]:
    """Return a list of a log-batch request, within its limit."""
    items = body.get(name) or []
    if not isinstance(items, list):
        raise invalid(f"{name} must be a list")
    if len(items) > limit:
        raise invalid(
            f"A batch logging request can contain at most {limit} {name}. Got {len(items)} {name}. "
            f"Please split up {name} across multiple requests and try again."
        )
    return items


def text_of(body: Mapping[str, Any], name: str, *, max_chars: int = NAME_MAX_CHARS) -> str:
    """Return a text that a request must have."""
    value = body.get(name)
    if not isinstance(value, str | int) or value == "":
        raise invalid(f"Missing value for required parameter '{name}'")
    text = str(value)
    if len(text) > max_chars:
        raise invalid(f"{name} has {len(text)} characters; at most {max_chars} are allowed")
    return text


def listed(value: Any) -> list[Any]:
    """Return a list that comes as one value where a query has it once."""
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def page_of(
    items: list[T],
    body: Mapping[str, Any],
    *,
    default: int,
    limit: int,
    page_max: int | None = None,
) -> tuple[list[T], str]:
    """Return the page of a list that `max_results` and `page_token` ask for, and the token of the
    next; "" after the last. Raises TrackingError, also for more than `limit`.

    page_max: the most items of one page, whatever is asked for; by default `limit`.
    """
    token = str(body.get("page_token") or "0")
    if not token.isdecimal() or len(token) > 12:
        raise invalid("page_token is not one of an earlier answer")
    size = whole_of(body.get("max_results"), default)
    if not 1 <= size <= limit:
        bound = f"at most {limit} are possible" if size > 1 else "at least 1 is needed"
        raise invalid(f"Invalid value {size} for parameter 'max_results' supplied: {bound}")
    end = int(token) + min(size, page_max or limit)
    return items[int(token) : end], str(end) if end < len(items) else ""


def series_name(label: str, key: str) -> str:
    """Return the name of the trial's series for a metric of the run with this label."""
    return clean_name(f"{label}/{key}" if label else key)


def whole_of(value: Any, default: int = 0) -> int:
    """Return an integer that may come as a text, as int64 does; `default` for none."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _whole(value: Any, name: str, key: str) -> int:
    """Return a step or time; 0 for a missing one."""
    if type(value) is int:
        return value
    if value is None or value == "":
        return 0
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid(
            f"Got invalid value {str(value)[:40]!r} for {name} of metric {key!r}: an integer is "
            "needed"
        ) from None


def _number(value: Any, key: str) -> float | None:
    """Return a value; None for an integer that no float can hold."""
    if type(value) is float or type(value) is int:
        return number_of(value)[0]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    raise invalid(
        f"Got invalid value {str(value)[:40]!r} for metric {key!r}: a number is needed, or the text "
        "NaN, Infinity or -Infinity"
    )
