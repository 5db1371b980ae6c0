"""How long a chart waits for its points over HTTP, beside MLflow and Aim with the same points.

    python bench/query.py [--points N] [--series N] [--each N] [--repeat N]
                          [--mlflow-python PATH] [--aim-python PATH]

One series of `points`, read in windows of any place and width; then `series` trials of `each` points
on one chart. Muster: a real server on SQLite, every answer read to its end. MLflow: its own server on
SQLite, the request of its own charts (get-history-bulk-interval), with the most points that it gives.
Aim: its own reader in the same process, without HTTP, whole series, since it has no windows; sampling
is its own. Rows are put into MLflow's database with SQL: only reading is measured here.

Give each its own environment, since their requirements exclude each other's:

    python -m venv /tmp/mlflow && /tmp/mlflow/bin/pip install mlflow
    python -m venv /tmp/aim && /tmp/aim/bin/pip install aim
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
from timing import of

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow
from muster_server.services.metrics import compaction, ingest
from support.data import add_attempt, add_experiment, add_trial, metrics_record
from support.processes import control_plane

NAME = "train/loss"
BATCH = 20_000
START_S = 120.0
"""MLflow's server imports for long."""
GOAL_P95_MS = 30.0
GOAL_KB = 40.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def curve(num: int, seed: int) -> list[float]:
    chance = np.random.default_rng(seed)
    values = 2.0 * np.exp(-3 * np.arange(num) / num) + chance.normal(0, 0.02, num)
    return [float(v) for v in values.astype(np.float32)]


def windows(num: int, repeat: int) -> list[tuple[int, int]]:
    """Places and widths from 100 steps to everything, equally often by order of magnitude."""
    chance = np.random.default_rng(7)
    out = [(0, num)]
    for _ in range(repeat - 1):
        width = min(num, round(100 * (num / 100) ** chance.random()))
        start = int(chance.integers(0, num - width + 1))
        out.append((start, start + width))
    return out


def fill(database: Database, num: int, seed: int) -> int:
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        trial_id, allocation_id = trial.id, allocation.id
    values = curve(num, seed)
    for seq, at in enumerate(range(0, num, BATCH), start=1):
        part = values[at : at + BATCH]
        with database.transaction() as session:
            ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, allocation_id),
                seq=seq,
                record=metrics_record({NAME: list(enumerate(part, start=at + 1))}),
                at=clock.now(),
            )
    compaction.compact_trial(database, trial_id, clock.now())
    return trial_id


def measured(
    name: str, ask: Callable[[tuple[int, int]], int], places: list[tuple[int, int]]
) -> None:
    """Times and sizes of `ask`, which answers how many bytes came."""
    ask(places[0])
    seconds, sizes = [], []
    for place in places:
        start = time.perf_counter()
        sizes.append(ask(place))
        seconds.append(time.perf_counter() - start)
    median, p95 = of(seconds)
    largest = f", largest answer {max(sizes) / 1e3:.0f} KB" if max(sizes) else ""
    print(f"  {name:34} median {median:8.1f} ms, p95 {p95:8.1f} ms, n {len(places)}{largest}")


