"""Ports of gangs whose workers bind the rendezvous themselves (launcher "direct"), and who holds one that
a script wanted.

torchrun needs none of this: its store is bound on port 0 before anybody is told about it. Without
it, rank 0's worker binds a port that had to be chosen earlier. All agents and shims of a machine
choose from 21000-21999, below the kernel's ephemeral range, and hold a file lock on the number
for as long as the allocation lives, so two of them never get the same one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

import psutil

FIRST_PORT = 21_000
LAST_PORT = 21_999


class NoPortFree(Exception):
    pass


class PortLease:
    """A port that no other shim of this machine is using. Held until `release` or the end of the
    process."""

    def __init__(self, port: int, fd: int) -> None:
        self.port = port
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


def lease_port(host: str, *, folder: Path | None = None) -> PortLease:
    """Lease a free port. Raises NoPortFree if all are taken."""
    folder = folder or Path(tempfile.gettempdir()) / "muster-ports"
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):
        folder.chmod(0o1777)  # Agents of several users share it.
    ports = list(range(FIRST_PORT, LAST_PORT + 1))
    random.shuffle(ports)
    for port in ports:
        try:
            fd = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError:
            continue  # It belongs to another user.
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _can_bind(host, port):
                return PortLease(port, fd)
        except BlockingIOError:
            pass
        os.close(fd)
    raise NoPortFree(f"every port from {FIRST_PORT} to {LAST_PORT} is in use on this node")


def holder_of(port: int, *, own_allocation: str) -> str:
    """Return who listens on a port of this machine: a trial, this job itself, or a process; "" if that
    is not known.

    own_allocation: id of the allocation that asks.
    """
    with contextlib.suppress(psutil.Error, OSError):
        for found in psutil.net_connections(kind="tcp"):
            is_there = found.laddr and found.laddr.port == port and found.pid
            if found.status != psutil.CONN_LISTEN or not is_there:
                continue
            process = psutil.Process(found.pid)
            variables = process.environ()
            if (trial := variables.get("MUSTER_TRIAL_ID")) is None:
                return f"the process {found.pid} ({process.name()})"
            if variables.get("MUSTER_ALLOCATION_ID") == own_allocation:
                return "another process of this job"
            experiment = variables.get("MUSTER_EXPERIMENT_ID", "?")
            return f"another job, trial {trial} of experiment {experiment}"
    return ""


def _can_bind(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
