"""Filters and orders of a search for runs, such as `metrics.loss < 0.5 and params.model = 'a'`."""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
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
_TERM = re.compile(
    rf"\s*{_FIELD}\s*(>=|<=|!=|=|>|<|LIKE\b|ILIKE\b|NOT\s+IN\b|IN\b)\s*"
    r"""('[^']*'|\"[^\"]*\"|[-+.\w]+|\([^()]*\))\s*""",
    re.I,
)
_LISTED = re.compile(r"""'([^']*)'|"([^"]*)\"|([-+.\w]+)""")
_AND = re.compile(r"AND\b", re.I)
_ORDER = re.compile(rf"\s*{_FIELD}\s*(ASC|DESC)?\s*", re.I)
_GROUPS = {
    "metric": "metrics", "metrics": "metrics", "param": "params", "parameter": "params",
    "parameters": "params", "params": "params", "tag": "tags", "tags": "tags",
    "attribute": "attributes", "attributes": "attributes", "attr": "attributes", "run": "attributes",
    "": "attributes",
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
        value_of = _value_of(attributes, match[1], match[2] or match[3] or match[4])
        known = [item for item in found if _is_known(value_of(item))]
        known.sort(key=value_of, reverse=(match[5] or "").upper() == "DESC")
        found = known + [item for item in found if not _is_known(value_of(item))]
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
    value_of = _value_of(attributes, group, key)
    wanted: Any = literal[1:-1] if literal[0] in "'\"" else literal
    if sign.upper().endswith("IN"):
        listed = {a or b or c for a, b, c in _LISTED.findall(literal)}
        is_in = not sign.upper().startswith("NOT")
        return lambda item: (v := value_of(item)) is not None and (str(v) in listed) == is_in
    if "LIKE" in sign.upper():
        pattern = re.compile(
            fnmatch.translate(wanted.replace("%", "*").replace("_", "?")),
            re.I if sign.upper() == "ILIKE" else 0,
        )
        return lambda item: (v := value_of(item)) is not None and bool(pattern.match(str(v)))
    compare = _COMPARE[sign]

    def test(item: S) -> bool:
        value = value_of(item)
        if value is None:
            return False
        if isinstance(value, str):
            return compare(value, wanted)
        try:
            return compare(float(value), float(wanted))
        except ValueError:
            raise invalid(
                f"Invalid filter string: {wanted!r} is not a number to compare {key!r} with"
            ) from None

    return test


def _value_of(attributes: Attributes[S], group: str | None, key: str) -> Callable[[S], Any]:
    kind = _GROUPS.get((group or "").lower())
    if kind == "metrics":
        return lambda item: item.latest[key].value if key in item.latest else None
    if kind == "params":
        return lambda item: item.params.get(key)
    if kind == "tags":
        return lambda item: item.tags.get(key)
    if kind == "attributes" and key in attributes:
        return attributes[key]
    raise invalid(
        f"Invalid attribute {f'{group}.' if group else ''}{key} of a search: it is one of "
        f"metrics.<key>, params.<key>, tags.<key> and attributes.<{'|'.join(attributes)}>"
    )
