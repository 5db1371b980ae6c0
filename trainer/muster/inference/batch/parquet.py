"""Row groups of a Parquet file, each read by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"PAR1"
FOOTER_MAX_BYTES = 256 * 2**20
"""Largest footer that is read."""


class NotParquet(Exception):
    """A file is no Parquet file that can be read; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ParquetLayout:
    footer: bytes
    """Footer as it lies in the file. Files with the same footer have the same rows."""
    nums_rows: list[int]
    """Number of rows of each row group."""


def read_layout(path: Path) -> ParquetLayout:
    """Return where the rows of a file are. Raises OSError, NotParquet, and ModuleNotFoundError without
    pyarrow."""
    from pyarrow.parquet import read_metadata

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
        with _told("its footer"):
            found = read_metadata(file)
            nums_rows = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
    if any(num < 0 for num in nums_rows):
        raise NotParquet("its footer cannot be read: a row group has a negative number of rows")
    return ParquetLayout(footer=footer, nums_rows=nums_rows)


def read_rows(path: Path, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the row groups `first` up to before `end`. Raises OSError, NotParquet, and
    ModuleNotFoundError without pyarrow."""
    from pyarrow.parquet import ParquetFile

    with _told("it"), ParquetFile(path) as file:
        for batch in file.iter_batches(row_groups=range(first, end)):
            yield from batch.to_pylist()


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Raise NotParquet for what pyarrow raises about the content, which for Thrift is an OSError without
    a number."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise NotParquet(f"{what} cannot be read: {str(error)[:300]}") from None
