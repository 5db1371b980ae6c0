"""The release before is replaced part by part while it trains: no step is lost, none is repeated.

`tests/releases/previous.tar.xz` is its Python, without what only the built-in trainer needs:

    git archive COMMIT server/muster_server agent/muster_agent trainer/muster migrations \\
        ':(exclude)trainer/muster/training' | xz -9e > tests/releases/previous.tar.xz
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, make_url, text

from muster.client import Client, Target
from muster_server.errors import SCHEMA_MISMATCH_EXIT
from muster_server.local.processes import MARK
from support.outages import TRAINING
from support.processes import ControlPlane
from support.stack import processes_of, wait_for
from support.valkey import private_valkey

ARCHIVE = Path(__file__).resolve().parents[2] / "releases" / "previous.tar.xz"
NEW: dict[str, str] = {}
"""Variables of a process of this version."""
AGENTS = ("n1", "n2")


class Cluster:
    """Servers behind one port, controllers and agents, of either version; each agent trains."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self.folder = folder
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder / "previous", filter="data")
        roots = [str(folder / "previous" / name) for name in ("server", "agent", "trainer")]
        self.old = {"PYTHONPATH": os.pathsep.join(roots)}
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.stop_file = folder / "stop"
        self.settings = {"MUSTER_CONTROLLER_LEASE_S": "2", MARK: str(folder)}
        self.plane = ControlPlane(folder, database_url, redis_url, settings=self.settings)
        self.plane.shared_fds.append(self.listening.fileno())
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")},
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_AGENT_ISOLATION": "none",
            "HOME": str(folder),
            MARK: str(folder),
        }
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self.token = ""

    def run(self, *command: str, **version: str) -> str:
        """What a command of a version prints."""
        more = {"MUSTER_URL": self.url, "MUSTER_TOKEN": self.token} if self.token else {}
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env={**self._environment, **more, **version},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout.strip()

    def serve(self, name: str, **version: str) -> None:
        listen = {"MUSTER_LISTEN_FD": str(self.listening.fileno())}
        self.plane.start_server(name, **listen, **version)

    def start_agent(self, name: str, **version: str) -> None:
        """Without the lifeline of the others, with which its jobs would end."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._agents[name] = subprocess.Popen(
                [
                    sys.executable, "-m", "muster_agent.cli", "run", "--name", name,
                    "--slots", "3", "--slot-type", "cpu", "--server", self.url,
                    "--join-token-file", str(self.folder / "join-token"),
                    "--home", str(self.folder / name),
                ],
                env={**self._environment, **version},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def stop_agent(self, name: str) -> None:
        process = self._agents.pop(name)
        process.terminate()
        assert process.wait(60) == 0, (self.folder / f"{name}.log").read_text()[-2000:]

    def join(self) -> None:
        """Sign in and let the agents join, all with commands of the version before."""
        create = ("muster_server.cli", "create-token", "--user", "ada", "--role", "admin")
        self.token = self.run(*create, **self.old)
        uses = ("create-join-token", "--uses", str(len(AGENTS)))
        join_token = self.run("muster_server.cli", *uses, **self.old)
        (self.folder / "join-token").write_text(join_token)
        for name in AGENTS:
            self.start_agent(name, **self.old)

    def submit(self, name: str, *, stop: Path, node: str, **version: str) -> int:
        """Submit a training with the command of a version; return the number of its trial."""
        folder = self.folder / f"code-{name}"
        folder.mkdir()
        (folder / "train.py").write_text(TRAINING)
        entrypoint = ["train.py", str(folder / "logged"), str(stop), "0.05"]
        document: dict[str, Any] = {
            "name": name,
            "entrypoint": entrypoint,
            "launcher": "direct",
            "code": {"path": "."},
            "resources": {"slots": 1, "allow_nodes": [node]},
        }
        (folder / "experiment.yaml").write_text(json.dumps(document))
        self.run("muster.cli", "submit", str(folder / "experiment.yaml"), **version)
        with self.client() as client:
            (found,) = [e for e in client.pages("/experiments") if e["name"] == name]
            path = f"/experiments/{found['id']}/trials"
            (trial,) = wait_for("its trial", lambda: list(client.pages(path)) or None)
            return int(trial["id"])

    def client(self) -> Client:
        return Client(Target(self.url, self.token, "the test"))

    def step(self, trial_id: int) -> int:
        with self.client() as client:
            return int(client.get(f"/trials/{trial_id}")["step"] or 0)

    def require_progress(self, what: str, trials: list[int]) -> None:
        """New steps of every trial are stored. Raises AssertionError."""
        for trial_id in trials:
            seen = self.step(trial_id)
            wait_for(f"trial {trial_id} goes on {what}", lambda: self.step(trial_id) > seen, 60)  # noqa: B023

    def steps(self, trial_id: int) -> list[int]:
        url = f"{self.url}/api/v1/trials/{trial_id}/series.jsonl"
        headers = {"Authorization": f"Bearer {self.token}"}
        reply = httpx.get(url, headers=headers, timeout=60, trust_env=False).raise_for_status()
        rows = (json.loads(line) for line in reply.text.splitlines())
        return [int(row["step"]) for row in rows if row["name"] == "value"]

    def require_whole(self, trial_id: int, logged: Path) -> None:
        """The trial has ended well in one attempt, with each step once. Raises AssertionError."""
        with self.client() as client:
            trial = wait_for(
                "it has ended",
                lambda: (
                    t
                    if (t := client.get(f"/trials/{trial_id}"))["state"] in ("COMPLETED", "FAILED")
                    else None
                ),
            )
        assert (trial["state"], trial["attempt_no"], trial["num_restarts"]) == ("COMPLETED", 1, 0)
        assert self.steps(trial_id) == list(range(1, int(logged.read_text()) + 1))

    def require_trial(self, name: str, node: str, **version: str) -> None:
        """A trial from the command of a version, to its end. Raises AssertionError."""
        stop = self.folder / f"stop-{name}"
        trial_id = self.submit(name, stop=stop, node=node, **version)
        self.require_progress("after it was submitted", [trial_id])
        stop.touch()
        self.require_whole(trial_id, self.logged(name))

    def logged(self, name: str) -> Path:
        return self.folder / f"code-{name}" / "logged"

    def close(self) -> None:
        for process in self._agents.values():
            process.terminate()
        for process in self._agents.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        self.plane.close()
        for left in processes_of(self.folder):
            with contextlib.suppress(Exception):
                left.kill()
        self.listening.close()


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    """A PostgreSQL database without tables."""
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE rolling"))
    yield make_url(postgres_url).set(database="rolling").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE rolling WITH (FORCE)"))
    engine.dispose()


@pytest.mark.postgres
def test_servers_controllers_and_agents_are_replaced_one_by_one(
    empty_url: str, tmp_path: Path
) -> None:
    with private_valkey() as valkey:
        cluster = Cluster(tmp_path, empty_url, valkey.url)
        try:
            _replace_all(cluster)
        finally:
            cluster.close()


def _replace_all(cluster: Cluster) -> None:
    old, plane = cluster.old, cluster.plane
    cluster.run("muster_server.cli", "migrate", **old)
    for letter in "ab":
        cluster.serve(f"server-{letter}", **old)
        plane.start_controller(f"controller-{letter}", **old)
    cluster.join()
    trials = [cluster.submit(n, stop=cluster.stop_file, node=n, **old) for n in AGENTS]
    cluster.require_progress("at first", trials)

    # What runs of the version before goes on with the new tables.
    cluster.run("muster_server.cli", "migrate", **NEW)
    cluster.require_progress("on the new tables", trials)
    names = (*AGENTS, "between")
    trials.append(cluster.submit("between", stop=cluster.stop_file, node="n1", **old))
    cluster.require_progress("that was submitted then", trials[-1:])
    # It cannot be started again.
    plane.start("late", "muster_server.cli", "controller", **old)
    assert plane.processes.pop("late").wait(60) == SCHEMA_MISMATCH_EXIT

    for letter in "ab":
        assert plane.stop(f"server-{letter}") in (0, -15)
        cluster.serve(f"new-server-{letter}", **NEW)
        cluster.require_progress(f"with new server {letter}", trials)
    for letter in "ab":
        assert plane.stop(f"controller-{letter}") == 0
        plane.start_controller(f"new-controller-{letter}", **NEW)
        cluster.require_progress(f"with new controller {letter}", trials)

    # Agents and commands of the version before complete a trial with the new control plane.
    cluster.require_trial("old", "n2", **old)
    assert "n1" in cluster.run("muster.cli", "list", **old)

    for name in AGENTS:
        cluster.stop_agent(name)
        cluster.start_agent(name, **NEW)
        cluster.require_progress(f"with new agent {name}", trials)
    cluster.require_trial("new", "n2", **NEW)

    cluster.stop_file.touch()
    for name, trial_id in zip(names, trials, strict=True):
        cluster.require_whole(trial_id, cluster.logged(name))
    with cluster.client() as client:
        assert {n["name"]: n["state"] for n in client.pages("/nodes")} == dict.fromkeys(
            AGENTS, "ONLINE"
        )


def test_one_server_on_sqlite_is_stopped_and_replaced_while_agents_train(tmp_path: Path) -> None:
    with private_valkey() as valkey:
        cluster = Cluster(tmp_path, f"sqlite:///{tmp_path / 'muster.db'}", valkey.url)
        try:
            _stop_and_replace(cluster)
        finally:
            cluster.close()


def _stop_and_replace(cluster: Cluster) -> None:
    old, plane = cluster.old, cluster.plane
    cluster.run("muster_server.cli", "migrate", **old)
    cluster.serve("server", **old)
    plane.start_controller("controller", **old)
    cluster.join()
    trials = [cluster.submit(n, stop=cluster.stop_file, node=n, **old) for n in AGENTS]
    cluster.require_progress("at first", trials)

    plane.stop("server")
    plane.stop("controller")
    logged = [int(cluster.logged(name).read_text()) for name in AGENTS]
    cluster.run("muster_server.cli", "migrate", **NEW)
    cluster.serve("new-server", **NEW)
    plane.start_controller("new-controller", **NEW)
    for trial_id, before in zip(trials, logged, strict=True):
        wait_for("it has gone on meanwhile", lambda: cluster.step(trial_id) > before)  # noqa: B023
    cluster.require_trial("old", "n1", **old)
    cluster.stop_agent("n1")
    cluster.start_agent("n1", **NEW)
    cluster.require_trial("new", "n1", **NEW)
    cluster.stop_file.touch()
    for name, trial_id in zip(AGENTS, trials, strict=True):
        cluster.require_whole(trial_id, cluster.logged(name))
