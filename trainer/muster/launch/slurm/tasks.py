"""The tasks of steps on one node: their processes, output and ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

CHUNK_BYTES = 64 * 1024
KILL_AFTER_S = 5.0
"""Seconds between SIGTERM and SIGKILL for tasks that are ended with their step."""
CANNOT_START = 127
_TAIL_BYTES = 8192

Tell = Callable[[dict[str, Any]], object]
"""Takes a message to srun, and may return something to wait for."""


@dataclass
class _Task:
    step: int
    rank: int
    process: asyncio.subprocess.Process
    stdin: asyncio.StreamWriter | None
    terminated_at: float = 0.0


@dataclass
class TaskHost:
    """Runs what the first node orders on this one."""

    places: Mapping[str, str]
    """Folders of this node by what they are for."""
    environment: Mapping[str, str]
    """Variables of every task on this node, before those of the step."""
    logs: Path | None
    """Folder of a log for each task by its local number; None: all output goes through srun."""
    _tasks: dict[tuple[int, int], _Task] = field(default_factory=dict)
    _runs: set[asyncio.Task[None]] = field(default_factory=set)
    _ended: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def start(self, order: Mapping[str, Any], tell: Tell) -> None:
        """Start the tasks of an order, and tell what comes of them."""
        here = _translator(order["places"], self.places)
        common = {**self.environment, **{k: here(v) for k, v in order["set"].items()}}
        for name in order["unset"]:
            common.pop(name, None)
        argv = [here(word) for word in order["argv"]]
        folder = Path(here(order["folder"]))
        for task in order["tasks"]:
            # What a node says of itself precedes what the script has set on the first one.
            environment = {**common, **task["variables"]}
            await self._start(order, task, argv, folder, environment, tell)

    async def _start(
        self,
        order: Mapping[str, Any],
        task: Mapping[str, Any],
        argv: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        tell: Tell,
    ) -> None:
        step, rank = int(order["step"]), int(task["rank"])
        files: dict[int, IO[bytes]] = {}
        try:
            self._prepare(folder)
            for number in (1, 2):
                if stream := order["streams"].get(str(number), ""):
                    files[number] = self._log(int(task["local"]), stream)
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=environment,
                cwd=folder,
                stdin=asyncio.subprocess.PIPE if order["stdin"] else asyncio.subprocess.DEVNULL,
                stdout=files.get(1, asyncio.subprocess.PIPE),
                stderr=files.get(2, asyncio.subprocess.PIPE),
                start_new_session=True,
                umask=int(order["umask"]),
            )
        except OSError as error:
            words = f"{error.filename or argv[0]}: {error.strerror}"
            tell(
                {
                    "event": "exit",
                    "step": step,
                    "rank": rank,
                    "status": CANNOT_START,
                    "words": words,
                }
            )
            return
        finally:
            for file in files.values():
                file.close()
        self._tasks[step, rank] = _Task(step, rank, process, process.stdin)
        running = asyncio.create_task(self._follow(self._tasks[step, rank], files.get(2), tell))
        self._runs.add(running)
        running.add_done_callback(self._runs.discard)

    def _prepare(self, folder: Path) -> None:
        """Make the step's folder here, if it is one that the script has made in the first node's copy of
        the work folder."""
        if folder.is_relative_to(self.places["work"]):
            folder.mkdir(parents=True, exist_ok=True)

    def _log(self, local: int, stream: str) -> IO[bytes]:
        assert self.logs is not None
        path = self.logs / str(local) / f"{stream}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")

    async def _follow(self, task: _Task, log: IO[bytes] | None, tell: Tell) -> None:
        process = task.process
        pipes = [(1, process.stdout), (2, process.stderr)]
        copies = [
            self._copy(task, number, pipe, tell) for number, pipe in pipes if pipe is not None
        ]
        status = await process.wait()
        # What the task has left behind would keep its output open.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*copies), KILL_AFTER_S)
        async with self._ended:
            del self._tasks[task.step, task.rank]
            self._ended.notify_all()
        words = _last_line(log.name) if log is not None and status > 0 else ""
        tell(
            {
                "event": "exit",
                "step": task.step,
                "rank": task.rank,
                "status": status,
                "words": words,
            }
        )

    async def _copy(self, task: _Task, number: int, pipe: asyncio.StreamReader, tell: Tell) -> None:
        while data := await pipe.read(CHUNK_BYTES):
            text = base64.b64encode(data).decode()
            waiting = tell(
                {"event": "out", "step": task.step, "rank": task.rank, "fd": number, "data": text}
            )
            if asyncio.iscoroutine(waiting):
                await waiting

    def feed(self, step: int, data: str | None) -> None:
        """Give the tasks of a step input; None is its end."""
        for task in self._of(step):
            if task.stdin is None or task.stdin.is_closing():
                continue
            if data is None:
                task.stdin.close()
            else:
                task.stdin.write(base64.b64decode(data))

    def signal(self, number: int, step: int | None = None) -> None:
        """Send a signal to the tasks of a step, or to all. A SIGTERM that comes twice, from the node
        and by srun, is sent once."""
        for task in self._of(step):
            if number == signal.SIGTERM:
                if time.monotonic() - task.terminated_at < KILL_AFTER_S:
                    continue
                task.terminated_at = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(task.process.pid, number)

    async def end(self, step: int | None = None) -> None:
        """End the tasks of a step, or all: SIGTERM, and SIGKILL for what is left."""
        self.signal(signal.SIGTERM, step)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(step), KILL_AFTER_S)
        self.signal(signal.SIGKILL, step)
        await self.wait(step)

    async def wait(self, step: int | None = None) -> None:
        """Wait until the tasks of a step, or all, have ended."""
        async with self._ended:
            await self._ended.wait_for(lambda: not self._of(step))

    def _of(self, step: int | None) -> list[_Task]:
        return [task for task in self._tasks.values() if step in (None, task.step)]


def _translator(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces folders of the first node by those of this one."""
    pairs = sorted(
        ((path, ours[name]) for name, path in theirs.items() if ours.get(name, path) != path),
        key=lambda pair: -len(pair[0]),
    )

    def here(text: str) -> str:
        for path, own in pairs:
            text = text.replace(path, own)
        return text

    return here


def _last_line(path: str) -> str:
    """Return the last line of a log, which for an exception of Python names it."""
    with Path(path).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:500]
