"""Environments and data sets that are deleted: the least recently used ones, and what killed builders left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

UV_CACHE = "uv-cache"
_COMPLETE = ".complete"
_PROJECTS = "project-*"


def marker_of(path: Path) -> Path:
    """Return the file beside an environment that says that it is complete, how large it is, and by
    its time, when it was used last."""
    return path.with_name(f"{path.name}{_COMPLETE}")


def collect(top: Path, *, limit_bytes: int) -> list[Path]:
    """Delete the least recently used environments until the rest fits, except those in use, and what
    is left of builds. Return the folders in which environments were deleted: `top`, or those of
    projects in it."""
    folders = [top, *top.glob(_PROJECTS)]
    found: list[tuple[float, int, Path]] = []
    for folder in folders:
        for rest in folder.glob(".old-*"):
            remove(rest)
        for path in folder.iterdir():
            is_environment = path.is_dir() and path.name != UV_CACHE and path not in folders
            if not is_environment:
                continue
            try:
                marker = marker_of(path)
                size_bytes = int(json.loads(marker.read_text())["size_bytes"])
                found.append((marker.stat().st_mtime, size_bytes, path))
            except FileNotFoundError:  # By a builder that was killed; one that builds has the lock.
                _delete(path)
            except (OSError, ValueError, KeyError):
                continue
    total = 0
    touched = []
    for _, size_bytes, path in sorted(found, reverse=True):
        total += size_bytes
        if total > limit_bytes and _delete(path):
            total -= size_bytes
            touched.append(path.parent)
    return list(dict.fromkeys(touched))


def _delete(path: Path) -> bool:
    """Delete an environment unless somebody uses it."""
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trash = path.with_name(f".old-{path.name}")
        marker_of(path).unlink(missing_ok=True)
        path.rename(trash)
    except OSError:
        return False
    finally:
        os.close(lock)
    remove(trash)
    return True


def remove(path: Path) -> None:
    """Delete a folder as far as that is possible, with folders in it that are closed to writing."""
    with contextlib.suppress(OSError):
        for *_, fd in os.fwalk(path):
            os.fchmod(fd, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def size_on_disk(path: Path) -> int:
    """Return the bytes that deleting a folder frees. Files shared with uv's cache count in part."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(folder, name))  # noqa: PTH118
                total += found.st_blocks * 512 // max(found.st_nlink, 1)
    return total
