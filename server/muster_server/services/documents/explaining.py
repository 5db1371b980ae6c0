"""Turns the schema's complaints into sentences: what is wrong, where, and what would work.

Text the user wrote is not repeated, since documents may hold secrets; numbers and key names are.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from muster_server.errors import FieldProblem

from .reading import type_name

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
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


def explain(error: ErrorDetails, schema: type[BaseModel]) -> FieldProblem:
    """One pydantic error as a problem with a dotted path."""
    loc = [part for part in error["loc"] if part != "[key]"]
    path = dotted(loc)
    kind = error["type"]
    given = error.get("input")
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(path, str(loc[-1]), known_keys(schema, loc[:-1]))
    if kind == "missing":
        return FieldProblem(path, "is missing", f"add `{loc[-1]}:`")
    if kind in _EXPECTED:
        message = f"must be {_EXPECTED[kind]}, not {type_name(given)}"
        return FieldProblem(path, message, _type_hint(kind, given))
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return FieldProblem(path, f"must be {words} {context[key]}, got {given}")
    if kind == "literal_error":
        expected = str(context["expected"])
        options = [o.strip().strip("'") for o in expected.replace(" or ", ", ").split(",")]
        return FieldProblem(path, f"must be {expected}", _nearest(given, options))
    if kind == "string_pattern_mismatch":
        return FieldProblem(path, _pattern_message(str(context["pattern"])))
    if kind in ("string_too_short", "string_too_long", "too_short", "too_long"):
        at = context.get("min_length", context.get("max_length"))
        bound = "at least" if "short" in kind else "at most"
        noun = "characters" if kind.startswith("string") else "entries"
        return FieldProblem(path, f"must have {bound} {at} {noun}")
    if kind == "finite_number":
        return FieldProblem(path, "must be a finite number")
    return FieldProblem(path, error["msg"].removeprefix("Value error, "))


def unknown_key(path: str, key: str, known: Sequence[str]) -> FieldProblem:
    """A key that does not exist here, with the nearest that does."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return FieldProblem(path, "unknown key", f"did you mean {near[0]!r}?")
    return FieldProblem(path, "unknown key", f"known here: {', '.join(known)}" if known else None)


def known_keys(schema: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """Field names of the section at `loc`; empty when there is none."""
    section: type[BaseModel] | None = schema
    for part in loc:
        info = fields_of(section).get(str(part)) if section else None
        section = section_of(info.annotation) if info else None
    return sorted(fields_of(section)) if section else []


def fields_of(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a section by the keys they have in a document (`from` is no name in Python)."""
    return {info.alias or name: info for name, info in section.model_fields.items()}


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model behind an annotation, Optional or not."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for option in typing.get_args(annotation):
            found = section_of(option)
            if found is not None:
                return found
    return None


def dotted(loc: Sequence[Any]) -> str:
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else str(part)
    return path


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


def _nearest(given: Any, options: list[str]) -> str | None:
    if not isinstance(given, str):
        return None
    near = difflib.get_close_matches(given.lower(), options, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else None


def _pattern_message(pattern: str) -> str:
    if pattern == r"\S":
        return "must not be blank"
    if pattern == "^/":
        return "must be an absolute path (begin with '/')"
    spaces = " spaces," if " " in pattern else ""
    return f"may hold letters, digits,{spaces} '.', '_' and '-', and begins with a letter or digit"
