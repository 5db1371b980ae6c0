"""Shell programs on this machine, or on another one through the user's own ssh."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .base import BatchSystemUnreachable

TIMEOUT_S = 30.0
MAX_ERROR_CHARS = 400
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SSH_AUTH_SOCK", "SLURM_CONF", "KRB5CCNAME")
"""Variables that the programs see. The server's own secrets are not among them."""
_CODE = re.compile(r"^MUSTER_CODE=(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    code: int
    output: str
    error: str
    """The last characters of standard error, in one line."""


@dataclass(frozen=True)
class Shell:
    """`host` is empty for this machine. Through ssh one connection is kept open for minutes."""

    host: str = ""

    def run(self, program: str, *, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run a program for `sh`, given on standard input, so that no argument list shows it.

        Raises BatchSystemUnreachable if it does not end in time, or ssh does not get there. ssh's own exit
        code means many things, so the program's code travels in its output.
        """
        argv = ["sh", "-s"]
        if self.host:
            argv = ["ssh", *_SSH, "--", self.host, "sh -s"]
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            done = subprocess.run(
                argv,
                input=f"(\n{program}\n)\ncode=$?\necho\necho MUSTER_CODE=$code\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BatchSystemUnreachable(f"no answer within {timeout_s:g} s") from None
        except OSError as error:
            raise BatchSystemUnreachable(f"{argv[0]}: {error.strerror}") from error
        words = " ".join(done.stderr.split())[-MAX_ERROR_CHARS:]
        found = _CODE.findall(done.stdout)
        if not found:
            raise BatchSystemUnreachable(words or f"{argv[0]} ended with code {done.returncode}")
        return Answer(code=int(found[-1]), output=_CODE.sub("", done.stdout).strip(), error=words)


_SSH = (
    "-o", "BatchMode=yes",
    "-o", "ConnectTimeout=10",
    "-o", "ControlMaster=auto",
    "-o", f"ControlPath={Path(tempfile.gettempdir())}/muster-ssh-{os.getuid()}-%C",
    "-o", "ControlPersist=300",
)  # fmt: skip
