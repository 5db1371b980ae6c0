"""What an event holds, decoded from the wire format of protocol buffers as far as it is of use."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

SESSION_START = 1
VALUES_MAX = 10_000
"""Most values of one event, and numbers of one packed field; real events hold a few."""
_INT64_SIGN = 1 << 63
_DTYPES = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?"}
"""Code of the struct module for each data type of a tensor."""


class BadEvent(ValueError):
    """A record holds no event."""


class Field(NamedTuple):
    """A field of a message: its number, and an integer or the bytes of everything else."""

    number: int
    value: int | memoryview


@dataclass
class EventValue:
    """A value of a summary; at most one of the payloads is there."""

    tag: str = ""
    simple: float | None = None
    tensor: memoryview | None = None
    image: memoryview | None = None
    histogram: memoryview | None = None
    audio: memoryview | None = None
    plugin: str = ""
    """Plugin of TensorBoard that shows it; in some files only the first value of a tag names it."""
    plugin_data: bytes = b""


@dataclass
class LoggedEvent:
    """One event."""

    wall_time: float = 0.0
    """Unix time in seconds."""
    step: int = 0
    restarts: bool = False
    """Whether a writer began at `step` again: later steps of before are void."""
    values: list[EventValue] = field(default_factory=list)


@dataclass
class Tensor:
    """A small tensor: numbers in row-major order, or texts."""

    shape: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)


def read_event(record: bytes) -> LoggedEvent:
    """Decode the data of a record. Raises BadEvent."""
    try:
        return _event(memoryview(record))
    except (ValueError, IndexError, struct.error, TypeError) as error:
        raise BadEvent(str(error)) from None


def read_tensor(data: memoryview) -> Tensor:
    """Decode a tensor. Raises BadEvent."""
    try:
        return _tensor(data)
    except (ValueError, IndexError, struct.error, TypeError) as error:
        raise BadEvent(str(error)) from None


def scalar_of(value: EventValue, plugin: str) -> float | None:
    """Return the number of a scalar summary, old or new style; None for anything else. Raises
    BadEvent.

    plugin: that of the tag."""
    if value.simple is not None:
        return value.simple
    if value.tensor is None or plugin != "scalars":
        return None
    numbers = read_tensor(value.tensor).numbers
    return float(numbers[0]) if len(numbers) == 1 else None


def fields(data: memoryview) -> Iterator[Field]:
    """Yield the fields of a message. Raises ValueError and IndexError for what is none."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield Field(number, value)
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of wire type {kind}")
        if at + length > len(data):
            raise ValueError("a field that ends beyond its message")
        yield Field(number, data[at : at + length])
        at += length


def signed(value: int | memoryview) -> int:
    """Return an int64 from its varint. Raises TypeError for bytes."""
    if not isinstance(value, int):
        raise TypeError("bytes where a number should be")
    return value - (1 << 64) if value & _INT64_SIGN else value


def text(value: int | memoryview) -> str:
    """Return the text of a field; undecodable bytes become replacement characters. Raises
    TypeError for a number."""
    return data_of(value).decode("utf-8", "replace")


def data_of(value: int | memoryview) -> bytes:
    """Return the bytes of a field. Raises TypeError for a number."""
    return bytes(view_of(value))


def view_of(value: int | memoryview) -> memoryview:
    """Return the bytes of a field without a copy. Raises TypeError for a number."""
    if isinstance(value, int):
        raise TypeError("a number where bytes should be")
    return value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _event(data: memoryview) -> LoggedEvent:
    event = LoggedEvent()
    for number, value in fields(data):
        match number:
            case 1:
                (event.wall_time,) = struct.unpack("<d", view_of(value))
            case 2:
                event.step = signed(value)
            case 5:
                for inner, summary in fields(view_of(value)):
                    if inner == 1 and len(event.values) < VALUES_MAX:
                        event.values.append(_value(view_of(summary)))
            case 7:
                event.restarts = any(f == (1, SESSION_START) for f in fields(view_of(value)))
    return event


def _value(data: memoryview) -> EventValue:
    found = EventValue()
    for number, value in fields(data):
        match number:
            case 1:
                found.tag = text(value)
            case 2:
                (found.simple,) = struct.unpack("<f", view_of(value))
            case 4:
                found.image = view_of(value)
            case 5:
                found.histogram = view_of(value)
            case 6:
                found.audio = view_of(value)
            case 8:
                found.tensor = view_of(value)
            case 9:
                for inner, plugin in fields(view_of(value)):
                    if inner == 1:
                        _set_plugin(found, view_of(plugin))
    return found


def _set_plugin(found: EventValue, data: memoryview) -> None:
    for number, value in fields(data):
        if number == 1:
            found.plugin = text(value)
        elif number == 2:
            found.plugin_data = data_of(value)


def _tensor(data: memoryview) -> Tensor:
    found = Tensor()
    dtype, content = 0, b""
    for number, value in fields(data):
        match number:
            case 1:
                dtype = signed(value)
            case 2:
                found.shape = [_size(view_of(dim)) for n, dim in fields(view_of(value)) if n == 2]
            case 4:
                content = data_of(value)
            case 5:
                found.numbers += _unpacked("f", view_of(value))
            case 6:
                found.numbers += _unpacked("d", view_of(value))
            case 7 | 10 | 11:
                found.numbers += _integers(value)
            case 8:
                found.texts.append(data_of(value))
        if len(found.numbers) > VALUES_MAX or len(found.texts) > VALUES_MAX:
            raise ValueError(f"a tensor of more than {VALUES_MAX} values")
    if content and dtype in _DTYPES:
        found.numbers = _unpacked(_DTYPES[dtype], memoryview(content))
    return found


def _size(dim: memoryview) -> int:
    return next((signed(value) for number, value in fields(dim) if number == 1), 0)


def _unpacked(code: str, data: memoryview) -> list[float]:
    num = len(data) // struct.calcsize(code)
    if num > VALUES_MAX:
        raise ValueError(f"a tensor of more than {VALUES_MAX} values")
    return list(struct.unpack(f"<{num}{code}", data))


def _integers(value: int | memoryview) -> list[float]:
    if isinstance(value, int):
        return [signed(value)]
    found: list[float] = []
    at = 0
    while at < len(value) and len(found) <= VALUES_MAX:
        number, at = _varint(value, at)
        found.append(signed(number))
    return found
