"""A real stack with trainings, of which one part of the control plane is taken away and given back.

    with ControlPlane(folder, database="postgres") as plane:
        plane.train()
        plane.take_away("frozen"); ...; plane.give_back("frozen")
        found = plane.finish()      # Found(num_lost=0, num_charged=0, num_missing=0)

What is taken away: the API server stands still ("frozen"), is killed and takes long to start again
("killed"), its database is stopped ("database"), or what is in front of it lets nothing through
("proxy"). Agents and the controller live on.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import httpx

from muster.client import Client
from support.chaos.links import Links
from support.ports import free_port
from support.postgres import Postgres, find_binaries, private_postgres
from support.stack import Stack, wait_for

Kind = Literal["frozen", "killed", "database", "proxy"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUM_AGENTS = 2
STEP_S = 0.1
TRAINING = """
import pathlib, sys, time
import muster

mark, stop = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
muster.init()
step = 0
while not stop.exists():
    step += 1
    muster.log({"value": step}, step=step)
    mark.with_suffix(".new").write_text(str(step))
    mark.with_suffix(".new").replace(mark)  # whoever reads it finds a number
    time.sleep(float(sys.argv[3]))
"""


@dataclass(frozen=True)
class Found:
    """What an outage has cost; all 0 where it changed nothing."""

    num_lost: int
    """Attempts that ended, and not well."""
    num_charged: int
    """Restarts, of either kind."""
    num_missing: int
    """Points that were logged and are not stored."""
    num_points: int
    events: tuple[str, ...]
    """What was said of the nodes."""

    @property
    def num_nodes_lost(self) -> int:
        return sum(" is LOST. " in text for text in self.events)


class ControlPlane:
    """A `muster up` of two agents with one training each, behind a proxy."""

    def __init__(
        self,
        folder: Path,
        *,
        database: Literal["sqlite", "postgres"] = "sqlite",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """settings: MUSTER_… of the server and the controller; else the defaults hold."""
        self.folder = folder
        self._database = database
        self._settings = dict(settings or {})
        self._undo = contextlib.ExitStack()
        self._postgres: Postgres | None = None
        self._frozen: list[int] = []
        self.trials: list[int] = []

    def __enter__(self) -> ControlPlane:
        with contextlib.ExitStack() as undo:
            self.folder.mkdir(parents=True, exist_ok=True)
            server = dict(self._settings)
            if self._database == "postgres":
                binaries = find_binaries()
                assert binaries is not None, "there is no PostgreSQL on this machine"
                self._postgres = undo.enter_context(private_postgres(binaries, is_durable=True))
                server["MUSTER_DATABASE_URL"] = self._postgres.url
            port = free_port()
            self.links = undo.enter_context(Links(port, num_links=1))
            agent = {"MUSTER_AGENT_SERVER_URL": f"http://127.0.0.1:{self.links.ports[0]}"}
            environment = dict.fromkeys(("server", "controller", "worker"), server)
            environment |= {f"agent-local-{no + 1}": agent for no in range(NUM_AGENTS)}
            self.stack = Stack(
                self.folder / "home",
                agents=NUM_AGENTS,
                slots=1,
                port=port,
                environment=environment,
            )
            undo.callback(self.stack.close)
            undo.callback(self._let_go)
            self.stack.start()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def train(self) -> None:
        """Start a training on each node. Returns when points of all are stored."""
        code = self.folder / "code"
        code.mkdir()
        (code / "train.py").write_text(TRAINING)
        with self.stack.client() as client:
            for no in range(NUM_AGENTS):
                script = code / f"muster-{no}.yaml"
                entrypoint = ["train.py", str(self._mark(no)), str(self._stop), str(STEP_S)]
                script.write_text(
                    json.dumps(
                        {
                            "name": f"outage-{no}",
                            "entrypoint": entrypoint,
                            "launcher": "direct",
                            "code": {"path": "."},
                        }
                    )
                )
                done = self.stack.cli("submit", str(script))
                assert done.returncode == 0, done.stdout + done.stderr
            wait_for(
                "a trial of each", lambda: len(list(client.pages("/experiments"))) == NUM_AGENTS
            )
            for experiment in client.pages("/experiments"):
                (trial,) = self._wait_for_trials(client, experiment["id"])
                self.trials.append(int(trial["id"]))
        wait_for("points of all are stored", lambda: min(map(self._stored, self.trials)) > 10, 180)

    def take_away(self, kind: Kind) -> None:
        match kind:
            case "frozen":
                self._freeze(self.stack.part_pid("server"))
            case "killed":
                self.stack.kill_part("server")
                # It was started again at once; that takes as long as the outage does.
                self._freeze(self.stack.part_pid("server"))
            case "database":
                assert self._postgres is not None, "only PostgreSQL can be stopped"
                self._postgres.kill()
            case "proxy":
                self.links.set(0, "reset")

    def give_back(self, kind: Kind) -> None:
        match kind:
            case "frozen" | "killed":
                self._let_go()
            case "database":
                assert self._postgres is not None
                self._postgres.start()
            case "proxy":
                self.links.set(0, "open")
        logged = [self._logged(no) for no in range(NUM_AGENTS)]
        wait_for(
            "what was logged meanwhile is stored",
            lambda: all(map(operator.le, logged, map(self._stored, self._by_number()))),
            180,
        )
        wait_for("every node is heard", lambda: set(self.states().values()) == {"ONLINE"}, 60)

    def states(self) -> dict[str, str]:
        """Name of a node → its state."""
        with self.stack.client() as client:
            return {node["name"]: node["state"] for node in client.pages("/nodes")}

    def finish(self) -> Found:
        """Let the trainings end, and count."""
        self._stop.touch()
        wait_for("every trial has ended", lambda: all(map(self._has_ended, self.trials)), 180)
        return self.count()

    def count(self) -> Found:
        """What all outages so far have cost. Points count that were stored when it was asked."""
        num_lost = num_charged = num_missing = num_points = 0
        with self.stack.client() as client:
            for no, trial_id in enumerate(self._by_number()):
                trial = client.get(f"/trials/{trial_id}")
                attempts = trial["attempts"]
                num_lost += sum(a["state"] not in ("RUNNING", "SUCCEEDED") for a in attempts)
                num_charged += trial["num_restarts"]
                steps = self._steps(trial_id)
                last = self._logged(no) if self._stop.exists() else max(steps)
                num_missing += len(set(range(1, last + 1)) - steps)
                num_points += len(steps)
            events = [
                event["message"]
                for node in client.pages("/nodes")
                for event in client.pages(f"/nodes/{node['id']}/events")
            ]
        return Found(num_lost, num_charged, num_missing, num_points, tuple(events))

    # ---- what it is made of

    def _wait_for_trials(self, client: Client, experiment_id: int) -> list[Any]:
        path = f"/experiments/{experiment_id}/trials"
        return wait_for("its trial", lambda: list(client.pages(path)) or None)

    @property
    def _stop(self) -> Path:
        return self.folder / "stop"

    def _mark(self, no: int) -> Path:
        return self.folder / f"logged-{no}"

    def _logged(self, no: int) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(self._mark(no).read_text())
        return 0

    def _by_number(self) -> list[int]:
        """Trials in the order of what was submitted."""
        return sorted(self.trials)

    def _stored(self, trial_id: int) -> int:
        with contextlib.suppress(Exception), self.stack.client() as client:
            return int(client.get(f"/trials/{trial_id}")["step"] or 0)
        return 0

    def _has_ended(self, trial_id: int) -> bool:
        with contextlib.suppress(Exception), self.stack.client() as client:
            return str(client.get(f"/trials/{trial_id}")["state"]) in ("COMPLETED", "FAILED")
        return False

    def _steps(self, trial_id: int) -> set[int]:
        headers = {"Authorization": f"Bearer {self.stack.access['token']}"}
        url = f"{self.stack.url}/api/v1/trials/{trial_id}/series.jsonl"
        reply = httpx.get(url, headers=headers, timeout=120, trust_env=False).raise_for_status()
        rows = (json.loads(line) for line in reply.text.splitlines())
        return {int(row["step"]) for row in rows if row["name"] == "value"}

    def _freeze(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._frozen.append(pid)

    def _let_go(self) -> None:
        frozen, self._frozen = self._frozen, []
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def measure(plane: ControlPlane, kind: Kind, away_s: float) -> None:
    """Take it away for so long and give it back."""
    plane.take_away(kind)
    try:
        time.sleep(away_s)
    finally:
        plane.give_back(kind)
