"""For processes that do one thing for the agent and end with it: they read a line, and say their result.
See muster_agent.jobs.programs."""

from __future__ import annotations

import contextlib
import os
import sys
import threading


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
