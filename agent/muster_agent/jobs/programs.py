"""Starts the programs of the agent itself: shims, and processes that do one thing and say its result.

Importing their code takes most of their start. So there is one process that has imported it, from the
first job until the agent ends, and they are forked from that. Where it cannot be had (on other systems
than Linux, or since it was killed), they start as new interpreters, and do the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from muster.launch import reaping
from muster.launch.forkserver import CannotFork, ForkedProgram, ForkServer

log = structlog.get_logger("muster.agent")

IMPORTS = (
    "muster_agent.shim.supervise",
    "muster_agent.shim.preparation.fetch",
    "muster_agent.outputs.collect",
    "muster_agent.outputs.store",
)
AGAIN_AFTER_S = 60.0
"""Seconds until another fork server is tried after one that failed."""

Program = ForkedProgram | subprocess.Popen[bytes]


class Programs:
    """The programs of one agent. Its methods are called in the thread of the event loop."""

    def __init__(self, visible: Mapping[str, str] = os.environ) -> None:
        """Start nothing yet. visible: the variables that other processes see of every program."""
        self._visible = visible
        self._server: ForkServer | None = None
        self._not_before = 0.0

    async def prepare(self) -> None:
        """Wait until programs can be forked, or it is known that they cannot."""
        if self._server is None and sys.platform == "linux" and time.monotonic() > self._not_before:
            try:
                self._server = ForkServer(IMPORTS, environment=self._visible, safe_path=True)
            except OSError as error:
                self._give_up(error)
        server = self._server
        if server is not None and not server.is_ready:
            try:
                await asyncio.to_thread(server.wait_until_ready)
            except CannotFork as error:
                if server is self._server:
                    self._give_up(error)

    def start(
        self,
        module: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdin: int,
        stdout: int,
        stderr: int,
        descriptors: Sequence[int] = (),
        marks: Mapping[str, str] | None = None,
    ) -> Program:
        """Run `python -P -m` of `module`, a name and its arguments, in a session of its own.

        descriptors: open files that it inherits. marks: variables of `environment` that are not among
        the visible ones and by which other processes find it. Raises OSError.
        """
        if self._server is not None and self._server.is_ready:
            try:
                return self._server.spawn(
                    module,
                    environment=environment,
                    folder=folder,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    descriptors=descriptors,
                    marks=marks,
                )
            except CannotFork as error:
                self._give_up(error)
        program = subprocess.Popen(
            # -P: the working folder must not shadow modules.
            [sys.executable, "-P", "-m", *module],
            env=dict(environment),
            cwd=folder,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=descriptors,
        )
        reaping.keep(program)
        return program

    async def result_of(self, module: str, *arguments: str, given: str = "") -> str:
        """Run a module that says its result (muster_agent.jobs.helpers); return the last line that it
        has written.

        given: a line for its standard input, whose end is the end of the agent.
        Raises OSError, and RuntimeError if it ended without a result. It is killed if this is canceled.
        """
        await self.prepare()
        their_input, our_input = os.pipe()
        our_output, their_output = os.pipe()
        with (
            os.fdopen(our_input, "wb", buffering=0) as told,
            os.fdopen(our_output, "rb", buffering=0) as said,
        ):
            try:
                program = self.start(
                    [module, *arguments],
                    environment={**os.environ, "OMP_NUM_THREADS": "1"},
                    folder=Path.cwd(),
                    stdin=their_input,
                    stdout=their_output,
                    stderr=2,
                )
            finally:
                os.close(their_input)
                os.close(their_output)
            try:
                await asyncio.to_thread(_tell, told.fileno(), given.encode() + b"\n")
                output = await _read_all(said.fileno())
                code = await asyncio.to_thread(program.wait)
            except BaseException:
                program.kill()
                await asyncio.to_thread(program.wait)
                raise
        lines = output.decode(errors="replace").splitlines()
        if code != 0 or not lines:
            raise RuntimeError(f"{module} ended with code {code} and no result")
        return lines[-1]

    def close(self) -> None:
        """End what is kept for future programs. Those that were started go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _give_up(self, error: Exception) -> None:
        log.warning("fork_server_failed", error=str(error))
        self.close()
        self._not_before = time.monotonic() + AGAIN_AFTER_S


def _tell(file: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # it has ended: its code says how
        while text:
            text = text[os.write(file, text) :]


async def _read_all(file: int) -> bytes:
    """Return what is written to a pipe until its other end is closed."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(file), "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        return await reader.read()
    finally:
        transport.close()
