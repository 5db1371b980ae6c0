"""JSON text to messages, and back."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, Literal, TypeVar

from .records import MetricsRecord, Record

T = TypeVar("T")

RECORD_TYPES: dict[str, type[Any]] = {kind.type: kind for kind in typing.get_args(Record)}


def dump(message: Any) -> str:
    """Return the JSON text of a wire dataclass (or plain value). Raises ValueError on a bare NaN."""
    plain = dataclasses.asdict(message) if dataclasses.is_dataclass(message) else message  # type: ignore[arg-type]
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def load(cls: type[T], value: Any) -> T:
    """Build `cls` from decoded JSON. Unknown keys are ignored; a missing or mistyped one raises
    ValueError with its path."""
    return typing.cast(T, _load(cls, value, getattr(cls, "__name__", str(cls))))


def loads(cls: type[T], text: str | bytes) -> T:
    return load(cls, json.loads(text))


@functools.lru_cache(maxsize=256)
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _load(tp: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(tp)
    if tp is Any:
        return value
    if tp is Record or (
        origin in (typing.Union, types.UnionType) and MetricsRecord in typing.get_args(tp)
    ):
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in RECORD_TYPES:
            raise ValueError(f"{path}: unknown record type {kind!r}")
        return _load(RECORD_TYPES[kind], value, path)
    if origin in (typing.Union, types.UnionType):
        for option in typing.get_args(tp):
            try:
                return _load(option, value, path)
            except ValueError:
                continue
        raise ValueError(f"{path}: {value!r} is none of {tp}")
    if origin is Literal:
        if value not in typing.get_args(tp):
            raise ValueError(f"{path}: {value!r} is not one of {typing.get_args(tp)}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise ValueError(f"{path}: expected a list")
        (item,) = typing.get_args(tp)
        return [_load(item, v, f"{path}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{path}: expected an object")
        _, item = typing.get_args(tp)
        return {str(k): _load(item, v, f"{path}.{k}") for k, v in value.items()}
    if isinstance(tp, type) and dataclasses.is_dataclass(tp):
        if not isinstance(value, dict):
            raise ValueError(f"{path}: expected an object")
        hints = _hints(tp)
        kwargs: dict[str, Any] = {}
        for f in dataclasses.fields(tp):
            if f.name in value:
                kwargs[f.name] = _load(hints[f.name], value[f.name], f"{path}.{f.name}")
            elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                raise ValueError(f"{path}.{f.name}: missing")
        return tp(**kwargs)
    if tp is type(None):
        if value is not None:
            raise ValueError(f"{path}: expected null")
        return None
    if tp is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{path}: expected a number, got {value!r}")
        return float(value)
    if tp is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{path}: expected an integer, got {value!r}")
        return value
    if not isinstance(value, tp):
        raise ValueError(f"{path}: expected {tp.__name__}, got {value!r}")
    return value
