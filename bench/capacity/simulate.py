"""How full each part of an installation is, simulated from measured costs, and what is full first.

    PYTHONPATH=bench python bench/capacity/simulate.py --nodes N [--training N] [--trials-a-day N] …
    PYTHONPATH=bench python bench/capacity/simulate.py --check OUTPUT    of bench/agents.py: each error
    PYTHONPATH=bench python bench/capacity/simulate.py --write           the table of docs/guides/capacity.md

Costs are those of `measured.json`, which `measure.py` makes on the machine at hand (`--measured FILE`).
`capacity/installation` says what calls are drawn, `capacity/queues` how they wait: for a processor of their API
server, for a transaction that they share with others, and for the database; `capacity/costs` reads the file.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from costs import PARTS, BadMeasurement, Costs, read
from installation import (
    DAY_S,
    Installation,
    Outcome,
    call_rates,
    loads_at,
    simulate,
)

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs/guides/capacity.md"
BEGIN, END = "<!-- simulated: begin -->\n", "<!-- simulated: end -->\n"
TABLE_NODES = (10, 100, 1_000, 10_000, 100_000)
TABLE_TRIALS = 1_000_000
COMFORT = 0.6
"""How full the processes of the table are at most, so that calls wait for hardly anything."""
TIMED_LEAST = 100
"""Heartbeats that a 95th percentile is taken of."""
EQUAL = 0.15
"""A larger difference between a prediction and a run has to be explained."""


def size_for(costs: Costs, nodes: int, trials_a_day: float) -> Installation:
    """Return an installation whose nodes all train, with as many servers and cores as keep it calm."""
    size = Installation(nodes=nodes, training=nodes, trials_per_s=trials_a_day / DAY_S)
    loads = loads_at(costs, size, shared=1.0)
    servers = max(1, math.ceil(loads["server"] / COMFORT))
    cores = max(2, math.ceil(loads["database"] / COMFORT))
    return Installation(
        nodes=nodes,
        training=nodes,
        trials_per_s=size.trials_per_s,
        servers=servers,
        database_cores=cores,
    )


HEAD = """\
| nodes, all training | trials a day | calls/s | API servers | controller | database | heartbeat p95 | fullest of the smallest |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def table(costs: Costs) -> str:
    """Return the lines of the page between its marks."""
    return "\n".join([HEAD, *rows(costs, TABLE_NODES)]) + "\n"


def rows(costs: Costs, sizes: Sequence[int]) -> list[str]:
    lines = []
    for nodes in sizes:
        for trials in (0, TABLE_TRIALS):
            size = size_for(costs, nodes, trials)
            outcome = simulate(costs, size)
            smallest = simulate(costs, replace(size, servers=1, database_cores=2))
            order = ", ".join(f"{part} {100 * full:,.0f}%" for part, full in smallest.fullest())
            lines.append(
                f"| {nodes:,} | {trials:,} | {sum(call_rates(size).values()):,.0f} "
                f"| {size.servers:,} ({outcome.loads['server']:,.2f} cores) "
                f"| {outcome.loads['controller']:,.2f} cores "
                f"| {size.database_cores:,} cores ({outcome.loads['database']:,.2f} in use) "
                f"| {_p95(outcome)} | {order} |"
            )
    return lines


def _p95(outcome: Outcome) -> str:
    if outcome.heartbeats < TIMED_LEAST:
        return "–"
    return f"{outcome.p95_ms:,.0f} ms (n {outcome.heartbeats:,})"


