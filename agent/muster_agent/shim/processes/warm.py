"""Workers forked from a warm parent, and how they end. The other side is muster.launch.warm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from muster_agent.clock import unix_ms
from muster_agent.jobs.process import Child, Identity, descendants, identify, send_signal

MAX_LINE_BYTES = 2**20
FORK_TIMEOUT_S = 60.0
"""Seconds for a keeper that has answered to fork the workers."""
_KILLED = -9


class NoWarmWorkers(Exception):
    """The workers have to be started in another way; the message is one clause with the reason."""


class Keeper:
    """The process that is the parent of an allocation's workers in place of torchrun.

    Neither it nor they are children of ours: it tells us how they end, and that it ends itself is
    seen by its end of the connection, which the kernel closes.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        on_end: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_end = on_end
        self.child = Child(0)
        """Process of the keeper. It ends with code 0 if all workers did, else with 1."""
        self.identity: Identity | None = None
        self.workers: list[Child] = []
        self.port = 0
        """Port of the store it hosts."""
        self._listening: asyncio.Task[None] | None = None
        self._is_launcher = False

    async def start(self, request: Mapping[str, Any], bound: Callable[[int], None]) -> None:
        """Fork the workers; `bound` is called with the pid of their parent before. Raises NoWarmWorkers
        and OSError."""
        await self._say(request)
        self.child = Child(int((await self._hear())["keeper"]))
        self.identity = identify(self.child.pid)
        bound(self.child.pid)
        # The fork begins only now: had we given up meanwhile, the keeper would end.
        await self._say({"go": True})
        answer = await self._hear()
        pids = [int(pid) for pid in answer["started"]]
        if request.get("walls"):
            pids = await asyncio.to_thread(_as_seen_here, pids, self.child.pid)
            await self._say({"found": True})
        self.workers = [Child(pid) for pid in pids]
        self.port = int(answer["port"])
        self._is_launcher = bool(request.get("is_launcher"))
        self._listening = asyncio.create_task(self._listen())

    def close(self) -> None:
        """Release the keeper: it ends when its workers have ended."""
        self._writer.close()
        if self._listening is not None:
            self._listening.cancel()

    def abandon(self) -> None:
        """Kill the keeper with what it may have forked, which nobody would know of."""
        self.close()
        if self.identity is not None:
            send_signal(self.identity, signal.SIGSTOP)  # so that it forks no more
            for identity in (*descendants(self.identity.pid), self.identity):
                send_signal(identity, signal.SIGKILL)

    async def _say(self, message: Mapping[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()

    async def _hear(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise NoWarmWorkers("the warm parent has ended")
        message: dict[str, Any] = json.loads(line)
        if "refused" in message:
            raise NoWarmWorkers(f"the warm parent does not fit: {message['refused']}")
        return message

    async def _listen(self) -> None:
        # Behind walls it may be the job that speaks, and say anything.
        unclear = (ValueError, TypeError, LookupError)
        with contextlib.suppress(NoWarmWorkers, OSError, *unclear):
            while not self.child.has_ended:
                message = await self._hear()
                if "ended" in message:
                    _end(self.workers[message["ended"]], message["status"])
                elif "done" in message:
                    status = int(any(worker.status for worker in self.workers))
                    if self._is_launcher:
                        status = self.workers[0].status or 0
                    _end(self.child, status)
                self._on_end()
        if not self.child.has_ended:
            _end(self.child, _KILLED)
            self._on_end()


async def start_keeper(
    socket_path: str,
    request: Mapping[str, Any],
    *,
    timeout_s: float,
    on_end: Callable[[], None],
    bound: Callable[[int], None] = lambda _: None,
) -> Keeper:
    """Return a keeper with its workers. Raises NoWarmWorkers if there is none within `timeout_s`."""
    keeper: Keeper | None = None
    try:
        async with asyncio.timeout(timeout_s) as patience:

            def found(pid: int) -> None:
                bound(pid)
                # Another set of workers must not be started while this one may be.
                patience.reschedule(asyncio.get_running_loop().time() + FORK_TIMEOUT_S)

            reader, writer = await asyncio.open_unix_connection(socket_path, limit=MAX_LINE_BYTES)
            keeper = Keeper(reader, writer, on_end=on_end)
            await keeper.start(request, found)
            return keeper
    except TimeoutError:
        problem = NoWarmWorkers(f"the warm parent did not answer within {timeout_s:g} s")
    except NoWarmWorkers as error:
        problem = error
    except (OSError, ValueError, KeyError) as error:
        problem = NoWarmWorkers(f"the warm parent cannot be asked: {error}")
    except asyncio.CancelledError:
        if keeper is not None:
            keeper.close()
        raise
    if keeper is not None:
        keeper.abandon()
    raise problem


def _as_seen_here(pids: Sequence[int], parent: int) -> list[int]:
    """Return the pids, as we see them, of children of a process that is in a pid namespace of its own
    and has told us those in there. Raises NoWarmWorkers."""
    found: dict[int, int] = {}
    try:
        for process in psutil.Process(parent).children():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                    if line.startswith("NSpid:"):
                        found[int(line.split()[-1])] = process.pid
        return [found[pid] for pid in pids]
    except (psutil.Error, KeyError) as error:
        raise NoWarmWorkers(f"its workers cannot be found: {error}") from error


def _end(child: Child, status: int) -> None:
    """Note the keeper's end; `status` is the exit code, or minus the signal."""
    child.ended_at_ms = unix_ms()
    if status < 0:
        child.signal = -status
    else:
        child.exit_code = status
