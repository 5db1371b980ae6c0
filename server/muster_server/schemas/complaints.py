"""pydantic's complaints as sentences people understand.

Text that was sent is not repeated, since it may be a secret; numbers and names of fields are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from muster_server.domain.saying import Said, say

_INTEGER = say("field.integer", "must be a whole number")
_NUMBER = say("field.number", "must be a number")
_TEXT = say("field.text", "must be text")
_BOOLEAN = say("field.boolean", "must be true or false")
_LIST = say("field.list", "must be a list")
_MAPPING = say("field.mapping", "must be a mapping")
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
_LIMITS = {
    "greater_than_equal": "ge",
    "greater_than": "gt",
    "less_than_equal": "le",
    "less_than": "lt",
}


_UNION_MEMBER = re.compile(r"^(constrained-\w+|literal\[.*\]|\[\w+\])$")
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


def sentence(error: Mapping[str, Any]) -> tuple[Said, str | None]:
    """What is wrong, and a hint, of one of pydantic's errors."""
    kind = error["type"]
    given = error.get("input")
    context = error.get("ctx", {})
    if kind == "missing":
        return missing(), None
    if kind in _EXPECTED:
        message = _EXPECTED[kind]
        if not kind.endswith("_parsing"):
            message += f", not {type_name(given)}"
        return message, _type_hint(kind, given)
    if kind in _LIMITS:
        got = f", got {given}" if isinstance(given, int | float) else ""
        return _limit(_LIMITS[kind], context[_LIMITS[kind]]) + got, None
    if kind in ("literal_error", "enum"):
        expected = str(context["expected"])
        options = [o.strip().strip("'") for o in expected.replace(" or ", ", ").split(",")]
        message = say("field.one_of", f"must be {expected}", options=", ".join(options))
        return message, nearest(given, options)
    if kind in ("string_too_short", "string_too_long", "too_short", "too_long"):
        return _length(kind, given, context), None
    if kind == "string_pattern_mismatch":
        return _pattern_message(str(context["pattern"])), None
    if kind == "finite_number":
        return say("field.finite", "must be a finite number"), None
    if kind == "value_error" and isinstance(context["error"].args[0], Said):
        return context["error"].args[0], None
    return Said(str(error["msg"]).removeprefix("Value error, ")[:300]), None


def missing() -> Said:
    return say("field.missing", "is missing")


def unknown(words: str) -> Said:
    """Of a name that is not known where it stands."""
    return say("field.unknown", words)


def _limit(key: str, limit: Any) -> Said:
    match key:
        case "ge":
            return say("field.at_least", f"must be at least {limit}", limit=str(limit))
        case "gt":
            return say("field.above", f"must be above {limit}", limit=str(limit))
        case "le":
            return say("field.at_most", f"must be at most {limit}", limit=str(limit))
    return say("field.below", f"must be below {limit}", limit=str(limit))


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


def _length(kind: str, given: Any, context: Mapping[str, Any]) -> Said:
    at = int(context.get("min_length", context.get("max_length", 0)))
    is_short, is_text = "short" in kind, isinstance(given, str)
    bound = "at least" if is_short else "at most"
    # Text that is checked before it is measured counts as "items" for pydantic.
    noun = "character" if is_text else "entry"
    plural = {"character": "characters", "entry": "entries"}[noun]
    has = f", has {len(given)}" if isinstance(given, str | list | dict | tuple) else ""
    words = f"must have {bound} {at} {noun if at == 1 else plural}{has}"
    if is_text and is_short:
        return say("field.text_too_short", words, limit=at)
    if is_text:
        return say("field.text_too_long", words, limit=at)
    if is_short:
        return say("field.too_few", words, limit=at)
    return say("field.too_many", words, limit=at)


def _pattern_message(pattern: str) -> Said:
    if pattern == r"\S":
        return say("field.blank", "must not be blank")
    if pattern == "^/":
        return say("field.absolute_path", "must be an absolute path (begin with '/')")
    if pattern == "^[0-9a-f]{64}$":
        return say("field.sha256", "must be a SHA-256: 64 of 0-9 and a-f")
    if not pattern.startswith("^[A-Za-z0-9][A-Za-z0-9"):
        return say("field.pattern", f"must match {pattern}", pattern=pattern)
    rest = "'.', '_' and '-', and begins with a letter or digit"
    if "/" in pattern:
        return say("field.name_with_slashes", f"may hold letters, digits, '/', {rest}")
    if " " in pattern:
        return say("field.name_with_spaces", f"may hold letters, digits, spaces, {rest}")
    return say("field.name", f"may hold letters, digits, {rest}")


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
