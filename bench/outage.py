"""Whether anything is lost when a node is out of reach for long and its spool fills up.

    python bench/outage.py [--minutes M] [--spool-mb N] [--database sqlite|postgres] [--names K]

A real `muster up` with one agent and a training that logs K values 25 times a second. The way
between agent and server is cut for M minutes, longer than the agent's spool (N MB) lasts. It is
mended, and while the agent catches up the API server is killed, and with PostgreSQL that, too, which
is started again after three seconds. When the training has ended, every logged value is looked for:

* each that is there is there once, and is the one that was logged;
* all that was logged before the cut and after it was mended is there;
* what is missing is told: the trial's events say how many records the full spool did not take.

Exits 1 when one of these does not hold, and says which.

    python bench/outage.py --control-plane frozen,killed,database,proxy [--seconds 30,80,600]

takes away the API server (it stands still, or is killed and takes that long to start), the database
(PostgreSQL) or what is in front of the server, with default settings and two trainings, for so long each.
Exits 1 when an attempt was lost, a restart charged or a point is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from support.chaos.links import Links, free_port
from support.outages import KINDS, ControlPlane, Found, measure
from support.postgres import Postgres, find_binaries, private_postgres
from support.stack import Stack, wait_for

AGENT = "agent-local-1"
POSTGRES_AWAY_S = 3.0
TRAINING = """
import pathlib, sys, time
import muster

names, mark, stop = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
muster.init()
step = 0
while not stop.exists():
    step += 1
    muster.log({f"m{no}": step + no / 1000 for no in range(names)}, step=step)
    mark.with_suffix(".new").write_text(str(step))
    mark.with_suffix(".new").replace(mark)  # whoever reads it finds a number
    time.sleep(0.04)
"""


class Run:
    """A training, and what lies between it and the server."""

    def __init__(self, folder: Path, stack: Stack, links: Links, num_names: int) -> None:
        self.stack, self.links, self.num_names = stack, links, num_names
        self.mark, self.stop = folder / "logged", folder / "stop"
        code = folder / "code"
        code.mkdir()
        (code / "noisy.py").write_text(TRAINING)
        (code / "muster.yaml").write_text(
            json.dumps(
                {
                    "name": "outage",
                    "entrypoint": ["noisy.py", str(num_names), str(self.mark), str(self.stop)],
                    "launcher": "direct",
                    "code": {"path": "."},
                }
            )
        )
        done = stack.cli("submit", str(code / "muster.yaml"))
        if done.returncode != 0:
            raise SystemExit(f"submit failed:\n{done.stdout}{done.stderr}")
        with stack.client() as client:
            (experiment,) = client.pages("/experiments")
            self.experiment_id = experiment["id"]
            (trial,) = wait_for(
                "a trial", lambda: list(client.pages(f"/experiments/{experiment['id']}/trials"))
            )
        self.trial_id = int(trial["id"])

    def logged(self) -> int:
        """Steps, by the training's own word; 0 before the first."""
        with contextlib.suppress(OSError, ValueError):
            return int(self.mark.read_text())
        return 0

    def stored(self) -> int:
        """The highest step that the server tells of; 0 while it does not answer."""
        with contextlib.suppress(Exception), self.stack.client() as client:
            return int(client.get(f"/trials/{self.trial_id}")["step"])
        return 0

    def trial(self) -> dict[str, Any]:
        with self.stack.client() as client:
            return dict(client.get(f"/trials/{self.trial_id}"))

    def events(self) -> list[str]:
        with self.stack.client() as client:
            found = client.pages(f"/trials/{self.trial_id}/events")
            return [event["message"] for event in found]

    def values(self) -> Iterator[tuple[str, int, float]]:
        """(name, step, value) of every point that is stored."""
        headers = {"Authorization": f"Bearer {self.stack.access['token']}"}
        url = f"{self.stack.url}/api/v1/trials/{self.trial_id}/series.jsonl"
        with httpx.stream("GET", url, headers=headers, timeout=120, trust_env=False) as reply:
            reply.raise_for_status()
            for line in reply.iter_lines():
                row = json.loads(line)
                yield row["name"], row["step"], row["value"]


def cut(run: Run, minutes: float) -> tuple[int, int]:
    """(last step logged before the cut, first one after it was mended)."""
    wait_for("the first steps", lambda: run.stored() > 100, 120)
    before = run.logged()
    wait_for("what was logged so far is stored", lambda: run.stored() >= before, 60)
    run.links.set(0, "reset")
    say(f"cut at step {before}")
    time.sleep(60 * minutes)
    # What is logged in the second before is on its way to the spool, which may be full still.
    stored = run.stored()
    after = run.logged()
    run.links.set(0, "open")
    say(f"mended at step {after}; the server knows of {stored}")
    return before, after


def strike(run: Run, postgres: Postgres | None, stored: int) -> None:
    """Kill what takes the values, while it takes them."""
    wait_for("the agent catches up", lambda: run.stored() > stored, 120)
    at = run.stored()
    run.stack.kill_part("server")
    say(f"API server killed at step {at}")
    wait_for("the API server is there again", lambda: run.stored() > 0, 120)
    if postgres is not None:
        postgres.kill()
        time.sleep(POSTGRES_AWAY_S)
        postgres.start()
        say(f"PostgreSQL killed, and started again after {POSTGRES_AWAY_S:.0f} s")


