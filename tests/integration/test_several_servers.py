"""Two API servers and two controllers on one PostgreSQL and one Redis, and an agent that knows one.

Everything is a process of its own, as in a cluster behind a load balancer.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from muster.client import Client, Target
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import ControllerLeaseRow
from muster_server.services.core import tokens, users
from muster_server.services.core.liveness import CONTROLLER_LEASE
from support.live import LiveClient
from support.stack import scripted, wait_for
from support.valkey import private_valkey

pytestmark = pytest.mark.postgres

TAKE_OVER_S = 30.0
"""With room for a busy machine: the lease is 5 s."""


@dataclass
class Cluster:
    folder: Path
    environment: dict[str, str]
    database: Database
    token: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, *command: str, **more: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                env={**self.environment, **more},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_server(self, name: str) -> None:
        """Says its port in its log: no port is guessed."""
        self.start(name, "muster_server.cli", "serve", MUSTER_PORT="0")

        def port() -> int | None:
            assert self.processes[name].poll() is None, self.log(name)
            for line in self.log(name).splitlines():
                if '"serving"' in line:
                    return int(json.loads(line)["port"])
            return None

        self.ports[name] = wait_for(f"{name} serves", port, 90)
        ready = f"http://127.0.0.1:{self.ports[name]}/readyz"
        wait_for(f"{name} is ready", lambda: _status(ready) == 200, 90)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def client(self, name: str) -> Client:
        return Client(Target(f"http://127.0.0.1:{self.ports[name]}", self.token, "the test"))

    def lead(self) -> tuple[int, str]:
        """(epoch, name of the process that leads); epoch 0 when nobody does."""
        with self.database.read() as session:
            row = session.execute(
                select(
                    ControllerLeaseRow.epoch,
                    ControllerLeaseRow.holder,
                    ControllerLeaseRow.expires_at,
                ).where(ControllerLeaseRow.name == CONTROLLER_LEASE)
            ).one_or_none()
        if row is None or row.expires_at <= clock.now():
            return 0, ""
        pid = int(row.holder.split(":")[1])
        return row.epoch, next(n for n, p in self.processes.items() if p.pid == pid)

    def close(self) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _status(url: str) -> int:
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code
    except httpx.HTTPError:
        return 0


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Iterator[Cluster]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    database = Database(postgres_url)
    now = clock.now()
    with database.transaction() as session:
        user = users.create_user(
            session, username="ada", password_hash=None, role="admin", actor="test", now=now
        )
        _, token = tokens.create_api_token(
            session, user=user, name="test", role=None, own_role="admin", lifetime=None,
            actor="test", now=now,
        )  # fmt: skip
        _, join_token = tokens.create_join_token(
            session, pool="default", uses=1, lifetime=dt.timedelta(minutes=10), created_by=None,
            actor="test", now=now,
        )  # fmt: skip
    (tmp_path / "join-token").write_text(join_token)
    with private_valkey() as valkey:
        environment = {
            **kept,
            "MUSTER_DATABASE_URL": postgres_url,
            "MUSTER_REDIS_URL": valkey.url,
            "MUSTER_LOG_FORMAT": "json",
            "MUSTER_AGENT_ISOLATION": "none",
        }
        cluster = Cluster(tmp_path, environment, database, token)
        try:
            for name in ("server-a", "server-b"):
                cluster.start_server(name)
            for name in ("controller-1", "controller-2"):
                cluster.start(name, "muster_server.cli", "controller")
            wait_for("a controller leads", lambda: cluster.lead()[0], 90)
            cluster.start(
                "agent", "muster_agent.cli", "run", "--name", "n1", "--slots", "2",
                "--slot-type", "cpu", "--server", f"http://127.0.0.1:{cluster.ports['server-a']}",
                "--join-token-file", str(tmp_path / "join-token"),
                "--home", str(tmp_path / "agent"), "--stop-allocations",
            )  # fmt: skip
            yield cluster
        finally:
            cluster.close()
            database.dispose()


def only_trial(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    return trial


@pytest.mark.timeout(600)
def test_what_one_server_takes_in_another_shows_at_once_and_the_lead_moves(
    cluster: Cluster,
) -> None:
    # Many steps, far apart: each is on screen before the next one is reported.
    script = [{"train": {"epochs": 1, "steps_per_epoch": 4000, "step_s": 0.25}}]
    with cluster.client("server-b") as client:
        first = client.submit(scripted("long", script))["id"]
        wait_for("it trains", lambda: only_trial(client, first)["step"] > 2, 120)
        trial = only_trial(client, first)

        # The agent reports to A alone; B's page hears of it, and finds it there.
        page = LiveClient(cluster.ports["server-b"], token=cluster.token)
        assert page.receive()["hello"]["degraded"] is False
        topic = f"trial:{trial['id']}:metrics"
        page.subscribe(topic)
        series = f"/trials/{trial['id']}/series?name=train/loss&rank=0&max_points=1000"

        def last_step() -> int:
            return int(client.get(series)["series"][0]["step"][-1])

        for _ in range(3):
            seen = last_step()
            while last_step() <= seen:  # a hint may be of something else, or late
                page.expect("topic", topic, timeout_s=20)
        page.close()

        # Who leads dies; the other one goes on, and what runs notices nothing.
        epoch, leader = cluster.lead()
        cluster.processes[leader].kill()
        second = client.submit(scripted("after", [{"log": "hello"}]))["id"]
        wait_for("another one leads", lambda: cluster.lead()[0] > epoch, TAKE_OVER_S)
        assert cluster.lead()[1] not in ("", leader)
        ended = client.wait(second, timeout_s=90, poll_s=0.1)
        assert ended["state"] == "COMPLETED"

        # Stopped through the server that its agent has never spoken to.
        assert only_trial(client, first)["attempt_no"] == 1
        client.stop(first)
        assert client.wait(first, timeout_s=90, poll_s=0.1)["state"] == "CANCELED"
    with cluster.client("server-a") as other:
        assert other.experiment(first)["state"] == "CANCELED"
