"""pydantic's complaints as sentences people understand.

Text that was sent is not repeated, since it may be a secret; numbers and names of fields are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from muster.document.common import TRIAL_PATTERN
from muster_server.domain.durations import InvalidMoment
from muster_server.domain.messages import AnyMessage, Message

_INTEGER = Message("field.integer")
_NUMBER = Message("field.number")
_TEXT = Message("field.text")
_BOOLEAN = Message("field.boolean")
_LIST = Message("field.list")
_MAPPING = Message("field.mapping")
_EXPECTED = {
    "int_type": _INTEGER,
    "int_from_float": _INTEGER,
    "int_parsing": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "string_type": _TEXT,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "list_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
}
_UNION_MEMBER = re.compile(r"^(constrained-\w+|literal\[.*\]|\[\w+\])$")
"""pydantic's names of a union's members, which it puts behind the field's."""


def place(loc: Sequence[int | str]) -> list[int | str]:
    """Return the location of an error, as field names and indices only."""
    return [part for part in loc if not (isinstance(part, str) and _UNION_MEMBER.match(part))]


def type_name(value: Any) -> str:
    """Return the kind of `value` in the words of its author, such as "a whole number"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "a list"
    return "a mapping"


def sentence(error: Mapping[str, Any]) -> tuple[AnyMessage | str, str | None]:
    """Return the message and an optional hint for one of pydantic's errors."""
    kind = error["type"]
    given = error.get("input")
    context = error.get("ctx", {})
    if kind == "missing":
        return Message("field.missing"), None
    if kind in _EXPECTED:
        message = _EXPECTED[kind]
        if not kind.endswith("_parsing"):
            message = Message("all.not", expected=message, given=type_name(given))
        return message, _type_hint(kind, given)
    limit = _limit(kind, context)
    if limit is not None:
        has_number = isinstance(given, int | float)
        return Message("all.got", limit=limit, given=str(given)) if has_number else limit, None
    if kind in ("literal_error", "enum"):
        expected = str(context["expected"]).replace(" or ", ", ")
        options = [o.strip().strip("'") for o in expected.split(",")]
        return Message("field.one_of", options=", ".join(options)), nearest(given, options)
    if kind in ("string_too_short", "string_too_long", "too_short", "too_long"):
        return _length(kind, given, context), None
    if kind == "string_pattern_mismatch":
        return _pattern_message(str(context["pattern"])), None
    if kind == "finite_number":
        return Message("field.finite"), None
    if kind == "value_error" and isinstance(context["error"], InvalidMoment):
        return context["error"].problem, None
    return str(error["msg"]).removeprefix("Value error, ")[:300], None


def nearest(given: Any, options: Sequence[str]) -> str | None:
    """Return a hint with the option that was probably meant."""
    if not isinstance(given, str):
        return None
    near = difflib.get_close_matches(given.lower(), options, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else None


def unknown_name(key: str, known: Sequence[str]) -> str | None:
    """Return a hint for a name that does not exist here: the nearest that does, or all of them."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known here: {', '.join(known)}" if known else None


def _limit(kind: str, context: Mapping[str, Any]) -> Message | None:
    match kind:
        case "greater_than_equal":
            return Message("field.at_least", limit=str(context["ge"]))
        case "greater_than":
            return Message("field.above", limit=str(context["gt"]))
        case "less_than_equal":
            return Message("field.at_most", limit=str(context["le"]))
        case "less_than":
            return Message("field.below", limit=str(context["lt"]))
    return None


def _length(kind: str, given: Any, context: Mapping[str, Any]) -> Message:
    limit = int(context.get("min_length", context.get("max_length", 0)))
    # pydantic counts "items" of text that is checked before its length is.
    if isinstance(given, str) and "short" in kind:
        message = Message("field.text_too_short", limit=limit)
    elif isinstance(given, str):
        message = Message("field.text_too_long", limit=limit)
    elif "short" in kind:
        message = Message("field.too_few", limit=limit)
    else:
        message = Message("field.too_many", limit=limit)
    if isinstance(given, str | list | dict | tuple):
        return Message("all.has", expected=message, given=len(given))
    return message


def _pattern_message(pattern: str) -> Message:
    if pattern == r"\S":
        return Message("field.blank")
    if pattern == "^/":
        return Message("field.absolute_path")
    if pattern == "^[0-9a-f]{64}$":
        return Message("field.sha256")
    if pattern == TRIAL_PATTERN:
        return Message("field.trial")
    if not pattern.startswith("^[A-Za-z0-9][A-Za-z0-9"):
        return Message("field.pattern", pattern=pattern)
    if "/" in pattern:
        return Message("field.name_with_slashes")
    if " " in pattern:
        return Message("field.name_with_spaces")
    return Message("field.name")


def _type_hint(kind: str, given: Any) -> str | None:
    if kind == "string_type" and isinstance(given, bool | int | float):
        return "put it in quotes"
    if kind == "int_type" and isinstance(given, float) and given.is_integer():
        return f"write {int(given)}"
    if kind in ("int_type", "float_type") and isinstance(given, str):
        try:
            float(given)
        except ValueError:
            return None
        return "write it without quotes"
    if kind == "bool_type" and isinstance(given, str):
        return "write true or false, without quotes"
    return None
