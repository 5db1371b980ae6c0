"""A day of a team in a few minutes: does anything fail, is memory level, does the disk grow as foreseen?

    python -m support.chaos.team_day [--people 30] [--trials 500] [--tabs 50] [--minutes 8]

Two API servers, two controllers and two agents with eight slots each, on PostgreSQL and Valkey. People submit
short trainings all day and look at what became of them; open tabs listen and read what changes; a backup is
made every minute of the day's eight; each process is stopped with SIGTERM and started again, one after the
other, again and again. Whoever meets a server that restarts asks the other one, as behind a proxy.

At the end: every training completed in its first attempt, with every value once and as it was logged; no
answer was a 5xx, but for 503 of a server that was stopping; every backup was made and the last one verified;
what each process holds in memory in the last third is not above 1.3 times the middle third; and the database
has grown as its first half foretold. Exits 1 when one of these does not hold, and says which.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import io
import json
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import text
from websockets import ConnectionClosed, InvalidHandshake
from websockets.asyncio.client import connect

from muster.client import Client, ClientError, Target
from muster_server import clock
from muster_server.db.models import UserRow
from muster_server.services.core.accounts import tokens, users
from muster_server.services.core.audit import Author
from support.ports import free_port
from support.processes import ControlPlane, control_plane

STEPS = 40
SERVERS = ("server-a", "server-b")
AGENTS = ("agent-1", "agent-2")
CONTROLLERS = ("controller-1", "controller-2")
JOB = f"""
import time
import muster

muster.init()
for step in range(1, {STEPS} + 1):
    muster.log({{"train/loss": 1 / step, "train/accuracy": step / {STEPS}}}, step=step)
    time.sleep(0.05)
