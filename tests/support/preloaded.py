"""Agents and shims forked from a process that has imported what they run: imports take most of
their start. Stacks (support.stack) start agents, and agents start shims, as they do for people.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

AGENT = "muster_agent.cli"
SHIM = "muster_agent.shim"

_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(
    [
        "muster_agent.cli",
        "muster_agent.loop",
        "muster_agent.machine",
        "muster_agent.node.joining",
        "muster_agent.shim.supervise",
        "support.preloaded",
    ]
)


def _run(command: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
    os.setsid()
    target = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
    os.environ.clear()
    os.environ.update(environment)
    module = command[0]
    sys.argv = list(command)
    sys.modules.pop(module, None)  # else runpy warns that it is imported already
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class ForkedProcess:
    """What the tests use of subprocess.Popen."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], output: Path
    ) -> None:
        """Run `python -m` of the command.

        output: what it prints is appended to this file."""
        output.touch()
        self._process = _fork.Process(target=_run, args=[command, dict(environment), output])
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    pass_fds: Sequence[int] = (),
) -> ForkedProcess | subprocess.Popen[bytes]:
    """Start `python -m` of the command, forked unless it inherits open files."""
    if not pass_fds:
        return ForkedProcess(command, environment=environment, output=output)
    with output.open("ab") as words:
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
            pass_fds=pass_fds,
            env=environment,
        )
