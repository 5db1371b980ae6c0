"""Whether a file that a dead process has left is whole, for the formats in which checkpoints are saved."""

from __future__ import annotations

import json
import os
import struct

_ZIP_END_MAX_BYTES = 65_557
"""Longest end of a zip archive, which is what torch.save writes: its record and a comment."""
_ZIP_RECORD_BYTES = 22
_HEADER_MAX_BYTES = 100_000_000
"""Longest header of a safetensors file, by its format."""


def is_cut_off(fd: int, name: str) -> bool:
    """Return whether a file ends before its content does. False for what is neither a zip archive nor
    a safetensors file: nobody can tell. Raises OSError."""
    size = os.fstat(fd).st_size
    if os.pread(fd, 4, 0) == b"PK\x03\x04":
        start = max(0, size - _ZIP_END_MAX_BYTES)
        end = os.pread(fd, size - start, start)
        return not 0 <= end.rfind(b"PK\x05\x06") <= len(end) - _ZIP_RECORD_BYTES
    if name.endswith(".safetensors"):
        return _is_safetensors_cut_off(fd, size)
    return False


def _is_safetensors_cut_off(fd: int, size: int) -> bool:
    head = os.pread(fd, 8, 0)
    if len(head) < 8:
        return True
    (length,) = struct.unpack("<Q", head)
    if length > min(size - 8, _HEADER_MAX_BYTES):
        return True
    try:
        header = json.loads(os.pread(fd, length, 8))
        ends = [v["data_offsets"][1] for key, v in header.items() if key != "__metadata__"]
        return bool(8 + length + max(ends, default=0) > size)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return True
