"""The inputs of a batch inference: found and cut into shards once, and never changed from then on."""

from __future__ import annotations

import functools
import glob
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from muster import wire

from .parquet import NotParquet, read_layout

SHARD_ROWS = 2_000
"""Rows of a shard, unless the document says."""
SHARDS_WANTED = 2_000
"""Number of shards beyond which they get larger, unless the document says."""
CHUNK_BYTES = 4 * 2**20
IMAGES_MAX = 5_000_000
"""Largest number of images in a folder."""
IMAGE_SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
_SUFFIXES: dict[str, wire.InputKind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl_gz",
    ".ndjson.gz": "jsonl_gz",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class BadInput(Exception):
    """An input that cannot be used; the message is a sentence for people."""


@dataclass(kw_only=True)
class ShardPlan:
    """Inputs and shards."""

    inputs: list[wire.InputFile] = field(default_factory=list)
    input_nos: list[int] = field(default_factory=list)
    first_rows: list[int] = field(default_factory=list)
    nums_rows: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Sentences for people: what keeps workers from sharing the rows well."""

    def record(self) -> wire.ShardPlanRecord:
        return wire.ShardPlanRecord(
            inputs=self.inputs,
            input_nos=self.input_nos,
            first_rows=self.first_rows,
            nums_rows=self.nums_rows,
            starts=self.starts,
            ends=self.ends,
        )


@dataclass(frozen=True, kw_only=True)
class _Cut:
    first_row: int
    num_rows: int
    start: int
    end: int


def make_plan(
    patterns: Sequence[str], *, batch_size: int, shard_rows: int | None, num_workers: int
) -> ShardPlan:
    """Find the inputs and cut them into shards.

    A file of JSON lines is read once for it, of a Parquet file only the footer. Raises BadInput.
    """
    found = find_inputs(patterns)
    counted = [_count(path, kind) for path, kind in found]
    total = sum(file.num_rows for file, _ in counted)
    if not total:
        raise BadInput(f"predict.inputs: there are no rows in {', '.join(patterns)[:1000]}.")
    wanted = shard_rows or max(SHARD_ROWS, -(-total // SHARDS_WANTED))
    wanted = -(-wanted // batch_size) * batch_size
    plan = ShardPlan()
    for file, cut in counted:
        cuts = list(cut(wanted))
        for one in cuts:
            plan.input_nos.append(len(plan.inputs))
            plan.first_rows.append(one.first_row)
            plan.nums_rows.append(one.num_rows)
            plan.starts.append(one.start)
            plan.ends.append(one.end)
        plan.inputs.append(file)
        largest = max((one.num_rows for one in cuts), default=0)
        if num_workers > 1 and largest > 2 * wanted and largest * num_workers > total:
            what = "a row group" if file.kind == "parquet" else "a compressed file"
            plan.remarks.append(
                f"{file.path}: {what} is not divided, so one worker predicts {largest:,} of the "
                f"{total:,} rows."
            )
    if len(plan.input_nos) > wire.SHARDS_MAX:
        raise BadInput(
            f"predict.shard_rows: {total:,} rows make {len(plan.input_nos):,} shards, and "
            f"{wire.SHARDS_MAX:,} are possible; raise it."
        )
    return plan


def find_inputs(patterns: Sequence[str]) -> list[tuple[Path, wire.InputKind]]:
    """Return files and folders by pattern, in the order of their names within each; none twice.
    Raises BadInput."""
    found: dict[Path, wire.InputKind] = {}
    for pattern in patterns:
        names = [pattern] if Path(pattern).exists() else _names_of(pattern)
        if not names:
            raise BadInput(f"predict.inputs: {pattern} matches no file on {os.uname().nodename}.")
        for name in names:
            path = Path(name)
            found.setdefault(path, _kind_of(path))
    if len(found) > wire.INPUTS_MAX:
        raise BadInput(
            f"predict.inputs: {len(found):,} files are more than {wire.INPUTS_MAX:,}; put rows "
            "together into larger ones."
        )
    return list(found.items())


def _names_of(pattern: str) -> list[str]:
    # Path.glob takes no absolute pattern.
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207


def describe_change(file: wire.InputFile) -> str:
    """Return how an input differs from what it was; "" if it does not. Times alone do not matter where
    the content can be compared: another node may have a copy."""
    path = Path(file.path)
    try:
        if file.kind == "images":
            is_same = images_of(file.path).digest == file.digest
            return "" if is_same else "its images are not those that it had"
        stat = path.stat()
        if stat.st_size != file.size_bytes:
            return f"it has {stat.st_size:,} bytes, and had {file.size_bytes:,}"
        if stat.st_mtime_ns == file.mtime_ns:
            return ""
        digest = _digest_of(file.path, file.kind, stat.st_size, stat.st_mtime_ns)
        return "" if digest == file.digest else "its content is another"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except (BadInput, NotParquet) as error:
        return str(error)


def _kind_of(path: Path) -> wire.InputKind:
    if path.is_dir():
        return "images"
    name = path.name.lower()
    for suffix, kind in _SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    raise BadInput(
        f"predict.inputs: {path} is of no kind that is known; use {', '.join(_SUFFIXES)}, or a folder "
        "of images."
    )


# ---------------------------------------------------------------- counting

_Counted = tuple[wire.InputFile, Callable[[int], Iterator[_Cut]]]
"""An input, and what cuts it into shards of so many rows."""


def _count(path: Path, kind: wire.InputKind) -> _Counted:
    try:
        if kind == "images":
            return _count_images(path)
        if kind == "parquet":
            return _count_parquet(path)
        return _count_lines(path, kind)
    except OSError as error:
        raise BadInput(f"predict.inputs: {path}: {error.strerror or error}.") from error
    except (NotParquet, EOFError, zlib.error) as error:
        raise BadInput(f"predict.inputs: {path}: {error}.") from error


def _count_lines(path: Path, kind: wire.InputKind) -> _Counted:
    """Count the lines, and remember where every thousandth begins."""
    stat = path.stat()
    marks = [0]
    num_rows = at = last = 0
    digest = hashlib.sha256()
    with gzip.open(path) if kind == "jsonl_gz" else path.open("rb") as lines:
        while chunk := lines.read(CHUNK_BYTES):
            if kind == "jsonl":
                digest.update(chunk)
            begin = 0
            while (position := chunk.find(b"\n", begin)) >= 0:
                begin = position + 1
                num_rows += 1
                if not num_rows % MARK_ROWS:
                    marks.append(at + begin)
            at += len(chunk)
            last = chunk[-1]
    if at and last != ord("\n"):
        num_rows += 1
    file = wire.InputFile(
        path=str(path),
        kind=kind,
        size_bytes=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        digest=digest.hexdigest() if kind == "jsonl" else _digest(path, kind),
        num_rows=num_rows,
    )

    def cut(rows: int) -> Iterator[_Cut]:
        if kind == "jsonl_gz":
            if num_rows:
                yield _Cut(first_row=0, num_rows=num_rows, start=0, end=at)
            return
        with path.open("rb") as content:
            start = 0
            for first in range(0, num_rows, rows):
                end_row = min(first + rows, num_rows)
                end = at if end_row == num_rows else _byte_of_row(content, marks, end_row)
                yield _Cut(first_row=first, num_rows=end_row - first, start=start, end=end)
                start = end

    return file, cut


MARK_ROWS = 1_000
"""Rows from one remembered position in a file of JSON lines to the next."""


def _byte_of_row(content: BinaryIO, marks: Sequence[int], row: int) -> int:
    mark = row // MARK_ROWS
    content.seek(marks[mark])
    for _ in range(row - mark * MARK_ROWS):
        content.readline()
    return content.tell()


def _count_parquet(path: Path) -> _Counted:
    stat = path.stat()
    layout = read_layout(path)
    file = wire.InputFile(
        path=str(path),
        kind="parquet",
        size_bytes=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        digest=hashlib.sha256(layout.footer).hexdigest(),
        num_rows=sum(layout.nums_rows),
    )

    def cut(rows: int) -> Iterator[_Cut]:
        first_row = start = num = 0
        for group, num_rows in enumerate(layout.nums_rows):
            if num and num + num_rows > rows:
                yield _Cut(first_row=first_row, num_rows=num, start=start, end=group)
                first_row, start, num = first_row + num, group, 0
            num += num_rows
        if num:
            yield _Cut(first_row=first_row, num_rows=num, start=start, end=len(layout.nums_rows))

    return file, cut


def _count_images(path: Path) -> _Counted:
    listed = _list_images(path)
    if not listed.names:
        raise BadInput(
            f"predict.inputs: {path} is a folder without images; for other files write a pattern such "
            f"as {path}/*.jsonl."
        )
    file = wire.InputFile(
        path=str(path),
        kind="images",
        size_bytes=listed.size_bytes,
        mtime_ns=0,
        digest=listed.digest,
        num_rows=len(listed.names),
    )

    def cut(rows: int) -> Iterator[_Cut]:
        for first in range(0, len(listed.names), rows):
            end = min(first + rows, len(listed.names))
            yield _Cut(first_row=first, num_rows=end - first, start=first, end=end)

    return file, cut


@dataclass(frozen=True, kw_only=True)
class ImageList:
    names: list[str]
    """Relative paths, sorted."""
    size_bytes: int
    digest: str
    """Digest of names, sizes and times: copies have to keep the times, as `rsync -a` does."""


def _list_images(path: Path) -> ImageList:
    files: list[tuple[str, int, int]] = []
    for folder, _, names in os.walk(path):
        for name in names:
            if Path(name).suffix.lower() not in IMAGE_SUFFIXES:
                continue
            full = Path(folder, name)
            stat = full.stat()
            files.append((str(full.relative_to(path)), stat.st_size, stat.st_mtime_ns))
            if len(files) > IMAGES_MAX:
                raise BadInput(f"predict.inputs: {path} has more than {IMAGES_MAX:,} images.")
    files.sort()
    digest = hashlib.sha256()
    for name, size, mtime_ns in files:
        digest.update(f"{name}\0{size}\0{mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return ImageList(
        names=[name for name, _, _ in files],
        size_bytes=sum(size for _, size, _ in files),
        digest=digest.hexdigest(),
    )


@functools.lru_cache(maxsize=4)
def images_of(path: str) -> ImageList:
    """Return the images of a folder, as they are when a process asks for the first time."""
    return _list_images(Path(path))


@functools.lru_cache(maxsize=wire.INPUTS_MAX)
def _digest_of(path: str, kind: wire.InputKind, size_bytes: int, mtime_ns: int) -> str:
    return _digest(Path(path), kind)


def _digest(path: Path, kind: wire.InputKind) -> str:
    if kind == "parquet":
        return hashlib.sha256(read_layout(path).footer).hexdigest()
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
