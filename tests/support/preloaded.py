"""Agents and shims forked from a process that has imported what they run: imports take most of
their start. Stacks (support.stack) start agents, and agents start shims, as they do for people.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.launch.forkserver import ForkedProgram, ForkServer
from muster_server.local.parts import AGENT_IMPORTS

AGENT = "muster_agent.cli"
SHIM = "muster_agent.shim"


@functools.cache
def _fork_server() -> ForkServer:
    """It ends with this process."""
    server = ForkServer([*AGENT_IMPORTS, "muster_agent.shim.supervise"], environment=os.environ)
    atexit.register(server.close)
    return server


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    pass_fds: Sequence[int] = (),
) -> ForkedProgram:
    """Start `python -m` of the command; what it prints is appended to `output`."""
    with output.open("ab") as words, Path(os.devnull).open("rb") as nothing:
        return _fork_server().spawn(
            command,
            environment=environment,
            folder=Path.cwd(),
            stdin=nothing.fileno(),
            stdout=words.fileno(),
            stderr=words.fileno(),
            descriptors=pass_fds,
        )
