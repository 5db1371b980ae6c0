"""Some row groups of a Parquet file as a file of their own.

arro3 reads Parquet as a whole. What it is given here is the file with another footer, which names only
the row groups that are wanted; nothing is copied. The footer is a Thrift struct in the compact protocol:
only its row groups and their number of rows are looked at, everything else is passed on as it is.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

MAGIC = b"PAR1"
FOOTER_MAX_BYTES = 256 * 2**20
"""Largest footer that is read."""
_DEPTH_MAX = 64
_FILE_NUM_ROWS = 3
_FILE_ROW_GROUPS = 4
_GROUP_NUM_ROWS = 3
_I64, _LIST, _STRUCT = 6, 9, 12


class NotParquet(Exception):
    """A file is no Parquet file that can be read; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ParquetLayout:
    """Row groups of a file, and the rest of its footer."""

    data_bytes: int
    """Bytes before the footer."""
    footer: bytes
    before_num_rows: int
    """Position in the footer of the number of rows."""
    after_num_rows: int
    before_groups: int
    """Position of the list of row groups."""
    after_groups: int
    groups: list[tuple[int, int]]
    """First byte in the footer, and the one after the last, of each row group."""
    nums_rows: list[int]
    """Number of rows of each row group."""


def read_layout(path: Path) -> ParquetLayout:
    """Return where the row groups of a file are. Raises OSError and NotParquet."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size < 12 or file.read(4) != MAGIC:
            raise NotParquet("it does not begin as a Parquet file does")
        file.seek(size - 8)
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC:
            raise NotParquet("it does not end as a Parquet file does: it is cut off, or encrypted")
        if not 0 < length <= min(size - 12, FOOTER_MAX_BYTES):
            raise NotParquet(f"its footer of {length:,} bytes cannot be right")
        file.seek(size - 8 - length)
        footer = file.read(length)
    try:
        return _parse(footer, data_bytes=size - 8 - length)
    except (IndexError, ValueError) as error:
        raise NotParquet(f"its footer cannot be read: {error}") from None


def read_rows(path: Path, layout: ParquetLayout, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the row groups `first` up to before `end`. Raises OSError, NotParquet, and
    ModuleNotFoundError without arro3."""
    from arro3.io import read_parquet

    with path.open("rb") as file:
        view = _View(file, layout.data_bytes, _footer_of(layout, first, end))
        try:
            for batch in read_parquet(cast(BinaryIO, view)):
                names = batch.schema.names
                columns = [batch.column(i).to_pylist() for i in range(batch.num_columns)]
                for values in zip(*columns, strict=True):
                    yield dict(zip(names, values, strict=True))
        except OSError:
            raise
        except Exception as error:  # arro3 raises its own kinds, one of them a bare Exception.
            raise NotParquet(f"it cannot be read: {str(error)[:300]}") from None


class _View(io.RawIOBase):
    """A file whose end is another."""

    def __init__(self, file: BinaryIO, data_bytes: int, footer: bytes) -> None:
        self._file = file
        self._data_bytes = data_bytes
        self._end = footer + len(footer).to_bytes(4, "little") + MAGIC
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(
            whence, self._data_bytes + len(self._end)
        )
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        total = self._data_bytes + len(self._end)
        size = total - self._at if size < 0 else min(size, max(0, total - self._at))
        data = b""
        if self._at < self._data_bytes:
            self._file.seek(self._at)
            data = self._file.read(min(size, self._data_bytes - self._at))
        if len(data) < size:
            begin = self._at + len(data) - self._data_bytes
            data += self._end[begin : begin + size - len(data)]
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _footer_of(layout: ParquetLayout, first: int, end: int) -> bytes:
    footer, groups = layout.footer, layout.groups[first:end]
    body = b"".join(footer[begin:stop] for begin, stop in groups)
    head = (
        bytes([(len(groups) << 4) | _STRUCT])
        if len(groups) < 15
        else bytes([0xF0 | _STRUCT]) + _varint(len(groups))
    )
    num_rows = _varint(2 * sum(layout.nums_rows[first:end]))
    return b"".join(
        (
            footer[: layout.before_num_rows],
            num_rows,
            footer[layout.after_num_rows : layout.before_groups],
            head,
            body,
            footer[layout.after_groups :],
        )
    )


