"""Turns the schema's complaints into sentences: what is wrong, where, and what would work.

Text the user wrote is not repeated, since documents may hold secrets; numbers and key names are.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem
from muster_server.schemas.validation_messages import (
    place,
    sentence,
    unknown_name,
)


def explain(error: ErrorDetails, schema: type[BaseModel]) -> FieldProblem:
    """Return one pydantic error as a problem with a dotted path."""
    loc = [part for part in place(error["loc"]) if part != "[key]"]
    path = dotted(loc)
    kind = error["type"]
    if kind == "extra_forbidden":
        return unknown_key(path, str(loc[-1]), known_keys(schema, loc[:-1]))
    if kind == "missing":
        return FieldProblem(path, Message("field.missing"), f"add `{loc[-1]}:`")
    return FieldProblem(path, *sentence(error))


def unknown_key(path: str, key: str, known: Sequence[str]) -> FieldProblem:
    """Return a key that does not exist here, with the nearest that does."""
    return FieldProblem(path, Message("field.unknown"), unknown_name(key, known))


def known_keys(schema: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """Field names of the section at `loc`; empty when there is none."""
    section: type[BaseModel] | None = schema
    for part in loc:
        if isinstance(part, int):
            continue  # of a list, whose entries are the section found before
        info = fields_of(section).get(str(part)) if section else None
        section = section_of(info.annotation) if info else None
    return sorted(fields_of(section)) if section else []


def fields_of(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a section by the keys they have in a document (`from` is no name in
    Python)."""
    return {info.alias or name: info for name, info in section.model_fields.items()}


def section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model behind an annotation, Optional or not, or that of a list's entries."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list):
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
