"""How fast a script can log to MLflow's API, in a job and from outside, against MLflow's own server.

    python bench/tracking.py [--mlflow PYTHON] [--seconds S]

Prepared requests over kept connections, so that no client is measured: a single value per request,
and 1,000 per request. In a job, Muster's side is the job's own server with its spool on disk, in a
process of its own; from outside it is the API server of a `muster up` on SQLite. With --mlflow, the
interpreter of an environment that has MLflow, its server runs on SQLite with one worker and gets the
same requests; and MLflow's own client logs to each of the three, reads its values back and compares
them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import platform
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from muster import wire
from muster_agent.records.child_runs import ChildRuns
from muster_agent.records.points import NameRoutes
from muster_agent.records.spool import RecordWriter
from muster_agent.tracking.tracker import JobTracker
from support.stack import Stack

TOKEN = "muster-token-of-a-benchmark"
API = "/api/2.0/mlflow/runs"
BATCH = 1_000


def serve(folder: Path, sender: multiprocessing.connection.Connection) -> None:
    """Run the tracking server of one job until the process is ended."""

    async def run() -> None:
        (folder / "files").mkdir()
        spool = RecordWriter(folder / "records")

        def record(text: str, is_metrics: bool) -> None:
            spool.append_raw(text, is_metrics=is_metrics)

        tracker = JobTracker(
            make_spec(),
            token=TOKEN,
            record=record,
            child_runs=ChildRuns("bench", record),
            warn=print,
            members=lambda: (),
            names=NameRoutes(),
        )
        await tracker.listen()
        tracker.open(folder / "files")
        sender.send(tracker.uri)
        await asyncio.Event().wait()

    asyncio.run(run())


def make_spec() -> wire.AllocationSpec:
    return wire.AllocationSpec(
        allocation_id="a", experiment_id=1, experiment_name="bench", trial_id=1, trial_no=1,
        attempt_id=1, attempt_no=1, node_rank=0, num_nodes=1, slots=[0], slot_type="cpu",
        rank_offset=0, world_size=1, launcher="plain", entrypoint=["main.py"],
        code=wire.CodeSpec(kind="none"), python=None, environment={}, hparams={}, config={}, seed=0,
        checkpoint_dir="c", resume_from=None, resume_step=0, stop_grace_s=1.0,
        on_disconnect="continue", log_limit_bytes=1,
    )  # fmt: skip


@contextlib.contextmanager
def of_job() -> Iterator[tuple[str, str]]:
    """Yield the address and the token."""
    with tempfile.TemporaryDirectory() as folder:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(Path(folder), sender), daemon=True
        )
        process.start()
        try:
            yield receiver.recv(), TOKEN
        finally:
            process.terminate()
            process.join()


@contextlib.contextmanager
def of_server() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder) / "home", agents=1, slots=1)
        try:
            stack.start()
            yield f"{stack.url}/mlflow", stack.access["token"]
        finally:
            stack.close()


@contextlib.contextmanager
def of_mlflow(python: str) -> Iterator[tuple[str, str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
             "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
             "--artifacts-destination", f"{folder}/artifacts"],
            cwd=folder, start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health"):
                    break
                time.sleep(0.2)
            else:
                raise RuntimeError("MLflow's server did not start within two minutes")
            yield url, TOKEN
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def call(connection: http.client.HTTPConnection, token: str, path: str, body: bytes) -> bytes:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", path, body, headers)
    reply = connection.getresponse()
    data = reply.read()
    if reply.status != 200:
        raise RuntimeError(f"{path}: {reply.status} {data[:300]!r}")
    return data


def one(run_id: str, key: str, n: int) -> tuple[str, bytes]:
    body = {"run_id": run_id, "key": key, "value": 1 / (n + 1), "timestamp": n + 1, "step": n}
    return f"{API}/log-metric", json.dumps(body).encode()


def many(run_id: str, key: str, n: int) -> tuple[str, bytes]:
    first = n * BATCH
    metrics = [
        {"key": key, "value": 1 / (step + 1), "timestamp": step + 1, "step": step}
        for step in range(first, first + BATCH)
    ]
    return f"{API}/log-batch", json.dumps({"run_id": run_id, "metrics": metrics}).encode()


def measure(
    url: str,
    token: str,
    request: Callable[[str, str, int], tuple[str, bytes]],
    connections: int,
    seconds: float,
) -> float:
    """Requests per second over so many connections, each prepared before the clock starts."""
    host, _, prefix = url.removeprefix("http://").partition("/")
    prefix = prefix and f"/{prefix}"
    body = {"experiment_id": "0", "start_time": 1}
    opener = http.client.HTTPConnection(host)
    run_id = json.loads(call(opener, token, f"{prefix}{API}/create", json.dumps(body).encode()))
    run_id = run_id["run"]["info"]["run_id"]
    opener.close()
    num_prepared = int(seconds * (4_000 if request is one else 300))
    counts = [0] * connections
    start = threading.Barrier(connections + 1)

    def send(index: int) -> None:
        connection = http.client.HTTPConnection(host)
        key = f"{request.__name__}-{index}"
        prepared = [request(run_id, key, n) for n in range(num_prepared // connections)]
        start.wait()
        end = time.perf_counter() + seconds
        for path, data in prepared:
            call(connection, token, prefix + path, data)
            counts[index] += 1
            if time.perf_counter() > end:
                break
        connection.close()

    threads = [threading.Thread(target=send, args=(index,)) for index in range(connections)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


CLIENT = """
import json, sys, time
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

