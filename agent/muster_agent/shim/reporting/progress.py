"""The shim's reports about workers that may hang: how far each is, and its stacks on demand.

It looks from outside, so it also sees a worker that is stopped, or whose interpreter is held.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from muster import wire
from muster.measure import stacks
from muster.measure.dump_files import MAX_BYTES, decode
from muster.measure.progress import MAX_GROUPS, name_group
from muster.measure.recorder import Totals, parse, standings
from muster_agent.isolation.untrusted import opened
from muster_agent.jobs.process import Identity, is_alive, send_signal
from muster_agent.shim.processes.workers import Worker
from muster_agent.shim.reporting import ras

PROGRESS_INTERVAL_S = 10.0
"""Seconds between two looks at the workers' progress; unchanged progress is not reported again."""
ANSWER_TIMEOUT_S = 5.0
"""Seconds that a worker has to write its stacks."""
QUIET_S = 0.3
"""Seconds without new output after which a worker's stacks count as complete."""
MAX_STACKS_BYTES = 64 * 1024
"""Bytes kept of one worker's stacks, from the end: the main thread comes last."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Size in bytes beyond which a worker's file is started anew."""
PY_SPY_TIMEOUT_S = 20.0
"""Seconds that py-spy has for all processes of a worker."""
PROCESSES_MAX = 8
"""Processes that a worker has started and whose stacks are taken as well."""

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
class StackAnswer:
    text: str = ""
    problem: str = ""
    is_cut: bool = False


class Watching:
    """Observation of one allocation. Lives in the shim's loop; blocking work runs in a thread."""

    def __init__(
        self,
        *,
        folder: Path,
        alive: Callable[[], Iterable[Worker]],
        reported: Callable[[], Mapping[int, wire.WorkerProgress]],
        record: Callable[[Record], object],
        launcher: Callable[[], Identity | None] = lambda: None,
        ras_port: Callable[[], int] = lambda: 0,
        interval_s: float = PROGRESS_INTERVAL_S,
    ) -> None:
        """Create the observation.

        folder: where workers write their stacks.
        reported: returns the workers' own reports by local rank.
        launcher: returns the process above them, which answers while no worker is known.
        ras_port: returns where NCCL answers for the job, 0 where nobody does."""
        self._ras_port = ras_port
        self._folder = folder
        self._alive = alive
        self._reported = reported
        self._record = record
        self._launcher = launcher
        self._interval_s = interval_s
        self._next_at: float | None = None
        self._last: list[wire.WorkerProgress] | None = None
        self._answered = 0
        self._task: asyncio.Task[None] | None = None

    def look(self, stacks_no: int) -> None:
        """Compare with the latest request number `stacks_no` and act. Called often."""
        now = time.monotonic()
        if self._next_at is None:
            self._next_at = now + self._interval_s
        if now >= self._next_at:
            self._next_at = now + self._interval_s
            self._tell_progress()
        if stacks_no > self._answered and self._task is None:
            self._answered = stacks_no
            self._task = asyncio.create_task(self._answer(stacks_no))

    def tell_dumps(
        self, files: Callable[[int], Path], workers: Iterable[Worker], *, base: Path
    ) -> None:
        """Report where workers that have ended stood, by the dumps that torch has left when a
        collective timed out.

        files: returns the dump of a rank. base: folder above them that the job cannot replace."""
        last = {progress.local_rank: progress for progress in self._last or []}
        found = []
        for worker in workers:
            local_rank, rank = worker.record.local_rank, worker.record.rank
            groups = groups_of_dump(files(rank), base=base, world_size=worker.record.world_size)
            if groups:
                known = last.get(local_rank) or wire.WorkerProgress(
                    local_rank=local_rank, rank=rank
                )
                found.append(replace(known, process="", reports=True, groups=groups))
        if found:
            self._record(wire.ProgressRecord(workers=found))

    def close(self) -> None:
        """Stop reporting."""
        self._next_at = float("inf")
        if self._task is not None:
            self._task.cancel()

    def _tell_progress(self) -> None:
        reported = self._reported()
        found = []
        for worker in self._alive():
            known = reported.get(worker.record.local_rank) or wire.WorkerProgress(
                local_rank=worker.record.local_rank, rank=worker.record.rank
            )
            found.append(replace(known, rank=worker.record.rank, process=state_of(worker.identity)))
        found.sort(key=lambda progress: progress.local_rank)
        # Whether a worker runs or sleeps at this moment is chance, not a change.
        if found and _steady(found) != _steady(self._last or []):
            self._last = found
            self._record(wire.ProgressRecord(workers=found))

    async def _answer(self, no: int) -> None:
        try:
            workers = list(self._alive())
            self._tell_progress()
            targets = {(w.record.local_rank, w.record.rank): w.identity for w in workers}
            if not targets:
                targets = {(wire.LAUNCHER_LOCAL_RANK, -1): self._launcher()}
            answers = await asyncio.to_thread(take_stacks, list(targets.values()), self._folder)
            for (local_rank, rank), answer in zip(targets, answers, strict=True):
                self._record(
                    wire.StacksRecord(
                        no=no,
                        local_rank=local_rank,
                        rank=rank,
                        text=answer.text,
                        problem=answer.problem,
                        is_cut=answer.is_cut,
                    )
                )
            said = await asyncio.to_thread(ras.ask, port) if (port := self._ras_port()) else ""
            if said:
                self._record(
                    wire.StacksRecord(
                        no=no, local_rank=wire.RAS_RANK, rank=wire.RAS_RANK, text=said, problem=""
                    )
                )
        finally:
            self._task = None


