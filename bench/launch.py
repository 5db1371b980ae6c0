"""How long things take from a decision to its effect, end to end.

    python bench/launch.py first-step     submit until the first optimizer step, against torchrun
    python bench/launch.py gangs          gangs placed, started and ended per second
    python bench/launch.py dead-worker    a rank is killed: until all others are gone
    python bench/launch.py dead-node      a node falls silent: until its trial runs elsewhere
    python bench/launch.py dead-leader    the leading controller is killed: until work is placed again
    python bench/launch.py burst          many experiments submitted at once: none may fail

Servers, controllers and databases are processes of their own. `first-step` and `dead-worker` train
on a real `muster up`; the others use simulated agents over real HTTP, on each kind of database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvloop
from sqlalchemy import func, select

from muster.wire import Assignment
from muster_server.db.models import ExperimentRow, TrialRow
from support.nodes import containers
from support.nodes.swarm import Behaviour, Swarm, quantiles
from support.processes import ControlPlane, Kind, NoPostgres, control_plane
from support.stack import Stack, processes_of, scripted, wait_for

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plain-torchrun" / "train.py"
FIRST_STEP_LIMIT_S = 300.0
LIMIT_S = 300.0


def report(what: str, seconds: Sequence[float]) -> None:
    """n, median, 95th percentile and range of times in seconds."""
    print(
        f"  {what}: n {len(seconds)}, median {statistics.median(seconds):.2f} s, "
        f"p95 {quantiles(seconds)['p95']:.2f} s, {min(seconds):.2f} to {max(seconds):.2f} s, "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


# ---------------------------------------------------------------- a real stack


def first_step(given: argparse.Namespace) -> None:
    """The plain example by hand and through Muster, in turn; with --containers in a container as well."""
    if given.containers:
        engine, reason = containers.find_engine()
        if engine is None:
            raise SystemExit(reason)
        os.environ.update({k: v for k, v in engine.environment.items() if "CONTAINER" in k})
        os.environ["MUSTER_AGENT_CONTAINERS"] = engine.kind
    contained: list[float] = []
    by_hand: list[float] = []
    through: list[float] = []
    accepted: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mst-launch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        code = folder / "code"
        code.mkdir()
        shutil.copy(EXAMPLE, code / "train.py")
        shutil.copy(Path(__file__).with_name("first_step.py"), code)
        warm = {
            "agent-local-1": {
                "MUSTER_AGENT_WARM_WORKERS": "all",
                "MUSTER_AGENT_WARM_IMPORTS": given.imports,
            }
        }
        stack = Stack(folder / "home", agents=1, slots=2, environment=warm if given.warm else None)
        try:
            stack.start()
            for number in range(given.times + 1):
                marks = folder / f"hand-{number}", folder / f"muster-{number}"
                took = _by_hand(code, marks[0], stack)
                submitted, ran = _through_muster(code, marks[1], stack)
                if given.containers:
                    mounts = [*containers.MOUNTS, f"{folder}:{folder}:rw"]
                    section = containers.section(mounts=mounts)
                    _, inside = _through_muster(code, folder / f"in-{number}", stack, section)
                    if number:
                        contained.append(inside)
                if number:  # the first of each warms the file cache
                    by_hand.append(took)
                    through.append(ran)
                    accepted.append(submitted)
            _report_parents(stack)
        finally:
            stack.close()
    ratios = [a / b for a, b in zip(through, by_hand, strict=True)]
    report("torchrun typed by hand until the first step", by_hand)
    report("muster submit typed by hand until the first step", through)
    report("  of which until the submit has returned", accepted)
    if contained:
        report("the same in a container until the first step", contained)
    print(
        f"  ratio of each pair: median {statistics.median(ratios):.2f}, "
        f"{min(ratios):.2f} to {max(ratios):.2f}"
    )


def _report_parents(stack: Stack) -> None:
    """What the processes cost that workers are forked from."""
    for process in processes_of(stack.home):
        if "muster-warm (parent)" in " ".join(process.cmdline()):
            memory = process.memory_full_info()
            sizes = ", ".join(
                f"{k} {getattr(memory, k) / 2**20:.0f} MiB" for k in ("uss", "pss", "rss")
            )
            print(f"  a warm parent, nothing forked from it: {sizes}")


def _by_hand(code: Path, mark: Path, stack: Stack) -> float:
    began = time.time()
    process = subprocess.Popen(
        [
            str(Path(sys.executable).with_name("torchrun")),
            "--standalone",
            "--nproc-per-node=2",
            "first_step.py",
            str(mark),
            "train.py",
            "--epochs=1",
        ],
        cwd=code,
        env=stack.environment(stack.home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    at = _when(mark)
    if process.wait(FIRST_STEP_LIMIT_S) != 0:
        raise SystemExit(f"torchrun ended with {process.returncode}")
    return at - began


def _through_muster(
    code: Path, mark: Path, stack: Stack, environment: dict[str, Any] | None = None
) -> tuple[float, float]:
    document = {
        "name": "first-step",
        "entrypoint": ["first_step.py", str(mark), "train.py", "--epochs=1"],
        "code": {"path": "."},
        "resources": {"slots": 2},
        "environment": environment or {},
    }
    path = code / "experiment.yaml"
    path.write_text(json.dumps(document))
    began = time.time()
    done = stack.cli("submit", str(path))
    accepted = time.time()
    if done.returncode != 0:
        raise SystemExit(f"muster submit: {done.stdout}{done.stderr}")
    at = _when(mark)
    with stack.client() as client:
        wait_for("the trial has ended", lambda: _all_ended(client), FIRST_STEP_LIMIT_S)
    return accepted - began, at - began


def _all_ended(client: Any) -> bool:
    experiments = client.get("/experiments")["items"]
    for experiment in experiments:
        if experiment["state"] in ("FAILED", "CANCELED"):
            log = "\n".join(
                line["text"] for line in client.log_lines(experiment_id=experiment["id"], tail=400)
            )
            raise SystemExit(f"experiment {experiment['id']} is {experiment['state']}\n{log}")
    return {e["state"] for e in experiments} <= {"COMPLETED"}


def _when(mark: Path) -> float:
    wait_for("the first step", mark.exists, FIRST_STEP_LIMIT_S)
    return float(mark.read_text())


def dead_worker(given: argparse.Namespace) -> None:
    """A gang of four ranks on two nodes; one of them is killed."""
    took: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mst-launch-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name) / "home", agents=2, slots=2)
        try:
            stack.start()
            with stack.client() as client:
                for number in range(given.times):
                    document = scripted(
                        f"gang-{number}", [{"hang": True}], slots=4, restarts={"infra": 0}
                    )
                    experiment = client.submit(document)["id"]
                    ranks = wait_for("all ranks run", lambda: _ranks(stack.home, 4), 120)
                    time.sleep(1.0)  # the agents have seen them, too
                    began = time.monotonic()
                    ranks.pop(given.rank).send_signal(signal.SIGKILL)
                    _, alive = psutil.wait_procs(list(ranks.values()), timeout=120)
                    took.append(time.monotonic() - began)
                    if alive:
                        raise SystemExit(f"{len(alive)} ranks still run after two minutes")
                    client.wait(experiment, timeout_s=120)
        finally:
            stack.close()
    report("a rank is killed until the three others are gone (goal: 2 s)", took)


def _ranks(home: Path, num: int) -> dict[int, psutil.Process] | None:
    """Rank → process, when there are that many."""
    found = {}
    for process in processes_of(home):
        try:
            if "support.nodes.scripted" in process.cmdline():
                found[int(process.environ()["RANK"])] = process
        except (psutil.Error, KeyError):
            continue
    return found if len(found) == num else None


# ---------------------------------------------------------------- simulated agents


class Cluster:
    """A control plane with simulated agents, and what was seen of their allocations."""

    def __init__(self, plane: ControlPlane, num_nodes: int, *, run_s: float = 0.0) -> None:
        self.plane = plane
        self.swarm = Swarm(
            list(plane.urls.values()),
            num_nodes,
            behaviour=Behaviour(run_s=run_s),
            on_state=self._note,
        )
        self.at: dict[tuple[int, int], dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """(trial, attempt) → state → when each member's report of it was acknowledged."""
        self._http = httpx.AsyncClient(
            base_url=next(iter(plane.urls.values())),
            headers={"Authorization": f"Bearer {plane.make_user_token()}"},
            trust_env=False,
            timeout=60,
        )

    def _note(self, assignment: Assignment, state: str) -> None:
        key = assignment.spec.trial_id, assignment.spec.attempt_no
        self.at[key][state].append(time.perf_counter())

    async def join(self) -> None:
        num = len(self.swarm.agents)
        await self.swarm.join(self.plane.make_join_token(uses=num))

    async def submit(self, *, trials: int = 1, slots: int = 1, nodes: int = 1) -> int:
        """Experiment of `trials` equal gangs; its id."""
        document: dict[str, Any] = {
            "name": "launch",
            "entrypoint": ["-m", "simulated"],
            "launcher": "direct",
            "resources": {"slots": slots, "nodes": nodes},
        }
        if trials > 1:
            document |= {
                "hyperparameters": {"x": {"float": [0, 1]}},
                "search": {
                    "method": "random",
                    "metric": "train/loss",
                    "goal": "min",
                    "trials": trials,
                    "concurrent": trials,
                },
            }
        reply = await self._http.post(
            "/api/v1/experiments", json={"document": json.dumps(document)}
        )
        if reply.status_code >= 300:
            raise RuntimeError(f"submit: {reply.status_code} {reply.text}")
        return int(reply.json()["id"])

    async def until(self, what: str, check: Any, *, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while not check():
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {limit_s:.0f} s: {what}; {self.states()}")
            await asyncio.sleep(0.02)

    def states(self) -> dict[str, int]:
        with self.plane.database.read() as session:
            counted = session.execute(select(TrialRow.state, func.count()).group_by(TrialRow.state))
            return dict(counted.all())

    async def close(self) -> None:
        await self.swarm.stop()
        await self._http.aclose()


async def gangs(plane: ControlPlane, given: argparse.Namespace) -> None:
    """Submitted at once; each ends as soon as it runs, and its nodes are free for the next."""
    cluster = Cluster(plane, given.nodes)
    try:
        await cluster.join()
        for size, num in ((1, given.singles), (64, given.gangs)):
            if num:
                await _run_gangs(cluster, size, num)
    finally:
        await cluster.close()


async def _run_gangs(cluster: Cluster, size: int, num: int) -> None:
    cluster.at.clear()
    cpu_before, own_before = cluster.plane.usage(), time.process_time()
    began = time.perf_counter()
    await cluster.submit(trials=num, slots=size, nodes=size)

    def have_ended() -> bool:
        return sum(len(at["EXITED"]) == size for at in cluster.at.values()) == num

    await cluster.until("all gangs have ended", have_ended)
    took_s = time.perf_counter() - began
    print(
        f"  {num} gangs of {size} node(s) on {len(cluster.swarm.agents)} nodes: "
        f"{num / took_s:.1f}/s from submit until all have ended ({took_s:.1f} s), "
        f"load {os.getloadavg()[0]:.1f}"
    )
    report(
        "  from the last READY until all run",
        [max(at["RUNNING"]) - max(at["READY"]) for at in cluster.at.values()],
    )
    used = cluster.plane.usage()
    per_gang = ", ".join(
        f"{name} {1000 * (usage.cpu_s - cpu_before[name].cpu_s) / num:.0f} ms"
        for name, usage in used.items()
    )
    own_ms = 1000 * (time.process_time() - own_before) / num
    print(f"    of the processor per gang: {per_gang}, simulated agents {own_ms:.0f} ms")
    print(f"    errors: {dict(cluster.swarm.timings.errors) or 'none'}")


async def dead_node(plane: ControlPlane, given: argparse.Namespace) -> None:
    """Half of the nodes fall silent in the same moment; the other half takes over."""
    num = given.times
    cluster = Cluster(plane, 2 * num, run_s=float("inf"))
    try:
        await cluster.join()
        await cluster.submit(trials=num)
        await cluster.swarm.until_running(num, timeout_s=LIMIT_S)
        began = time.perf_counter()
        for agent in cluster.swarm.agents:
            if agent.num_running:
                agent.freeze()
        second = {key for key in cluster.at if key[1] == 1}
        second = {(trial, 2) for trial, _ in second}
        await cluster.until(
            "every trial runs elsewhere",
            lambda: all(cluster.at[key]["RUNNING"] for key in second),
            limit_s=given.lost_s + LIMIT_S,
        )
        took = [cluster.at[key]["RUNNING"][0] - began for key in second]
        report(
            f"a node falls silent until its trial runs elsewhere, nodes being LOST after "
            f"{given.lost_s:g} s (goal: {given.lost_s + 10:g} s)",
            took,
        )
    finally:
        await cluster.close()


async def dead_leader(plane: ControlPlane, given: argparse.Namespace) -> None:
    """Each time the leader is killed, a trial is submitted, and another controller is started."""
    cluster = Cluster(plane, 2)
    placed: list[float] = []
    took: list[float] = []
    try:
        await cluster.join()
        for number in range(given.times):
            await asyncio.sleep(1.0 + number % 3)  # not always at the same point of its lease
            _, leader = plane.leader()
            # Starting a process is not what is measured.
            others = [n for n in plane.processes if n.startswith("controller") and n != leader]
            await cluster.until(
                "the other controller stands by",
                lambda names=others: all('"standing_by"' in plane.log(name) for name in names),
            )
            before = len(cluster.at)
            began = time.perf_counter()
            if given.elsewhere:
                plane.processes[leader].send_signal(signal.SIGSTOP)
            else:
                plane.kill(leader)
            await cluster.submit()
            await cluster.until(
                "the trial runs",
                lambda n=before: (
                    len(cluster.at) > n
                    and any(at["RUNNING"] for at in list(cluster.at.values())[n:])
                ),
            )
            newest = list(cluster.at.values())[-1]
            placed.append(newest["PREPARING"][0] - began)
            took.append(newest["RUNNING"][0] - began)
            if given.elsewhere:
                plane.kill(leader)
            await asyncio.to_thread(plane.start_controller, f"controller-{3 + number}")
        how = "falls silent" if given.elsewhere else "is killed"
        report(f"the leader {how} until a new trial is placed (goal: 5 s)", placed)
        report("  until it runs", took)
    finally:
        await cluster.close()


async def burst(plane: ControlPlane, given: argparse.Namespace) -> None:
    """All submits are under way at once, so many at a time."""
    cluster = Cluster(plane, given.nodes)
    try:
        await cluster.join()
        took: list[float] = []
        errors: Counter[str] = Counter()
        todo = iter(range(given.experiments))

        async def some() -> None:
            for _ in todo:
                began = time.perf_counter()
                try:
                    await cluster.submit()
                except (RuntimeError, httpx.HTTPError) as error:
                    errors[str(error)[:100] or type(error).__name__] += 1
                took.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(some() for _ in range(given.at_once)))
        submitted_s = time.perf_counter() - began

        def ended() -> dict[str, int]:
            with plane.database.read() as session:
                counted = session.execute(
                    select(ExperimentRow.state, func.count()).group_by(ExperimentRow.state)
                )
                return dict(counted.all())

        await cluster.until(
            "all have ended",
            lambda: not {"QUEUED", "RUNNING", "STOPPING"} & ended().keys(),
        )
        took_s = time.perf_counter() - began
        report(f"a submit, {given.at_once} at once", took)
        print(
            f"    {given.experiments} submitted in {submitted_s:.1f} s "
            f"({given.experiments / submitted_s:.0f}/s), all ended {took_s:.1f} s after the first "
            f"({given.experiments / took_s:.0f}/s): {ended()}, refused: {dict(errors) or 'none'}"
        )
    finally:
        await cluster.close()


