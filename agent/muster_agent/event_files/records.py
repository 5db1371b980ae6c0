"""Records of an event file: `uint64 length, uint32 checksum of it, data, uint32 checksum of the data`.

Checksums are CRC-32C, masked as the format wants it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER_BYTES = 12
OVERHEAD_BYTES = 16
"""Bytes of a record beside its data."""
RECORD_MAX_BYTES = 32 * 2**20
"""A longer record, such as the graph of a large model, is passed over."""
CHECKED_MAX_BYTES = 65_536
"""Longest data whose checksum is compared: that of an image would take longer than reading it. The
checksum of the length is always compared."""


class DamagedRecord(ValueError):
    """The bytes at an offset are no record."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {offset}")
        self.offset = offset


def records(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield each whole record in `data`, which begins with one: where the next one begins, and its
    data, or None for one that is longer than RECORD_MAX_BYTES.

    A record whose end is missing is not yielded; one that is passed over may end beyond `data`. Zeros
    up to the end are taken for room that is not written yet.

    offset: position of `data` in its file. Raises DamagedRecord.
    """
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = data[at : at + 8]
        length, checksum = struct.unpack_from("<QI", data, at)
        if masked_crc(header) != checksum:
            if not data[at:].strip(b"\0"):
                return
            raise DamagedRecord(offset + at, "no record begins")
        end = at + OVERHEAD_BYTES + length
        if length > RECORD_MAX_BYTES:
            yield offset + end, None
            at = end
            continue
        if end > len(data):
            return
        content = data[at + HEADER_BYTES : end - 4]
        if length <= CHECKED_MAX_BYTES:
            (checksum,) = struct.unpack_from("<I", data, end - 4)
            if masked_crc(content) != checksum:
                raise DamagedRecord(offset + at, "the checksum does not match the record")
        yield offset + end, content
        at = end


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> tuple[int, ...]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = (entry >> 1) ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_TABLE = _table()