def groups_of_dump(path: Path, *, base: Path, world_size: int) -> list[wire.GroupProgress]:
    """Return how far the process groups of a worker were when torch dumped its flight recorder;
    nothing if there is no dump that can be read."""
    try:
        with opened(path, base=base) as file:
            trace = parse(decode(file.read(MAX_BYTES + 1)))
    except (OSError, ValueError):
        return []
    totals = Totals()
    totals.add(trace.entries)
    found = []
    for standing in standings(trace, totals)[:MAX_GROUPS]:
        description = totals.groups[standing.group].description
        ranks = trace.ranks.get(standing.group, [])
        if not description.startswith("muster_"):
            found.append(
                wire.GroupProgress(
                    group=name_group(description, standing.group, ranks, world_size).name,
                    kind=standing.kind,
                    num_enqueued=standing.num_enqueued,
                    num_completed=standing.num_completed,
                    source=standing.source,
                )
            )
    return found


def _steady(workers: Sequence[wire.WorkerProgress]) -> list[wire.WorkerProgress]:
    return [replace(w, process="sleeps") if w.process == "runs" else w for w in workers]


def state_of(identity: Identity | None) -> wire.ProcessState:
    """Return the kernel's state of the process; "" if it is gone, or unknown."""
    if identity is None or not is_alive(identity):
        return ""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{identity.pid}/stat").read_text()
        return _STATES.get(stat.rpartition(")")[2].split()[0], "")
    return ""


# ---------------------------------------------------------------- stacks


def take_stacks(workers: Sequence[Identity | None], folder: Path) -> list[StackAnswer]:
    """Return the stacks of each worker, in their order.

    A worker is sent a signal only when it is seen to have a handler for it; it goes on as before.
    """
    asked = [_ask(identity, folder) for identity in workers]
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    return [
        _without_handler(identity)
        if size is None or identity is None
        else _with_below(_collect(_file_of(folder, identity), size, identity, deadline), identity)
        for identity, size in zip(workers, asked, strict=True)
    ]


