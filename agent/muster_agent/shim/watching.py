"""What a shim tells of workers that may hang: how far each is, and on demand where.

It looks from outside, so it also sees a worker that is stopped, or whose interpreter is held.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from muster import stacks, wire
from muster_agent.process import Identity, is_alive, send_signal
from muster_agent.shim.workers import Worker

PROGRESS_INTERVAL_S = 10.0
"""Between two looks at how far the workers are; what has not changed is not told again."""
ANSWER_TIMEOUT_S = 5.0
"""For a worker to write its stacks."""
QUIET_S = 0.3
"""It is done when nothing has been added for so long."""
MAX_STACKS_BYTES = 64 * 1024
"""Kept of one worker, the end of it: the main thread comes last."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""A worker's file is begun anew when it has grown beyond."""
PY_SPY_TIMEOUT_S = 20.0

_STATES: Mapping[str, wire.ProcessState] = {
    "R": "runs",
    "S": "sleeps",
    "I": "sleeps",
    "D": "blocked",
    "T": "stopped",
    "t": "stopped",
}

Record = wire.ProgressRecord | wire.StacksRecord


@dataclass(frozen=True, kw_only=True)
class Answer:
    text: str = ""
    problem: str = ""
    is_cut: bool = False


class Watching:
    """Of one allocation. Lives in the shim's loop; what blocks, runs in a thread."""

    def __init__(
        self,
        *,
        folder: Path,
        alive: Callable[[], Iterable[Worker]],
        told: Callable[[], Mapping[int, wire.WorkerProgress]],
        record: Callable[[Record], object],
        interval_s: float = PROGRESS_INTERVAL_S,
    ) -> None:
        """folder: where workers write their stacks. told: by local rank, what they say of
        themselves."""
        self._folder = folder
        self._alive = alive
        self._told = told
        self._record = record
        self._interval_s = interval_s
        self._next_at: float | None = None
        self._last: list[wire.WorkerProgress] | None = None
        self._answered = 0
        self._task: asyncio.Task[None] | None = None

    def look(self, stacks_no: int) -> None:
        """To be called often. stacks_no: of the last time that somebody asked for stacks."""
        now = time.monotonic()
        if self._next_at is None:
            self._next_at = now + self._interval_s
        if now >= self._next_at:
            self._next_at = now + self._interval_s
            self._tell_progress()
        if stacks_no > self._answered and self._task is None:
            self._answered = stacks_no
            self._task = asyncio.create_task(self._answer(stacks_no))

    def close(self) -> None:
        """Nothing is told any more."""
        self._next_at = float("inf")
        if self._task is not None:
            self._task.cancel()

    def _tell_progress(self) -> None:
        told = self._told()
        found = []
        for worker in self._alive():
            known = told.get(worker.record.local_rank) or wire.WorkerProgress(
                local_rank=worker.record.local_rank, rank=worker.record.rank
            )
            found.append(replace(known, rank=worker.record.rank, process=state_of(worker.identity)))
        found.sort(key=lambda progress: progress.local_rank)
        # Whether it runs or sleeps at this moment is chance, and no news.
        if found and _steady(found) != _steady(self._last or []):
            self._last = found
            self._record(wire.ProgressRecord(workers=found))

    async def _answer(self, no: int) -> None:
        try:
            workers = list(self._alive())
            self._tell_progress()
            targets = [worker.identity for worker in workers]
            answers = await asyncio.to_thread(take_stacks, targets, self._folder)
            for worker, answer in zip(workers, answers, strict=True):
                self._record(
                    wire.StacksRecord(
                        no=no,
                        local_rank=worker.record.local_rank,
                        rank=worker.record.rank,
                        text=answer.text,
                        problem=answer.problem,
                        is_cut=answer.is_cut,
                    )
                )
        finally:
            self._task = None


def _steady(workers: Sequence[wire.WorkerProgress]) -> list[wire.WorkerProgress]:
    return [replace(w, process="sleeps") if w.process == "runs" else w for w in workers]


def state_of(identity: Identity | None) -> wire.ProcessState:
    """ "" when it is gone, or not known."""
    if identity is None or not is_alive(identity):
        return ""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{identity.pid}/stat").read_text()
        return _STATES.get(stat.rpartition(")")[2].split()[0], "")
    return ""


# ---------------------------------------------------------------- stacks


def take_stacks(workers: Sequence[Identity | None], folder: Path) -> list[Answer]:
    """Of each worker, in their order. All are asked first, so that the answers are of one moment.

    A worker is sent a signal only when it is seen to have a handler for it; it goes on as before.
    """
    asked = [_ask(identity, folder) for identity in workers]
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    return [
        _without_handler(identity)
        if size is None or identity is None
        else _collect(stacks.file_of(folder, identity.pid), size, identity, deadline)
        for identity, size in zip(workers, asked, strict=True)
    ]


def _ask(identity: Identity | None, folder: Path) -> int | None:
    """The size of its file before it was asked; None when it cannot be."""
    if identity is None or state_of(identity) in ("", "stopped"):
        return None
    if stacks.SIGNAL is None or not stacks.can_answer(folder, identity.pid):
        return None
    path = stacks.file_of(folder, identity.pid)
    if path.stat().st_size > MAX_FILE_BYTES:
        with path.open("r+b") as file:  # it appends: what comes next is at the beginning
            file.truncate(0)
    size = path.stat().st_size
    send_signal(identity, stacks.SIGNAL)
    return size


def _collect(path: Path, size: int, identity: Identity, deadline: float) -> Answer:
    """What it has added to its file, once that does not grow any more."""
    last, since = size, time.monotonic()
    while True:
        now, grown = time.monotonic(), path.stat().st_size
        if grown != last:
            last, since = grown, now
        elif (last > size and now - since >= QUIET_S) or now > deadline:
            break
        time.sleep(0.02)
    with path.open("rb") as file:
        file.seek(max(size, last - MAX_STACKS_BYTES))
        text = file.read(MAX_STACKS_BYTES).decode(errors="replace")
    if not text:
        state = state_of(identity)
        why = f"; it is {state}" if state else ""
        return Answer(problem=f"it did not answer within {ANSWER_TIMEOUT_S:g} s{why}")
    return Answer(text=text, is_cut=last - size > MAX_STACKS_BYTES)


def _without_handler(identity: Identity | None) -> Answer:
    state = state_of(identity)
    if identity is None or not state:
        return Answer(problem="the process has ended")
    why = (
        "the process is stopped by a signal or a debugger"
        if state == "stopped"
        else "the script has not called muster.init()"
    )
    program = shutil.which("py-spy")
    if program is None:
        return Answer(problem=f"{why}, and py-spy is not installed on the node")
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(identity.pid)],
            capture_output=True,
            timeout=PY_SPY_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Answer(problem=f"{why}, and py-spy failed: {type(error).__name__}")
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        return Answer(problem=f"{why}, and py-spy failed: {words[0][:200] if words else '?'}")
    text = done.stdout[-MAX_STACKS_BYTES:].decode(errors="replace")
    return Answer(text=text, is_cut=len(done.stdout) > MAX_STACKS_BYTES)
