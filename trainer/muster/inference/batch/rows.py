"""The rows of one shard."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster import wire

from .inputs import BadInput, describe_change, images_of
from .parquet import NotParquet, read_rows

ROW_MAX_BYTES = 16 * 2**20
"""Longest line that is taken as a row."""


@dataclass(frozen=True, kw_only=True)
class BadRow:
    """A row that cannot be read."""

    problem: str


@dataclass(frozen=True, kw_only=True)
class ShardRows:
    """Where the rows of a shard are."""

    file: wire.InputFile
    first_row: int
    num_rows: int
    start: int
    end: int


def read_shard(shard: ShardRows) -> Iterator[Any]:
    """Yield each row of a shard, or a BadRow in its place, as many as it has. A row is what the line of
    JSON holds, the columns of Parquet by name, or `{"path": …}` of an image.

    Raises BadInput when the input is not what it was, before the first row or at the end.
    """
    require_unchanged(shard.file)
    num = 0
    try:
        for row in _READERS[shard.file.kind](shard):
            num += 1
            yield row
    except (OSError, EOFError, NotParquet) as error:
        raise BadInput(f"{shard.file.path}: {error}.") from error
    if num != shard.num_rows:
        raise BadInput(
            f"{shard.file.path}: {num:,} rows from row {shard.first_row:,} on, and there were "
            f"{shard.num_rows:,} when the job began."
        )
    if shard.file.kind != "images":
        require_unchanged(shard.file)


def name_of_row(shard: ShardRows, row: Any) -> str:
    """Return the name of the file that a row is from."""
    if shard.file.kind == "images" and isinstance(row, dict):
        return str(Path(row["path"]).relative_to(shard.file.path))
    return shard.file.path


def require_unchanged(file: wire.InputFile) -> None:
    """Raise BadInput if an input is not what it was when the job began."""
    change = describe_change(file)
    if change:
        raise BadInput(f"{file.path} has changed since the job began: {change}.")


def _lines(shard: ShardRows) -> Iterator[Any]:
    with Path(shard.file.path).open("rb") as content:
        content.seek(shard.start)
        left = shard.end - shard.start
        while left > 0:
            line = content.readline(left)
            if not line:
                return
            left -= len(line)
            yield _row(line)


def _compressed_lines(shard: ShardRows) -> Iterator[Any]:
    with gzip.open(shard.file.path) as content:
        for line in content:
            yield _row(line)


def _row(line: bytes) -> Any:
    if len(line) > ROW_MAX_BYTES:
        return BadRow(problem=f"the line has more than {ROW_MAX_BYTES:,} bytes")
    if not line.strip():
        return BadRow(problem="the line is empty")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return BadRow(problem=f"the line is not JSON: {str(error)[:200]}")


def _parquet(shard: ShardRows) -> Iterator[Any]:
    yield from read_rows(Path(shard.file.path), shard.start, shard.end)


def _images(shard: ShardRows) -> Iterator[Any]:
    for name in images_of(shard.file.path).names[shard.start : shard.end]:
        yield {"path": str(Path(shard.file.path, name))}


_READERS = {
    "jsonl": _lines,
    "jsonl_gz": _compressed_lines,
    "parquet": _parquet,
    "images": _images,
}
