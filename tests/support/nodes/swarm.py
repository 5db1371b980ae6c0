"""Thousands of agents in one process: the real protocol over real HTTP, and nothing that runs.

Each keeps what a real agent keeps (credential, session, index, record streams), waits in a long
poll on a connection of its own, and sends in the rhythm of the real one. `support.agent` is the one
for tests that say every word themselves.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import msgspec

from muster.wire import (
    PROTOCOL_VERSION,
    Assignment,
    AssignmentsReply,
    ExitInfo,
    Inventory,
    LeaseReply,
    LeaseRequest,
    LogsReply,
    MetricsRecord,
    NodeUsage,
    NumberedRecord,
    Record,
    RecordsReply,
    RecordsRequest,
    RegisterReply,
    RegisterRequest,
    Rendezvous,
    SeriesPoints,
    SlotInfo,
    StateRecord,
    WorkerRecord,
)

from .swarm_connection import Connection, Refused

POLL_WAIT_S = 25.0
SEND_PAUSE_S = 0.1
"""A real agent looks at its spools this often."""
ERROR_PAUSE_S = 0.5
_DRAW = random.Random(7)


@dataclass
class Timings:
    """What every call took, from before it was sent until its answer was read."""

    ms: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    errors: collections.Counter[str] = field(default_factory=collections.Counter)
    """Call and kind → how many."""

    def clear(self) -> None:
        self.ms.clear()
        self.errors.clear()


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What allocations of simulated agents do."""

    run_s: float = 0.0
    """From RUNNING to EXITED; infinite: until told to stop."""
    report_s: float = 0.0
    """Between two reports of metrics, and of a piece of log; 0: none."""
    num_series: int = 20
    steps_per_report: int = 1
    log_bytes: int = 200