def judge(run: Run, before: int, after: int) -> list[str]:
    """What does not hold."""
    last = run.logged()
    steps: dict[str, set[int]] = {}
    problems: list[str] = []
    num = 0
    for name, step, value in run.values():
        num += 1
        seen = steps.setdefault(name, set())
        if step in seen:
            problems.append(f"{name} has step {step} twice")
        if value != step + int(name[1:]) / 1000:
            problems.append(f"{name} is {value} at step {step}")
        seen.add(step)
    if len(steps) != run.num_names:
        problems.append(f"{len(steps)} of {run.num_names} names are there")
    if len({frozenset(seen) for seen in steps.values()}) > 1:
        problems.append("the names have different steps, though they were logged together")
    there = steps.get("m0", set())
    missing = sorted(set(range(1, last + 1)) - there)
    told = [text for text in run.events() if "metric records were lost" in text]
    dropped = sum(
        int(found[1]) for text in told if (found := re.search(r"(\d+) metric records", text))
    )
    outside = [step for step in missing if not before < step]
    if outside:
        problems.append(
            f"{len(outside)} steps are missing from before the cut, {outside[0]} the first"
        )
    if missing and not dropped:
        problems.append(f"{len(missing)} steps are missing, and nothing says so")
    if dropped and not missing:
        problems.append(f"{dropped} records are said to be lost, but every step is there")
    # The spool looks at its size now and then, so it may be full for a while after it was mended.
    late = [step for step in missing if step > after]
    say(
        f"{num:,} values are there; of {last:,} steps {len(missing):,} are missing"
        + (f", {missing[0]:,} to {missing[-1]:,}" if missing else "")
        + f", {len(late)} of them after it was mended"
    )
    for text in told:
        say(f"told: {text}")
    return problems


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def control_plane(kinds: Sequence[Any], seconds: Sequence[float]) -> int:
    """Each kind for each time, one after the other; 1 when any has cost something."""
    database: Any = "postgres" if "database" in kinds else "sqlite"
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{platform.machine()}, Python {platform.python_version()}, {database}, {load}")

    def tell(what: str, found: Found) -> int:
        say(
            f"{what}: {found.num_lost} attempts lost, {found.num_charged} restarts charged, "
            f"{found.num_missing} of {found.num_points:,} points missing, {found.num_nodes_lost} nodes LOST"
        )
        return found.num_lost + found.num_charged + found.num_missing + found.num_nodes_lost

    with (
        TemporaryDirectory(prefix="muster-outage-") as folder,
        ControlPlane(Path(folder) / "plane", database=database) as plane,
    ):
        plane.train()
        for kind in kinds:
            for away_s in seconds:
                measure(plane, kind, away_s)
                tell(f"so far, after {kind} for {away_s:g} s", plane.count())
        return int(tell("all together", plane.finish()) > 0)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--spool-mb", type=int, default=4, help="at least 1")
    arguments.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    arguments.add_argument("--names", type=int, default=40, help="values of a step, 1 to 500")
    arguments.add_argument("--control-plane", metavar="KIND,…", help="what is taken away instead")
    arguments.add_argument("--seconds", default="30,80,600", help="for how long each")
    given = arguments.parse_args()
    if given.control_plane:
        kinds = given.control_plane.split(",")
        if not set(kinds) <= set(KINDS):
            arguments.error(f"--control-plane takes {', '.join(KINDS)}")
        sys.exit(control_plane(kinds, [float(text) for text in given.seconds.split(",")]))
    if given.minutes <= 0 or given.spool_mb < 1 or not 1 <= given.names <= 500:
        arguments.error("--minutes above 0, --spool-mb from 1, --names 1 to 500")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{platform.machine()}, Python {platform.python_version()}, {given.database}, {load}")
    with contextlib.ExitStack() as undo:
        folder = Path(undo.enter_context(TemporaryDirectory(prefix="muster-outage-")))
        # A node that is silent for long loses its trial; here it is to come back to it.
        server = {"MUSTER_NODE_LOST_S": str(600 + 120 * given.minutes)}
        postgres = None
        if given.database == "postgres":
            binaries = find_binaries()
            if binaries is None:
                raise SystemExit("there is no PostgreSQL on this machine: initdb is not found")
            postgres = undo.enter_context(private_postgres(binaries, is_durable=True))
            server["MUSTER_DATABASE_URL"] = postgres.url
        port = free_port()
        links = undo.enter_context(Links(port, num_links=1))
        environment = {
            **dict.fromkeys(("server", "controller", "worker"), server),
            AGENT: {
                "MUSTER_AGENT_SERVER_URL": f"http://127.0.0.1:{links.ports[0]}",
                "MUSTER_AGENT_SPOOL_LIMIT_BYTES": str(given.spool_mb * 1024 * 1024),
            },
        }
        stack = Stack(folder / "home", agents=1, slots=1, port=port, environment=environment)
        undo.callback(stack.close)
        stack.start()
        run = Run(folder, stack, links, given.names)
        before, after = cut(run, given.minutes)
        strike(run, postgres, before)
        wait_for("the agent has caught up", lambda: run.stored() >= after, 600)
        time.sleep(5)
        run.stop.touch()
        wait_for("the trial has ended", lambda: run.trial()["state"] == "COMPLETED", 300)
        wait_for("its last step is there", lambda: run.stored() >= run.logged(), 120)
        problems = judge(run, before, after)
    for problem in problems[:20]:
        print(f"PROBLEM: {problem}")
    print(f"{len(problems)} problems; at the end: load {os.getloadavg()[0]:.1f}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
