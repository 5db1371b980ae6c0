"""What lies in a work folder, and whether a file of it is whole."""

from __future__ import annotations

import fcntl
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from muster_agent.isolation import beneath

DEPTH_MAX = 64
"""Deepest folder that is looked into."""
ENTRIES_MAX = 500_000
"""Most entries of a work folder that one scan looks at."""
QUIET_S = 30.0
"""Seconds since the last change after which a file counts as whole, where the system cannot tell
whether it is open for writing."""

Signature = tuple[int, int, int, int]
"""Inode, size in bytes, and times of the last change of content and of the file, in ns."""


class TooManyFiles(Exception):
    """The folder has more entries than a scan looks at; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """An entry of a work folder that is no folder."""

    path: str
    """Path relative to the work folder, as the file system spells it."""
    kind: Literal["file", "link", "other"]
    signature: Signature
    device: int
    size_bytes: int
    mtime_ns: int
    mode: int
    target: str = ""
    """Text of a link."""
    reason: str = ""
    """Why an entry of kind "other" cannot be kept."""


def signature_of(found: os.stat_result) -> Signature:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def scan(root: int, is_left_out: Callable[[str], bool]) -> Iterator[FoundFile]:
    """Yield every entry below a folder that is no folder itself, sorted within each folder.

    is_left_out: whether a folder, by its path with a slash at the end, is not looked into.
    Raises TooManyFiles, and OSError if the folder itself cannot be read.
    """
    left = ENTRIES_MAX
    for found in _scan(root, "", 0, is_left_out):
        left -= 1
        if left < 0:
            raise TooManyFiles(
                f"the work folder has more than {ENTRIES_MAX:,} files: none beyond them are looked at"
            )
        yield found


def _scan(
    folder: int, prefix: str, depth: int, is_left_out: Callable[[str], bool]
) -> Iterator[FoundFile]:
    for name in beneath.names_in(folder):
        path = prefix + name
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # It is gone again.
        if not stat.S_ISDIR(found.st_mode):
            yield _entry(path, name, folder, found)
            continue
        if is_left_out(path + "/"):
            continue
        if depth >= DEPTH_MAX:
            yield _other(path, found, f"it is more than {DEPTH_MAX} folders deep")
            continue
        try:
            inner = beneath.open_folder(folder, [name])
        except FileNotFoundError:
            continue
        except OSError as error:
            yield _other(path, found, f"the folder cannot be read: {error.strerror}")
            continue
        try:
            yield from _scan(inner, path + "/", depth + 1, is_left_out)
        finally:
            os.close(inner)


def _entry(path: str, name: str, folder: int, found: os.stat_result) -> FoundFile:
    if stat.S_ISREG(found.st_mode):
        return FoundFile(
            path=path,
            kind="file",
            signature=signature_of(found),
            device=found.st_dev,
            size_bytes=found.st_size,
            mtime_ns=found.st_mtime_ns,
            mode=stat.S_IMODE(found.st_mode),
        )
    if not stat.S_ISLNK(found.st_mode):
        return _other(path, found, f"it is {_kind(found.st_mode)}")
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        return _other(path, found, f"the link cannot be read: {error.strerror}")
    return FoundFile(
        path=path,
        kind="link",
        signature=signature_of(found),
        device=found.st_dev,
        size_bytes=0,
        mtime_ns=found.st_mtime_ns,
        mode=0o777,
        target=target,
    )


def _other(path: str, found: os.stat_result, reason: str) -> FoundFile:
    return FoundFile(
        path=path,
        kind="other",
        signature=signature_of(found),
        device=found.st_dev,
        size_bytes=0,
        mtime_ns=found.st_mtime_ns,
        mode=stat.S_IMODE(found.st_mode),
        reason=reason,
    )


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def link_inside(path: str, target: str, root: str) -> str | None:
    """Return the target of a link at `path` relative to its folder; None if it points outside.

    root: path of the work folder, for targets that are absolute paths within it."""
    if target.startswith("/"):
        inside = posixpath.relpath(posixpath.normpath(target), root)
    else:
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if inside == ".." or inside.startswith("../") or not target:
        return None
    return posixpath.relpath(inside, posixpath.dirname(path) or ".")


def is_being_written(fd: int) -> bool | None:
    """Return whether anybody has the file of a read-only descriptor open for writing, also by a
    mapping into memory; None where the system cannot tell: other owners' files, NFS, FUSE."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


Verdict = Literal["take", "take_prefix", "compare", "wait"]


def judge(
    now: Signature,
    *,
    before: Signature | None,
    kept: Literal["", "kept", "growing"],
    kept_signature: Signature | None,
    kept_bytes: int,
    is_written: bool | None,
    age_s: float,
    is_final: bool,
) -> Verdict:
    """Decide what to do with a file that differs from what is stored. Pure.

    now, before: signatures at this scan and at the one before, None if it was not there.
    kept, kept_signature, kept_bytes: what is stored of it, and how it looked then.
    is_written: whether somebody has it open for writing; None if unknown.
    age_s: seconds since its last change.
    take: the whole file. take_prefix: what has been written so far, because it stays open. compare:
    take_prefix if what is stored is still its beginning, else wait. wait: keep what is stored.
    """
    if is_final or is_written is False:
        return "take"
    is_unchanged = before == now
    if is_written is None and is_unchanged and age_s >= QUIET_S:
        return "take"
    if before is None or before[0] != now[0] or now[1] < before[1]:
        return "wait"  # It is new, or is written from its beginning.
    if is_written is None and is_unchanged:
        return "wait"
    if kept == "":
        return "take_prefix"
    is_same_file = kept_signature is not None and kept_signature[0] == now[0]
    if not is_same_file or now[1] < kept_bytes:
        return "wait"
    return "take_prefix" if kept == "growing" else "compare"
