"""Environments that are deleted: the least recently used ones, and what killed builders left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

COMPLETE = ".complete"
USED = ".used"
UV_CACHE = "uv-cache"


def collect(folder: Path, *, limit_bytes: int) -> int:
    """Delete the least recently used environments until the rest fits, except those in use, and what
    is left of builds. Return the number of environments deleted."""
    for rest in folder.glob(".old-*"):
        shutil.rmtree(rest, ignore_errors=True)
    for path in folder.iterdir():
        is_left = path.is_dir() and path.name != UV_CACHE and not (path / COMPLETE).exists()
        if is_left:  # By a builder that was killed; one that builds holds the lock.
            _delete(path)
    found: list[tuple[float, int, Path]] = []
    for marker in folder.glob(f"*/{COMPLETE}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            size_bytes = int(json.loads(marker.read_text())["size_bytes"])
            found.append(((marker.parent / USED).stat().st_mtime, size_bytes, marker.parent))
    total, num_deleted = 0, 0
    for _, size_bytes, path in sorted(found, reverse=True):
        total += size_bytes
        if total > limit_bytes and _delete(path):
            total -= size_bytes
            num_deleted += 1
    return num_deleted


def _delete(path: Path) -> bool:
    """Delete an environment unless somebody uses it."""
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trash = path.with_name(f".old-{path.name}")
        path.rename(trash)
    except OSError:
        return False
    finally:
        os.close(lock)
    shutil.rmtree(trash, ignore_errors=True)
    return True


def size_on_disk(path: Path) -> int:
    """Return the bytes that deleting a folder frees. Files shared with uv's cache count in part."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(folder, name))  # noqa: PTH118
                total += found.st_blocks * 512 // max(found.st_nlink, 1)
    return total
