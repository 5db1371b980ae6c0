"""Processor time of server, controller and database for each kind of call and of trial.

    PYTHONPATH=tests:bench python bench/capacity/measure.py --out FILE

Writes what `costs.py` reads. Every figure is processor time of these processes as the kernel counts it,
so other programs on the machine change it far less than a time on the clock. Nodes are simulated
(`support.nodes.swarm`); server, controller and PostgreSQL are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvloop
from agents import submit_trials
from costs import PARTS, Idle, Measured, Observed, Trials, Used
from launch import Cluster
from sqlalchemy import text

from support.nodes.swarm import Behaviour, SimulatedAgent, Swarm, metrics_of
from support.processes import ControlPlane, control_plane

RUN_LIMIT_S = 300.0
CALM = {"MUSTER_HEARTBEAT_S": "600", "MUSTER_NODE_LOST_S": "7200"}
"""Nodes that say nothing while something else is measured are not given up."""
REPORT = Behaviour(report_s=5.0, steps_per_report=5)
SHORT_WAIT_S = 0.01
SPREAD = 32
"""Single calls that are kept of a kind, from the cheapest to the dearest."""


class Meter:
    """What the processes of a control plane have used, to the nanosecond."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.server = plane.processes["server-1"].pid
        self._postmaster = int(
            (Path(str(plane.database.url.query["host"])) / "data/postmaster.pid")
            .read_text()
            .splitlines()[0]
        )

    def used(self) -> dict[str, float]:
        """By part, in all so far; a database process that has ended is in its parent's sum."""
        usage = self._plane.usage()
        return {
            "server": _run_s(self.server),
            "controller": _run_s(self._plane.processes["controller-1"].pid),
            "database": usage["postgres"].cpu_s,
            "loop": _run_s(self.server, self.server),
        }

    def of_database(self) -> float:
        """Of its processes that live now."""
        children = psutil.Process(self._postmaster).children()
        return sum(_run_s(child.pid) for child in children)


