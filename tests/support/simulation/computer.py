"""A computer with an agent: what survives what.

An agent that is killed leaves its shims alive; a killed shim leaves its workers alive until the
agent sweeps them up; a crash of the computer ends everything, and its disk may have lost what was
not synced. The agent itself is the real one (muster_agent.loop); below it, processes are simulated.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, Session
from muster_agent.clock import ClockSync
from muster_agent.jobs.allocations import Allocation, Liveness
from muster_agent.jobs.folder import AllocationFolder, ShimOptions, ShimState
from muster_agent.jobs.programs import Programs
from muster_agent.loop import Agent
from muster_agent.machine import Machine
from muster_agent.node.joining import CannotJoin
from muster_agent.records.spool import SpoolLine
from muster_agent.settings import AgentSettings
from muster_server.services.nodes.sessions import Fence

from .clock import HostClock, SimulatedTask, host
from .network import Link, Respond
from .scenario import Fault, NodePlan
from .shim import SimulatedShim

if TYPE_CHECKING:
    from .world import World

SHIM_COMMAND_S = 0.02
AGENT_RESTART_S = 5.0
"""A service manager starts an agent that ended by itself again."""

process: contextvars.ContextVar[list[asyncio.Task[Any]] | None] = contextvars.ContextVar(
    "process", default=None
)
"""The tasks of the process that the running task belongs to."""


class Computer:
    """One node. `shims` are its processes, `home` its disk."""

    def __init__(self, world: World, plan: NodePlan, home: Path, rng: random.Random) -> None:
        self.world = world
        self.plan = plan
        self.name = plan.name
        self.home = home
        self.rng = rng
        self.clock = HostClock(world.loop.time)
        self.clock.skew_s, self.clock.rate = plan.skew_s, plan.rate
        self.clock.booted_at_s = -rng.uniform(100, 10_000)
        self.link = Link()
        self.trouble_at_s = 0.0
        """When anything of its own was last in its way to the server; the control plane's is not."""
        self.cuts: list[Fault] = []
        """What is in its way to the server now."""
        self.num_boots = 1
        self.is_up = True
        self.specs: dict[str, wire.AllocationSpec] = {}
        """Of the allocations on disk."""
        self.history: set[str] = set()
        """Allocations that were here and are forgotten."""
        self.shims: dict[str, SimulatedShim] = {}
        self._agent: list[asyncio.Task[Any]] | None = None
        self._num_agents = 0
        home.mkdir()
        self._settings = AgentSettings.model_construct(
            server_url="http://server",
            join_token=None,
            join_token_file=None,
            name=plan.name,
            home=home,
            pool="default",
            labels={},
            kill_wait_s=5.0,
            spool_limit_bytes=2**31,
            bundle_cache_bytes=2**31,
            stop_allocations=False,
        )
        vars(self._settings)["join_token"] = world.join_token

    # ---- the agent's process

    @property
    def has_agent(self) -> bool:
        return self._agent is not None

    @property
    def is_well(self) -> bool:
        """Nothing of its own is in its way to the server."""
        is_cut = any(fault.kind == "cut" for fault in self.cuts)  # and not all behind a proxy
        return self.is_up and self.has_agent and not is_cut

    def note_trouble(self) -> None:
        """Something of its own is in its way now, or was until now."""
        self.trouble_at_s = self.world.loop.time()

    def start_agent(self) -> None:
        if self._agent is not None or not self.is_up:
            return
        self._num_agents += 1
        self._agent = []
        self.note_trouble()
        context = contextvars.copy_context()
        context.run(host.set, self.clock)
        context.run(process.set, self._agent)
        self.world.trace(self.name, f"agent {self._num_agents} starts")
        self.world.loop.create_task(self._run_agent(), context=context)

    async def _run_agent(self) -> None:
        agent = Agent(
            self._settings,
            plane=SimulatedControlPlane(self.world, self),
            machine=SimulatedMachine(self),
        )
        try:
            await agent.run(asyncio.Event())
        except CannotJoin as error:
            self.world.trace(self.name, f"agent ends: {error}")
        self._agent = None
        self.world.loop.call_later(AGENT_RESTART_S, self.start_agent)

    def kill_agent(self) -> None:
        tasks, self._agent = self._agent, None
        if tasks is not None:
            self.world.trace(self.name, "agent is killed")
            for task in tasks:
                task.cancel()

    # ---- processes below it

    def start_shim(self, folder: AllocationFolder, options: ShimOptions) -> None:
        context = contextvars.copy_context()
        context.run(process.set, None)
        shim = SimulatedShim(self.world, self, folder, self.specs[folder.allocation_id], options)
        self.shims[folder.allocation_id] = shim
        shim.task = self.world.loop.create_task(shim.run(), context=context)
        shim.task.add_done_callback(self._notice_error)

    def _notice_error(self, task: asyncio.Task[None]) -> None:
        """A shim that ended by an error of its own would only seem to hang."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.violation(f"a shim of {self.name} failed: {error!r}")

    def living(self) -> list[SimulatedShim]:
        """Shims with anything alive in or below them."""
        return [s for s in self.shims.values() if s.is_alive or s.has_workers]

    # ---- the whole computer

    def crash(self, flavor: str) -> None:
        """Power is gone. flavor: what the disk still holds: kept | torn | wiped."""
        self.world.trace(self.name, f"crashes, its disk is {flavor}")
        self.kill_agent()
        self.is_up = False
        for shim in self.shims.values():
            shim.die(with_workers=True)
            if flavor == "torn":
                _tear(shim.folder.records, self.rng)
        if flavor == "wiped":
            self.specs.clear()
            self.shims.clear()
            shutil.rmtree(self.home)
            self.home.mkdir()

    def boot(self) -> None:
        if self.is_up:
            return
        self.is_up = True
        self.num_boots += 1
        self.clock.booted_at_s = self.world.loop.time()
        self.world.trace(self.name, f"boots (boot {self.num_boots})")
        self.start_agent()

    def end(self) -> None:
        """The history is over."""
        self.kill_agent()
        self.is_up = False
        for shim in self.shims.values():
            shim.die(with_workers=True)


class NoPrograms(Programs):
    """There is no process to be forked from."""

    async def prepare(self) -> None:
        return


class SimulatedMachine(Machine):
    """What the agent finds when it asks its computer."""

    def __init__(self, computer: Computer) -> None:
        self._computer = computer
        self.programs = NoPrograms()

    def boot_id(self) -> str:
        return f"{self._computer.name}/{self._computer.num_boots}"

    def boot_clock(self) -> float:
        return self._computer.clock.boot_s()

    @cached_property
    def _clocks(self) -> ClockSync:
        return ClockSync(wall=lambda: self._computer.clock.wall().timestamp())

    def inventory(self) -> wire.Inventory:
        name, num_slots = self._computer.name, self._computer.plan.num_slots
        return wire.Inventory(
            hostname=name,
            address="127.0.0.1",
            platform="simulated",
            num_cpus=num_slots,
            memory_bytes=1,
            disk_free_bytes=1,
            slots=[wire.SlotInfo(index=i, slot_type="cpu", name="") for i in range(num_slots)],
            python_version="3",
            agent_version="0",
        )

    def usage(self) -> wire.NodeUsage:
        return wire.NodeUsage(
            cpu_pct=0, memory_used_bytes=0, memory_total_bytes=1, disk_free_bytes=1
        )

    def problems(self) -> list[wire.NodeProblem]:
        return []

    async def read_devices(self) -> None:
        return

    def slot_problems(self, holders: Mapping[str, Sequence[int]]) -> list[wire.NodeProblem]:
        return []

    def hold(self, spec: wire.AllocationSpec) -> None:
        return

    def keep_warm(self, allocations: Iterable[Allocation]) -> None:
        return

    def waits_for_memory(self, slots: Collection[int]) -> bool:
        return False

    def was_here(self, allocation_id: str) -> bool:
        return allocation_id in self._computer.history

    def forget(self, allocation: Allocation) -> None:
        self._computer.history.add(allocation.allocation_id)
        allocation.folder.delete()

    def end_orphans(self, is_kept: Callable[[str], bool]) -> tuple[list[str], int]:
        return [], 0  # nobody takes its home from a simulated agent

    def recover(self) -> list[Allocation]:
        return [SimulatedAllocation(self._computer, i) for i in sorted(self._computer.specs)]

    def create(self, spec: wire.AllocationSpec) -> Allocation:
        self._computer.specs[spec.allocation_id] = spec
        folder = AllocationFolder(self._computer.home, spec.allocation_id)
        folder.path.mkdir(parents=True)
        return SimulatedAllocation(self._computer, spec.allocation_id)

    def keep_outputs(self, is_running: Callable[[str], bool]) -> None:
        """Simulated jobs write no files."""

    def close(self) -> None:
        pass  # nothing is kept warm

    def shim_options(self, spec: wire.AllocationSpec, *, bundle: str) -> ShimOptions:
        return ShimOptions(
            default_python="python",
            node_address="127.0.0.1",
            network_interface="",
            storage_dir="",
            interpreter_cache="",
            sdk_path="",
        )


class SimulatedFolder(AllocationFolder):
    def __init__(self, computer: Computer, allocation_id: str) -> None:
        super().__init__(computer.home, allocation_id)
        self._computer = computer

    def lock(self) -> int | None:
        shim = self._computer.shims.get(self.allocation_id)
        if shim is not None and shim.is_alive:
            return None
        return os.open(os.devnull, os.O_RDONLY)

    def has_options(self) -> bool:
        return self.allocation_id in self._computer.shims

    def read_state(self) -> ShimState | None:
        shim = self._computer.shims.get(self.allocation_id)
        return shim.standing.state if shim is not None else None

    def write_state(self, state: ShimState) -> None:
        pass  # the shim itself has it

    def delete(self) -> None:
        self._computer.specs.pop(self.allocation_id, None)
        self._computer.shims.pop(self.allocation_id, None)
        shutil.rmtree(self.path, ignore_errors=True)


class SimulatedAllocation(Allocation):
    """The agent's real view of an allocation, whose processes are simulated."""

    def __init__(self, computer: Computer, allocation_id: str) -> None:
        self._computer = computer
        super().__init__(SimulatedFolder(computer, allocation_id), computer.specs[allocation_id])

    @property
    def _own(self) -> SimulatedShim | None:
        return self._computer.shims.get(self.allocation_id)

    def liveness(self) -> Liveness:
        shim = self._own
        if shim is None:
            return "dead"
        if shim.boot != self._computer.num_boots:
            return "rebooted"
        return "alive" if shim.is_alive else "dead"

    def start_shim(
        self,
        options: ShimOptions,
        secrets: Sequence[wire.SecretValue] = (),
        *,
        programs: Programs,
    ) -> None:
        self._computer.start_shim(self.folder, options)

    async def command(self, command: str, **fields: Any) -> bool:
        await asyncio.sleep(SHIM_COMMAND_S)
        shim = self._own
        if shim is None or not shim.is_alive:
            return False
        shim.take({"command": command, **fields})
        return True

    async def end_everything(self, *, timeout_s: float) -> int:
        if self.liveness() == "alive":
            await self.command("kill", reason="the server does not want it any more")
            shim = self._own
            if shim is not None and shim.task is not None:
                await asyncio.wait({shim.task}, timeout=timeout_s + 10.0)
        await asyncio.sleep(SHIM_COMMAND_S)
        shim = self._own
        if shim is not None:
            shim.die(with_workers=True)
        return 0

    def _read_state(self) -> ShimState | None:
        shim = self._own
        return shim.standing.state if shim is not None else None


