"""A small disk of its own for a folder, so that it can be full without harm to others.

A file system in memory; mounting one takes rights that not everybody has: see `can_mount`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile
from pathlib import Path

SIZE_MIB = 256
"""Enough for what the chaos writes, and for the room that `muster up` and agents ask for."""
BALLAST = ".ballast"


def can_mount() -> bool:
    """Whether this process may; tried, for rights depend on more than who we are."""
    with tempfile.TemporaryDirectory(prefix="muster-mount-") as folder:
        disk = SmallDisk(Path(folder))
        try:
            disk.mount(size_mib=1)
        except (OSError, subprocess.CalledProcessError):
            return False
        disk.unmount()
        return True


class SmallDisk:
    """Whatever lies in `folder` from `mount` to `unmount`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, *, size_mib: int = SIZE_MIB) -> None:
        """Over an empty folder, which is made if need be."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={size_mib}m,mode=700"
        command = ["mount", "-t", "tmpfs", "-o", options, "muster-chaos", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)

    def unmount(self) -> None:
        """What lay in it is gone. A disk that is still in use goes away with its last user."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)

    def fill(self) -> None:
        """To the last byte."""
        fd = os.open(self.folder / BALLAST, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            size = 0
            for piece in (16 * 2**20, 2**20, 2**16, 2**12):
                with contextlib.suppress(_NoRoom):
                    while True:
                        _reserve(fd, size, piece)
                        size += piece
        finally:
            os.close(fd)

    def empty(self) -> None:
        (self.folder / BALLAST).unlink(missing_ok=True)


class _NoRoom(Exception):
    pass


def _reserve(fd: int, offset: int, size: int) -> None:
    try:
        os.posix_fallocate(fd, offset, size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _NoRoom from None
        raise
