"""Filters and orders of a search for runs, such as `metrics.loss < 0.5 and params.model = 'a'`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .errors import invalid

if TYPE_CHECKING:
    from .values import TrackedPoint


class Searchable(Protocol):
    """What a search looks at."""

    @property
    def params(self) -> Mapping[str, str]: ...

    @property
    def tags(self) -> Mapping[str, str]: ...

    @property
    def latest(self) -> Mapping[str, TrackedPoint]: ...


S = TypeVar("S", bound=Searchable)
Attributes = Mapping[str, Callable[[S], Any]]

_FIELD = r"""(?:(\w+)\.)?(?:`([^`]+)`|"([^"]+)"|([\w.\-/]+))"""
_QUOTED = r"""(?:'(?:[^']|'')*'|"(?:[^"]|\"\")*")"""
"""A text in quotes; within it, two of them stand for one."""
_TERM = re.compile(
    rf"\s*{_FIELD}\s*(>=|<=|!=|=|>|<|LIKE\b|ILIKE\b|NOT\s+IN\b|IN\b)\s*"
    rf"({_QUOTED}|[-+.\w]+|\((?:{_QUOTED}|[^()'\"])*\))\s*",
    re.I,
)
_LISTED = re.compile(rf"{_QUOTED}|[-+.\w]+")
_AND = re.compile(r"AND\b", re.I)
_ORDER = re.compile(rf"\s*{_FIELD}\s*(ASC|DESC)?\s*", re.I)
DATASET_KEYS = ("name", "digest", "context")
_CONTEXT_TAG = "mlflow.data.context"
_GROUPS = {
    "metric": "metrics", "metrics": "metrics", "param": "params", "parameter": "params",
    "parameters": "params", "params": "params", "tag": "tags", "tags": "tags",
    "attribute": "attributes", "attributes": "attributes", "attr": "attributes", "run": "attributes",
    "": "attributes", "dataset": "datasets", "datasets": "datasets",
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
    ">=": operator.ge, "<=": operator.le,
}  # fmt: skip


def matcher(text: str, attributes: Attributes[S]) -> Callable[[S], bool]:
    """Return a function that tells whether something matches a filter.

    attributes: what can be asked of it besides metrics, params and tags, by name.
    Raises TrackingError for a filter that is not understood.
    """
    tests: list[Callable[[S], bool]] = []
    at = 0
    while text[at:].strip():
        if tests:
            joint = _AND.match(text, at)
            if joint is None:
                raise invalid(f"Invalid filter string {text!r}: conditions are joined by AND")
            at = joint.end()
        found = _TERM.match(text, at)
        if found is None:
            raise invalid(
                f"Invalid filter string {text!r}: write conditions such as metrics.loss < 0.5 or "
                "params.model = 'a', joined by AND"
            )
        tests.append(_test(attributes, *found.groups()))
        at = found.end()
    return lambda item: all(test(item) for test in tests)


def ordered(items: Sequence[S], order_by: Sequence[str], attributes: Attributes[S]) -> list[S]:
    """Return the items in the requested order, what has no such value last. Raises TrackingError."""
    found = list(items)
    for text in reversed([str(order) for order in order_by]):
        match = _ORDER.fullmatch(text)
        if match is None:
            raise invalid(f"Invalid order_by clause {text!r}: write metrics.loss ASC, for example")
        values_of = _values_of(attributes, match[1], match[2] or match[3] or match[4])
        valued = [(next(filter(_is_known, values_of(item)), None), item) for item in found]
        known = [pair for pair in valued if pair[0] is not None]
        known.sort(key=operator.itemgetter(0), reverse=(match[5] or "").upper() == "DESC")
        found = [item for _, item in known] + [item for value, item in valued if value is None]
    return found


def _is_known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _test(
    attributes: Attributes[S],
    group: str,
    quoted: str,
    double: str,
    plain: str,
    sign: str,
    literal: str,
) -> Callable[[S], bool]:
    key = quoted or double or plain
    values_of = _values_of(attributes, group, key)
    test = _value_test(key, sign.upper(), literal)
    return lambda item: any(test(value) for value in values_of(item) if value is not None)


def _value_test(key: str, sign: str, literal: str) -> Callable[[Any], bool]:
    if sign.endswith("IN"):
        listed = {_unquoted(each) for each in _LISTED.findall(literal)}
        is_in = not sign.startswith("NOT")
        return lambda value: (str(value) in listed) == is_in
    wanted = _unquoted(literal)
    if sign.endswith("LIKE"):
        pattern = _like(wanted, re.I if sign == "ILIKE" else 0)
        return lambda value: bool(pattern.fullmatch(str(value)))
    compare = _COMPARE[sign]

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return compare(value, wanted)
        try:
            return compare(float(value), float(wanted))
        except ValueError:
            raise invalid(
                f"Invalid filter string: {wanted!r} is not a number to compare {key!r} with"
            ) from None

    return test


def _like(pattern: str, flags: int) -> re.Pattern[str]:
    """Return SQL's LIKE: `%` is any text, `_` any character, and everything else itself."""
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(c) or re.escape(c) for c in pattern), flags | re.S)


def _unquoted(literal: str) -> str:
    quote = literal[0]
    return literal[1:-1].replace(quote * 2, quote) if quote in "'\"" else literal


def _values_of(
    attributes: Attributes[S], group: str | None, key: str
) -> Callable[[S], Iterable[Any]]:
    """Return a function that returns the values of something to which a condition applies."""
    kind = _GROUPS.get((group or "").lower())
    if kind == "metrics":
        return lambda item: [item.latest[key].value] if key in item.latest else []
    if kind == "params":
        return lambda item: [item.params.get(key)]
    if kind == "tags":
        return lambda item: [item.tags.get(key)]
    if kind == "datasets" and key in DATASET_KEYS:
        return lambda item: [_of_dataset(each, key) for each in getattr(item, "datasets", ())]
    if kind == "attributes" and key in attributes:
        attribute = attributes[key]
        return lambda item: [attribute(item)]
    raise invalid(
        f"Invalid attribute {f'{group}.' if group else ''}{key} of a search: it is one of "
        "metrics.<key>, params.<key>, tags.<key>, dataset.<"
        f"{'|'.join(DATASET_KEYS)}> and attributes.<{'|'.join(attributes)}>"
    )


def _of_dataset(logged: Any, key: str) -> str | None:
    """Return what a condition on data sets looks at of one that a run has logged."""
    if key != "context":
        dataset = logged.get("dataset")
        return dataset.get(key) if isinstance(dataset, dict) else None
    tags = [tag for tag in logged.get("tags") or [] if isinstance(tag, dict)]
    return next((tag.get("value") for tag in tags if tag.get("key") == _CONTEXT_TAG), None)
