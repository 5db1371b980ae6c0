"""A Muster of two nodes on this machine for the checks: `muster up` in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from muster.client import Client, Target

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 40.0
POLL_S = 0.2


class NotPossibleHere(Exception):
    """What a check needs is not there; the text says what."""


class OutOfTime(NotPossibleHere):
    """The examination ends before the check does."""

    def __init__(self) -> None:
        super().__init__("no time was left")


def wait_for(what: str, check: Callable[[], Any], timeout_s: float) -> Any:
    """Return the first value of `check` that is true. Raises TimeoutError that names what did not
    happen."""
    ends = time.monotonic() + timeout_s
    while not (value := check()):
        if time.monotonic() > ends:
            raise TimeoutError(f"{what} did not happen within {timeout_s:.0f} s")
        time.sleep(POLL_S)
    return value


@contextlib.contextmanager
def running(home: Path, slots: int) -> Iterator[Client]:
    """Run two nodes of so many slots until the block ends. Raises RuntimeError with the last lines of
    `muster up` if they do not start."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    passed = {k: v for k, v in os.environ.items() if k.startswith("MUSTER_AGENT_")}
    log = home.with_name(home.name + ".log")
    command = [
        sys.executable,
        "-m",
        "muster.cli",
        "up",
        "--agents=2",
        f"--slots={slots}",
        "--port=0",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**kept, **passed, "MUSTER_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        def access() -> dict[str, Any] | None:
            if process.poll() is not None:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
                raise RuntimeError(f"muster up ended with exit code {process.returncode}: {tail}")
            try:
                found: dict[str, Any] = json.loads((home / "cli.json").read_text())
            except (OSError, ValueError):
                return None
            return found if "Muster is ready" in log.read_text(errors="replace") else None

        found = wait_for("the start of Muster", access, START_TIMEOUT_S)
        with Client(Target(found["url"], found["token"], "muster doctor")) as client:
            wait_for(
                "the arrival of both nodes",
                lambda: client.cluster()["num_nodes_online"] >= 2,
                START_TIMEOUT_S,
            )
            # Both nodes have the same GPU, on which each sees the other's jobs as those of somebody else.
            client.put("/pools/default", {"foreign_processes": "ignore"})
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
