"""Processes that SIGKILL has not ended: noted in a file for each allocation until they are gone.

The shim or the agent notes them when it has waited for `kill_wait_s` seconds. A device that does not
answer, or a network file system, keeps them in the kernel; what they hold is not free meanwhile.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from muster_agent.jobs.process import Identity, boot_id, is_alive

_FOLDER = "survivors"


def note(home: Path, allocation_id: str, processes: Iterable[Identity]) -> None:
    """Note what has survived of an allocation, if anything has. Raises OSError."""
    found = sorted((process.pid, process.start_ticks) for process in processes)
    if found:
        (home / _FOLDER).mkdir(exist_ok=True)
        text = json.dumps({"boot_id": boot_id(), "processes": found})
        (home / _FOLDER / allocation_id).write_text(text)


def remaining(home: Path) -> dict[str, list[int]]:
    """Return the pids of those that are still there, by allocation id. The others are forgotten."""
    found: dict[str, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for file in sorted((home / _FOLDER).iterdir()):
            alive = _alive(file.read_text())
            if alive:
                found[file.name] = alive
            else:
                file.unlink(missing_ok=True)
    return found


def _alive(text: str) -> list[int]:
    try:
        noted = json.loads(text)
        processes = [Identity(pid, ticks) for pid, ticks in noted["processes"]]
    except (ValueError, KeyError, TypeError):  # Cut short by a full disk.
        return []
    if noted.get("boot_id") != boot_id():
        return []
    return [process.pid for process in processes if is_alive(process)]
