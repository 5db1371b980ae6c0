"""Why an allocation cannot run on this node."""

from __future__ import annotations

import errno
from typing import Literal

from muster import wire
from muster_agent.shim.processes.ports import NoPortFree

_PERMANENT = {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.E2BIG}
"""Reasons of the kernel not to run a program: its name, its file or its folder is wrong or closed."""


class PrepareFailed(Exception):
    """This node cannot run the allocation; the message is one clear sentence.

    blames: "placement" unless said otherwise: what was looked for is not here. passes: of a node,
    what goes by itself; see wire.StateRecord.
    """

    def __init__(
        self,
        message: str,
        *,
        blames: wire.Blame = "placement",
        passes: bool = False,
    ) -> None:
        super().__init__(message)
        self.blames = blames
        self.passes = passes


def goes_by_itself(error: OSError) -> bool:
    """Return whether an error is no sign of a sick node: a disk that is full, which the health checks
    find as well, or something of ours that took too long, as on a busy machine."""
    is_ours = isinstance(error, TimeoutError) and error.errno is None
    return is_ours or error.errno in (errno.ENOSPC, errno.EDQUOT)


def cause_of(error: Exception) -> Literal["port_in_use", "cannot_run", "launcher_failed"]:
    """Return why nothing could be started: "cannot_run" if it would fail in the same way again."""
    if isinstance(error, NoPortFree):
        return "port_in_use"
    return "cannot_run" if getattr(error, "errno", 0) in _PERMANENT else "launcher_failed"
