"""Allocations that were on this node and are deleted: none of them is ever started again.

A server whose database was restored from a backup, or lost its last seconds in a failover, may ask
for one that ran here already. It must not run twice: outside effects apart, what it reported then
would be mixed with what it reports now.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOST_KEPT = 10_000


class AllocationHistory:
    """Allocation ids, one per line, the latest last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines: list[str] = []
        with contextlib.suppress(OSError):
            lines = path.read_text().split()
        if len(lines) > 2 * MOST_KEPT:
            lines = lines[-MOST_KEPT:]
            temporary = path.with_name(f".{path.name}.new")
            with contextlib.suppress(OSError):
                temporary.write_text("".join(f"{line}\n" for line in lines))
                temporary.replace(path)
        self._ids = set(lines)

    def __contains__(self, allocation_id: str) -> bool:
        return allocation_id in self._ids

    def add(self, allocation_id: str) -> None:
        """Remember an allocation, durably if the disk permits."""
        if allocation_id in self._ids:
            return
        self._ids.add(allocation_id)
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(f"{allocation_id}\n")
            file.flush()
            os.fsync(file.fileno())
