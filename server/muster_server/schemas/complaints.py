"""pydantic's complaints as sentences people understand.

Text that was sent is not repeated, since it may be a secret; numbers and names of fields are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


_UNION_MEMBER = re.compile(r"^(constrained-\w+|literal\[.*\])$")
"""pydantic's names of a union's members, which it puts behind the field's."""


def place(loc: Sequence[int | str]) -> list[int | str]:
    """Where a complaint is, in the names of fields alone."""
    return [part for part in loc if not (isinstance(part, str) and _UNION_MEMBER.match(part))]


def type_name(value: Any) -> str:
    """What `value` is, in the words of whoever wrote it."""
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


def sentence(error: Mapping[str, Any]) -> tuple[str, str | None]:
    """What is wrong, and a hint, of one of pydantic's errors."""
    kind = error["type"]
    given = error.get("input")
    context = error.get("ctx", {})
    if kind == "missing":
        return "is missing", None
    if kind in _EXPECTED:
        message = f"must be {_EXPECTED[kind]}"
        if not kind.endswith("_parsing"):
            message += f", not {type_name(given)}"
        return message, _type_hint(kind, given)
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        got = f", got {given}" if isinstance(given, int | float) else ""
        return f"must be {words} {context[key]}{got}", None
    if kind in ("literal_error", "enum"):
        expected = str(context["expected"])
        options = [o.strip().strip("'") for o in expected.replace(" or ", ", ").split(",")]
        return f"must be {expected}", nearest(given, options)
    if kind in ("string_too_short", "string_too_long", "too_short", "too_long"):
        return _length(kind, given, context), None
    if kind == "finite_number":
        return "must be a finite number", None
    return str(error["msg"]).removeprefix("Value error, ")[:300], None


def nearest(given: Any, options: Sequence[str]) -> str | None:
    """A hint with the option that was probably meant."""
    if not isinstance(given, str):
        return None
    near = difflib.get_close_matches(given.lower(), options, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else None


def unknown_name(key: str, known: Sequence[str]) -> str | None:
    """A hint for a name that does not exist here: the nearest that does, or all of them."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known here: {', '.join(known)}" if known else None


def _length(kind: str, given: Any, context: Mapping[str, Any]) -> str:
    at = context.get("min_length", context.get("max_length"))
    bound = "at least" if "short" in kind else "at most"
    # Text that is checked before it is measured counts as "items" for pydantic.
    noun = "character" if isinstance(given, str) else "entry"
    plural = {"character": "characters", "entry": "entries"}[noun]
    has = f", has {len(given)}" if isinstance(given, str | list | dict | tuple) else ""
    return f"must have {bound} {at} {noun if at == 1 else plural}{has}"


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
