"""Processes that do one thing for the agent and end with it: they read a line, and say their result."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading


async def result_of(module: str, *arguments: str, given: str = "") -> str:
    """Run a module of the agent as a process of its own; return the last line that it has written.

    given: a line for its standard input, whose end is the end of the agent.
    Raises OSError, and RuntimeError if it ended without a result. It is killed if this is canceled.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # The working folder must not shadow modules.
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given.encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        output = await process.stdout.read()
        code = await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    lines = output.decode(errors="replace").splitlines()
    if code != 0 or not lines:
        raise RuntimeError(f"{module} ended with code {code} and no result")
    return lines[-1]


def read_given() -> str:
    """Return the line that the agent gave this process, and end the process with the agent."""
    given = sys.stdin.buffer.readline().decode()
    threading.Thread(target=_end_with_agent, daemon=True).start()
    return given


def answer(result: str) -> None:
    """Give a result, one line, to the agent."""
    sys.stdout.write(result + "\n")
    sys.stdout.flush()


def _end_with_agent() -> None:
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 1):
            pass
    os._exit(1)