# ---------------------------------------------------------------- the command


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Any, *, simulated: bool) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=run.__doc__)
        sub.set_defaults(run=run, simulated=simulated, settings={}, controllers=1)
        if simulated:
            sub.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
            sub.add_argument("--servers", type=int, default=1, help="API server processes")
        return sub

    sub = command("first-step", first_step, simulated=False)
    sub.add_argument("--times", type=int, default=5)
    sub.add_argument("--warm", action="store_true", help="fork workers from warm parents")
    sub.add_argument(
        "--containers", action="store_true", help="run it in a container of a real engine, too"
    )
    sub.add_argument(
        "--imports",
        default="sklearn.datasets",
        help="MUSTER_AGENT_WARM_IMPORTS; the default is what the example imports",
    )
    sub = command("dead-worker", dead_worker, simulated=False)
    sub.add_argument("--times", type=int, default=10)
    sub.add_argument("--rank", type=int, default=3)
    sub = command("gangs", gangs, simulated=True)
    sub.add_argument("--singles", type=int, default=500, help="gangs of one node")
    sub.add_argument("--gangs", type=int, default=30, help="gangs of 64 nodes")
    sub.add_argument("--nodes", type=int, default=128)
    sub = command("dead-node", dead_node, simulated=True)
    sub.add_argument("--times", type=int, default=10)
    sub.add_argument("--lost-s", type=float, default=60.0)
    sub = command("dead-leader", dead_leader, simulated=True)
    sub.set_defaults(controllers=2)
    sub.add_argument(
        "--elsewhere",
        action="store_true",
        help="it is frozen: like one on another machine it cannot be seen to have ended",
    )
    sub.add_argument("--times", type=int, default=10)
    sub = command("burst", burst, simulated=True)
    sub.add_argument("--experiments", type=int, default=1000)
    sub.add_argument("--at-once", type=int, default=50)
    sub.add_argument("--nodes", type=int, default=32)
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    if not given.simulated:
        given.run(given)
        return
    settings = {}
    if "lost_s" in given:
        # The controller has just started: it would spare every node for a minute.
        settings = {"MUSTER_NODE_LOST_S": str(given.lost_s), "MUSTER_TAKEOVER_GRACE_S": "0"}
    kinds: list[Kind] = ["sqlite", "postgres"] if given.database == "both" else [given.database]
    for kind in kinds:
        print(f"{kind}:", flush=True)
        try:
            with control_plane(
                kind, servers=given.servers, controllers=given.controllers, settings=settings
            ) as plane:
                uvloop.run(given.run(plane, given))
        except NoPostgres as error:
            print(f"  left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