def _ask(identity: Identity | None, folder: Path) -> int | None:
    """Request stacks and return the size of the worker's file before; None if they cannot be
    requested."""
    if identity is None or state_of(identity) in ("", "stopped"):
        return None
    if stacks.SIGNAL is None or not stacks.can_answer(folder, identity.pid):
        return None
    path = _file_of(folder, identity)
    if path.stat().st_size > MAX_FILE_BYTES:
        with opened(path, base=folder.parent, flags=os.O_RDWR) as file:
            # The worker appends, so the new output starts at the beginning of an empty file.
            file.truncate(0)
    size = path.stat().st_size
    send_signal(identity, stacks.SIGNAL)
    return size


def _file_of(folder: Path, identity: Identity) -> Path:
    return stacks.file_of(folder, stacks.own_pid(identity.pid))


def _collect(path: Path, size: int, identity: Identity, deadline: float) -> StackAnswer:
    """Return what the worker has added to its file, once that stops growing."""
    last, since = size, time.monotonic()
    while True:
        now, grown = time.monotonic(), path.stat().st_size
        if grown != last:
            last, since = grown, now
        elif (last > size and now - since >= QUIET_S) or now > deadline:
            break
        time.sleep(0.02)
    try:
        with opened(path, base=path.parents[1]) as file:
            file.seek(max(size, last - MAX_STACKS_BYTES))
            text = file.read(MAX_STACKS_BYTES).decode(errors="replace")
    except OSError as error:
        return StackAnswer(problem=f"its file cannot be read: {error.strerror}")
    if not text:
        state = state_of(identity)
        why = f"; it is {state}" if state else ""
        return StackAnswer(problem=f"it did not answer within {ANSWER_TIMEOUT_S:g} s{why}")
    return StackAnswer(text=text, is_cut=last - size > MAX_STACKS_BYTES)


def _with_below(answer: StackAnswer, identity: Identity) -> StackAnswer:
    """Return a worker's own answer after the stacks of the processes that it has started."""
    text, _ = _spied(below) if (below := _below(identity.pid)) else ("", "")
    room = MAX_STACKS_BYTES - len(answer.text)
    if not text or room <= 0:
        return answer
    whole = f"{text[-room:]}\n{answer.text}"
    return replace(answer, text=whole, is_cut=answer.is_cut or len(text) > room)


def _without_handler(identity: Identity | None) -> StackAnswer:
    state = state_of(identity)
    if identity is None or not state:
        return StackAnswer(problem="the process has ended")
    if state == "stopped":
        return StackAnswer(problem="the process is stopped by a signal or a debugger")
    text, problem = _spied([identity.pid, *_below(identity.pid)])
    if not text:
        return StackAnswer(problem=f"the script has not called muster.init(), and {problem}")
    return StackAnswer(text=text[-MAX_STACKS_BYTES:], is_cut=len(text) > MAX_STACKS_BYTES)


def find_py_spy() -> str | None:
    """Return the path of py-spy: of the package that is installed with the agent, else on PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def _below(pid: int) -> list[int]:
    """Return the processes that a worker has started, at most PROCESSES_MAX."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return [process.pid for process in found][:PROCESSES_MAX]


def _spied(pids: Sequence[int]) -> tuple[str, str]:
    """Return the stacks of those of the processes that run Python, and why there are none."""
    program = find_py_spy()
    if program is None:
        return "", "py-spy is not installed on the node"
    deadline = time.monotonic() + PY_SPY_TIMEOUT_S
    texts, problem = [], "none of its processes runs Python"
    for pid in pids:
        try:
            done = subprocess.run(
                [program, "dump", "--pid", str(pid)],
                capture_output=True,
                timeout=max(0.1, deadline - time.monotonic()),
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = f"py-spy failed: {type(error).__name__}"
            break
        if done.returncode == 0:
            texts.append(done.stdout.decode(errors="replace"))
        elif words := done.stderr.decode(errors="replace").strip().splitlines():
            problem = f"py-spy failed: {words[0][:200]}"
    return "\n".join(texts), problem