"""
RESTART_EVERY_S = 15.0
TRIES = 60
"""Half a second apart: what a server takes to start, and more."""


class Day:
    """What happens, and what was seen of it."""

    def __init__(self, plane: ControlPlane, arguments: argparse.Namespace, folder: Path) -> None:
        self.plane, self.arguments, self.folder = plane, arguments, folder
        self.ports = {name: free_port() for name in SERVERS}
        self.started_at = time.monotonic()
        self.is_over = asyncio.Event()
        self.experiments: list[int] = []
        self.answers: Counter[str] = Counter()
        self.problems: list[str] = []
        self.latencies_ms: list[float] = []
        self.memory: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self.sizes: list[tuple[int, int]] = []
        self.num_hints = self.num_backups = self.num_restarts = self.num_connections = 0

    # ------------------------------------------------------------------ processes

    def start(self, name: str) -> None:
        if name in SERVERS:
            self.plane.start(name, "muster_server.cli", "serve", MUSTER_PORT=str(self.ports[name]))
        elif name in CONTROLLERS:
            self.plane.start(name, "muster_server.cli", "controller")
        else:
            server = SERVERS[AGENTS.index(name)]
            self.plane.start(
                name, "muster_agent.cli", "run", "--name", name, "--slots", "8", "--slot-type", "cpu",
                "--server", self.url(server), "--join-token-file", str(self.folder / "join-token"),
                "--home", str(self.folder / name),
                MUSTER_LIFELINE_FD="",  # as a service: what it runs goes on while it restarts
            )  # fmt: skip

    def url(self, server: str) -> str:
        return f"http://127.0.0.1:{self.ports[server]}"

    async def restart(self) -> None:
        """One process after the other, all day."""
        names = [*SERVERS, *CONTROLLERS, *AGENTS]
        while not await self.over(RESTART_EVERY_S):
            name = names[self.num_restarts % len(names)]
            process = self.plane.processes[name]
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 60)
            self.start(name)
            self.num_restarts += 1

    async def back_up(self) -> None:
        while not await self.over(60 * self.arguments.minutes / 8):
            await self.command("backup", str(self.folder / "backups"), "--keep", "3")
            self.num_backups += 1

    async def command(self, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "muster_server.cli", *arguments,
            env=self.plane.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
        if process.returncode:
            self.problems.append(f"{arguments[0]} failed: {output.decode()[-300:]}")

    async def watch(self) -> None:
        """Note what each process holds, and how large the database is."""
        while not await self.over(2):
            now = time.monotonic() - self.started_at
            for name, process in self.plane.processes.items():
                with contextlib.suppress(psutil.Error):
                    self.memory[name].append((now, psutil.Process(process.pid).memory_info().rss))
            self.note_size()

    def note_size(self) -> None:
        with self.plane.database.read() as session:
            size = session.scalar(text("SELECT pg_database_size(current_database())"))
            clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            self.num_connections = max(self.num_connections, session.scalar(text(clients)) or 0)
            done = session.scalar(text("SELECT count(*) FROM trials WHERE state = 'COMPLETED'"))
        self.sizes.append((int(done or 0), int(size or 0)))

    async def over(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.is_over.wait(), seconds)
        return self.is_over.is_set()

    # ------------------------------------------------------------------ people

    async def person(self, number: int, token: str, num: int, document: Path) -> None:
        chosen = random.Random(number)
        pause_s = 60 * self.arguments.minutes * 0.8 / max(num, 1)
        async with self.http(token) as http:
            for _ in range(num):
                await asyncio.sleep(chosen.uniform(0.2, 1.8) * pause_s)
                id = await self.submit(chosen, token, document)
                self.experiments.append(id)
                for path in (
                    "/experiments?limit=50",
                    f"/experiments/{id}",
                    f"/experiments/{id}/trials",
                ):
                    await self.get(http, chosen.choice(SERVERS), path)

    async def submit(self, chosen: random.Random, token: str, document: Path) -> int:
        for attempt in range(TRIES):
            server = SERVERS[(chosen.randrange(2) + attempt) % 2]
            try:
                with Client(Target(self.url(server), token, "the bench")) as client:
                    return int((await asyncio.to_thread(client.submit, document))["id"])
            except ClientError as error:
                self.answers[f"submit: {type(error).__name__}"] += 1
                await asyncio.sleep(0.5)
        raise RuntimeError("nobody takes a submission")

    async def tab(self, number: int, token: str) -> None:
        """An open page: it listens, and reads what it is told of."""
        chosen = random.Random(1000 + number)
        async with self.http(token) as http:
            while not self.is_over.is_set():
                server = chosen.choice(SERVERS)
                url = f"{self.url(server)}/api/v1/live".replace("http", "ws", 1)
                headers = {"Authorization": f"Bearer {token}"}
                try:
                    async with connect(url, additional_headers=headers, proxy=None) as channel:
                        await channel.send(json.dumps({"subscribe": ["experiments", "cluster"]}))
                        async for message in channel:
                            told = json.loads(message)
                            if "ping" in told:
                                await channel.send(json.dumps({"pong": told["ping"]}))
                            elif told.get("topic") == "experiments":
                                self.num_hints += 1
                                await self.get(http, server, "/experiments?limit=25")
                            elif "topic" in told:
                                await self.get(http, server, "/cluster")
                            if self.is_over.is_set():
                                return
                except (OSError, ConnectionClosed, InvalidHandshake):
                    await self.over(chosen.uniform(0.2, 2))

    @contextlib.asynccontextmanager
    async def http(self, token: str) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
            yield http

    async def get(self, http: httpx.AsyncClient, server: str, path: str) -> Any:
        at = time.monotonic()
        try:
            reply = await http.get(f"{self.url(server)}/api/v1{path}")
        except httpx.TransportError as error:
            self.answers[f"read: {type(error).__name__}"] += 1
            return None
        self.latencies_ms.append(1000 * (time.monotonic() - at))
        self.answers[f"read: {reply.status_code}"] += 1
        if reply.status_code >= 500 and reply.status_code != 503:
            self.problems.append(f"{path}: {reply.status_code} {reply.text[:200]}")
        return reply

    # ------------------------------------------------------------------ judging

    async def end(self, token: str) -> None:
        """Wait for what still runs."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            self.note_size()
            if self.sizes[-1][0] >= len(self.experiments):
                return
            await asyncio.sleep(1)

    async def judge(self, token: str) -> None:
        attempts: Counter[int] = Counter()
        async with self.http(token) as http:
            for id in self.experiments:
                (trial,) = (await self.found(http, f"/experiments/{id}/trials")).json()["items"]
                attempts[trial["attempt_no"]] += 1
                if trial["attempt_no"] > 1:
                    self.problems.append(f"experiment {id} took {trial['attempt_no']} attempts")
                if trial["state"] != "COMPLETED":
                    self.problems.append(f"experiment {id} is {trial['state']}")
                    continue
                table = (await self.found(http, f"/trials/{trial['id']}/series.csv")).text
                rows = [r for r in csv.DictReader(io.StringIO(table)) if r["name"] == "train/loss"]
                seen = [(int(row["step"]), float(row["value"])) for row in rows]
                if seen != [(step, 1 / step) for step in range(1, STEPS + 1)]:
                    self.problems.append(f"experiment {id} has {len(seen)} values, or wrong ones")
        print(f"attempts of a training: {dict(attempts)}")
        await self.command("backup", str(self.folder / "backups"), "--keep", "3")
        self.judge_memory()
        self.judge_disk()

    async def found(self, http: httpx.AsyncClient, path: str) -> Any:
        for attempt in range(TRIES):
            reply = await self.get(http, SERVERS[attempt % 2], path)
            if reply is not None and reply.status_code == 200:
                return reply
            await asyncio.sleep(0.5)
        raise RuntimeError(f"{path} is not answered")

    def judge_memory(self) -> None:
        end = time.monotonic() - self.started_at
        for name, seen in sorted(self.memory.items()):
            middle = [rss for at, rss in seen if end / 3 < at <= 2 * end / 3]
            last = [rss for at, rss in seen if at > 2 * end / 3]
            if middle and last:
                ratio = statistics.median(last) / statistics.median(middle)
                print(
                    f"{name:13} {statistics.median(last) / 2**20:6.0f} MB, {ratio:.2f} of the middle third"
                )
                if ratio > 1.3:
                    self.problems.append(f"{name} grew to {ratio:.2f} times")

    def judge_disk(self) -> None:
        whole = len(self.experiments)
        _, first = self.sizes[0]
        half_at, half = next(one for one in self.sizes if one[0] >= whole / 2)
        _, last = self.sizes[-1]
        foreseen = first + (half - first) * whole / half_at
        print(
            f"database: {first / 2**20:.1f} MB empty, {half / 2**20:.1f} after {half_at} trainings, "
            f"{last / 2**20:.1f} at the end, {foreseen / 2**20:.1f} foreseen"
        )
        if last > 1.25 * foreseen:
            self.problems.append("the database grew faster than its first half foretold")


