"""Have the workers of an allocation end: by request, or because one of them has failed."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from muster import wire
from muster_agent.clock import boot_clock
from muster_agent.jobs.exits import has_torchrun_reported
from muster_agent.jobs.launch import dump_prefix
from muster_agent.jobs.process import send_signal
from muster_agent.outputs.work import OUTPUT_FOLDER
from muster_agent.records.logs import launcher_log, tail
from muster_agent.shim.control import Commands
from muster_agent.shim.processes.gang import Processes
from muster_agent.shim.reporting.reports import ReportServer

LOOK_S = 0.05
SIBLING_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL for the other workers after one has failed."""
LAUNCHER_LINGER_S = 2.0
"""Seconds a launcher may outlive its workers in a stop; otherwise it may wait minutes for other
nodes."""
GANG_LINGER_S = 0.3
"""Seconds a launcher may outlive its workers where another member of the gang has failed: it may wait for
that member's launcher."""
DUMP_SETTLES_S = 2.0
"""Seconds without a write after which a dump of torch's flight recorder is whole."""


class Stopping:
    """How the workers of one allocation are asked to end, and how long they are waited for."""

    def __init__(
        self,
        spec: wire.AllocationSpec,
        commands: Commands,
        processes: Processes,
        reports: ReportServer,
        *,
        own_word: Callable[[], None],
        is_signalled: Callable[[], bool],
        work_dir: Callable[[], str],
        tick: Callable[[float], Awaitable[None]],
    ) -> None:
        """Create it.

        own_word: says to the job's processes that a SIGTERM is ours from now on.
        is_signalled: returns whether all processes of the node have got a SIGTERM.
        work_dir: returns the folder of the job's files; "" before they are there.
        tick: waits for a command or a child's end, at most for so many seconds.
        """
        self._spec = spec
        self._commands = commands
        self._processes = processes
        self._reports = reports
        self._own_word = own_word
        self._is_signalled = is_signalled
        self._work_dir = work_dir
        self._tick = tick

    def grace_s(self) -> float:
        """Return how long the workers are given to stop by request, in seconds."""
        if self._commands.stop_grace_s is not None:
            return self._commands.stop_grace_s
        if self._commands.stop_kind == "gang":
            return min(self._spec.stop_grace_s, SIBLING_GRACE_S)
        return self._spec.stop_grace_s

    async def end_siblings(self) -> None:
        """End the other workers after a failure: they would wait for the failed one in their next
        collective.

        torchrun ends them as well, but more patiently.
        """
        workers = self._processes.workers
        self._own_word()
        for number, patience_s in (
            (signal.SIGTERM, SIBLING_GRACE_S),
            (signal.SIGKILL, LAUNCHER_LINGER_S),
        ):
            for worker in workers.alive():
                if worker.identity is not None:
                    send_signal(worker.identity, number)
            deadline = time.monotonic() + patience_s
            while not self._processes.has_ended and self._commands.kill is None:
                if time.monotonic() > deadline:
                    break
                await self._tick(LOOK_S)
                workers.observe()
                if self._is_launcher_done():
                    self._signal_launcher(signal.SIGKILL)

    async def stop(self) -> bool:
        """Ask, insist, and stop waiting when the grace period is over. Return whether they have ended
        by then, or are to be killed by request.

        Workers whose script uses the SDK hear of it on their socket and get half of the grace to
        end by themselves (nearly all of it once they say that they are winding down); then SIGTERM.
        Others get SIGTERM at once. So do all of a gang that has failed elsewhere: nobody goes on
        from what they would still do, and they are given no longer than failed siblings.

        Where all processes of the node have got a SIGTERM already, the word that it means them stands
        for the one from here: a script that handles it may be saving. For those that have not heard of
        it, SIGTERM follows when half of the rest is over. It waits, within the grace, for a dump that is
        being written: that says where a training hangs.
        """
        workers = self._processes.workers
        is_urgent = self._commands.stop_kind == "gang"
        grace_s = self.grace_s()
        self._reports.push(
            wire.Control(
                should_stop=True,
                reason=self._commands.reason,
                kind=self._commands.stop_kind,
                deadline_boot_s=boot_clock() + grace_s,
            )
        )
        began = time.monotonic()
        listens = any(not worker.attached for worker in self._reports.workers)
        patience_s = grace_s * 0.5 if listens and not is_urgent else 0.0
        was_terminated = False
        workers_gone_at: float | None = None
        while not self._processes.is_gone and self._commands.kill is None:
            elapsed_s = time.monotonic() - began
            if elapsed_s >= grace_s:
                return False
            if self._reports.all_are_stopping and not is_urgent:
                patience_s = grace_s * 0.9
            self._processes.find()
            workers.observe()
            alive = workers.alive()
            if elapsed_s >= patience_s:
                self._own_word()
            signal_at_s = (patience_s + grace_s) / 2 if self._is_signalled() else patience_s
            if not was_terminated and elapsed_s >= signal_at_s and not self._is_dumping():
                was_terminated = True
                targets = {w.identity for w in alive if w.identity is not None}
                if self._processes.is_script or not targets:
                    targets.update(self._processes.to_terminate())
                for target in targets:
                    send_signal(target, signal.SIGTERM)
            if not alive and workers_gone_at is None:
                workers_gone_at = time.monotonic()
            gone_s = time.monotonic() - workers_gone_at if workers_gone_at is not None else 0.0
            if self._is_launcher_done(gone_s if is_urgent else 0.0):
                self._signal_launcher(signal.SIGKILL)
            elif gone_s > LAUNCHER_LINGER_S:
                self._own_word()
                self._signal_launcher(signal.SIGTERM)
                workers_gone_at = time.monotonic()
            await self._tick(LOOK_S)
        return True

    def _is_launcher_done(self, urgent_s: float = 0.0) -> bool:
        """Return whether the workers are gone, and torchrun has said which of them failed. All that is
        left to it then is to end, and freeing torch takes up to a second.

        urgent_s: for how long the workers have been gone, if their gang waits for this node.
        """
        workers = self._processes.workers
        if self._spec.launcher != "torchrun" or workers.alive() or not workers.are_all_known:
            return False
        words = tail(launcher_log(self._processes.folder.logs, "stderr"))
        return urgent_s > GANG_LINGER_S or has_torchrun_reported(words)

    def _signal_launcher(self, number: signal.Signals) -> None:
        for target in self._processes.to_terminate():
            send_signal(target, number)

    def _is_dumping(self) -> bool:
        """Return whether torch has written to a dump of its flight recorder a moment ago."""
        if not (work_dir := self._work_dir()):
            return False
        prefix = Path(dump_prefix(f"{work_dir}/{OUTPUT_FOLDER}", self._spec.attempt_no))
        now = time.time()
        with contextlib.suppress(OSError):  # a file may go meanwhile
            return any(
                abs(now - file.lstat().st_mtime) < DUMP_SETTLES_S
                for file in prefix.parent.glob(f"{prefix.name}*")
            )
        return False