def _parse(footer: bytes, *, data_bytes: int) -> ParquetLayout:
    reader = _Compact(footer)
    found: dict[str, Any] = {}
    groups: list[tuple[int, int]] = []
    nums_rows: list[int] = []

    def take(field: int, kind: int) -> bool:
        if field == _FILE_NUM_ROWS and kind == _I64:
            begin = reader.at
            reader.varint()
            found["rows"] = (begin, reader.at)
        elif field == _FILE_ROW_GROUPS and kind == _LIST:
            begin = reader.at
            num, of = reader.list_head()
            if num and of != _STRUCT:
                raise ValueError("its row groups are no structs")
            for _ in range(num):
                first = reader.at
                nums_rows.append(_num_rows_of(reader))
                groups.append((first, reader.at))
            found["groups"] = (begin, reader.at)
        else:
            return False
        return True

    reader.struct(take)
    if found.keys() != {"rows", "groups"} or found["rows"][1] > found["groups"][0]:
        raise ValueError("it lacks the number of rows or the row groups")
    return ParquetLayout(
        data_bytes=data_bytes,
        footer=footer,
        before_num_rows=found["rows"][0],
        after_num_rows=found["rows"][1],
        before_groups=found["groups"][0],
        after_groups=found["groups"][1],
        groups=groups,
        nums_rows=nums_rows,
    )


def _num_rows_of(reader: _Compact) -> int:
    num = -1

    def take(field: int, kind: int) -> bool:
        nonlocal num
        if field != _GROUP_NUM_ROWS or kind != _I64:
            return False
        value = reader.varint()
        num = (value >> 1) ^ -(value & 1)
        return True

    reader.struct(take)
    if num < 0:
        raise ValueError("a row group does not say how many rows it has")
    return num


class _Compact:
    """Walks through a Thrift struct. Raises IndexError at the end of the data, and ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def list_head(self) -> tuple[int, int]:
        """Return the number of elements and their type."""
        byte = self._data[self.at]
        self.at += 1
        num = byte >> 4
        return (self.varint() if num == 15 else num), byte & 0x0F

    def struct(self, take: Callable[[int, int], bool] | None = None, depth: int = 0) -> None:
        """Pass over a struct. `take` gets the number and type of each field, and returns whether it has
        passed over its value."""
        field = 0
        while True:
            head = self._data[self.at]
            self.at += 1
            if head == 0:
                return
            delta, kind = head >> 4, head & 0x0F
            if delta:
                field += delta
            else:
                number = self.varint()
                field = (number >> 1) ^ -(number & 1)
            if take is None or not take(field, kind):
                self._skip(kind, depth, is_field=True)

    def _skip(self, kind: int, depth: int, *, is_field: bool = False) -> None:
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        if kind in (1, 2):
            self.at += not is_field
        elif kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self.varint()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            length = self.varint()
            self.at += length
        elif kind in (9, 10):
            num, of = self.list_head()
            self._check_num(num)
            for _ in range(num):
                self._skip(of, depth + 1)
        elif kind == 11:
            num = self.varint()
            self._check_num(num)
            kinds = self._data[self.at] if num else 0
            self.at += bool(num)
            for _ in range(num):
                self._skip(kinds >> 4, depth + 1)
                self._skip(kinds & 0x0F, depth + 1)
        elif kind == 12:
            self.struct(depth=depth + 1)
        elif kind == 13:
            self.at += 16
        else:
            raise ValueError(f"type {kind} is unknown")
        if self.at > len(self._data):
            raise IndexError("the data ends early")

    def _check_num(self, num: int) -> None:
        if num > len(self._data):
            raise ValueError("a list is longer than the data")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