seconds, batch = float(sys.argv[1]), int(sys.argv[2])
client = MlflowClient()
run_id = client.create_run("0").info.run_id
told = {}
for size in (1, batch):
    key, sent = f"of-{size}", []
    end = (began := time.perf_counter()) + seconds
    while time.perf_counter() < end:
        first = len(sent)
        more = [Metric(key, 1 / (n + 1), n + 1, n) for n in range(first, first + size)]
        if size == 1:
            client.log_metric(run_id, key, more[0].value, more[0].timestamp, more[0].step)
        else:
            client.log_batch(run_id, metrics=more)
        sent += [(metric.step, metric.value) for metric in more]
    told[size] = len(sent) / (time.perf_counter() - began)
    kept = sorted((m.step, m.value) for m in client.get_metric_history(run_id, key))
    assert kept == sent, f"{len(kept)} of {len(sent)} values came back, or others"
print(json.dumps(list(told.values())))
"""


def measure_client(python: str, url: str, token: str, seconds: float) -> tuple[float, float]:
    """Values per second through MLflow's client, one value a call and a batch a call."""
    given = {"MLFLOW_TRACKING_URI": url, "MLFLOW_TRACKING_TOKEN": token, "DO_NOT_TRACK": "1"}
    command = [python, "-c", CLIENT, str(seconds), str(BATCH)]
    process = subprocess.run(
        command, env={**os.environ, **given}, stdout=subprocess.PIPE, check=True, text=True
    )
    single, batches = json.loads(process.stdout.splitlines()[-1])
    return single, batches


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--mlflow", metavar="PYTHON", help="interpreter with MLflow")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    servers = [("Muster, in a job", of_job()), ("Muster, from outside", of_server())]
    if options.mlflow:
        servers.append(("MLflow", of_mlflow(options.mlflow)))
    for name, server in servers:
        with server as (url, token):
            # First: a job reads back its first 500,000 values.
            if options.mlflow:
                single, batches = measure_client(options.mlflow, url, token, options.seconds)
                print(
                    f"{name}, MLflow's client: {single:,.0f} log_metric/s, "
                    f"{batches:,.0f} values/s in batches of {BATCH:,}, read back equal",
                    flush=True,
                )
            for connections in (1, 4):
                single = measure(url, token, one, connections, options.seconds)
                batches = measure(url, token, many, connections, options.seconds)
                print(
                    f"{name}, {connections} connections: {single:,.0f} log-metric/s, "
                    f"{batches * BATCH:,.0f} values/s in batches of {BATCH:,}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
