"""An installation of a size with its calls drawn as agents make them; what each part is busy."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from costs import PARTS, CallCost, Costs, Used
from queues import Agenda, Call, Processors, Shared, Then

from muster_server.db.batching import BATCH_MAX, NUM_WRITERS
from muster_server.domain.lifecycle.nodes import heartbeat_interval_s
from muster_server.services.core.retention import SAMPLE_EVERY_S
from muster_server.settings import Settings

POLL_S = 25.0
REPORT_S = 5.0
DAY_S = 86_400.0
FULL = 1.0
"""Share of a part's processors from which on what waits grows without end."""
CALLS_MAX = 20_000
"""Drawn in one simulation, a tenth of them before anything is counted."""
KINDS = {"heartbeat_sampled": "heartbeat"}
"""Calls that differ in what they cost, and share transactions."""
ALONE = frozenset({"report", "log"})
"""Calls with a transaction of their own on PostgreSQL (`RecordsCall.shares_rows`)."""


@dataclass(frozen=True, kw_only=True)
class Installation:
    nodes: int
    training: int
    """Nodes with an attempt that reports."""
    trials_per_s: float = 0.0
    gangs_per_s: float = 0.0
    """Trials of 64 nodes."""
    servers: int = 1
    database_cores: int = 2
    slowed: float = 1.0
    """How many times longer everything takes where other programs have the processors too."""
    wait_s: float = 0.001
    """Until a commit is on disk."""
    rates: Mapping[str, float] | None = None
    """Calls a second of each kind, where it is known; else those that agents make by themselves."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    loads: dict[str, float]
    """Processors in use, of each part together."""
    full: dict[str, float]
    """Share in use of what each part has, where 1 is all."""
    p50_ms: float
    p95_ms: float
    """Times of heartbeats; infinite where something is full."""
    heartbeats: int
    """How many were timed."""
    shared: float
    """Calls in a transaction, on average, of those that may share one."""

    def fullest(self) -> list[tuple[str, float]]:
        return sorted(self.full.items(), key=lambda item: -item[1])


def call_rates(size: Installation) -> dict[str, float]:
    """Return the calls a second of all agents, by kind."""
    if size.rates is not None:
        return dict(size.rates)
    interval_s = heartbeat_interval_s(size.nodes, least_s=_HEARTBEAT_S)
    beats = size.nodes / interval_s
    sampled = min(1.0, interval_s / _next_multiple(SAMPLE_EVERY_S, interval_s))
    return {
        "heartbeat": beats * (1 - sampled),
        "heartbeat_sampled": beats * sampled,
        "poll": size.nodes / POLL_S,
        "report": size.training / REPORT_S,
        "log": size.training / REPORT_S,
    }


_HEARTBEAT_S = float(Settings.model_fields["heartbeat_s"].default)


def _next_multiple(value: float, step: float) -> float:
    """The beat at which a sample is due again."""
    return step * max(1, -(-value // step))


def trial_use(costs: Costs, size: Installation) -> Used:
    """Return seconds of processors a second that trials and gangs take beside the reports of their nodes.

    Passes and answers serve several when they come close together: from what one alone takes at hardly any
    load to what it takes in a burst at the rate of a burst.
    """
    sums = dict.fromkeys(PARTS, 0.0)
    for nodes, per_s in ((1, size.trials_per_s), (64, size.gangs_per_s)):
        cost = costs.trials[nodes]
        nearness = min(1.0, per_s / cost.burst_per_s)
        for part in PARTS:
            alone, burst = getattr(cost.alone, part), getattr(cost.burst, part)
            sums[part] += per_s * (alone + nearness * (burst - alone))
    return Used(**sums)


def background(costs: Costs, size: Installation) -> Used:
    """Return seconds of processors a second that no call takes: of all servers together, and the others."""
    rates, trials = call_rates(size), trial_use(costs, size)
    controller = sum(rate * costs.calls[kind].controller for kind, rate in rates.items())
    each = {
        part: size.nodes * getattr(costs.node, part)
        + size.training * getattr(costs.running, part)
        + getattr(trials, part)
        for part in PARTS
    }
    return Used(
        server=size.servers * costs.base.server + each["server"],
        controller=costs.base.controller + each["controller"] + controller,
        database=costs.base.database + each["database"],
    )


@dataclass
class _Run:
    costs: Costs
    size: Installation
    draw: random.Random
    agenda: Agenda = field(default_factory=Agenda)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def cost(self, kind: str) -> CallCost:
        return self.costs.calls[kind]


class _Server:
    """A process: one processor at a time, a thread for shared writes, one for reads, and four writers."""

    def __init__(self, run: _Run, database: Processors) -> None:
        self.run = run
        self.database = database
        self.processor = Processors(run.agenda)
        self.writes = Shared(self._serve, BATCH_MAX)
        self.reads = Shared(self._serve, BATCH_MAX)
        self.singles = [Shared(self._serve, 1) for _ in range(NUM_WRITERS)]
        self._turn = 0

    def take(self, kind: str) -> None:
        cost, began = self.run.cost(kind), self.run.agenda.now
        index = self.run.draw.randrange(len(cost.spread))
        times = self.run.times[KINDS.get(kind, kind)]
        call = Call(
            kind=KINDS.get(kind, kind),
            began=began,
            each=cost.each * cost.spread[index],
            database_each=cost.database_each * cost.database_spread[index],
            done=lambda: times.append(self.run.agenda.now - began),
        )
        if kind in ALONE:
            self._turn = (self._turn + 1) % NUM_WRITERS
        thread = self.singles[self._turn] if kind in ALONE else self.writes
        thread = self.reads if kind == "poll" else thread
        loop_s = self.run.size.slowed * cost.loop * cost.spread[index]
        self.processor.work(loop_s, lambda: thread.put(call))

    def _serve(self, kind: str, calls: list[Call], then: Then) -> None:
        cost, size = self.run.cost(kind), self.run.size
        own_s = size.slowed * (cost.batch + sum(call.each for call in calls))
        database_s = size.slowed * (cost.database_batch + sum(call.database_each for call in calls))
        wait_s = 0.0 if kind == "poll" else size.wait_s
        self.run.counts["calls"] += kind not in ALONE
        self.run.counts["shared"] += len(calls) * (kind not in ALONE)
        self.processor.work(
            own_s,
            lambda: self.database.work(database_s, lambda: self.run.agenda.after(wait_s, then)),
        )


def simulate(costs: Costs, size: Installation, *, seed: int = 1) -> Outcome:
    """Return what its processes use and how long heartbeats take."""
    rates, beside = call_rates(size), background(costs, size)
    loads = loads_at(costs, size, shared=float(BATCH_MAX))
    if _is_full(loads, size):
        return _outcome(loads, size, [], float(BATCH_MAX))
    run = _Run(costs=costs, size=size, draw=random.Random(seed))
    database = Processors(run.agenda, size.database_cores)
    servers = [_Server(run, database) for _ in range(size.servers)]
    seconds = CALLS_MAX / max(sum(rates.values()), 1e-9)
    for kind, rate in rates.items():
        if rate:
            _arrive(run, servers, kind, rate)
    for part, stations in (("server", [s.processor for s in servers]), ("database", [database])):
        _disturb(run, stations, getattr(beside, part))
    run.agenda.run(seconds / 10)
    first = [s.processor.busy_s for s in servers], database.busy_s
    run.times.clear()
    run.agenda.run(seconds)
    spent = 0.9 * seconds * size.slowed
    loads = {
        "server": sum(s.processor.busy_s - f for s, f in zip(servers, first[0], strict=True))
        / spent,
        "controller": beside.controller,
        "database": (database.busy_s - first[1]) / spent,
    }
    shared = run.counts["shared"] / max(1.0, run.counts["calls"])
    return _outcome(loads, size, run.times["heartbeat"], shared)


def _arrive(run: _Run, servers: Sequence[_Server], kind: str, rate: float) -> None:
    """Calls of so many agents that they come independently of each other."""

    def one() -> None:
        run.draw.choice(servers).take(kind)
        run.agenda.after(run.draw.expovariate(rate), one)

    run.agenda.after(run.draw.expovariate(rate), one)


SLICE_S = 0.005
"""Pieces in which work comes that no call has asked for."""


def _disturb(run: _Run, stations: Sequence[Processors], load: float) -> None:
    rate = load / SLICE_S
    if not rate:
        return

    def one() -> None:
        run.draw.choice(stations).work(SLICE_S * run.size.slowed, lambda: None)
        run.agenda.after(run.draw.expovariate(rate), one)

    run.agenda.after(run.draw.expovariate(rate), one)


def loads_at(costs: Costs, size: Installation, *, shared: float) -> dict[str, float]:
    """By the law of utilisation, if so many calls shared each transaction."""
    beside = background(costs, size)
    loads = {part: getattr(beside, part) for part in PARTS}
    for kind, rate in call_rates(size).items():
        cost = costs.calls[kind]
        num = 1.0 if kind in ALONE else shared
        loads["server"] += rate * (cost.loop + cost.each + cost.batch / num)
        loads["database"] += rate * (cost.database_each + cost.database_batch / num)
    return loads


def _full(loads: dict[str, float], size: Installation) -> dict[str, float]:
    has = {"server": size.servers, "controller": 1, "database": size.database_cores}
    return {part: load / has[part] for part, load in loads.items()}


def _is_full(loads: dict[str, float], size: Installation) -> bool:
    full = _full(loads, size)
    return max(full["server"], full["database"]) * size.slowed >= FULL


def _outcome(
    loads: dict[str, float], size: Installation, times: list[float], shared: float
) -> Outcome:
    """times: of heartbeats; none: something is full."""
    ordered = sorted(times) or [float("inf")]
    return Outcome(
        loads=loads,
        full=_full(loads, size),
        p50_ms=1000 * ordered[len(ordered) // 2],
        p95_ms=1000 * ordered[int(0.95 * len(ordered))],
        heartbeats=len(times),
        shared=shared,
    )