class SimulatedControlPlane(ControlPlane):
    """The agent's client, over the simulated network. Requests are bound to the process."""

    def __init__(self, world: World, computer: Computer) -> None:
        self._world = world
        self._computer = computer
        self._link = computer.link
        self._credential = ""
        self._num_registrations = 0

    async def close(self) -> None:
        pass

    async def _ask(self, serve: Any, *, timeout_s: float = 30.0) -> Any:
        return await self._world.network.call(self._link, serve, timeout_s=timeout_s)

    async def register(self, request: wire.RegisterRequest, *, token: str) -> wire.RegisterReply:
        api = self._world.api_of(self._computer)
        request = self._numbered(request)
        waits_in_vain = False

        def serve(respond: Respond) -> None:
            def answer(reply: Any) -> None:
                nonlocal waits_in_vain
                if not self._link.down:
                    # The server hears the others meanwhile, and this one not before it asks again.
                    waits_in_vain = True
                    self._computer.note_trouble()
                respond(reply)

            api.register(answer, request, token)

        try:
            reply: wire.RegisterReply = await self._ask(serve)
        except RequestRefused:
            # With an empty disk it is a stranger, who waits until the node of its name is LOST.
            self._computer.note_trouble()
            raise
        finally:
            if waits_in_vain:
                self._computer.note_trouble()
        return reply

    async def lease(self, request: wire.LeaseRequest) -> wire.LeaseReply:
        token = self._credential
        api = self._world.api_of(self._computer)
        reply: wire.LeaseReply = await self._ask(
            lambda respond: api.lease(respond, request, token), timeout_s=10.0
        )
        return reply

    async def assignments(self, session: Session, index: int | None) -> wire.AssignmentsReply:
        fence = Fence(session.node_id, session.epoch)
        api = self._world.api_of(self._computer)
        reply: wire.AssignmentsReply = await self._ask(
            lambda respond: api.assignments(respond, fence, index), timeout_s=55.0
        )
        return reply

    async def records(
        self, session: Session, allocation_id: str, attempt_no: int, lines: Any
    ) -> wire.RecordsReply:
        request = wire.RecordsRequest(
            node_id=session.node_id,
            session_epoch=session.epoch,
            attempt_no=attempt_no,
            records=[_decoded(line) for line in lines],
        )
        api = self._world.api_of(self._computer)
        reply: wire.RecordsReply = await self._ask(
            lambda respond: api.records(respond, allocation_id, request)
        )
        self._world.witness.note_acknowledged(allocation_id, request, reply)
        return reply

    async def logs(
        self,
        session: Session,
        allocation_id: str,
        attempt_no: int,
        *,
        local_rank: int,
        stream: str,
        offset: int,
        data: bytes,
    ) -> int:
        fence = Fence(session.node_id, session.epoch)
        api = self._world.api_of(self._computer)
        next_offset: int = await self._ask(
            lambda respond: api.logs(
                respond,
                allocation_id,
                fence,
                attempt_no=attempt_no,
                local_rank=local_rank,
                stream=stream,
                offset=offset,
                data=data,
            )
        )
        return next_offset


def make_owned_task(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> SimulatedTask:
    """A task that is known to the process which started it."""
    task = SimulatedTask(coro, loop=loop, **kwargs)
    context = kwargs.get("context")
    owner = context.get(process) if context is not None else process.get()
    if owner is not None:
        owner.append(task)
    return task


def _decoded(line: SpoolLine) -> wire.NumberedRecord:
    return wire.loads(wire.NumberedRecord, line.data)


def _tear(records: Path, rng: random.Random) -> None:
    """Take away some of what was written after the last record that was synced."""
    segments = sorted(records.glob("*.jsonl"))
    if not segments:
        return
    data = segments[-1].read_bytes()
    synced = 0
    position = 0
    for line in data.splitlines(keepends=True):
        position += len(line)
        if b'"type":"state"' in line[:120]:
            synced = position
    if synced < len(data):
        os.truncate(segments[-1], rng.randint(synced, len(data)))