def _run_s(pid: int, thread: int | None = None) -> float:
    """Seconds that the threads of a process, or one of them, have run."""
    tasks = Path(f"/proc/{pid}/task")
    total = 0
    with suppress(FileNotFoundError, ProcessLookupError):  # it ends meanwhile
        for task in [tasks / str(thread)] if thread else list(tasks.iterdir()):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Bench:
    """One control plane, its idle use, and calls on it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.meter = Meter(plane)
        self.idle: list[Idle] = []
        self.calls: list[Observed] = []
        self._others = 0.0
        """Transactions a second that write, when nobody calls."""

    async def rest(self, seconds: float, *, nodes: int, running: int) -> None:
        before, began = self.meter.used(), time.perf_counter()
        transactions = self._transactions()
        await asyncio.sleep(seconds)
        after, wall_s = self.meter.used(), time.perf_counter() - began
        self._others = (self._transactions() - transactions) / wall_s
        used = Used(**{part: max(0.0, after[part] - before[part]) for part in PARTS})
        self.idle.append(Idle(nodes=nodes, running=running, wall_s=wall_s, used=used))
        print(f"  idle, {nodes} nodes, {running} attempts: {_ms(used, wall_s)} a second")

    async def measure(
        self,
        name: str,
        agents: list[SimulatedAgent],
        call: Callable[[SimulatedAgent], Awaitable[Any]],
        *,
        rounds: int,
        at_once: int,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Every agent calls once in a round, so many of them at once."""
        each: list[tuple[float, float]] = []
        sums = dict.fromkeys([*PARTS, "loop", "wall", "transactions"], 0.0)
        for _ in range(rounds):
            prepare()
            async with self._counted(sums):
                todo = iter(agents)

                async def some(todo: Any = todo) -> None:
                    for agent in todo:
                        if at_once > 1:
                            await call(agent)
                            continue
                        server, database = _run_s(self.meter.server), self.meter.of_database()
                        await call(agent)
                        each.append(
                            (
                                _run_s(self.meter.server) - server,
                                max(0.0, self.meter.of_database() - database),
                            )
                        )

                await asyncio.gather(*(some() for _ in range(at_once)))
        num, idle = rounds * len(agents), self.idle[-1]
        kept = sorted(each)[:: max(1, len(each) // SPREAD)]
        used = Used(
            **{
                part: max(0.0, sums[part] - getattr(idle.used, part) / idle.wall_s * sums["wall"])
                for part in PARTS
            }
        )
        seen = Observed(
            call=name,
            at_once=at_once,
            calls=num,
            transactions=self._shared(name, at_once, num, sums["transactions"]),
            wall_s=sums["wall"],
            loop_s=sums["loop"],
            used=used,
            each_server_s=[round(server, 6) for server, _ in kept],
            each_database_s=[round(database, 6) for _, database in kept],
        )
        self.calls.append(seen)
        print(
            f"  {name}, {at_once} at once: n {num}, {_ms(used, num)} a call, "
            f"{seen.transactions / num:.2f} transactions a call, {num / seen.wall_s:.0f}/s, "
            f"load {os.getloadavg()[0]:.1f}"
        )

    @asynccontextmanager
    async def _counted(self, sums: dict[str, float]) -> AsyncIterator[None]:
        transactions = self._transactions()
        before, began = self.meter.used(), time.perf_counter()
        yield
        after, wall_s = self.meter.used(), time.perf_counter() - began
        for part in (*PARTS, "loop"):
            sums[part] += after[part] - before[part]
        sums["wall"] += wall_s
        sums["transactions"] += self._transactions() - transactions - self._others * wall_s

    def _transactions(self) -> int:
        """Of everybody so far, of those that write."""
        with self.plane.database.read() as session:
            counted = text("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            return int(session.execute(counted).scalar_one())

    def _shared(self, name: str, at_once: int, num: int, written: float) -> float:
        """How many transactions so many calls had. Those that only read are not counted by the database, and gather
        as heartbeats do."""
        for beat in self.calls:
            if name == "poll" and (beat.call, beat.at_once) == ("heartbeat", at_once):
                return num * beat.transactions / beat.calls
        return min(float(num), max(1.0, written))


def _ms(used: Used, num: float) -> str:
    return ", ".join(f"{part} {1000 * getattr(used, part) / num:.2f} ms" for part in PARTS)


async def calls(plane: ControlPlane, given: argparse.Namespace) -> Bench:
    bench = Bench(plane)
    await asyncio.sleep(given.rest_s)  # it has just begun
    await bench.rest(given.rest_s, nodes=0, running=0)
    swarm = Swarm(list(plane.urls.values()), given.nodes, behaviour=Behaviour(run_s=float("inf")))
    token = plane.make_join_token(uses=given.nodes)
    for agent in swarm.agents:
        await agent.register(token)
    await bench.rest(given.rest_s, nodes=given.nodes, running=0)
    training = swarm.agents[: given.running]
    for agent in training:
        agent.start()
    await submit_trials(plane, given.running)
    await swarm.until_running(given.running, timeout_s=RUN_LIMIT_S)
    for agent in training:
        await agent.stop()  # it calls when it is told to
    await asyncio.sleep(given.rest_s)
    await bench.rest(given.rest_s, nodes=given.nodes, running=given.running)

    def none_sampled() -> None:
        with plane.database.transaction() as session:
            session.execute(text("UPDATE nodes SET sampled_at = NULL"))

    async def report(agent: SimulatedAgent) -> None:
        allocation = next(iter(agent.allocations.values()))
        allocation.report(metrics_of(allocation, REPORT))
        await agent.send_records(allocation)

    async def log(agent: SimulatedAgent) -> None:
        allocation = next(iter(agent.allocations.values()))
        allocation.log += b"x" * (REPORT.log_bytes - 1) + b"\n"
        await agent.send_log(allocation)

    waiting = swarm.agents[given.running : 2 * given.running]
    for agent in waiting:
        agent.index = (await agent.poll(0)).index
    for at_once in (1, given.at_once):
        rounds = given.rounds
        for agent in training:  # what is done once for each is not measured
            await agent.beat()
            await report(agent)
            await log(agent)
        await bench.measure(
            "heartbeat", training, SimulatedAgent.beat, rounds=rounds, at_once=at_once
        )
        await bench.measure(
            "heartbeat_sampled", training, SimulatedAgent.beat, rounds=rounds, at_once=at_once,
            prepare=none_sampled,
        )  # fmt: skip
        await bench.measure("report", training, report, rounds=rounds, at_once=at_once)
        await bench.measure("log", training, log, rounds=rounds, at_once=at_once)
        await bench.measure(
            "poll", waiting * rounds, lambda agent: agent.poll(SHORT_WAIT_S), rounds=1,
            at_once=at_once,
        )  # fmt: skip
    await swarm.stop()
    return bench


async def trials(plane: ControlPlane, given: argparse.Namespace) -> list[Trials]:
    found: list[Trials] = []
    meter, cluster = Meter(plane), Cluster(plane, 64)
    await cluster.join()
    await asyncio.sleep(given.rest_s)
    rest_before, rest_began = meter.used(), time.perf_counter()
    await asyncio.sleep(given.rest_s)
    rest_after, rest_s = meter.used(), time.perf_counter() - rest_began
    by_itself = {part: (rest_after[part] - rest_before[part]) / rest_s for part in PARTS}
    try:
        for size, num in ((1, given.singles), (64, given.gangs)):
            for is_burst in (False, True):
                cluster.at.clear()
                before, began = meter.used(), time.perf_counter()
                for done in [num] if is_burst else range(1, num + 1):
                    await cluster.submit(trials=num if is_burst else 1, slots=size, nodes=size)
                    await cluster.until(
                        "all have ended",
                        lambda n=done, size=size: (
                            sum(len(at["EXITED"]) == size for at in cluster.at.values()) == n
                        ),
                    )
                after, wall_s = meter.used(), time.perf_counter() - began
                used = Used(
                    **{
                        part: max(0.0, after[part] - before[part] - wall_s * by_itself[part])
                        for part in PARTS
                    }
                )
                found.append(
                    Trials(nodes=size, trials=num, is_burst=is_burst, wall_s=wall_s, used=used)
                )
                how = "at once" if is_burst else "one after another"
                print(
                    f"  {num} trials of {size} node(s) {how}: {_ms(used, num)} each, "
                    f"{num / wall_s:.1f}/s, load {os.getloadavg()[0]:.1f}"
                )
    finally:
        await cluster.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=400, help="that say nothing")
    parser.add_argument("--running", type=int, default=64, help="attempts")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rest-s", type=float, default=15.0)
    parser.add_argument("--singles", type=int, default=60)
    parser.add_argument("--gangs", type=int, default=4)
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    first = os.getloadavg()[0]
    with control_plane("postgres", settings=CALM) as plane:
        bench = uvloop.run(calls(plane, given))
    with control_plane("postgres") as plane:
        ended = uvloop.run(trials(plane, given))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    measured = Measured(
        machine=f"{machine}, PostgreSQL",
        load=f"{first:.0f} to {os.getloadavg()[0]:.0f}",
        idle=bench.idle,
        calls=bench.calls,
        trials=ended,
    )
    given.out.write_bytes(_lines(measured))


def _lines(measured: Measured) -> bytes:
    """As JSON, a line for each observation."""
    parts = msgspec.to_builtins(measured)
    texts = [
        f" {json.dumps(name)}: "
        + (
            "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
            if isinstance(value, list)
            else json.dumps(value)
        )
        for name, value in parts.items()
    ]
    return ("{\n" + ",\n".join(texts) + "\n}\n").encode()


if __name__ == "__main__":
    main()
