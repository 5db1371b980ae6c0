"""The identity of the leader lease's holder, so that another process can tell for certain when it
has ended.

A lease has to expire because a silent holder may be alive on a machine that cannot be asked. On
one's own machine the kernel can be asked, and a killed leader is replaced at once.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

MAX_HOSTNAME_CHARS = 40
_PROC = Path("/proc")


def own_name() -> str:
    """host:pid:random:place:start, at most 128 characters; unique per call."""
    parts = (
        socket.gethostname()[:MAX_HOSTNAME_CHARS].replace(":", "-"),
        str(os.getpid()),
        uuid.uuid4().hex[:8],
        _place(),
        _started(os.getpid()) or "",
    )
    return ":".join(parts)


def has_ended(holder: str) -> bool:
    """Return whether that process has ended for certain.

    False for one that lives, that ran elsewhere, or of which nothing is known: then only time
    tells.
    """
    parts = holder.split(":")
    if len(parts) != 5 or not parts[1].isdigit() or not parts[3] or parts[3] != _place():
        return False
    return _started(int(parts[1])) != parts[4]


def watch(holder: str, on_end: Callable[[], None]) -> None:
    """Call `on_end` from a daemon thread when that process ends, if it runs in this place and the
    kernel can tell (Linux)."""
    parts = holder.split(":")
    if sys.platform != "linux" or len(parts) != 5 or not parts[3] or parts[3] != _place():
        return
    try:
        fd = os.pidfd_open(int(parts[1]))
    except (OSError, ValueError):
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll()
        os.close(fd)
        on_end()

    threading.Thread(target=wait, name="leader", daemon=True).start()


def _place() -> str:
    """Return a name of the place where process ids mean the same: this boot of this kernel, and the
    namespace of ids.

    "" where that cannot be said.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        ids = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.sha256(f"{boot}{ids}".encode()).hexdigest()[:16]


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since boot; None if there is none, or it is a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # a name may hold anything, parentheses too
    return None if fields[0] in ("Z", "X") else fields[19]
