"""Notification about the end of a process that is another process's child.

torchrun's workers are torchrun's children. It notices the end of one within 0.1 s, collects its
status, and tells nobody before it has ended all the others, which may take it ten seconds. A pid
descriptor becomes readable the moment the process ends; until its parent has collected it, the
status can be read from procfs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from muster_agent.jobs.process import Identity, is_alive

_EXIT_CODE_FIELD = 49
"""Index of the exit code in /proc/PID/stat, counted from the state, which is 0."""


def watch_end(identity: Identity, on_end: Callable[[int | None], None]) -> bool:
    """Call `on_end` from the event loop when the process has ended.

    It gets the exit code, minus the signal, or None when the parent was faster than we. False, and
    nothing is called, where this cannot be done: the kernel is too old, or the process is gone.
    """
    if not hasattr(os, "pidfd_open") or sys.platform != "linux":
        return False
    try:
        fd = os.pidfd_open(identity.pid)
    except OSError:
        return False
    if not is_alive(identity):
        os.close(fd)
        return False
    loop = asyncio.get_running_loop()

    def ended() -> None:
        status = exit_status(identity)
        loop.remove_reader(fd)
        os.close(fd)
        on_end(status)

    loop.add_reader(fd, ended)
    return True


def exit_status(identity: Identity) -> int | None:
    """Return the exit code, or minus the signal, of a process that has ended and was not collected
    yet."""
    return uncollected_status(identity.pid, start_ticks=identity.start_ticks)


def uncollected_status(pid: int, *, start_ticks: int | None = None) -> int | None:
    """Return the same by its pid; None if it lives or is gone, or was started at another time."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0] == b"Z" and start_ticks in (None, int(fields[19])):
            return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE_FIELD]))
    return None
