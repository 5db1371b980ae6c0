"""Collect what this process inherits, as soon as it has ended. Linux only.

A process inherits what its descendants leave behind when it is a *sub-reaper*, or the first process of its
machine or container. Until it has collected what has ended, that is a zombie. A zombie is not only
untidy: the first process of a sandbox cannot end before all in there are collected.

What a process has started by itself is not collected here: whoever started it gets its exit code. These
are kept apart because all of them are started by `subprocess.Popen`, which is extended here, or by
`muster.launch.forkserver`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

_PR_SET_CHILD_SUBREAPER = 36
_IS_LINUX = sys.platform == "linux"


class Owned(Protocol):
    """A child whose exit code is kept for whoever started it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...


_lock = threading.Lock()
_is_on = False
_before: frozenset[int] = frozenset()
"""Children from before `adopt`: nothing is known of who waits for them."""
_num_starting = 0
_started: weakref.WeakSet[Owned] = weakref.WeakSet()
_polled: weakref.WeakSet[Owned] = weakref.WeakSet()


class _Popen(subprocess.Popen[Any]):
    """A process that is not collected but by who started it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with starting():
            super().__init__(*args, **kwargs)
            with _lock:
                _started.add(self)


def adopt() -> None:
    """Make orphans of our descendants our children, and let `collect` collect them.

    To be called before anything is started, by a process that calls `collect` on every SIGCHLD. Once is
    enough.
    """
    global _is_on, _before
    if _is_on or not _IS_LINUX:
        return
    _is_on = True
    _before = frozenset(_children())
    subprocess.Popen = _Popen  # type: ignore[misc]  # asyncio and subprocess.run start by it, too
    # Without it we are still what a container's first process is.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Let nothing be collected inside the block, in which a child is started and noted as owned."""
    global _num_starting
    with _lock:
        _num_starting += 1
    try:
        yield
    finally:
        with _lock:
            _num_starting -= 1
        collect()


def keep(child: Owned) -> None:
    """Note, while it is being started, that the exit code of this child is for whoever holds `child`.
    `collect` polls it, so that it is no zombie until somebody asks."""
    with _lock:
        _polled.add(child)


def collect() -> None:
    """Collect what has ended and was not started by us. Never blocks; may be called in any thread."""
    if not _is_on:
        return
    with _lock:
        polled = list(_polled)
    for child in polled:
        child.poll()
    for pid in _ended():
        with _lock:
            if _num_starting:
                return  # It may be what is being started; who starts it calls us.
            owned = {c.pid for c in (*_started, *_polled) if c.returncode is None}
        if pid in owned or pid in _before:
            continue
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def _ended() -> list[int]:
    """Return our children that have ended and are not collected."""
    first = _peek(os.P_ALL, 0)
    if not first:
        return []
    # Behind one that has an owner, others may have ended.
    return [pid for pid in _children() if _peek(os.P_PID, pid)] or [first]


def _peek(kind: int, pid: int) -> int:
    """Return the pid of a child that has ended, which stays what it is; 0 if there is none."""
    try:
        found = os.waitid(kind, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return found.si_pid if found is not None else 0


def _children() -> list[int]:
    """Return all children of this process; none where the kernel does not list them."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208  # a thread may end meanwhile
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/self/task/{task}/children").read_text().split())
    return found
