"""Preflights in which this node takes part: one child process each, driven by the server.

Level-triggered like everything else: the server says which preflights there are and at which stage
each is; what is not there any more is ended. Nothing is kept over a session: a child that is gone
is reported as such, and the preflight fails with that reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, Session, persistently
from muster_agent.isolation.walls import Isolation, program
from muster_agent.jobs.launch import inheritable

log = structlog.get_logger("muster.agent")

END_TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 4 * 2**20
Report = Callable[[wire.PreflightReport], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class PreflightCommand:
    """How to start the child on this node."""

    python: str
    address: str
    interface: str
    sdk_path: str
    """Folder to put on PYTHONPATH so that `import muster` works; "" if it already does."""
    folder: Path
    words: Path
    """File that receives its standard error."""
    inherited: Mapping[str, str]
    """Part of the agent's environment that jobs see."""
    isolation: Isolation = field(default_factory=Isolation)
    """Level at which the child runs, since a document names its interpreter."""
    gpus: Mapping[int, str] = field(default_factory=dict)
    """UUIDs of the node's devices by slot: the child sees no others, in this order."""

    @property
    def work_dir(self) -> Path:
        return Path("/") if self.isolation.is_on else self.folder

    def environment(self) -> dict[str, str]:
        found = inheritable(self.inherited)
        if self.sdk_path:
            found["PYTHONPATH"] = self.sdk_path
        if self.gpus:
            found["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus.values())
        if self.interface:
            found["GLOO_SOCKET_IFNAME"] = self.interface  # The same as for workers, see launch.
        return found


class Preflights:
    """Preflights of one session. `want` accepts the complete set any number of times."""

    def __init__(
        self,
        plane: ControlPlane,
        session: Session,
        *,
        probe: Callable[[wire.Preflight], PreflightCommand],
        problems: Callable[[], list[wire.NodeProblem]],
    ) -> None:
        """Create the set; `problems` runs the node's own checks and blocks."""
        self._plane = plane
        self._session = session
        self._probe = probe
        self._problems = problems
        self._wanted: dict[int, wire.Preflight] = {}
        self._wake = asyncio.Event()

    def want(self, preflights: Sequence[wire.Preflight]) -> None:
        if preflights or self._wanted:
            self._wanted = {p.id: p for p in preflights}
            self._wake.set()

    async def run(self) -> None:
        """Take part until the session ends. Raises Superseded."""
        running: dict[int, Participation] = {}
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    for wanted in self._wanted.values():
                        if wanted.id not in running:
                            mine = Participation(self._probe(wanted), self._problems, self._report)
                            running[wanted.id] = mine
                            mine.task = group.create_task(mine.run())
                        running[wanted.id].want(wanted)
                    for preflight_id in running.keys() - self._wanted.keys():
                        running.pop(preflight_id).end()
                    await self._wake.wait()
                    self._wake.clear()
            finally:
                for participation in running.values():
                    participation.end()

    async def _report(self, report: wire.PreflightReport) -> None:
        try:
            await persistently(
                lambda: self._plane.preflight(self._session, report), what="preflight"
            )
        except RequestRefused as error:
            log.warning("preflight_report_refused", id=report.id, error=str(error))


class Participation:
    """One preflight on this node: its child, and the stages completed so far."""

    def __init__(
        self,
        probe: PreflightCommand,
        problems: Callable[[], list[wire.NodeProblem]],
        report: Report,
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._probe = probe
        self._problems = problems
        self._report = report
        self._wanted: wire.Preflight | None = None
        self._changed = asyncio.Event()
        self._done: set[str] = set()
        self._stack = contextlib.ExitStack()
        """What the child needs while it runs."""

    def want(self, wanted: wire.Preflight) -> None:
        self._wanted = wanted
        self._changed.set()

    def end(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        """Run until ended. Carries out each stage once, and reports its result."""
        child: Process | None = None
        try:
            while True:
                wanted = self._wanted
                if wanted is not None and wanted.stage not in self._done:
                    self._done.add(wanted.stage)
                    if wanted.stage == "listen":
                        child = await self._start(wanted)
                    answer = await self._ask(child, wanted)
                    await self._report(_report_of(wanted, answer))
                await self._changed.wait()
                self._changed.clear()
        finally:
            if child is not None:
                await asyncio.shield(_end(child))
            self._stack.close()

    async def _start(self, wanted: wire.Preflight) -> Process | None:
        probe = self._probe
        try:
            argv = [
                probe.python,
                "-m",
                "muster.launch.preflight",
                f"--address={probe.address}",
                f"--rank={wanted.rank}",
            ]
            # What the program needs lasts until this preflight has ended.
            started = self._stack.enter_context(
                program(
                    probe.isolation, argv, environment=probe.environment(), folder=probe.work_dir
                )
            )
            with probe.words.open("ab") as words:
                child = await asyncio.create_subprocess_exec(
                    *started.argv,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=words,
                    cwd=started.folder,
                    env=started.environment,
                    limit=MAX_ANSWER_BYTES,
                    pass_fds=started.fds,
                )
        except OSError as error:
            log.warning("preflight_not_started", id=wanted.id, error=str(error))
            return None
        assert child.stdin is not None
        child.stdin.write(wanted.token.encode() + b"\n")
        return child

    async def _ask(self, child: Process | None, wanted: wire.Preflight) -> dict[str, Any]:
        if child is None:
            reason = (
                f"{self._probe.python} could not be started"
                if wanted.stage == "listen"
                else "its agent began a new session while it ran"
            )
            return {"problems": [reason]}
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if wanted.stage != "listen":
                child.stdin.write(
                    json.dumps(_order(wanted, list(self._probe.gpus))).encode() + b"\n"
                )
                await child.stdin.drain()
            answer: dict[str, Any] = json.loads(await child.stdout.readline())
        except (OSError, ValueError) as error:
            words = _last_line(self._probe.words)
            return {"problems": [f"its process ended ({words or error})"]}
        if wanted.stage == "listen":
            found = await asyncio.to_thread(self._problems)
            answer["problems"] += [p.message for p in found if p.blocks]
        return answer


def _order(wanted: wire.Preflight, devices: Sequence[int]) -> dict[str, Any]:
    """Return the order of a stage. devices: the slots whose devices the child sees; it counts them
    from 0."""
    if wanted.stage == "connect":
        slots = [devices.index(s) if s in devices else s for s in wanted.slots]
        peers = [{"rank": p.rank, "host": p.host, "port": p.port} for p in wanted.peers]
        return {"order": "connect", "peers": peers, "slots": slots}
    store = wanted.store
    return {
        "order": "reduce",
        "num_nodes": len(wanted.peers),
        "store": {"host": store.host, "port": store.port} if store is not None else None,
    }


def _report_of(wanted: wire.Preflight, answer: dict[str, Any]) -> wire.PreflightReport:
    """Return the child's report; one that is not valid counts as a problem."""
    known = {
        name: answer[name]
        for name in (
            "host", "port", "store_port", "torch_version", "links", "problems", "reduce_ms",
        )
        if answer.get(name) is not None
    }  # fmt: skip
    try:
        return wire.load(wire.PreflightReport, {"id": wanted.id, "stage": wanted.stage, **known})
    except ValueError as error:
        reason = f"its process gave an answer that makes no sense: {error}"
        return wire.PreflightReport(id=wanted.id, stage=wanted.stage, problems=[reason])


async def _end(child: Process) -> None:
    """End the child by closing its input."""
    if child.stdin is not None:
        child.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""
