"""Which processes belong to a local Muster: found by a mark in their environment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MARK = "_MUSTER_UP_HOME"
"""Every process below `muster up` has its home folder under this name, training workers too:
agents pass on what does not begin with MUSTER_."""


@dataclass(frozen=True)
class ProcessUsage:
    part: str
    pid: int
    rss_bytes: int
    memory_bytes: int
    """Its share of the memory: what several processes share is divided among them. The same as
    `rss_bytes` where the system does not tell."""
    num_processes: int


def marked(root: Path) -> Iterator[psutil.Process]:
    """Return living processes of this home other than this one. Zombies do not count."""
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.environ().get(MARK) != str(root):
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
        except (psutil.Error, OSError):
            continue
        yield process


def sweep(root: Path, *, grace_s: float) -> list[str]:
    """Wait for the rest to end by itself, kill what remains, and return what had to be killed."""
    deadline = time.monotonic() + grace_s
    while True:
        left = list(marked(root))
        if not left:
            return []
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    killed = []
    for process in left:
        try:
            killed.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(left, timeout=5)
    return killed


def usage(state: dict[str, Any]) -> list[ProcessUsage]:
    """Return the memory of each part with all its descendants, from what `muster up` wrote about
    itself."""
    found = []
    parts = [{"name": "muster up", "pid": state.get("pid")}, *state.get("parts", [])]
    pids = {part["pid"] for part in parts}
    for part in parts:
        try:
            process = psutil.Process(part["pid"])
            below = [] if part["pid"] == state.get("pid") else process.children(recursive=True)
            family = [process, *(p for p in below if p.pid not in pids)]
            rss = sum(p.memory_info().rss for p in family)
            share = sum(_share_bytes(p) for p in family)
        except (psutil.Error, TypeError, ValueError):
            continue
        found.append(ProcessUsage(part["name"], part["pid"], rss, share, len(family)))
    return found


def _share_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):  # another user's; not Linux
        return int(process.memory_info().rss)
