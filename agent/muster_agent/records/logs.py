"""The output of an allocation's processes, as files that are read by byte offset.

Workers write to files, never to pipes: a reader that stops must not stop training. What is sent is
a *cut view* of each file: its first `limit_bytes` bytes, then, if it holds more, one marker line.
The view depends on the file and the limit alone, so any offset can be resumed after a restart.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muster.wire import LAUNCHER_LOCAL_RANK
from muster_agent.isolation.untrusted import opened, read_text
from muster_agent.records.masking import NO_MASK, Mask

Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")

KEPT_TAIL_BYTES = 1024 * 1024
"""Bytes kept on disk at the end of a log past its limit: they hold the reason of a failure."""

MAX_ERROR_BYTES = 4 * 2**20
_ERROR_FILES = ("exception.json", "error.json")
"""Files in which a failed worker leaves its exception, by muster.launch.uncaught and by torch."""
_NAMES = frozenset({"stdout.log", "stderr.log", *_ERROR_FILES})
_ESCAPE_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""A CSI sequence, such as a color, or an OSC sequence, such as a link."""
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01


@dataclass(frozen=True)
class LogFile:
    local_rank: int
    stream: Stream
    path: Path


def launcher_log(logs: Path, stream: Stream) -> Path:
    """Return the log of the launcher itself (filed under local rank -1)."""
    return logs / "launcher" / f"{stream}.log"


def find_logs(logs: Path) -> list[LogFile]:
    """Return all logs that exist now; more appear while workers start."""
    found = [
        LogFile(LAUNCHER_LOCAL_RANK, stream, launcher_log(logs, stream))
        for stream in STREAMS
        if launcher_log(logs, stream).exists()
    ]
    # torchrun creates <run id>_<random>/attempt_0/<local rank>/; we create direct/<local rank>/.
    folders = [*logs.glob("direct/*"), *logs.glob("torchrun/*/attempt_0/*")]
    for folder in sorted(folders):
        if not folder.name.isdigit():
            continue
        for stream in STREAMS:
            path = folder / f"{stream}.log"
            if path.exists():
                found.append(LogFile(int(folder.name), stream, path))
    return found


def read_error(path: Path) -> str:
    """Return the text of an error file. Raises OSError."""
    return read_text(path, base=_base(path), max_bytes=MAX_ERROR_BYTES)


def error_file(logs: Path, local_rank: int) -> Path | None:
    """Return the file in which a failed worker left its exception, if there is one."""
    for pattern in (f"direct/{local_rank}", f"torchrun/*/attempt_0/{local_rank}"):
        for folder in logs.glob(pattern):
            for name in _ERROR_FILES:
                if (folder / name).exists():
                    return folder / name
    return None


def uncaught_exception(logs: Path, *, since: float) -> Path | None:
    """Return the newest file in which a Python process of the job left the exception that ended it, if
    it was written after `since`, in seconds since the epoch."""
    found = []
    for pattern in ("launcher", "direct/*"):
        for path in logs.glob(f"{pattern}/{_ERROR_FILES[0]}"):
            with contextlib.suppress(OSError):
                found.append((path.lstat().st_mtime, path))
    at, newest = max(found, default=(0.0, logs))
    return newest if at > since else None


def has_output(logs: Path) -> bool:
    """Return whether anything was printed."""
    for file in find_logs(logs):
        with contextlib.suppress(OSError):
            if file.path.stat().st_size:
                return True
    return False


def read_cut(
    path: Path,
    offset: int,
    *,
    limit_bytes: int,
    max_bytes: int,
    mask: Mask = NO_MASK,
    is_final: bool = True,
) -> bytes:
    """Return up to `max_bytes` of the cut view from `offset`; empty at its current end.

    mask: hides secrets, without changing lengths. is_final: see Mask.read.
    """
    try:
        with opened(path, base=_base(path)) as file:
            size = os.fstat(file.fileno()).st_size
            num_wanted = min(max_bytes, limit_bytes - offset)
            data = mask.read(file, offset, num_wanted, is_final=is_final)
    except OSError as error:
        if not _is_nothing(error):
            raise
        return b""
    if size > limit_bytes and offset + len(data) >= limit_bytes:
        marker = cut_marker(limit_bytes)
        start = offset + len(data) - limit_bytes
        data += marker[start : start + max_bytes - len(data)]
    return data


def cut_size(path: Path, *, limit_bytes: int) -> int:
    """Return the current length of the cut view in bytes."""
    try:
        with opened(path, base=_base(path)) as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        if not _is_nothing(error):
            raise
        return 0
    return size if size <= limit_bytes else limit_bytes + len(cut_marker(limit_bytes))


def cut_marker(limit_bytes: int) -> bytes:
    return (
        f"\n[muster] log cut here: this stream passed its limit of {limit_bytes} bytes "
        "(log_limit_mb). The worker goes on; what it writes from here on is not kept.\n"
    ).encode()


def tail(path: Path, *, max_bytes: int = 65_536, mask: Mask = NO_MASK) -> str:
    """Return the end of a log as text without the escape codes that color a terminal; undecodable
    bytes become replacement characters."""
    try:
        with opened(path, base=_base(path)) as file:
            size = os.fstat(file.fileno()).st_size
            data = mask.read(file, max(0, size - max_bytes), max_bytes)
            return _ESCAPE_CODE.sub("", data.decode("utf-8", "replace").replace("\0", ""))
    except OSError:
        return ""


def free_past_limit(path: Path, *, limit_bytes: int) -> bool:
    """Release the disk space of the part of a log that is past its limit and neither sent nor
    needed.

    The worker holds the file open and writes at its own offset, so the file cannot be shortened;
    its blocks are freed instead and its length stays. False where the file system cannot.
    """
    start = limit_bytes + 4096
    length = path.stat().st_size - KEPT_TAIL_BYTES - start
    if length <= 0 or sys.platform != "linux":
        return False
    with opened(path, base=_base(path), flags=os.O_RDWR) as file:
        libc = ctypes.CDLL(None, use_errno=True)
        punched = libc.fallocate(
            file.fileno(),
            _PUNCH_HOLE_KEEP_SIZE,
            ctypes.c_longlong(start),
            ctypes.c_longlong(length),
        )
    return bool(punched == 0)


def _base(path: Path) -> Path:
    """Return the folder of logs that a log lies in, which its job cannot replace."""
    depth = {"direct": 3, "attempt_0": 5}.get(path.parent.parent.name, 2)
    return path.parents[depth - 1] if path.name in _NAMES else path.parent


def _is_nothing(error: OSError) -> bool:
    """Return whether there is no log: no file, or something else that the job has put there."""
    return error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR)
