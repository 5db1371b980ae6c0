"""Runs that wandb has recorded offline, read from their `.wandb` files.

A file is a header of seven bytes and a log of 32 KiB blocks, as LevelDB writes it. Each record of it is a
message of protocol buffers, of which the few fields that matter here are decoded: wandb has moved its own
reader and messages several times, and the numbers of fields cannot change.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

BLOCK_BYTES = 32 * 1024
HEADER = struct.Struct("<4sHB")
CHUNK = struct.Struct("<IHB")
MAGIC, VERSION = 0xBEE1, 0
RECORD_MAX_BYTES = 256 * 2**20
"""Most bytes of one record; a longer one means that the file is damaged."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Fields = list[tuple[int, Any]]
"""Field number and value: a number, or bytes."""


class UnreadableRun(Exception):
    """A file is no run of wandb; the text says what was found."""


class DamagedRun(UnreadableRun):
    """A file is damaged; the text says where."""


@dataclass(frozen=True)
class HistoryRow:
    step: int
    time_s: float
    values: Mapping[str, Any]
    """Values by name; those of nested dictionaries have names joined by dots."""


@dataclass
class WandbRun:
    """What a run says of itself beside its history."""

    run_id: str = ""
    project: str = ""
    name: str = ""
    notes: str = ""
    group: str = ""
    job_type: str = ""
    tags: list[str] = field(default_factory=list)
    started_s: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    damage: str = ""
    """Where the file is damaged: nothing behind it was read."""
    exit_code: int | None = None
    """Exit code of the script; None if the run has not ended, or its end was not recorded."""


def read_run(file: IO[bytes], run: WandbRun) -> Iterator[HistoryRow]:
    """Yield the history of a run, and fill in `run` on the way.

    A file that breaks off, as that of a running or killed script does, ends with its last whole record, and
    a damaged one before its damage. Raises UnreadableRun.
    """
    try:
        yield from _rows(file, run)
    except DamagedRun as error:
        run.damage = str(error)


def _rows(file: IO[bytes], run: WandbRun) -> Iterator[HistoryRow]:
    for record in read_records(file):
        for number, value in _fields(record):
            if not isinstance(value, bytes):
                continue
            if number == 2 and (row := _history(value)) is not None:
                yield row
            elif number == 3:
                run.summary |= _items(value, 1)
            elif number == 5:
                run.config |= _items(value, 1)
            elif number == 17:
                _describe(run, value)
            elif number == 18:
                run.exit_code = int(dict(_fields(value)).get(1, 0))


def read_records(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the records of a log. Raises UnreadableRun, and DamagedRun behind its last good record."""
    head = file.read(HEADER.size)
    if len(head) < HEADER.size or not head.startswith(b":W&B"):
        raise UnreadableRun("it does not begin as a run file of wandb does (:W&B)")
    _, magic, version = HEADER.unpack(head)
    if (magic, version) != (MAGIC, VERSION):
        raise UnreadableRun(
            f"its format is {magic:#06x} version {version}, and only {MAGIC:#06x} version {VERSION} is "
            "known: `wandb sync` of the client that wrote it can read it"
        )
    at, size = HEADER.size, 0
    parts: list[bytes] = []
    while True:
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < CHUNK.size:
            at += len(file.read(left))
            continue
        head = file.read(CHUNK.size)
        if len(head) < CHUNK.size:
            return
        crc, length, kind = CHUNK.unpack(head)
        body = file.read(length)
        if len(body) < length or not (crc or length or kind):
            return  # not written yet
        if zlib.crc32(body, zlib.crc32(bytes([kind]))) != crc:
            raise DamagedRun(f"it is damaged at byte {at}: the checksum differs")
        at += CHUNK.size + length
        if kind in (_FULL, _FIRST):
            parts, size = [], 0
        parts.append(body)
        size += length
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or size > RECORD_MAX_BYTES:
            raise DamagedRun(f"it is damaged before byte {at}: there is no such record")
        if kind in (_FULL, _LAST):
            yield b"".join(parts)


def flattened(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one, names joined by dots."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and value and "_type" not in value:
            found |= flattened(value, f"{name}.")
        else:
            found[name] = value
    return found


def _describe(run: WandbRun, message: bytes) -> None:
    texts = {1: "run_id", 3: "project", 6: "group", 7: "job_type", 8: "name", 9: "notes"}
    for number, value in _fields(message):
        if number in texts and isinstance(value, bytes):
            setattr(run, texts[number], _text(value))
        elif number == 4:
            run.config |= _items(value, 1)
        elif number == 10 and _text(value) not in run.tags:
            run.tags.append(_text(value))
        elif number == 17:
            at = dict(_fields(value))
            run.started_s = at.get(1, 0) + at.get(2, 0) / 1e9


def _history(message: bytes) -> HistoryRow | None:
    values = _items(message, 1)
    step = values.pop("_step", None)
    time_s = values.pop("_timestamp", 0.0)
    if step is None:
        (step,) = [dict(_fields(value)).get(1, 0) for n, value in _fields(message) if n == 2] or [0]
    shown = {k: v for k, v in flattened(values).items() if not k.startswith("_")}
    return HistoryRow(int(step), float(time_s), shown) if shown else None


def _items(message: bytes, number: int) -> dict[str, Any]:
    """Return the values of a message's items, each of a key, perhaps a nested one, and JSON."""
    found: dict[str, Any] = {}
    for no, item in _fields(message):
        if no != number or not isinstance(item, bytes):
            continue
        keys, value = [], None
        for part, content in _fields(item):
            if part in (1, 2) and content:
                keys.append(_text(content))
            elif part == 16:
                try:
                    value = json.loads(content)
                except ValueError:
                    value = _text(content)
        if keys:
            found[".".join(keys)] = value
    return found


def _fields(message: bytes) -> Fields:
    """Return the fields of a message of protocol buffers. Raises DamagedRun."""
    found: Fields = []
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            found.append((number, value))
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise DamagedRun(f"a record has a field of the unknown kind {kind}")
        if at + length > end:
            raise DamagedRun("a record ends in the middle of a field")
        found.append((number, message[at : at + length]))
        at += length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise DamagedRun("a record ends in the middle of a number")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
