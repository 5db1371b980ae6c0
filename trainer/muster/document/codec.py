"""Documents between JSON and the tree of dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Decoder = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    key: str
    decoder: Decoder | None
    """Makes the value from its JSON form; None where JSON holds the value itself."""
    is_optional: bool


def load(kind: type[T], given: Mapping[str, Any]) -> T:
    """Build a section from JSON that was valid when it was written.

    Keys that are missing, or null where a value is needed, take their defaults: that completes
    what an older version has stored. Keys that the section does not have are dropped. Raises
    TypeError when a required key is missing.
    """
    values = {}
    for field in _fields(kind):
        value = given.get(field.key, dataclasses.MISSING)
        if value is dataclasses.MISSING or (value is None and not field.is_optional):
            continue
        if value is not None and field.decoder is not None:
            value = field.decoder(value)
        values[field.name] = value
    return kind(**values)


def dump(value: Any) -> Any:
    """Return a section, or any value in one, as JSON has it."""
    if isinstance(value, tuple):
        return [dump(item) for item in value]
    if isinstance(value, dict):
        return {key: dump(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return {field.key: dump(getattr(value, field.name)) for field in _fields(type(value))}
    return value


def unknown_keys(kind: type[Any], given: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the dotted paths of the keys that `load` would drop."""
    sections = {field.key: field.decoder for field in _fields(kind)}
    hints = typing.get_type_hints(kind)
    for key, value in given.items():
        here = f"{path}.{key}" if path else key
        if key not in sections:
            yield here
            continue
        section = section_of(hints.get(key) or hints[f"{key}_"])
        if section is not None and isinstance(value, Mapping):
            yield from unknown_keys(section, value, here)


def key_of(name: str) -> str:
    """Return the key in a document of a field (`from` is no name in Python, `from_` is)."""
    return name.removesuffix("_")


def section_of(annotation: Any) -> type[Any] | None:
    """Return the dataclass behind an annotation, optional or not; None where there is none."""
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return annotation
    if _is_union(annotation):
        found = (section_of(option) for option in typing.get_args(annotation))
        return next((section for section in found if section is not None), None)
    return None


def _declared(kind: type[Any]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        _Field(
            name=field.name,
            key=key_of(field.name),
            decoder=_decoder(hints[field.name]),
            is_optional=type(None) in typing.get_args(hints[field.name]),
        )
        for field in dataclasses.fields(kind)
    )


_fields = typing.cast(Callable[[Any], tuple[_Field, ...]], functools.cache(_declared))


def _decoder(annotation: Any) -> Decoder | None:
    section = section_of(annotation)
    if section is not None:
        kind = section
        # A length may also be written as a number, a data set as text.
        return lambda value: load(kind, value) if isinstance(value, Mapping) else value
    for option in typing.get_args(annotation) if _is_union(annotation) else (annotation,):
        if typing.get_origin(option) is tuple:
            return _items(_decoder(typing.get_args(option)[0]))
        if typing.get_origin(option) is dict:
            return _values(_decoder(typing.get_args(option)[1]))
    return None


def _values(decoder: Decoder | None) -> Decoder | None:
    if decoder is None:
        return None
    return lambda value: {key: decoder(item) for key, item in value.items()}


def _items(decoder: Decoder | None) -> Decoder:
    return tuple if decoder is None else lambda value: tuple(decoder(item) for item in value)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
