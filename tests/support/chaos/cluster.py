"""A cluster under training whose parts are replaced one by one."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from muster.client import Client, Target
from muster.launch.forkserver import ForkedProgram
from muster_server.local.processes import MARK
from support import preloaded
from support.outages import TRAINING
from support.processes import ControlPlane
from support.stack import processes_of, wait_for

AGENTS = ("n1", "n2")


class Cluster:
    """Servers behind one port, controllers and agents as processes that can be replaced one by one.

    Methods take variables of the process: PYTHONPATH for another version of Muster, for example."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        redis_url: str,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """settings: further MUSTER_… variables of the processes of the control plane."""
        self.folder = folder
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.stop_file = folder / "stop"
        given = {"MUSTER_CONTROLLER_LEASE_S": "2", MARK: str(folder), **(settings or {})}
        self.plane = ControlPlane(
            folder, database_url, redis_url, settings=given, is_preloaded=True
        )
        self.plane.shared_fds.append(self.listening.fileno())
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")},
            "MUSTER_DATABASE_URL": database_url,
            **(settings or {}),
            "MUSTER_AGENT_ISOLATION": "none",
            "HOME": str(folder),
            MARK: str(folder),
        }
        self._agents: dict[str, ForkedProgram] = {}
        self.token = ""

    def run(self, *command: str, **version: str) -> str:
        """What a command prints."""
        more = {"MUSTER_URL": self.url, "MUSTER_TOKEN": self.token} if self.token else {}
        done = preloaded.run(
            command,
            environment={**self._environment, **more, **version},
            folder=self.folder,
            timeout_s=120,
            version=version.get("PYTHONPATH", ""),
            strict=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout.strip()

    def serve(self, name: str, **version: str) -> None:
        listen = {"MUSTER_LISTEN_FD": str(self.listening.fileno())}
        self.plane.start_server(name, **listen, **version)

    def start_agent(self, name: str, **version: str) -> None:
        """Without the lifeline of the others, with which its jobs would end."""
        self._agents[name] = preloaded.start(
            [
                "muster_agent.cli", "run", "--name", name, "--slots", "3", "--slot-type", "cpu",
                "--server", self.url, "--join-token-file", str(self.folder / "join-token"),
                "--home", str(self.folder / name),
            ],
            environment={**self._environment, **version},
            output=self.folder / f"{name}.log",
            marks={MARK: str(self.folder)},
            version=version.get("PYTHONPATH", ""),
        )  # fmt: skip

    def stop_agent(self, name: str) -> None:
        process = self._agents.pop(name)
        process.terminate()
        assert process.wait(60) == 0, (self.folder / f"{name}.log").read_text()[-2000:]

    def join(self, **version: str) -> None:
        """Sign in, and let the agents join."""
        create = ("muster_server.cli", "create-token", "--user", "ada", "--role", "admin")
        self.token = self.run(*create, **version)
        uses = ("create-join-token", "--uses", str(len(AGENTS)))
        join_token = self.run("muster_server.cli", *uses, **version)
        (self.folder / "join-token").write_text(join_token)
        for name in AGENTS:
            self.start_agent(name, **version)

    def submit(
        self,
        name: str,
        *,
        stop: Path,
        node: str,
        more: Mapping[str, Any] | None = None,
        **version: str,
    ) -> int:
        """Submit a training from the command line; return the id of its trial. more: of its document."""
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
            **(more or {}),
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

    def require_trial(
        self, name: str, node: str, *, more: Mapping[str, Any] | None = None, **version: str
    ) -> None:
        """A trial from its submission to its end. Raises AssertionError."""
        stop = self.folder / f"stop-{name}"
        trial_id = self.submit(name, stop=stop, node=node, more=more, **version)
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