def page_with(text: str, lines: str) -> str:
    """Return the page with other lines between its marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + lines + END + rest.split(END)[1]


@dataclass(frozen=True, kw_only=True)
class RealRun:
    """What `agents.py` has printed of one run."""

    agents: int
    training: int
    loads: dict[str, float]
    rates: dict[str, float]
    p95_ms: float
    cores: int
    load: float


_NAMES = {"postgres": "database", "lease": "lease", "records": "report", "logs": "log"}


def read_runs(text: str) -> list[RealRun]:
    """Return the runs in an output of `agents.py`. Raises BadMeasurement."""
    cores = re.search(r", (\d+) cores, Python", text)
    runs = []
    for one in re.split(r"(?=^ +\d+ agents joined)", text, flags=re.MULTILINE)[1:]:
        measured = one[one.find("measured for") :]
        agents = re.match(r" +(\d+) agents", one)
        head = re.search(r"with (\d+) attempts .* load ([\d.]+)", measured)
        used = re.findall(r"^ +(server|controller|postgres)[-\d]* +([\d.]+) %", measured, re.M)
        rates = re.findall(
            r"^ +(lease|records|logs|assignments, later).* ([\d.]+)/s", measured, re.M
        )
        beats = re.search(r"^ +lease .* p95 +([\d.]+)", measured, re.M)
        if not (cores and agents and head and len(used) == 3 and beats):
            raise BadMeasurement(
                f"a run of {agents[1] if agents else '?'} agents has no line of cores, server, "
                "controller, postgres or lease; need all that agents.py --database postgres prints"
            )
        runs.append(
            RealRun(
                agents=int(agents[1]),
                training=int(head[1]),
                loads={_NAMES.get(name, name): float(share) / 100 for name, share in used},
                rates={_NAMES.get(name, "poll"): float(rate) for name, rate in rates},
                p95_ms=float(beats[1]),
                cores=int(cores[1]),
                load=float(head[2]),
            )
        )
    return runs


def predict(costs: Costs, run: RealRun) -> tuple[float, Outcome]:
    """Return the calls a second that agents should make, and what those that they made should take.

    Where more programs want to run than there are processors, agents are late, and each process has its share.
    """
    size = Installation(nodes=run.agents, training=run.training)
    expected = call_rates(size)
    sampled = expected["heartbeat_sampled"] / (
        expected["heartbeat"] + expected["heartbeat_sampled"]
    )
    rates = {name: rate for name, rate in run.rates.items() if name != "lease"}
    rates["heartbeat"] = (1 - sampled) * run.rates["lease"]
    rates["heartbeat_sampled"] = sampled * run.rates["lease"]
    slowed = max(1.0, run.load / run.cores)
    return sum(expected.values()), simulate(costs, replace(size, rates=rates, slowed=slowed))


def check(costs: Costs, text: str) -> list[str]:
    """Return a line for each run: what was predicted, what was, and the error with its sign."""
    lines = []
    for run in read_runs(text):
        expected, outcome = predict(costs, run)
        parts = []
        for part in PARTS:
            error = outcome.loads[part] / run.loads[part] - 1
            mark = "" if abs(error) <= EQUAL else " (!)"
            parts.append(
                f"{part} {outcome.loads[part]:.3f} for {run.loads[part]:.3f}: {error:+.0%}{mark}"
            )
        lines.append(
            f"{run.agents} agents, {run.training} training, load {run.load:.0f}: "
            f"{sum(run.rates.values()):.0f} of {expected:.0f} calls/s, {outcome.shared:.1f} a "
            f"transaction; {'; '.join(parts)}; p95 {outcome.p95_ms:.0f} for {run.p95_ms:.0f} ms"
        )
    return lines


def describe(size: Installation, outcome: Outcome) -> str:
    lines = [f"{sum(call_rates(size).values()):,.0f} calls/s, {outcome.shared:.1f} a transaction"]
    for place, (part, full) in enumerate(outcome.fullest(), 1):
        lines.append(f"{place}. {part}: {100 * full:.0f}% full, {outcome.loads[part]:.2f} cores")
    if math.isinf(outcome.p95_ms):
        lines.append("heartbeats: what waits grows without end")
    else:
        lines.append(
            f"heartbeats: p50 {outcome.p50_ms:.1f} ms, p95 {outcome.p95_ms:.1f} ms, "
            f"n {outcome.heartbeats}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measured", type=Path, default=FOLDER / "measured.json")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--training", type=int, help="nodes that report; default: all")
    parser.add_argument("--trials-a-day", type=float, default=0.0)
    parser.add_argument("--gangs-a-day", type=float, default=0.0, help="trials of 64 nodes")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--database-cores", type=int, default=2)
    parser.add_argument("--slowed", type=float, default=1.0, help="by other programs")
    parser.add_argument("--check", type=Path, help="what agents.py has printed")
    parser.add_argument("--write", action="store_true", help="the table of the guide")
    given = parser.parse_args()
    try:
        costs = read(given.measured)
        if given.check:
            print("\n".join(check(costs, given.check.read_text())))
            return
    except BadMeasurement as error:
        sys.exit(f"error: {error}")
    if given.write:
        PAGE.write_text(page_with(PAGE.read_text(), table(costs)))
        return
    size = Installation(
        nodes=given.nodes,
        training=given.nodes if given.training is None else given.training,
        trials_per_s=given.trials_a_day / DAY_S,
        gangs_per_s=given.gangs_a_day / DAY_S,
        servers=given.servers,
        database_cores=given.database_cores,
        slowed=given.slowed,
    )
    print(f"costs: {costs.machine}, load {costs.load}")
    print(describe(size, simulate(costs, size)))


if __name__ == "__main__":
    main()