def muster(given: argparse.Namespace) -> None:
    with control_plane("sqlite", controllers=0) as plane:
        long = fill(plane.database, given.points, 1)
        many = [fill(plane.database, given.each, no) for no in range(given.series)]
        (url,) = plane.urls.values()
        headers = {"Authorization": f"Bearer {plane.make_user_token()}", "Accept-Encoding": "gzip"}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:

            def get(path: str, query: list[tuple[str, str | int]]) -> int:
                with client.stream("GET", path, params=query) as reply:  # type: ignore[arg-type]
                    if reply.status_code != 200:
                        raise SystemExit(f"{path}: {reply.status_code} {reply.read()[:300]!r}")
                    return sum(len(part) for part in reply.iter_raw())

            def window(place: tuple[int, int]) -> int:
                edges = [("from_step", place[0] + 1), ("to_step", place[1])]
                return get(f"/api/v1/trials/{long}/series", [("name", NAME), ("rank", 0), *edges])

            measured("Muster, window", window, windows(given.points, given.repeat))
            trials: list[tuple[str, str | int]] = [("trial", one) for one in many]
            shape = [*trials, ("name", NAME), ("max_points", 300)]
            whole = [(0, given.each)] * max(2, given.repeat // 20)
            measured(f"Muster, {len(many)} series", lambda _: get("/api/v1/series", shape), whole)


MLFLOW_FILL = """
import sqlite3, sys, uuid, json
import numpy as np
from mlflow.tracking import MlflowClient
path, points, series, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
client = MlflowClient("sqlite:///" + path)
experiment = client.create_experiment("bench")
runs = [client.create_run(experiment).info.run_id for _ in range(series + 1)]
db = sqlite3.connect(path)
columns = [row[1] for row in db.execute("PRAGMA table_info(metrics)")]
assert {"key", "value", "timestamp", "run_uuid", "step", "is_nan"} <= set(columns), columns
def curve(num, seed):
    chance = np.random.default_rng(seed)
    return (2.0 * np.exp(-3 * np.arange(num) / num) + chance.normal(0, 0.02, num)).tolist()
for no, run in enumerate(runs):
    num = points if no == 0 else each
    db.executemany(
        "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)",
        (("train/loss", v, 1_700_000_000_000 + s, run, s) for s, v in enumerate(curve(num, no), 1)),
    )
    db.commit()
print(json.dumps(runs))
"""


def mlflow(given: argparse.Namespace, folder: Path) -> None:
    python = given.mlflow_python
    path = folder / "mlflow.db"
    sizes = [str(given.points), str(given.series), str(given.each)]
    done = subprocess.run(
        [python, "-c", MLFLOW_FILL, str(path), *sizes], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"MLflow failed:\n{done.stderr[-2000:]}")
    runs = json.loads(done.stdout.splitlines()[-1])
    port = free_port()
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{path}"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (folder / "mlflow.log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
                await_health(client, folder / "mlflow.log")
                path_of = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval"

                def get(query: list[tuple[str, str | int]]) -> int:
                    reply = client.get(path_of, params=query)  # type: ignore[arg-type]
                    if reply.status_code != 200:
                        raise SystemExit(f"MLflow: {reply.status_code} {reply.text[:300]}")
                    return len(reply.content)

                def window(place: tuple[int, int]) -> int:
                    edges = [("start_step", place[0] + 1), ("end_step", place[1])]
                    shape = [("run_ids", runs[0]), ("metric_key", NAME), ("max_results", 2500)]
                    return get([*shape, *edges])

                few = windows(given.points, max(10, given.repeat // 5))
                measured("MLflow, window", window, few)
                # Its charts ask for at most 100 runs at once.
                parts = [runs[1:][at : at + 100] for at in range(0, len(runs) - 1, 100)]

                def all_series(_: tuple[int, int]) -> int:
                    return sum(
                        get(
                            [
                                *(("run_ids", r) for r in part),
                                ("metric_key", NAME),
                                ("max_results", 300),
                            ]
                        )
                        for part in parts
                    )

                measured(f"MLflow, {len(runs) - 1} series", all_series, [(0, given.each)] * 2)
        finally:
            os.killpg(server.pid, 15)
            server.wait(60)


def await_health(client: httpx.Client, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise SystemExit(f"MLflow's server did not start:\n{log.read_text()[-2000:]}")


AIM_FILL = """
import sys, json
import numpy as np
from aim import Repo, Run
folder, points, series, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
Repo.from_path(folder, init=True)
def curve(num, seed):
    chance = np.random.default_rng(seed)
    return (2.0 * np.exp(-3 * np.arange(num) / num) + chance.normal(0, 0.02, num)).tolist()
hashes = []
for no in range(series + 1):
    run = Run(repo=folder, system_tracking_interval=None, log_system_params=False)
    for step, value in enumerate(curve(points if no == 0 else each, no), 1):
        run.track(value, name="loss", step=step)
    hashes.append(run.hash)
    run.close()
print(json.dumps(hashes))
"""
AIM_READ = """
import sys, time, json
from aim import Repo, Run
folder, points, hashes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
repo = Repo.from_path(folder)
repo._recreate_index()  # as its server does in the background
def read(hash_):
    for metric in Run(hash_, repo=repo, read_only=True).metrics():
        if metric.name == "loss":
            return len(metric.values.sparse_numpy()[1])
def timed(call, n):
    call(); out = []
    for _ in range(n):
        start = time.perf_counter(); call(); out.append(time.perf_counter() - start)
    return out
assert read(hashes[0]) == points
print(json.dumps({"one": timed(lambda: read(hashes[0]), 5), "many": timed(lambda: [read(h) for h in hashes[1:]], 2)}))
"""


def aim(given: argparse.Namespace, folder: Path) -> None:
    home = folder / "aim"
    home.mkdir()

    def ran(script: str, *arguments: object) -> str:
        """The last line that it prints. Another process reads: one that wrote finds nothing new."""
        command = [given.aim_python, "-c", script, str(home), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"Aim failed:\n{done.stderr[-2000:]}")
        return done.stdout.splitlines()[-1]

    hashes = ran(AIM_FILL, given.points, given.series, given.each)
    taken = json.loads(ran(AIM_READ, given.points, hashes))
    for label, seconds in (
        ("whole series", taken["one"]),
        (f"{given.series} series", taken["many"]),
    ):
        median, p95 = of(seconds)
        print(
            f"  {'Aim, ' + label:34} median {median:8.1f} ms, p95 {p95:8.1f} ms, n {len(seconds)}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--points", type=int, default=1_000_000)
    arguments.add_argument("--series", type=int, default=200)
    arguments.add_argument("--each", type=int, default=100_000)
    arguments.add_argument("--repeat", type=int, default=200, help="windows, at least 40")
    arguments.add_argument("--mlflow-python", help="an interpreter that has mlflow")
    arguments.add_argument("--aim-python", help="an interpreter that has aim")
    given = arguments.parse_args()
    if given.points < 1000 or given.each < 1000 or given.repeat < 40 or given.series < 1:
        sys.exit("query.py: --points and --each from 1000, --repeat from 40, --series from 1")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{platform.machine()}, Python {platform.python_version()}, SQLite, {load}")
    print(f"{given.points:,} points; {given.series} x {given.each:,} points")
    print(f"goal: p95 {GOAL_P95_MS:.0f} ms and {GOAL_KB:.0f} KB for a window")
    muster(given)
    with tempfile.TemporaryDirectory() as folder:
        if given.mlflow_python:
            mlflow(given, Path(folder))
        if given.aim_python:
            aim(given, Path(folder))
    print(f"at the end: load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
