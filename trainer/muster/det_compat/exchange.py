"""Exchange of Python objects between the workers of a job."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from multiprocessing.connection import Client as Connect
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Protocol

MEET_TIMEOUT_S = 600.0
"""Seconds within which all workers must have come."""


class Exchange(Protocol):
    """Collectives over objects that can be pickled, among a fixed set of workers."""

    def allgather(self, value: Any) -> list[Any]:
        """Return everybody's value, in order of rank."""

    def broadcast(self, value: Any) -> Any:
        """Return the value of the first worker."""

    def close(self) -> None: ...


class Alone:
    """A single worker."""

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def broadcast(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        pass


class SocketStar:
    """Workers of one node over a Unix socket of the first one, in a folder of this user alone."""

    def __init__(self, rank: int, size: int, name: str) -> None:
        digest = hashlib.sha256(f"{os.getuid()}:{name}".encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir(), f"muster-det-{digest}")
        self._rank, self._size = rank, size
        self._others: list[Connection] = []
        self._first: Connection | None = None
        address = str(self._folder / "s")
        if rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700)
            with Listener(address, "AF_UNIX", backlog=size) as listener:
                found: dict[int, Connection] = {}
                while len(found) < size - 1:
                    peer = listener.accept()
                    found[peer.recv()] = peer
            self._others = [found[other] for other in range(1, size)]
        else:
            self._first = self._connect(address)
            self._first.send(rank)

    def _connect(self, address: str) -> Connection:
        deadline = time.monotonic() + MEET_TIMEOUT_S
        while True:
            try:
                if self._folder.stat().st_uid != os.getuid():
                    raise PermissionError(f"{self._folder} belongs to another user")
                return Connect(address, "AF_UNIX")
            except (FileNotFoundError, ConnectionRefusedError):
                # The first worker may not have come yet.
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"the first of {self._size} workers did not come in {MEET_TIMEOUT_S:.0f} s"
                    ) from None
                time.sleep(0.05)

    def allgather(self, value: Any) -> list[Any]:
        if self._first is not None:
            self._first.send(value)
            values: list[Any] = self._first.recv()
            return values
        values = [value, *(other.recv() for other in self._others)]
        for other in self._others:
            other.send(values)
        return values

    def broadcast(self, value: Any) -> Any:
        if self._first is not None:
            return self._first.recv()
        for other in self._others:
            other.send(value)
        return value

    def close(self) -> None:
        for peer in (*self._others, self._first):
            if peer is not None:
                peer.close()
        if self._rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)


class TorchObjects:
    """Workers of a group of torch.distributed, over gloo."""

    def __init__(self, group: Any, first: int) -> None:
        """Use a group whose first member has the global rank `first`."""
        self._group = group
        self._first = first

    def allgather(self, value: Any) -> list[Any]:
        import torch.distributed as dist

        values: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(values, value, group=self._group)
        return values

    def broadcast(self, value: Any) -> Any:
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=self._first, group=self._group)
        return values[0]

    def close(self) -> None:
        pass
