"""Event files written by hand, from the description of the format alone."""

from __future__ import annotations

import struct
from pathlib import Path

NAME = "events.out.tfevents.1732000000.host.77.0"


def crc(data: bytes) -> int:
    """Masked CRC-32C, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", crc(length)) + data + struct.pack("<I", crc(data))


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def event(step: int, *values: bytes, wall_time: float = 1_732_000_000.5) -> bytes:
    """A record with a summary of these values."""
    summary = b"".join(block(1, value) for value in values)
    time = varint(1 << 3 | 1) + struct.pack("<d", wall_time)
    return record(time + number(2, step) + (block(5, summary) if values else b""))


def restart(step: int) -> bytes:
    """The record of a writer that begins again at a step."""
    return record(number(2, step) + block(7, number(1, 1)))


def scalar(tag: str, value: float) -> bytes:
    return block(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value)


def plugin(name: str, content: bytes = b"") -> bytes:
    data = block(1, name.encode()) + (block(2, content) if content else b"")
    return block(9, block(1, data))


def tensor(tag: str, data: bytes, *more: bytes) -> bytes:
    return block(1, tag.encode()) + block(8, data) + b"".join(more)


def write(path: Path, *records: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(records))
