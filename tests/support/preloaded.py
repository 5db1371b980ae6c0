"""Agents, shims, servers and commands forked from a process that has imported what they run: imports take most
of their start. Stacks (support.stack) start agents, and agents start shims, as they do for people.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.launch.forkserver import ForkedProgram, ForkServer
from muster_server.local.parts import AGENT_IMPORTS, SERVER_IMPORTS

AGENT = "muster_agent.cli"
SHIM = "muster_agent.shim"
COMMANDS = "muster.cli"
SERVER = "muster_server.cli"
IMPATIENT_SERVER = "support.impatient_server"
DYING_CONTROLLER = "support.chaos.dying_controller"
IMPORTS = {
    AGENT: (*AGENT_IMPORTS, "muster_agent.shim.supervise"),
    SHIM: (*AGENT_IMPORTS, "muster_agent.shim.supervise"),
    COMMANDS: ("muster.cli.all_commands", "muster.cli.output", "muster.client", "rich.table"),
    SERVER: SERVER_IMPORTS,
    IMPATIENT_SERVER: SERVER_IMPORTS,
    DYING_CONTROLLER: (*SERVER_IMPORTS, "muster_server.loops.runner"),
}


@functools.cache
def _fork_server(imports: Sequence[str], *, strict: bool = False) -> ForkServer:
    """It ends with this process. strict: warnings are errors, also in what is forked."""
    more = {"PYTHONWARNINGS": "error"} if strict else {}
    server = ForkServer(imports, environment={**os.environ, **more})
    atexit.register(server.close)
    return server


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    pass_fds: Sequence[int] = (),
    folder: Path | None = None,
) -> ForkedProgram:
    """Start `python -m` of the command; what it prints is appended to `output`."""
    with output.open("ab") as words, Path(os.devnull).open("rb") as nothing:
        return _fork_server(IMPORTS[command[0]]).spawn(
            command,
            environment=environment,
            folder=folder or Path.cwd(),
            stdin=nothing.fileno(),
            stdout=words.fileno(),
            stderr=words.fileno(),
            descriptors=pass_fds,
        )


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdin: str = "",
    timeout_s: float,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m` of the command to its end; warnings of the server's commands are errors.

    Raises subprocess.TimeoutExpired.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        with os.fdopen(reading, "rb") as given:
            program = _fork_server(IMPORTS[command[0]], strict=command[0] == SERVER).spawn(
                command,
                environment=environment,
                folder=folder or Path.cwd(),
                stdin=given.fileno(),
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )
        threading.Thread(target=_write, args=(writing, stdin.encode()), daemon=True).start()
        try:
            code = program.wait(timeout_s)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        texts = (stdout.read().decode(), stderr.read().decode())
    return subprocess.CompletedProcess(list(command), code, *texts)


def _write(pipe: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(data)