class SimulatedAgent:
    """One node."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        slots: int,
        timings: Timings,
        behaviour: Behaviour,
        on_state: Callable[[Assignment, str], None] = lambda assignment, state: None,
    ) -> None:
        """on_state: called when the server has acknowledged a state of an allocation."""
        self.name = name
        self.node_id = ""
        self.epoch = 0
        self.index = -1
        self.num_running = 0
        self._slots = slots
        self._timings = timings
        self._behaviour = behaviour
        self._on_state = on_state
        self._credential = ""
        self._heartbeat_s = 5.0
        self._instance_id = uuid.uuid4().hex
        self._waiting = Connection(url)
        self._calling = Connection(url)
        self.allocations: dict[str, SimulatedAllocation] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def register(self, join_token: str) -> None:
        request = RegisterRequest(
            protocol_version=PROTOCOL_VERSION,
            name=self.name,
            pool="default",
            labels={},
            boot_id="boot-1",
            instance_id=self._instance_id,
            number=0,
            join_id=self._instance_id,
            inventory=Inventory(
                hostname=self.name,
                address="127.0.0.1",
                platform="simulated",
                num_cpus=self._slots,
                memory_bytes=1 << 30,
                disk_free_bytes=1 << 40,
                slots=[
                    SlotInfo(index=i, slot_type="cpu", name=f"share {i}")
                    for i in range(self._slots)
                ],
                python_version="3",
                agent_version="0",
                storage_id="shared",
            ),
        )
        for number in itertools.count(1):  # asked again it is the same joining
            try:
                body = await self._call(
                    "register",
                    "/register",
                    msgspec.json.encode(dataclasses.replace(request, number=number)),
                    token=join_token,
                )
                break
            except (Refused, OSError, TimeoutError) as error:
                if isinstance(error, Refused) and error.status != 503:
                    raise
                await asyncio.sleep(ERROR_PAUSE_S)
        reply = msgspec.json.decode(body, type=RegisterReply)
        self._credential = reply.credential or ""
        self.node_id, self.epoch = reply.node_id, reply.session_epoch
        self._heartbeat_s = reply.heartbeat_s

    def start(self) -> None:
        """Heartbeats and polls, until `stop`."""
        self._spawn(self._heartbeats())
        self._spawn(self._follow())

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiting.close()
        self._calling.close()

    def freeze(self) -> None:
        """Say nothing any more, like a machine that has lost its power."""
        for task in self._tasks:
            task.cancel()

    async def beat(self) -> None:
        """One heartbeat. Raises Refused, OSError or TimeoutError."""
        request = LeaseRequest(
            node_id=self.node_id,
            session_epoch=self.epoch,
            usage=NodeUsage(
                cpu_pct=50.0,
                memory_used_bytes=1 << 29,
                memory_total_bytes=1 << 30,
                disk_free_bytes=1 << 40,
            ),
            running=list(self.allocations),
            accepts_credential=True,
            problems=[],
        )
        body = await self._call("lease", "/lease", msgspec.json.encode(request))
        reply = msgspec.json.decode(body, type=LeaseReply)
        self._credential = reply.credential or self._credential
        self._heartbeat_s = reply.heartbeat_s

    async def poll(self, wait_s: float) -> AssignmentsReply:
        """One question for assignments. Raises Refused, OSError or TimeoutError."""
        query = urlencode(
            {
                "node_id": self.node_id,
                "session_epoch": self.epoch,
                "index": self.index,
                "wait": wait_s,
            }
        )
        body = await self._waiting.request(
            "GET", f"/agent/v1/assignments?{query}", token=self._credential
        )
        return msgspec.json.decode(body, type=AssignmentsReply)

    async def _heartbeats(self) -> None:
        # Agents that joined one after the other do not beat together.
        await asyncio.sleep(_DRAW.uniform(0, self._heartbeat_s))
        while True:
            try:
                await self.beat()
            except (Refused, OSError, TimeoutError):
                await asyncio.sleep(ERROR_PAUSE_S)
                continue
            await asyncio.sleep(self._heartbeat_s)

    async def _follow(self) -> None:
        while True:
            began = time.perf_counter()
            asked = self.index
            try:
                reply = await self.poll(POLL_WAIT_S if asked >= 0 else 0)
            except (Refused, OSError, TimeoutError) as error:
                self._note_error("assignments", error)
                await asyncio.sleep(ERROR_PAUSE_S)
                continue
            took_s = time.perf_counter() - began
            self.index = reply.index
            if asked < 0:
                self._timings.ms["assignments, first"].append(1000 * took_s)
            elif reply.index == asked:
                late_s = took_s - POLL_WAIT_S
                self._timings.ms["assignments, later than 25 s"].append(1000 * max(0.0, late_s))
            self._want({a.spec.allocation_id: a for a in reply.assignments})
            if asked >= 0 and reply.index != asked:
                await asyncio.sleep(0.02)  # as the real one: a burst of changes becomes one answer

    def _want(self, assignments: dict[str, Assignment]) -> None:
        for allocation_id in self.allocations.keys() - assignments.keys():
            self.allocations.pop(allocation_id).is_forgotten = True
        for allocation_id, assignment in assignments.items():
            allocation = self.allocations.get(allocation_id)
            if allocation is None:
                allocation = self.allocations[allocation_id] = SimulatedAllocation(assignment)
                self._spawn(self._live(allocation))
                self._spawn(self._send(allocation))
            allocation.assignment = assignment
            allocation.changed.set()

    async def _live(self, allocation: SimulatedAllocation) -> None:
        """PREPARING to EXITED, as fast as the server says so."""
        spec, behaviour = allocation.assignment.spec, self._behaviour
        rendezvous = None
        if spec.num_nodes > 1 and spec.node_rank == 0:
            rendezvous = Rendezvous(host="127.0.0.1", port=29500, run_id="r")
        allocation.report(
            StateRecord(observed="PREPARING"), StateRecord(observed="READY", rendezvous=rendezvous)
        )
        await allocation.until("start", "stop", "kill")
        if allocation.assignment.desired == "start":
            allocation.report(StateRecord(observed="STARTING"))
            allocation.report(*_workers(spec), StateRecord(observed="RUNNING"))
            self.num_running += 1
            ends_at = time.monotonic() + behaviour.run_s
            if behaviour.report_s:  # they did not begin to train in the same moment
                await allocation.until(
                    "stop", "kill", timeout_s=_DRAW.uniform(0, behaviour.report_s)
                )
            while allocation.assignment.desired == "start" and not allocation.is_forgotten:
                left_s = ends_at - time.monotonic()
                if left_s <= 0:
                    break
                if behaviour.report_s:
                    allocation.report(metrics_of(allocation, behaviour))
                    allocation.log += b"x" * (behaviour.log_bytes - 1) + b"\n"
                pause_s = min(left_s, behaviour.report_s or left_s)
                await allocation.until(
                    "stop", "kill", timeout_s=None if pause_s == float("inf") else pause_s
                )
            self.num_running -= 1
        was_asked = allocation.assignment.desired != "start"
        ended = ExitInfo(cause="stopped" if was_asked else "success", message="")
        allocation.report(StateRecord(observed="EXITED", exit=ended))

    async def _send(self, allocation: SimulatedAllocation) -> None:
        """Records as they come, and the log, in the rhythm of a real agent."""
        while not allocation.is_forgotten:
            await allocation.reported.wait()
            await asyncio.sleep(_DRAW.uniform(0, SEND_PAUSE_S))
            allocation.reported.clear()
            try:
                await self.send_records(allocation)
                await self.send_log(allocation)
            except Refused as error:
                if error.status in (404, 410):
                    return
                allocation.reported.set()
                await asyncio.sleep(ERROR_PAUSE_S)
            except (OSError, TimeoutError):
                allocation.reported.set()
                await asyncio.sleep(ERROR_PAUSE_S)

    async def send_records(self, allocation: SimulatedAllocation) -> None:
        """All that it has reported, if anything. Raises Refused, OSError or TimeoutError."""
        spec, batch = allocation.assignment.spec, list(allocation.records)
        if not batch:
            return
        request = RecordsRequest(
            node_id=self.node_id,
            session_epoch=self.epoch,
            attempt_no=spec.attempt_no,
            records=batch,
        )
        path = f"/allocations/{spec.allocation_id}/records"
        body = await self._call("records", path, msgspec.json.encode(request))
        allocation.acknowledge(msgspec.json.decode(body, type=RecordsReply).acked_seq)
        for numbered in batch:
            if isinstance(numbered.record, StateRecord):
                self._on_state(allocation.assignment, numbered.record.observed)

    async def send_log(self, allocation: SimulatedAllocation) -> None:
        """What it has written since, if anything. Raises Refused, OSError or TimeoutError."""
        spec = allocation.assignment.spec
        if not allocation.log:
            return
        query = urlencode(
            {
                "offset": allocation.log_offset,
                "attempt_no": spec.attempt_no,
                "node_id": self.node_id,
                "session_epoch": self.epoch,
            }
        )
        path = f"/allocations/{spec.allocation_id}/logs/0/stdout?{query}"
        data, allocation.log = allocation.log, b""
        body = await self._call("logs", path, data, kind="octet-stream")
        allocation.log_offset = msgspec.json.decode(body, type=LogsReply).next_offset

    async def _call(
        self, what: str, path: str, body: str | bytes, *, token: str = "", kind: str = "json"
    ) -> bytes:
        began = time.perf_counter()
        try:
            answer = await self._calling.request(
                "POST",
                f"/agent/v1{path}",
                token=token or self._credential,
                body=body.encode() if isinstance(body, str) else body,
                kind=kind,
            )
        except (Refused, OSError, TimeoutError) as error:
            self._note_error(what, error)
            raise
        self._timings.ms[what].append(1000 * (time.perf_counter() - began))
        return answer

    def _note_error(self, what: str, error: Exception) -> None:
        kind = str(error.status) if isinstance(error, Refused) else type(error).__name__
        self._timings.errors[f"{what}: {kind}"] += 1

    def _spawn(self, work: Awaitable[None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class SimulatedAllocation:
    """What a simulated agent keeps of one allocation."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.changed = asyncio.Event()
        self.reported = asyncio.Event()
        self.records: collections.deque[NumberedRecord] = collections.deque()
        self.log = b""
        self.log_offset = 0
        self.step = 0
        self.is_forgotten = False
        self._next_seq = 1

    def report(self, *records: Record) -> None:
        at_ms = int(1000 * time.time())
        for record in records:
            self.records.append(NumberedRecord(seq=self._next_seq, at_ms=at_ms, record=record))
            self._next_seq += 1
        self.reported.set()

    def acknowledge(self, seq: int) -> None:
        while self.records and self.records[0].seq <= seq:
            self.records.popleft()

    async def until(self, *desired: str, timeout_s: float | None = None) -> None:
        """Until the server wants one of these, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.assignment.desired not in desired:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass


def _workers(spec: Any) -> list[Record]:
    return [
        WorkerRecord(
            local_rank=i,
            rank=spec.rank_offset + i,
            world_size=spec.world_size,
            node_rank=spec.node_rank,
            pid=1000 + i,
            host="127.0.0.1",
            master_addr="127.0.0.1",
            master_port=29500,
        )
        for i in range(len(spec.slots))
    ]


def metrics_of(allocation: SimulatedAllocation, behaviour: Behaviour) -> MetricsRecord:
    first = allocation.step + 1
    allocation.step += behaviour.steps_per_report
    steps = list(range(first, allocation.step + 1))
    now_ms = int(1000 * time.time())
    return MetricsRecord(
        local_rank=0,
        rank=allocation.assignment.spec.rank_offset,
        series=[
            SeriesPoints(
                name=f"train/metric_{n}",
                steps=steps,
                times_ms=[now_ms] * len(steps),
                values=[1.0 / s + n for s in steps],
            )
            for n in range(behaviour.num_series)
        ],
        step=allocation.step,
        epoch=None,
        num_steps_planned=None,
    )


class Swarm:
    """Agents of equal nodes that join one control plane."""

    def __init__(
        self,
        urls: Sequence[str],
        num: int,
        *,
        slots: int = 1,
        behaviour: Behaviour,
        on_state: Callable[[Assignment, str], None] = lambda assignment, state: None,
    ) -> None:
        """urls: of the API servers, among which they are spread."""
        self.timings = Timings()
        self.agents = [
            SimulatedAgent(
                urls[i % len(urls)],
                f"node-{i:05}",
                slots=slots,
                timings=self.timings,
                behaviour=behaviour,
                on_state=on_state,
            )
            for i in range(num)
        ]

    async def join(self, join_token: str, *, at_once: int = 16) -> None:
        """Register all, so many at a time, and begin to beat and to poll."""
        todo = iter(self.agents)

        async def some() -> None:
            for agent in todo:
                await agent.register(join_token)
                agent.start()

        await asyncio.gather(*(some() for _ in range(at_once)))

    @property
    def num_running(self) -> int:
        return sum(agent.num_running for agent in self.agents)

    async def until_running(self, num: int, *, timeout_s: float) -> None:
        """Returns when so many allocations run. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while (have := self.num_running) < num:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{have} of {num} allocations run after {timeout_s:.0f} s")
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        await asyncio.gather(*(agent.stop() for agent in self.agents))


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and largest, by the nearest rank; NaN when there are none."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("p50", "p95", "p99", "max"), float("nan"))
    ranks = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {
        name: ordered[min(len(ordered) - 1, max(0, round(q * len(ordered)) - 1))]
        for name, q in ranks.items()
    }
