"""End with the process that started us, however it ends.

`muster up` gives every process it starts the read end of a pipe whose write end only it holds.
The kernel closes that pipe when `muster up` dies, also by SIGKILL, and reading it then returns
end-of-file. No polling, no process ids to confuse, and alike on Linux and macOS.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

VARIABLE = "MUSTER_LIFELINE_FD"

_own: list[int] = []
"""Descriptors of this process's own pipe, if it has made one. The second is held until it dies."""


def begin() -> None:
    """Become the process that children end with: those that get `fd_for_children`.

    Children that are given it end with this process even where it was given none itself. Does
    nothing the second time.
    """
    if not _own:
        _own.extend(os.pipe())


def watch(on_lost: Callable[[], None]) -> bool:
    """Call `on_lost` from a daemon thread when the lifeline is cut.

    Returns False, and does nothing, when this process was not given one.
    """
    fd = lifeline_fd()
    if fd is None:
        return False

    def wait() -> None:
        # A closed or invalid descriptor counts as cut: better to stop than to be left behind.
        try:
            while os.read(fd, 1):
                pass
        except OSError:
            pass
        on_lost()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
    return True


def is_cut() -> bool:
    """Return whether this process's starter has ended; False when it was given no lifeline."""
    fd = lifeline_fd()
    return fd is not None and bool(select.select([fd], [], [], 0)[0])


def fd_for_children() -> int | None:
    """Return the descriptor to be passed on (`pass_fds`) to children that must end with this process:
    that of its own pipe, else the inherited one."""
    return _own[0] if _own else lifeline_fd()


def lifeline_fd() -> int | None:
    """Return the inherited descriptor; None if there is none."""
    value = os.environ.get(VARIABLE, "")
    return int(value) if value.isdigit() else None
