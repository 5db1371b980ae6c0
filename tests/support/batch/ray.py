"""A real Ray on this machine: a head and more nodes, private to a folder, ended by their pids.

Ray is installed for it alone, with `scripts/test ray`: Muster speaks with it over HTTP and needs none.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import requests

from support.ports import free_ports
from support.stack import wait_for

MARK = "MUSTER_RAY_LAB"
PROGRAM = Path(sys.prefix) / "ray" / "bin" / "ray"
START_S = 120.0


def why_missing() -> str:
    """Why no Ray can be started here; "" if one can."""
    return "" if PROGRAM.exists() else f"no Ray in {PROGRAM.parent.parent}: scripts/test ray"


class RayLab:
    """A cluster whose nodes have two processors each, with authentication by a token."""

    def __init__(self, folder: Path, *, nodes: int = 2) -> None:
        """folder: with a short path, since Ray's sockets are below it."""
        self.folder = folder
        self.num_nodes = nodes
        self.token = folder / "token"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "RAY_"))}
        self.environment = {
            **kept,
            MARK: str(folder),
            "HOME": str(folder / "home"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "3",
            # Pilots inherit the variables of Ray's processes.
            "MUSTER_AGENT_ISOLATION": "none",
            "MUSTER_AGENT_CONTAINERS": "none",
        }
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        first = free_ports(3)
        self._gcs, self._dashboard, self._client = range(first, first + 3)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._dashboard}"

    def start(self) -> None:
        for name in ("home", "tmp", "log"):
            (self.folder / name).mkdir(parents=True)
        self.token.write_text(secrets.token_hex(32))
        self.token.chmod(0o600)
        self._start(
            "head",
            "--head",
            f"--port={self._gcs}",
            "--dashboard-host=127.0.0.1",
            f"--dashboard-port={self._dashboard}",
            f"--ray-client-server-port={self._client}",
            f"--temp-dir={self.folder / 'tmp'}",
        )
        wait_for("Ray's head answers", lambda: self._is_up(1), START_S)
        for k in range(2, self.num_nodes + 1):
            self.start_node(f"n{k}")
        wait_for("all nodes of Ray are there", lambda: self._is_up(self.num_nodes), START_S)

    def start_node(self, name: str) -> None:
        self._start(name, f"--address=127.0.0.1:{self._gcs}")

    def ask(self, method: str, path: str) -> Any:
        reply = requests.request(
            method,
            f"{self.address}{path}",
            headers={"Authorization": f"Bearer {self.token.read_text()}"},
            timeout=30,
        )
        reply.raise_for_status()
        return reply.json()

    def jobs(self) -> list[str]:
        """Pilots whose jobs have not ended."""
        return [
            job["submission_id"]
            for job in self.ask("GET", "/api/jobs/")
            if job["status"] in ("PENDING", "RUNNING") and job["submission_id"]
        ]

    def words(self) -> str:
        logs = sorted((self.folder / "log").glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in logs)

    def stop(self) -> None:
        for process in self._nodes.values():
            process.terminate()
        for process in self._nodes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        left = self.processes()
        for one in left:
            one.kill()
        psutil.wait_procs(left, timeout=10)

    def processes(self) -> list[psutil.Process]:
        """What Ray and its jobs have running."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and process.environ().get(MARK) == str(self.folder):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _is_up(self, num: int) -> bool:
        for name, process in self._nodes.items():
            assert process.poll() is None, f"{name} has ended:\n{self.words()}"
        try:
            found = self.ask("GET", "/api/v0/nodes?detail=true")
        except (requests.RequestException, json.JSONDecodeError):
            return False
        nodes = found["data"]["result"]["result"]
        return bool(sum(node["state"] == "ALIVE" for node in nodes) >= num)

    def _start(self, name: str, *options: str) -> None:
        first = free_ports(6)
        listen, grpc, metrics, runtime, object_, manager = range(first, first + 6)
        with (self.folder / "log" / f"{name}.log").open("ab") as log:
            self._nodes[name] = subprocess.Popen(
                [
                    str(PROGRAM),
                    "start",
                    *options,
                    "--block",
                    "--num-cpus=2",
                    "--node-ip-address=127.0.0.1",
                    "--object-store-memory=100000000",
                    f"--dashboard-agent-listen-port={listen}",
                    f"--dashboard-agent-grpc-port={grpc}",
                    f"--metrics-export-port={metrics}",
                    f"--runtime-env-agent-port={runtime}",
                    f"--object-manager-port={object_}",
                    f"--node-manager-port={manager}",
                    "--min-worker-port=0",
                    "--max-worker-port=0",
                ],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
