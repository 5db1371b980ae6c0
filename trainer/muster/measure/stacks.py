"""Say where every thread of this process is, on a signal, without the help of the interpreter.

The handler is Python's own faulthandler: it runs in C, so it answers also while a C call holds the
interpreter. Whoever sends the signal must see first that the handler is there: `can_answer`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from pathlib import Path

VARIABLE = "MUSTER_STACKS_DIR"
"""Variable with the file into which a worker writes its stacks."""
SIGNAL: int | None = signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else None
"""Signal that requests stacks; None on systems without it."""

_fd: int | None = None


def file_of(folder: Path, pid: int) -> Path:
    """Return the file of the process that knows itself under this pid."""
    return folder / f"{pid}.txt"


def install() -> bool:
    """Answer the signal from now on, if Muster is around and nobody else uses it."""
    global _fd
    folder = os.environ.get(VARIABLE)
    if not folder or SIGNAL is None:
        return False
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        if signal.getsignal(SIGNAL) != signal.SIG_DFL:
            return False
        path = file_of(Path(folder), os.getpid())
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        faulthandler.register(SIGNAL, file=fd, all_threads=True, chain=False)
        _fd = fd  # open for as long as the process lives
        return True
    return False


def own_pid(pid: int) -> int:
    """Return the pid that a process of this machine has for itself: another one in a sandbox."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return pid


def can_answer(folder: Path, pid: int) -> bool:
    """Return whether that process has called `install`, and catches the signal now. Without a
    handler the signal would end it."""
    if SIGNAL is None or not file_of(folder, own_pid(pid)).exists():
        return False
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (SIGNAL - 1) & 1)
    return False
