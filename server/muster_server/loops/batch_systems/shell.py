"""Shell programs for batch systems, which never ask anybody anything and see none of our secrets."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from muster import shell
from muster.shell import TIMEOUT_S, Answer, ShellUnreachable

from .base import BatchSystemUnreachable

__all__ = ["Answer", "Shell"]

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SSH_AUTH_SOCK", "SLURM_CONF", "KRB5CCNAME")
"""Variables that the programs see. The server's own secrets are not among them."""
_SSH = (
    "-o", "BatchMode=yes",
    "-o", "ConnectTimeout=10",
    "-o", "ControlMaster=auto",
    "-o", f"ControlPath={Path(tempfile.gettempdir())}/muster-ssh-{os.getuid()}-%C",
    "-o", "ControlPersist=300",
)  # fmt: skip


class Shell:
    """`host` is empty for this machine. Through ssh one connection is kept open for minutes."""

    def __init__(self, host: str = "") -> None:
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._shell = shell.PosixShell(host, _SSH, environment)

    def run(self, program: str, *, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run a program for `sh`. Raises BatchSystemUnreachable."""
        try:
            return self._shell.run(program, timeout_s=timeout_s)
        except ShellUnreachable as error:
            raise BatchSystemUnreachable(str(error)) from None
