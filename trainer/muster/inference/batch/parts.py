"""The files of a batch inference: a part for each shard, its rows in error, and what lists them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster import wire

FOLDER = "predictions"
"""Folder of the files among the outputs that are always kept."""
MANIFEST = "_manifest.json"
FORMAT = "muster-predictions"
FORMAT_VERSION = 1
_PART = re.compile(r"part-(\d{5})-(\d{1,9})\.jsonl")


def part_name(no: int, token: int) -> str:
    """Return the name of the predictions of a shard under one lease."""
    return f"part-{no:05d}-{token}.jsonl"


def errors_name(no: int, token: int) -> str:
    return f"errors-{no:05d}-{token}.jsonl"


@dataclass(kw_only=True)
class OpenPart:
    """What was predicted of a shard so far."""

    no: int
    token: int
    lines: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    num_rows: int = 0
    num_errors: int = 0

    def add(self, lines: bytes, num_rows: int, errors: bytes, num_errors: int) -> None:
        self.lines.append(lines)
        self.errors.append(errors)
        self.num_rows += num_rows
        self.num_errors += num_errors

    def write(self, folder: Path) -> wire.ShardDone:
        """Write part and errors, each whole or not at all, and return what to commit. Raises OSError."""
        data = b"".join(self.lines)
        if self.num_errors:
            write_whole(folder / errors_name(self.no, self.token), b"".join(self.errors))
        write_whole(folder / part_name(self.no, self.token), data)
        return wire.ShardDone(
            no=self.no,
            token=self.token,
            num_rows=self.num_rows,
            num_errors=self.num_errors,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is on the disk, or not there, whatever happens. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_part(folder: Path, no: int, token: int) -> None:
    """Delete what was written under a lease that does not count."""
    for name in (part_name(no, token), errors_name(no, token)):
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def find_parts(folder: Path) -> list[list[int]]:
    """Return numbers and tokens of the parts in a folder, and delete what was cut off in the middle."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") and path.name.endswith(".tmp"):
            path.unlink(missing_ok=True)
        elif part := _PART.fullmatch(path.name):
            found.append([int(part[1]), int(part[2])])
    return found


def write_manifest(
    folder: Path, parts: Sequence[wire.CommittedPart], about: dict[str, Any]
) -> dict[str, Any]:
    """Write the list of the parts that count, in the order of the shards, and return it. Readers go by
    it, and ignore other files. Raises OSError."""
    listed = [
        {
            "part": part_name(no, part.token),
            "rows": part.num_rows,
            "size_bytes": part.size_bytes,
            "sha256": part.sha256,
            "num_errors": part.num_errors,
            "errors": errors_name(no, part.token) if part.num_errors else None,
        }
        for no, part in enumerate(parts)
    ]
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **about,
        "rows": sum(part.num_rows for part in parts),
        "num_errors": sum(part.num_errors for part in parts),
        "parts": listed,
    }
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    return manifest
