"""Whether a value that was acknowledged is ever lost or doubled when the API server is killed.

    python bench/recovery/killed_ingest.py [--kills N] [--values V] [--database sqlite|postgres]

A real `muster up`. Values come by each path at once: a job on an agent logs 20 names a step; from
outside, four connections log single values and one logs batches of 1,000 over MLflow's API, and a
search is told values. A client sends a request again until it is answered. The API server is killed
(SIGKILL) N times, at random moments, while at least V values arrive. At the end every point is read
back.

Exits 1 when a value is missing, is there twice or is another one.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import platform
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from support.postgres import find_binaries, private_postgres
from support.stack import Stack, wait_for

NAMES = 20
BATCH = 1_000
SINGLES = 4
MLFLOW = "/mlflow/api/2.0/mlflow/runs"
TRAINING = f"""
import pathlib, sys, time
import muster

stop, mark = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
muster.init()
step = 0
while not stop.exists():
    muster.log({{f"m{{no}}": step + no / 1000 for no in range({NAMES})}}, step=step)
    step += 1
    time.sleep(0.005)
mark.write_text(str(step))
"""


class Sender(threading.Thread):
    """Sends requests one after another, each until it is answered, and counts the values."""

    def __init__(
        self,
        stack: Stack,
        requests: Iterator[tuple[str, dict[str, Any], int]],
        stop: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self._address = stack.url.removeprefix("http://")
        self._token = stack.access["token"]
        self._requests = requests
        self._stopped = stop
        self.num_values = self.num_requests = self.num_repeated = 0
        self.problem = ""

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        for path, body, num_values in self._requests:
            if self._stopped.is_set():
                break
            while not self.problem:
                try:
                    connection.request("POST", path, json.dumps(body), {
                        "Authorization": f"Bearer {self._token}", "Content-Type": "application/json",
                    })  # fmt: skip
                    reply = connection.getresponse()
                    text = reply.read()
                except (OSError, http.client.HTTPException):
                    connection.close()
                    self.num_repeated += 1
                    time.sleep(0.02)
                    continue
                if reply.status == 200:
                    break
                if reply.status < 500:
                    self.problem = f"{path}: {reply.status} {text[:300]!r}"
                time.sleep(0.02)
            self.num_requests += 1
            self.num_values += num_values
        connection.close()


def singles(run: str, key: str) -> Iterator[tuple[str, dict[str, Any], int]]:
    for n in itertools.count():
        body = {"run_id": run, "key": key, "value": n / 7, "timestamp": n + 1, "step": n}
        yield f"{MLFLOW}/log-metric", body, 1


def batches(run: str) -> Iterator[tuple[str, dict[str, Any], int]]:
    for n in itertools.count():
        steps = range(n * BATCH, (n + 1) * BATCH)
        metrics = [{"key": "b", "value": s / 7, "timestamp": s + 1, "step": s} for s in steps]
        yield f"{MLFLOW}/log-batch", {"run_id": run, "metrics": metrics}, BATCH


def told(experiment_id: int, trial_no: int) -> Iterator[tuple[str, dict[str, Any], int]]:
    path = f"/api/v1/experiments/{experiment_id}/search:tell"
    for n in itertools.count(1):
        yield path, {"no": trial_no, "metrics": {"loss": n / 7}, "units": n}, 1


class Scene:
    """What sends values while the server is killed."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._end, self._mark = stack, folder / "end", folder / "steps"
        self._stop = threading.Event()
        code = folder / "code"
        code.mkdir()
        (code / "train.py").write_text(TRAINING)
        self._job = self._submit(
            {"name": "job", "entrypoint": ["train.py", str(self._end), str(self._mark)],
             "launcher": "direct", "code": {"path": "."}},
            code,
        )  # fmt: skip
        self._search = self._submit(
            {"name": "told", "hyperparameters": {"lr": {"uniform": [0, 1]}},
             "search": {"method": "random", "runner": "external", "metric": "loss", "goal": "min",
                        "trials": 1, "max_length": {"steps": 1_000_000_000}}},
            code,
        )  # fmt: skip
        path = f"/api/v1/experiments/{self._search}/search:ask"
        no = self._post(path, {"by": "bench"})["trials"][0]["no"]
        self._runs = {name: self._create_run(name) for name in ("singles", "batches")}
        sources = {f"s{no}": singles(self._runs["singles"], f"s{no}") for no in range(SINGLES)}
        sources["b"] = batches(self._runs["batches"])
        sources["loss"] = told(self._search, no)
        self._senders = {key: Sender(stack, of, self._stop) for key, of in sources.items()}
        for sender in self._senders.values():
            sender.start()

    def num_requests(self) -> list[int]:
        """Requests of each sender that were answered."""
        return [sender.num_requests for sender in self._senders.values()]

    def num_values(self) -> int:
        """Values from outside that were acknowledged. Raises SystemExit for a refused request."""
        for sender in self._senders.values():
            if sender.problem:
                raise SystemExit(sender.problem)
        return sum(sender.num_values for sender in self._senders.values())

    def finish(self) -> list[str]:
        """End everything, read all points back, and return what does not hold."""
        self._stop.set()
        self._end.touch()
        for sender in self._senders.values():
            sender.join(60)
        num_steps = int(wait_for("the job ends", self._steps, 600))
        problems = []
        num_repeated = sum(sender.num_repeated for sender in self._senders.values())
        say(
            f"{self.num_values():,} values acknowledged outside, {num_repeated:,} requests repeated"
        )
        with self._stack.client() as client:
            trials = {
                item["name"]: next(iter(client.pages(f"/experiments/{item['id']}/trials")))["id"]
                for item in client.pages("/experiments")
            }
            wait_for(
                "the job's last step is stored",
                lambda: client.get(f"/trials/{trials['job']}")["step"] == num_steps - 1,
                600,
            )
        expected = {
            "job": {f"m{no}": (0, num_steps, _of_job(no)) for no in range(NAMES)},
            "singles": {
                f"s{no}": (0, self._senders[f"s{no}"].num_values, _seventh) for no in range(SINGLES)
            },
            "batches": {"b": (0, self._senders["b"].num_values, _seventh)},
            "told": {"loss": (1, self._senders["loss"].num_values, _seventh)},
        }
        for name, series in expected.items():
            problems += self._compare(name, trials[name], series)
        return problems

    def _compare(
        self, name: str, trial_id: int, expected: dict[str, tuple[int, int, Callable[[int], float]]]
    ) -> list[str]:
        seen: dict[str, dict[int, int]] = {key: {} for key in expected}
        wrong = 0
        headers = {"Authorization": f"Bearer {self._stack.access['token']}"}
        url = f"{self._stack.url}/api/v1/trials/{trial_id}/series.jsonl"
        with httpx.stream("GET", url, headers=headers, timeout=120, trust_env=False) as reply:
            reply.raise_for_status()
            for line in reply.iter_lines():
                row = json.loads(line)
                if (key := row["name"]) not in seen:
                    continue
                seen[key][row["step"]] = seen[key].get(row["step"], 0) + 1
                wrong += row["value"] != expected[key][2](row["step"])
        problems = [f"{name}: {wrong} values are others"] if wrong else []
        for key, (first, num, _) in expected.items():
            lost = sum(step not in seen[key] for step in range(first, first + num))
            twice = sum(count > 1 for count in seen[key].values())
            if lost or twice:
                problems.append(
                    f"{name}: of {num:,} values of {key} {lost} are lost, {twice} doubled"
                )
        say(f"{name}: {sum(map(len, seen.values())):,} points read back")
        return problems

    def _steps(self) -> str | None:
        with contextlib.suppress(OSError):
            return self._mark.read_text() or None
        return None

    def _submit(self, document: dict[str, Any], code: Path) -> int:
        (code / "muster.yaml").write_text(json.dumps(document))
        done = self._stack.cli("submit", str(code / "muster.yaml"))
        if done.returncode != 0:
            raise SystemExit(f"submit failed:\n{done.stdout}{done.stderr}")
        with self._stack.client() as client:
            return max(int(item["id"]) for item in client.pages("/experiments"))

    def _create_run(self, name: str) -> str:
        made = self._post(f"{MLFLOW}/create", {"experiment_id": "0", "run_name": name})
        return str(made["run"]["info"]["run_id"])

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {self._stack.access['token']}"}
        reply = httpx.post(f"{self._stack.url}{path}", json=body, headers=headers, trust_env=False)
        reply.raise_for_status()
        return reply.json()


