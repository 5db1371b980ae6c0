"""Files that a job has written, opened by a process that may read more than the job.

A job can put a link to any file in the place of one that is read on its behalf, or a pipe that keeps
the reader waiting. Both are refused here, also while they are being exchanged.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def opened(path: Path, *, base: Path, flags: int = os.O_RDONLY) -> Iterator[IO[bytes]]:
    """Yield a regular file below `base`, reached without a link. Raises OSError for anything else.

    base: folder that the job cannot replace.
    flags: of os.open; with O_RDWR the file can be written, too.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_there = stat.S_ISREG(os.fstat(fd).st_mode) and _is_at(fd, path, base)
    except BaseException:
        os.close(fd)
        raise
    if not is_there:
        os.close(fd)
        raise OSError(errno.ELOOP, "no regular file, or reached by a link", str(path))
    mode = "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b"
    with os.fdopen(fd, mode) as file:
        yield file


def read_text(path: Path, *, base: Path, max_bytes: int) -> str:
    """Return the first `max_bytes` of such a file as text; undecodable bytes become replacement
    characters. Raises OSError."""
    with opened(path, base=base) as file:
        return file.read(max_bytes).decode(errors="replace")


def _is_at(fd: int, path: Path, base: Path) -> bool:
    """Return whether the open file lies where `path` says, seen from the real `base`."""
    if sys.platform != "linux":
        return True
    expected = Path(os.path.realpath(base)) / path.relative_to(base)
    return Path(f"/proc/self/fd/{fd}").readlink() == expected
