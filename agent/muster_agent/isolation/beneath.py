"""Files below a folder that a job may write: no link on the way to them is ever followed.

A path that is opened as a whole can lead anywhere, because a job can replace each of its folders by a
link. Here every folder is opened by its name in the one before, and must be a folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

PATH_MAX_CHARS = 1_000
NAME_MAX_BYTES = 255
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LeadsOutside(Exception):
    """A path is none of a file below a folder; the message says why."""


def parts_of(path: str) -> list[str]:
    """Return the names in a relative path with slashes. Raises LeadsOutside for every path that is
    not written in the one plain way, such as `a/../b`, `/a` and `a//b`."""
    parts = path.split("/")
    shown = "".join(c if c.isprintable() else "?" for c in path[:120])
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise LeadsOutside(f"{shown!r} is not a path within the folder")
    too_long = any(len(os.fsencode(part)) > NAME_MAX_BYTES for part in parts)
    if too_long or len(path) > PATH_MAX_CHARS:
        raise LeadsOutside(f"{shown!r} is too long for a path")
    return parts


def open_root(path: str | Path) -> int:
    """Open a folder that no job may replace. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_folder(root: int, parts: Sequence[str], *, create: bool = False) -> int:
    """Return a new descriptor of a folder below `root`. Raises OSError: NotADirectoryError for a
    link or a file on the way, FileNotFoundError without `create`."""
    fd = os.dup(root)
    try:
        for part in parts:
            try:
                inner = _open_one(part, fd)
            except FileNotFoundError:
                if not create:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
                inner = _open_one(part, fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def folder(root: int, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Yield what `open_folder` returns, and close it."""
    fd = open_folder(root, parts, create=create)
    try:
        yield fd
    finally:
        os.close(fd)


def names_in(fd: int) -> list[str]:
    """Return the names of everything in a folder, sorted."""
    with os.scandir(fd) as entries:
        return sorted(entry.name for entry in entries)


def force_folder(root: int, parts: Sequence[str]) -> int:
    """Return a new descriptor of a folder below `root`; what is in its way and no folder is
    deleted. Raises OSError."""
    fd = os.dup(root)
    try:
        for part in parts:
            try:
                inner = _open_one(part, fd)
            except NotADirectoryError:
                os.unlink(part, dir_fd=fd)
                inner = -1
            except FileNotFoundError:
                inner = -1
            if inner < 0:
                os.mkdir(part, 0o755, dir_fd=fd)
                inner = _open_one(part, fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_file(name: str, parent: int) -> int:
    """Open a file for reading without waiting for anybody, even if it is a FIFO. The caller checks
    what it is. Raises OSError."""
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)


def remove(parent: int, name: str) -> None:
    """Remove whatever has this name, with all that is in it; nothing if nothing has. Raises
    OSError."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=parent)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(name, dir_fd=parent)


def _open_one(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, "is a link", name) from None
        raise