def _seventh(step: int) -> float:
    return step / 7


def _of_job(no: int) -> Callable[[int], float]:
    return lambda step: step + no / 1000


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    arguments.add_argument("--kills", type=int, default=100)
    arguments.add_argument(
        "--values", type=int, default=1_000_000, help="least number from outside"
    )
    arguments.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    given = arguments.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, {given.database}, "
          f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")  # fmt: skip
    with contextlib.ExitStack() as undo:
        folder = Path(undo.enter_context(TemporaryDirectory(prefix="muster-killed-")))
        server = {"MUSTER_NODE_LOST_S": "600"}
        if given.database == "postgres":
            binaries = find_binaries()
            if binaries is None:
                raise SystemExit("there is no PostgreSQL on this machine: initdb is not found")
            private = undo.enter_context(private_postgres(binaries, is_durable=True))
            server["MUSTER_DATABASE_URL"] = private.url
        environment = dict.fromkeys(("server", "controller", "worker"), server)
        stack = Stack(folder / "home", agents=1, slots=1, environment=environment)
        undo.callback(stack.close)
        stack.start()
        scene = Scene(stack, folder)
        random.seed(7)
        for kill in range(1, given.kills + 1):
            before = scene.num_requests()
            wait_for(
                "each sender is answered",
                lambda before=before: (
                    scene.num_values()
                    and all(
                        now > was + 2 for now, was in zip(scene.num_requests(), before, strict=True)
                    )
                ),
                300,
            )
            time.sleep(random.uniform(0, 0.5))
            stack.kill_part("server")
            if kill % 10 == 0:
                say(f"killed {kill} times, {scene.num_values():,} values")
        wait_for("the other values", lambda: scene.num_values() >= given.values, 3_600)
        problems = scene.finish()
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print(f"{given.kills} kills, {len(problems)} problems; load {os.getloadavg()[0]:.1f}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
