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
from muster_server import parts
from muster_server.local.parts import AGENT_IMPORTS, SERVER_IMPORTS

AGENT = "muster_agent.cli"
SHIM = "muster_agent.shim"
COMMANDS = "muster.cli"
SERVER = "muster_server.cli"
IMPATIENT_SERVER = "support.impatient_server"
DYING_CONTROLLER = "support.chaos.dying_controller"
STACK = "support.stack"
PART_IMPORTS = tuple(module for part in parts.installed() for module in part.modules)
IMPORTS = {
    AGENT: (*AGENT_IMPORTS, "muster_agent.shim.supervise"),
    SHIM: (*AGENT_IMPORTS, "muster_agent.shim.supervise"),
    COMMANDS: ("muster.cli.all_commands", "muster.cli.output", "muster.client", "rich.table"),
    SERVER: SERVER_IMPORTS,
    IMPATIENT_SERVER: SERVER_IMPORTS,
    DYING_CONTROLLER: (*SERVER_IMPORTS, "muster_server.loops.runner"),
    STACK: (*SERVER_IMPORTS, *PART_IMPORTS, *AGENT_IMPORTS, "muster_server.local.supervisor"),
}


@functools.cache
def _fork_server(imports: Sequence[str], *, version: str, strict: bool = False) -> ForkServer:
    """It ends with this process. strict: warnings are errors, also in what is forked."""
    more = {"PYTHONPATH": version} if version else {}
    more |= {"PYTHONWARNINGS": "error"} if strict else {}
    server = ForkServer(
        [name for name in imports if _is_in(version, name)], environment={**os.environ, **more}
    )
    atexit.register(server.close)
    return server


def _is_in(version: str, name: str) -> bool:
    """Whether that version of Muster has a module; other packages are those of this one."""
    places = [Path(root, *name.split(".")) for root in version.split(os.pathsep)]
    ours = not version or not name.startswith("muster")
    return ours or any(p.with_suffix(".py").exists() or p.is_dir() for p in places)


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    pass_fds: Sequence[int] = (),
    folder: Path | None = None,
    marks: Mapping[str, str] | None = None,
    version: str = "",
) -> ForkedProgram:
    """Start `python -m` of the command; what it prints is appended to `output`.

    marks: variables of `environment` by which other processes find this one. version: PYTHONPATH of
    another version of Muster.
    """
    with output.open("ab") as words, Path(os.devnull).open("rb") as nothing:
        return _fork_server(IMPORTS[command[0]], version=version).spawn(
            command,
            environment=environment,
            folder=folder or Path.cwd(),
            stdin=nothing.fileno(),
            stdout=words.fileno(),
            stderr=words.fileno(),
            descriptors=pass_fds,
            marks=marks,
        )


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdin: str = "",
    timeout_s: float,
    folder: Path | None = None,
    version: str = "",
    strict: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m` of the command to its end; warnings of the server's commands are errors if `strict`.

    Raises subprocess.TimeoutExpired.
    """
    imports, strict = IMPORTS[command[0]], strict and command[0] == SERVER
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        with os.fdopen(reading, "rb") as given:
            program = _fork_server(imports, version=version, strict=strict).spawn(
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