async def run(plane: ControlPlane, arguments: argparse.Namespace, folder: Path) -> Day:
    day = Day(plane, arguments, folder)
    (folder / "job").mkdir()
    (folder / "job" / "job.py").write_text(JOB)
    document = folder / "job" / "muster.yaml"
    document.write_text(
        "name: day\nentrypoint: job.py\nlauncher: direct\ncode: {path: .}\nresources: {slots: 1}\n"
    )
    (folder / "join-token").write_text(plane.make_join_token(uses=2))
    admin = plane.make_user_token()
    people = add_people(plane, arguments.people)
    for name in (*SERVERS, *CONTROLLERS, *AGENTS):
        day.start(name)
    day.note_size()
    share = [arguments.trials // len(people)] * len(people)
    for extra in range(arguments.trials % len(people)):
        share[extra] += 1
    async with asyncio.TaskGroup() as tasks:
        others = [day.restart(), day.back_up(), day.watch()]
        others += [day.tab(n, people[n % len(people)]) for n in range(arguments.tabs)]
        for other in others:
            tasks.create_task(other)
        await asyncio.gather(
            *(day.person(n, token, share[n], document) for n, token in enumerate(people))
        )
        await day.end(admin)
        day.is_over.set()
    await day.judge(admin)
    return day


def add_people(plane: ControlPlane, num: int) -> list[str]:
    """Return a token of each."""
    secrets = []
    with plane.database.transaction() as session:
        for number in range(num):
            user: UserRow = users.create_user(
                session, username=f"person-{number}", password_hash=None, role="member",
                by=Author("bench", clock.now()),
            )  # fmt: skip
            _, secret = tokens.create_api_token(
                session, user=user, name="bench", role=None, own_role="member", lifetime=None,
                by=Author("bench", clock.now()),
            )  # fmt: skip
            secrets.append(secret)
    return secrets


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=30)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=8.0)
    arguments = parser.parse_args()
    with control_plane("postgres", servers=0, controllers=0) as plane:
        day = asyncio.run(run(plane, arguments, plane.folder))
    latencies = sorted(day.latencies_ms)
    print(
        f"{len(day.experiments)} trainings of {arguments.people} people in "
        f"{time.monotonic() - day.started_at:.0f} s; {day.num_restarts} restarts, {day.num_backups} "
        f"backups, {day.num_hints} hints to {arguments.tabs} tabs, {day.num_connections} connections to "
        f"the database at most\n"
        f"answers: {dict(day.answers)}\n"
        f"reads: median {statistics.median(latencies):.0f} ms, p95 "
        f"{latencies[int(0.95 * len(latencies))]:.0f} ms, largest {latencies[-1]:.0f} ms"
    )
    for problem in day.problems:
        print(f"PROBLEM: {problem}")
    return 1 if day.problems else 0


if __name__ == "__main__":
    sys.exit(main())
