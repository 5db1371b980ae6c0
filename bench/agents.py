"""Thousands of agents on one control plane: how long every call takes, and what the servers use.

    python bench/agents.py [--agents N] [--running N] [--report-s S] [--measure-s S] [--database KIND]

The server, the controller and the database are processes of their own, as in a cluster; the agents
are simulated in this one: each registers, beats in the interval that the server tells it, waits in
a long poll and, while an attempt runs on it, reports metrics (20 names) and a line of log. Agents
and servers share the machine's cores: what is printed of the processor says how they did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import time

import httpx
import uvloop

from support.nodes.swarm import Behaviour, Swarm, quantiles
from support.processes import ControlPlane, Kind, NoPostgres, Usage, control_plane

JOIN_LIMIT_S = 600.0
RUN_LIMIT_S = 300.0


async def submit_trials(plane: ControlPlane, num: int) -> None:
    """One experiment of `num` trials of one slot each."""
    token = plane.make_user_token()
    document = {
        "name": "load",
        "entrypoint": ["-m", "simulated"],
        "launcher": "direct",
        "resources": {"slots": 1},
        "hyperparameters": {"x": {"float": [0, 1]}},
        "search": {
            "method": "random",
            "metric": "train/metric_0",
            "goal": "min",
            "trials": num,
            "concurrent": num,
        },
    }
    url = next(iter(plane.urls.values()))
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        reply = await client.post(
            "/api/v1/experiments",
            json={"document": json.dumps(document)},
            headers={"Authorization": f"Bearer {token}"},
        )
        if reply.status_code >= 300:
            raise SystemExit(f"submit: {reply.status_code} {reply.text}")


async def measure(plane: ControlPlane, given: argparse.Namespace) -> None:
    behaviour = Behaviour(
        run_s=float("inf"),
        report_s=given.report_s,
        steps_per_report=max(1, round(given.report_s)),
    )
    swarm = Swarm(list(plane.urls.values()), given.agents, behaviour=behaviour)
    join_token = plane.make_join_token(uses=given.agents)
    plane.usage()  # from now on
    try:
        began = time.perf_counter()
        async with asyncio.timeout(JOIN_LIMIT_S):
            await swarm.join(join_token)
        took_s = time.perf_counter() - began
        print(f"  {given.agents} agents joined in {took_s:.1f} s, {given.agents / took_s:.0f}/s")
        print_calls(swarm, took_s)
        if given.running:
            began = time.perf_counter()
            await submit_trials(plane, given.running)
            await swarm.until_running(given.running, timeout_s=RUN_LIMIT_S)
            took_s = time.perf_counter() - began
            print(
                f"  {given.running} trials of one slot: all run {took_s:.1f} s after the submit, "
                f"{given.running / took_s:.0f}/s"
            )
        await asyncio.sleep(given.settle_s)
        swarm.timings.clear()
        before, own_before = plane.usage(), time.process_time()
        began = time.perf_counter()
        await asyncio.sleep(given.measure_s)
        took_s = time.perf_counter() - began
        after, own = plane.usage(), time.process_time() - own_before
        print(
            f"  measured for {took_s:.0f} s with {swarm.num_running} attempts that report every "
            f"{given.report_s:g} s, load {os.getloadavg()[0]:.1f}:"
        )
        print_calls(swarm, took_s)
        print_usage(before, after, took_s, own)
    finally:
        await swarm.stop()


def print_calls(swarm: Swarm, took_s: float) -> None:
    for call, ms in sorted(swarm.timings.ms.items()):
        q = quantiles(ms)
        print(
            f"    {call:28} {len(ms):7} calls {len(ms) / took_s:7.1f}/s   "
            f"p50 {q['p50']:8.1f} ms  p95 {q['p95']:8.1f}  p99 {q['p99']:8.1f}  "
            f"max {q['max']:8.1f}"
        )
    errors = dict(swarm.timings.errors)
    print(f"    errors: {errors or 'none'}")


def print_usage(
    before: dict[str, Usage], after: dict[str, Usage], took_s: float, own_s: float
) -> None:
    for name, usage in after.items():
        share = (usage.cpu_s - before[name].cpu_s) / took_s
        print(f"    {name:28} {100 * share:5.1f} % of a core, {usage.rss_bytes / 2**20:6.0f} MiB")
    print(f"    {'the simulated agents':28} {100 * own_s / took_s:5.0f} % of a core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=2000)
    parser.add_argument("--running", type=int, default=200, help="attempts that report")
    parser.add_argument("--report-s", type=float, default=5.0, help="between two reports of one")
    parser.add_argument("--settle-s", type=float, default=5.0)
    parser.add_argument("--measure-s", type=float, default=60.0)
    parser.add_argument("--servers", type=int, default=1, help="API server processes")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    kinds: list[Kind] = ["sqlite", "postgres"] if given.database == "both" else [given.database]
    for kind in kinds:
        print(f"{kind}:", flush=True)
        try:
            with control_plane(kind, servers=given.servers) as plane:
                uvloop.run(measure(plane, given))
        except NoPostgres as error:
            print(f"  left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
