"""Command line and environment of a forked process, as other processes see them. Linux only.

It needs the standard library alone: muster.launch.warm loads it by its path.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

ROOM_VARIABLE = "MUSTER_WARM_ROOM"
"""Variable that is first in the parent's environment and long: room for the marks of forked
processes."""


class Unfit(Exception):
    """This process cannot be a parent, or not of this worker; the message is one sentence."""


class Label:
    """Command line and environment of this process as other processes see them in procfs.

    A forked process keeps those of its parent. The kernel reads both from the process's own
    memory, where they lie since its start: what is written there is seen, and inherited by
    whatever forks from it. So a forked worker carries the marks by which it is found.
    """

    def __init__(self) -> None:
        """Find the room. Raises Unfit if it was not left, or procfs does not say where it is."""
        room = os.environ.pop(ROOM_VARIABLE, "")
        try:
            stat = Path("/proc/self/stat").read_bytes()
        except OSError as error:
            raise Unfit(f"/proc/self/stat cannot be read: {error}") from error
        fields = stat[stat.rindex(b")") + 2 :].split()
        self._argv, self._argv_end, self._room = (int(fields[i]) for i in (45, 46, 47))
        self._size = len(ROOM_VARIABLE) + 1 + len(room)
        begin = ctypes.string_at(self._room, len(ROOM_VARIABLE)) if self._room else b""
        if not room or begin != ROOM_VARIABLE.encode():
            raise Unfit("the environment does not begin with the room for marks")

    def write(self, title: str, variables: dict[str, str]) -> None:
        """Show this command line, and these variables before those of the parent's start.

        Raises Unfit when they do not fit.
        """
        block = b"".join(os.fsencode(f"{k}={v}") + b"\0" for k, v in variables.items())
        filler = os.fsencode(ROOM_VARIABLE) + b"="
        rest = self._size - len(block) - len(filler)
        if rest < 0:
            raise Unfit(
                f"its own environment variables are {len(block)} bytes, and there is room for "
                f"{self._size - len(filler)}"
            )
        # The NUL that ends the first variable stays where it is, behind this.
        ctypes.memmove(self._room, block + filler + b" " * rest, self._size)
        # Without a NUL at its end the kernel takes the command line for one text up to a NUL.
        size = self._argv_end - self._argv
        text = os.fsencode(title)[: size - 2]
        ctypes.memmove(self._argv, text + b"\0" * (size - 1 - len(text)) + b" ", size)


def check_is_alone() -> None:
    """Raise Unfit if there are threads: only the one that forks lives on in the child, with the
    locks that the others held."""
    # Forking ends the threads of OpenBLAS, which starts them again when they are needed.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise Unfit(f"importing left {threads - 1} threads running")
