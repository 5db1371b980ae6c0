"""A shim with workers that train by the clock: the real states, commands, spool and verdicts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from muster import wire
from muster_agent.jobs.exits import ExitEvidence, WorkerEnd, classify_exit
from muster_agent.jobs.folder import AllocationFolder, ShimOptions, ShimState
from muster_agent.records.masking import Mask
from muster_agent.records.spool import RecordWriter
from muster_agent.shim.control import Commands
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.restarts import MemberRestarts
from muster_agent.shim.state import Standing
from muster_agent.shim.stopping import Stopping
from muster_agent.shim.supervise import Shim

from .gang import Gang
from .scenario import Mishap

if TYPE_CHECKING:
    from .computer import Computer
    from .world import World

METRIC = "train/loss"
LONG_S = 1e6


class _TracedStanding(Standing):
    def __init__(self, trace: Callable[[str], None], *args: Any) -> None:
        super().__init__(*args)
        self._trace = trace

    def enter(
        self,
        observed: wire.Observed,
        *,
        message: str = "",
        exit: wire.ExitInfo | None = None,
        **rest: Any,
    ) -> None:
        super().enter(observed, message=message, exit=exit, **rest)
        self._trace(f"{observed} {message or (exit.message if exit is not None else '')}")


class SimulatedStopping(Stopping):
    """Workers that end as their script wants, in simulated time."""

    def __init__(self, shim: SimulatedShim) -> None:
        self._shim, self._spec, self._commands = shim, shim.spec, shim.commands

    async def stop(self) -> bool:
        return await self._shim.end_by_request()


class SimulatedShim(Shim):
    """`_live`, the order of states, and the deadline of on_disconnect "stop" are inherited."""

    def __init__(
        self,
        world: World,
        computer: Computer,
        folder: AllocationFolder,
        spec: wire.AllocationSpec,
        options: ShimOptions,
    ) -> None:
        self.world = world
        self.computer = computer
        self.folder = folder
        self.spec = spec
        self.options = options
        self.mask = Mask()
        self.boot = computer.num_boots
        self.task: asyncio.Task[None] | None = None
        self.is_alive = True
        self.has_workers = False
        self.commands = Commands(deadline_boot_s=options.deadline_boot_s)
        self.spool = RecordWriter(folder.records)
        self.was_asked = False
        self.is_forced = False
        self.signalled_at_ms = 0
        self.has_reported_failure = False
        self.restarts = MemberRestarts(
            spec,
            self.commands,
            SimpleNamespace(),  # type: ignore[arg-type]  # of roles alone, which no history has
            is_signalled=lambda: False,
            tick=self._tick,
            warn=lambda _: None,
        )
        self.script = world.script_of(spec)
        self.gang: Gang = world.gang_of(spec)
        self.stopping = SimulatedStopping(self)
        self.ends: list[WorkerEnd] = []
        self.step = spec.resume_step
        self.progress = float(spec.resume_step)
        """Steps, with the part of the one under way that is done."""
        self.reported = spec.resume_step
        self._rng = random.Random(
            f"{world.seed} {spec.trial_id} {spec.attempt_no} {spec.node_rank}"
        )
        self.standing = _TracedStanding(
            lambda words: world.trace(computer.name, f"{self.gang.key} says {words}"),
            folder,
            self.spool,
            self.commands,
            ShimState(
                pid=1,
                start_ticks=1,
                boot_id=f"{computer.name}/{self.boot}",
                socket_dir="",
                control_socket="",
                cgroup="",
                observed="ASSIGNED",
                asked=[],
            ),
        )

    async def run(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.05, 0.5))
        await self._live()
        self.is_alive = False
        self.spool.close()

    def take(self, message: dict[str, Any]) -> None:
        """A command of the agent."""
        self.commands.apply(message)
        self.standing.show()

    def die(self, *, with_workers: bool) -> None:
        """kill -9 of the shim, and of all below it if so."""
        if self.is_alive:
            self.is_alive = False
            assert self.task is not None
            self.task.cancel()
            os.close(self.spool._fd)
        if with_workers and self.has_workers:
            self._lose_workers()

    def kill_worker(self) -> None:
        """kill -9 of one worker."""
        if self.has_workers and self.is_alive and not self.ends:
            self._fail_worker(killed=True, words="")
            self.commands.changed.set()

    # ---- what the real one does with processes

    async def _prepare(self) -> Any:
        mishap = self._mishap("cannot_prepare")
        await self._rest(self.script.prepare_s)
        if self.commands.must_end():
            return None
        if mishap is not None:
            raise PrepareFailed("the simulated environment is broken", blames="")
        version = self.computer.plan.torch_version
        facts = wire.NodeFacts(torch_version=version) if version else None
        is_first = self.spec.node_rank == 0
        found = wire.JobEnvironment(python="python", python_version="3.12") if is_first else None
        return SimpleNamespace(facts=facts, environment=found)

    async def _open_rendezvous(self, prepared: Any) -> wire.Rendezvous | None:
        if self.spec.num_nodes == 1 or self.spec.node_rank != 0:
            return None
        return wire.Rendezvous(host="127.0.0.1", port=29_500, run_id=self.gang.key)

    def _start(self, prepared: Any, rendezvous: wire.Rendezvous | None) -> None:
        if self.spec.num_nodes > 1 and rendezvous is None:
            self.world.violation(f"{self.spec.allocation_id} was started without a rendezvous")
        self.has_workers = True
        self.world.witness.workers_start(self)
        for local_rank in range(len(self.spec.slots)):
            self.spool.append(
                wire.WorkerRecord(
                    local_rank=local_rank,
                    rank=self.spec.rank_offset + local_rank,
                    world_size=self.spec.world_size,
                    node_rank=self.spec.node_rank,
                    pid=local_rank + 1,
                    host=self.computer.name,
                    master_addr="127.0.0.1",
                    master_port=29_500,
                )
            )
        if self.script.logs:
            self._log(f"start at step {self.step}\n")

    async def _watch(self) -> None:
        await self._rest(self.script.startup_s)
        if self.commands.must_end() or self.ends:
            return
        self.standing.enter("RUNNING")
        self.gang.join(self)
        try:
            await self._train()
        finally:
            if self.is_alive and self.ends:
                self.gang.leave(self, well=self._has_ended_well)

    async def _train(self) -> None:
        """Until the last step, a mishap, or the loss of a peer; or until told to end."""
        while not self.commands.must_end() and not self.ends:
            if self.gang.is_broken:
                await self._lose_peer()
            elif self.gang.has_finished:
                await self._rest(self._rng.uniform(0.0, 1.0))
                if not self.commands.must_end():
                    self._all_end_well()
            elif not self.gang.is_complete or self.spec.node_rank != 0:
                self._mishap_of_member()
                if not self.ends:
                    await self._wait_for_gang()
            else:
                await self._work()

    async def _work(self) -> None:
        """Rank 0 trains up to the next thing to report; all steps need the whole gang."""
        script = self.script
        goal = min(script.num_steps, _next(self.step, script.report_every))
        if script.checkpoint_every:
            goal = min(goal, _next(self.step, script.checkpoint_every))
        mishap = self._mishap("raise", "killed", "hang")
        if mishap is not None and self.step <= mishap.at_step:
            goal = min(goal, mishap.at_step)
        if goal > self.step:
            began_at_s = self.world.loop.time()
            await self._rest((goal - self.progress) * script.step_s)
            self.progress += (self.world.loop.time() - began_at_s) / script.step_s
            self.step = min(goal, int(self.progress + 1e-6))
        if self.commands.must_end() or self.ends or self.gang.is_broken:
            return
        if self.step < goal:
            return  # woken by something that does not matter
        if mishap is not None and self.step == mishap.at_step:
            await self._have(mishap)
            return
        self._report()
        if script.checkpoint_every and self.step % script.checkpoint_every == 0:
            self._save()
        if self.step >= script.num_steps:
            self.gang.finish()

    async def _have(self, mishap: Mishap) -> None:
        if mishap.kind == "hang":
            self._report()
            await self._rest(LONG_S)
        else:
            self._fail_worker(killed=mishap.kind == "killed", words="ValueError: bad batch")

    def _mishap_of_member(self) -> None:
        mishap = self._mishap("raise", "killed")
        if mishap is not None and mishap.at_step <= self.spec.resume_step:
            self._fail_worker(killed=mishap.kind == "killed", words="ValueError: bad shard")

    async def _lose_peer(self) -> None:
        """A collective waits for a worker that is gone."""
        if self.script.peers_notice:
            await self._rest(self._rng.uniform(1.0, 8.0))
            if not self.commands.must_end():
                self._fail_worker(killed=False, words="RuntimeError: connection closed by peer")
        else:
            await self._rest(LONG_S)

    async def end_by_request(self) -> bool:
        """Return whether the workers have ended within their grace, or are to be killed."""
        grace_s = self.stopping.grace_s()
        patience = {"quick": 0.3, "slow": 0.9, "deaf": LONG_S}[self.script.stops]
        wait_s = min(grace_s, patience * grace_s * self._rng.uniform(0.2, 1.0))
        ends_at_s = self.world.loop.time() + wait_s
        while self.commands.kill is None and (left := ends_at_s - self.world.loop.time()) > 1e-6:
            await self._rest(left)
        if self.commands.kill is not None:
            return True
        if self.script.stops == "deaf":
            return False
        if self.spec.node_rank == 0 and self.gang.is_complete and not self.gang.is_broken:
            self._report()
            self._save()
        return True

    async def _exit(self) -> None:
        if not self.was_asked:
            self._tell_failure()
        await self._end_processes()
        if self.script.logs:
            self._log(f"end at step {self.step}\n")
        self.standing.enter("EXITED", exit=classify_exit(self._ending()))

    def _ending(self, *, only_ended: bool = False, num_survivors: int = 0) -> ExitEvidence:
        by_rank = {end.local_rank: end for end in self.ends}
        return ExitEvidence(
            launcher="direct",
            workers=[
                by_rank.get(i, WorkerEnd(local_rank=i, rank=self.spec.rank_offset + i))
                for i in range(len(self.spec.slots))
                if i in by_rank or not only_ended
            ],
            stop=self._how_asked(),
            stop_reason=self.commands.reason,
            stop_at_ms=self.commands.asked_at_ms,
            is_forced=self.is_forced,
            stop_grace_s=self.stopping.grace_s(),
            num_survivors=num_survivors,
        )

    async def _end_processes(self) -> set[Any]:
        await asyncio.sleep(self._rng.uniform(0.01, 0.5))
        self._lose_workers()
        return set()

    def _has_ended(self) -> bool:
        return bool(self.ends) or not self.has_workers

    async def _tick(self, timeout_s: float = LONG_S) -> None:
        await self._rest(timeout_s)

    async def _rest(self, seconds: float) -> None:
        """Wait, until a command or the end of a peer at the latest; kill past the deadline."""
        deadline = self.commands.deadline_boot_s
        if self.spec.on_disconnect == "stop" and deadline is not None:
            left_s = (deadline - self.computer.clock.boot_s()) / self.computer.clock.rate
            seconds = min(seconds, max(0.0, left_s) + 0.1)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.commands.changed.wait()
        self.commands.changed.clear()
        self._check_deadline()

    async def _wait_for_gang(self) -> None:
        await self._rest(LONG_S)

    # ---- helpers

    @property
    def _has_ended_well(self) -> bool:
        return bool(self.ends) and self.ends[0].exit_code == 0

    def _mishap(
        self, *kinds: Literal["raise", "killed", "hang", "cannot_prepare"]
    ) -> Mishap | None:
        mishap = self.script.mishap(self.spec.attempt_no)
        if mishap is None or mishap.kind not in kinds:
            return None
        return mishap if mishap.node_rank % self.spec.num_nodes == self.spec.node_rank else None

    def _report(self) -> None:
        """The points since the last report."""
        steps = list(range(self.reported + 1, self.step + 1))
        if not steps or self.spec.node_rank != 0:
            return
        now_ms = int(self.computer.clock.wall().timestamp() * 1000)
        values = [self.world.loss(self.spec.trial_id, step) for step in steps]
        record = wire.MetricsRecord(
            local_rank=0,
            rank=0,
            step=self.step,
            num_steps_planned=self.script.num_steps,
            series=[
                wire.SeriesPoints(
                    name=METRIC, steps=steps, times_ms=[now_ms] * len(steps), values=list(values)
                )
            ],
        )
        self.spool.append_raw(wire.dump(record), is_metrics=True)
        self.reported = self.step

    def _save(self) -> None:
        """A checkpoint on storage, then the record of it."""
        if self.step == self.spec.resume_step:
            return
        self.world.witness.note_saved(self.spec, self.step)
        self.spool.append(
            wire.CheckpointRecord(
                step=self.step, path=f"step-{self.step}", size_bytes=1, files={"state": "0" * 64}
            )
        )

    def _all_end_well(self) -> None:
        self.ends = [
            WorkerEnd(local_rank=i, rank=self.spec.rank_offset + i, exit_code=0)
            for i in range(len(self.spec.slots))
        ]

    def _fail_worker(self, *, killed: bool, words: str) -> None:
        local_rank = self._rng.randrange(len(self.spec.slots))
        self.ends = [
            WorkerEnd(
                local_rank=local_rank,
                rank=self.spec.rank_offset + local_rank,
                pid=local_rank + 1,
                exit_code=None if killed else 1,
                signal=int(signal.SIGKILL) if killed else None,
                at_ms=int(self.computer.clock.wall().timestamp() * 1000),
                error=words,
            )
        ]

    def _lose_workers(self) -> None:
        if self.has_workers:
            self.has_workers = False
            self.world.witness.workers_end(self)
            self.gang.leave(self, well=self._has_ended_well)

    def _log(self, text: str) -> None:
        folder = self.folder.logs / "direct" / "0"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "stdout.log").open("a") as file:
            file.write(text)
        self.world.witness.note_logged(self.spec.allocation_id, text)


def _next(step: int, every: int) -> int:
    return (step // every + 1) * every
