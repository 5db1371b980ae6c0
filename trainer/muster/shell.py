"""Shell programs on this machine, or on another one through the user's own ssh."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

TIMEOUT_S = 30.0
MAX_ERROR_CHARS = 400
_CODE = re.compile(r"^MUSTER_CODE=(\d+)$", re.MULTILINE)


class ShellUnreachable(Exception):
    """A program did not end in time, or ssh did not get to its machine."""


@dataclass(frozen=True)
class Answer:
    code: int
    output: str
    error: str
    """The last characters of standard error, in one line."""


@dataclass(frozen=True)
class PosixShell:
    """`host` is empty for this machine, else what ssh takes."""

    host: str = ""
    options: tuple[str, ...] = ()
    """Options of ssh."""
    environment: Mapping[str, str] | None = None
    """Variables that programs here, and ssh, see; None for those of this process."""

    def run(
        self, program: str, *, data: bytes | None = None, timeout_s: float = TIMEOUT_S
    ) -> Answer:
        """Run a program for `sh`, given on standard input, so that no argument list shows it.

        data: standard input of the program, which then is an argument and must not hold a secret.
        Raises ShellUnreachable. ssh's own exit code means many things, so the program's code travels
        in its output.
        """
        if data is None:
            argv, command = ["sh", "-s"], "sh -s"
            given = f"(\n{program}\n)\ncode=$?\necho\necho MUSTER_CODE=$code\n".encode()
        else:
            text = f"({program}); code=$?; echo; echo MUSTER_CODE=$code"
            argv, command, given = ["sh", "-c", text], f"sh -c {shlex.quote(text)}", data
        if self.host:
            argv = ["ssh", *self.options, "--", self.host, command]
        try:
            done = subprocess.run(
                argv,
                input=given,
                capture_output=True,
                timeout=timeout_s,
                env=self.environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ShellUnreachable(f"no answer within {timeout_s:g} s") from None
        except OSError as error:
            raise ShellUnreachable(f"{argv[0]}: {error.strerror}") from error
        output = done.stdout.decode(errors="replace")
        words = " ".join(done.stderr.decode(errors="replace").split())[-MAX_ERROR_CHARS:]
        found = _CODE.findall(output)
        if not found:
            raise ShellUnreachable(words or f"{argv[0]} ended with code {done.returncode}")
        return Answer(code=int(found[-1]), output=_CODE.sub("", output).strip(), error=words)
