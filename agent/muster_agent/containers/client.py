"""Short calls of a container engine's client."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from muster_agent.isolation.containers import Engine
from muster_agent.isolation.walls import outer_environment_of

CALL_TIMEOUT_S = 30.0
WORDS_MAX_CHARS = 500


class EngineFailed(Exception):
    """The engine refused a call or did not answer; the message is in its own words."""


def call(engine: Engine, *arguments: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
    """Run one command of the engine and return its output. Raises EngineFailed."""
    try:
        done = subprocess.run(
            [engine.path, *arguments],
            env=outer_environment_of(engine),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineFailed(f"{engine.kind} {arguments[0]}: {error}") from error
    if done.returncode != 0:
        raise EngineFailed(last_words(done.stderr) or f"exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def call_json(engine: Engine, *arguments: str) -> Any:
    """Run one command of the engine that answers JSON. Raises EngineFailed."""
    try:
        return json.loads(call(engine, *arguments))
    except ValueError as error:
        raise EngineFailed(f"{engine.kind} {arguments[0]} answered no JSON: {error}") from error


def last_words(output: bytes | str) -> str:
    """Return the last line of what an engine printed, without the word "Error: "."""
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else output
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1].removeprefix("Error: ").removeprefix("docker: ")[:WORDS_MAX_CHARS]
