"""Metric values per second over HTTP until they are durable, beside bulk load and MLflow.

    python bench/ingest_http.py [--values N] [--database KIND] [--mlflow-python PATH]

One agent sends batches to an API server of its own; an answer means that they are committed
(SQLite: synchronous=FULL; PostgreSQL: its defaults). Batches are encoded beforehand, as an agent's
spool holds them. Then everything is compacted, as the Celery worker does it, and what it takes on
disk is looked up. References, in the same run and on the same database: its own bulk load
(SQLite: executemany, PostgreSQL: COPY of text made beforehand), 10,000 rows per transaction; and
MLflow's `log_batch`, 1,000 metrics per call, called in its process without HTTP. For MLflow, install
it in an environment of its own and name its Python:

    python -m venv /tmp/mlflow && /tmp/mlflow/bin/pip install mlflow-skinny sqlalchemy alembic \\
        pandas "psycopg[binary]"
    python bench/ingest_http.py --mlflow-python /tmp/mlflow/bin/python
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import httpx
from sqlalchemy import create_engine, make_url, text

from muster.wire import MetricsRecord, NumberedRecord, RecordsReply, load
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.services.metrics import compaction
from support.agent import FakeAgent
from support.data import metrics_record
from support.processes import ControlPlane, Kind, control_plane, wait_until

NUM_NAMES = 20
SHAPES = {
    "1 record of 20 names x 50 steps per request": (50, 1),
    "10 records of 20 names x 50 steps per request": (50, 10),
    "100 records of 20 names x 50 steps per request, an agent that catches up": (50, 100),
    "50 records of 20 names x 1 step per request": (1, 50),
}
BEAT_S = 5.0
TABLES = ("metric_batches", "metric_blocks", "metric_spans", "metric_series")
MLFLOW = """
import sys, time
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
run = client.create_run(client.create_experiment("bench")).info.run_id
num = int(sys.argv[2])
batches = [
    [Metric(f"m{i % 20}", 1.0 / (i + 1), i, i // 20) for i in range(at, at + 1000)]
    for at in range(0, num, 1000)
]
start = time.perf_counter()
for batch in batches:
    client.log_batch(run, metrics=batch)
print("rate", num / (time.perf_counter() - start))
"""


class Trial:
    """A trial of one slot that an agent reports for."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.user_token = plane.make_user_token()
        url = next(iter(plane.urls.values()))
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=120)
        self.agent = FakeAgent(
            lambda secret: httpx.Client(
                base_url=url,
                trust_env=False,
                timeout=120,
                headers={"Authorization": f"Bearer {secret}"},
            ),
            plane.make_join_token(uses=1),
            "bench",
            slots=1,
        )
        self.agent.register()
        document = {
            "name": "bench",
            "entrypoint": ["-m", "simulated"],
            "launcher": "direct",
            "resources": {"slots": 1},
        }
        reply = self.http.post(
            "/api/v1/experiments",
            json={"document": json.dumps(document)},
            headers={"Authorization": f"Bearer {self.user_token}"},
        )
        if reply.status_code >= 300:
            raise SystemExit(f"submit: {reply.status_code} {reply.text}")
        self.allocation_id = wait_until("an allocation", lambda: next(iter(self.poll()), None))
        self.id = self.agent.specs[self.allocation_id].spec.trial_id
        self.seq = self.step = 0

    def poll(self) -> dict[str, object]:
        self.agent.beat()
        return dict(self.agent.poll())

    def requests(self, num_values: int, steps: int, records: int) -> list[bytes]:
        return [
            self._request([self._record(steps) for _ in range(records)])
            for _ in range(max(1, num_values // (NUM_NAMES * steps * records)))
        ]

    def send(self, bodies: list[bytes]) -> float:
        """Seconds until the last is acknowledged."""
        path = f"/agent/v1/allocations/{self.allocation_id}/records"
        headers = {"Content-Type": "application/json"}
        start = beaten = time.perf_counter()
        for body in bodies:
            reply = self.agent.client.post(path, content=body, headers=headers)
            if reply.status_code != 200:
                raise SystemExit(f"records: {reply.status_code} {reply.text[:500]}")
            acked = load(RecordsReply, reply.json()).acked_seq
            if time.perf_counter() - beaten > BEAT_S:
                self.agent.beat()
                beaten = time.perf_counter()
        took_s = time.perf_counter() - start
        if acked != self.seq:
            raise SystemExit(f"acknowledged up to {acked}, not {self.seq}")
        return took_s

    def compact(self) -> float:
        start = time.perf_counter()
        compaction.compact_trial(self.plane.database, self.id, clock.now())
        return time.perf_counter() - start

    def _record(self, steps: int) -> MetricsRecord:
        first = self.step + 1
        self.step += steps
        return metrics_record(
            {
                f"group/metric_{n}": [
                    (s, 1 / s + n + 0.01 * math.sin(s * 12.9898))
                    for s in range(first, self.step + 1)
                ]
                for n in range(NUM_NAMES)
            }
        )

    def _request(self, records: list[MetricsRecord]) -> bytes:
        numbered = []
        for record in records:
            self.seq += 1
            numbered.append(asdict(NumberedRecord(seq=self.seq, at_ms=0, record=record)))
        return json.dumps(
            {
                "node_id": self.agent.node_id,
                "session_epoch": self.agent.epoch,
                "attempt_no": self.agent.specs[self.allocation_id].spec.attempt_no,
                "records": numbered,
            }
        ).encode()


def bulk_rate(database: Database, num_rows: int) -> float:
    """Rows per second of the database's own bulk load."""
    with database.transaction() as session:
        session.execute(
            text(
                "CREATE TABLE bench_points (series integer, step bigint, time_ms bigint,"
                " value double precision, PRIMARY KEY (series, step))"
            )
        )
    batches = [
        [(i % NUM_NAMES, i // NUM_NAMES, i, 1.0 / (i + 1)) for i in range(at, at + 10_000)]
        for at in range(0, num_rows, 10_000)
    ]
    lines = ["".join("\t".join(map(str, row)) + "\n" for row in batch) for batch in batches]
    start = time.perf_counter()
    for batch, line in zip(batches, lines, strict=True):
        with database.transaction() as session:
            cursor = session.connection().connection.cursor()
            if database.is_sqlite:
                cursor.executemany("INSERT INTO bench_points VALUES (?, ?, ?, ?)", batch)
            else:
                with cursor.copy("COPY bench_points FROM STDIN") as copy:
                    copy.write(line)
            cursor.close()
    took_s = time.perf_counter() - start
    with database.transaction() as session:
        session.execute(text("DROP TABLE bench_points"))
    return len(batches) * 10_000 / took_s


def bytes_on_disk(database: Database) -> int:
    """Of the tables of metrics with their indexes. SQLite: of all pages in use."""
    with database.read() as session:
        if database.is_sqlite:
            pages, free, size = (
                session.execute(text(f"PRAGMA {name}")).scalar_one()
                for name in ("page_count", "freelist_count", "page_size")
            )
            return int((pages - free) * size)
        return sum(
            session.execute(text(f"SELECT pg_total_relation_size('{table}')")).scalar_one()
            for table in TABLES
        )


def vacuum(database: Database) -> None:
    if not database.is_sqlite:
        with database.engine.connect() as connection:
            autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
            for table in TABLES:
                autocommit.exec_driver_sql(f"VACUUM {table}")


def mlflow_rate(python: str, database: Database, num: int) -> tuple[float, float]:
    """(values per second, bytes per value on disk) of MLflow on the same database server."""
    if database.is_sqlite:
        path = f"{database.url.database}.mlflow"
        url = f"sqlite:///{path}"
    else:
        engine = create_engine(database.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE mlflow"))
        engine.dispose()
        url = database.url.set(database="mlflow").render_as_string(hide_password=False)

    def run(num_values: int) -> float:
        done = subprocess.run(
            [
                python,
                "-c",
                MLFLOW.replace('"bench"', f'"bench-{num_values}"'),
                url,
                str(num_values),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"MLflow failed:\n{done.stderr[-2000:]}")
        return float(done.stdout.split("rate")[-1])

    def size() -> int:
        if database.is_sqlite:
            return sum(f.stat().st_size for f in Path(path).parent.glob(f"{Path(path).name}*"))
        engine = create_engine(make_url(url))
        with engine.connect() as connection:
            found = connection.execute(text("SELECT pg_total_relation_size('metrics')"))
            total = int(found.scalar_one())
        engine.dispose()
        return total

    run(1000)  # makes its tables
    before = size()
    rate = run(num)
    return rate, (size() - before) / num


def measure(kind: Kind, given: argparse.Namespace) -> None:
    with control_plane(kind, settings={"MUSTER_NODE_LOST_S": "3600"}) as plane:
        trial = Trial(plane)
        database = plane.database
        trial.send(trial.requests(20_000, 50, 1))
        trial.compact()
        bulk = bulk_rate(database, given.values)
        print(f"{kind}: bulk load {bulk:,.0f} rows/s, load {os.getloadavg()[0]:.1f}")
        mlflow = None
        if given.mlflow_python:
            mlflow, size = mlflow_rate(given.mlflow_python, database, given.mlflow_values)
            print(f"  MLflow log_batch {mlflow:,.0f} values/s, {size:.0f} bytes per value")
        vacuum(database)
        before = bytes_on_disk(database)
        num = 0
        for label, (steps, records) in SHAPES.items():
            bodies = trial.requests(
                given.values if steps > 1 else given.values // 5, steps, records
            )
            values = len(bodies) * NUM_NAMES * steps * records
            used = plane.usage()["server-1"].cpu_s
            rate = values / trial.send(bodies)
            used = plane.usage()["server-1"].cpu_s - used
            num += values
            beside = f", {rate / mlflow:.0f} x MLflow" if mlflow else ""
            print(
                f"  {label}: {rate:,.0f} values/s = {rate / bulk:.2f} x bulk load{beside}; "
                f"{1e6 * used / values:.1f} us of the server's processor a value"
            )
            print(f"    compaction {values / trial.compact():,.0f} values/s")
        vacuum(database)
        size = (bytes_on_disk(database) - before) / num
        print(f"  on disk {size:.1f} bytes per value, compacted; load {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, default=500_000, help="per shape")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--mlflow-python", help="of an environment that has MLflow")
    parser.add_argument("--mlflow-values", type=int, default=20_000)
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    kinds: list[Kind] = ["sqlite", "postgres"] if given.database == "both" else [given.database]
    for kind in kinds:
        measure(kind, given)


if __name__ == "__main__":
    main()
