"""How fast metrics go in and how small they lie, against the database's own bulk load.

    python bench/ingest.py [--database-url URL] [--points N]

Each shape is ingested record by record as the agent route does it (one transaction per request),
then compacted. The reference writes the same points as rows with the driver's executemany into a
table of the same database: the fastest portable way to store points as rows.
"""

from __future__ import annotations

import argparse
import math
import platform
import tempfile
import time
from pathlib import Path

from sqlalchemy import text

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base
from muster_server.services.metrics import compaction
from muster_server.services.metrics import ingest as metrics
from support.data import (
    add_attempt,
    add_experiment,
    add_trial,
    add_worker,
    metrics_record,
)

SHAPES = {
    "20 names x 50 steps per record, 1 record per request": (20, 50, 1),
    "20 names x 1 step per record, 50 records per request": (20, 1, 50),
    "20 names x 500 steps per record, 1 record per request": (20, 500, 1),
}


def measure(url: str, num_points: int, shape: tuple[int, int, int]) -> tuple[float, float, float]:
    """(ingest points/s, compaction points/s, bytes per point after compaction)"""
    names, steps, per_request = shape
    database = Database(url)
    Base.metadata.create_all(database.engine)
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        add_worker(session, allocation, 0)
    per_record = names * steps
    records = []
    for r in range(num_points // per_record):
        first = r * steps + 1
        records.append(
            metrics_record(
                {
                    f"group/metric_{n}": [
                        (s, 1 / s + n + 0.01 * math.sin(s * 12.9898))
                        for s in range(first, first + steps)
                    ]
                    for n in range(names)
                }
            )
        )
    start = time.perf_counter()
    for at in range(0, len(records), per_request):
        with database.transaction() as session:
            row = session.get_one(AllocationRow, allocation.id)
            for i, record in enumerate(records[at : at + per_request], at + 1):
                metrics.ingest(session, allocation=row, seq=i, record=record, at=clock.now())
    ingest_s = time.perf_counter() - start
    start = time.perf_counter()
    done = compaction.compact_trial(database, trial.id, clock.now())
    compact_s = time.perf_counter() - start
    with database.read() as session:
        stored = session.execute(
            text("SELECT sum(length(data)) + sum(length(rollup)) FROM metric_blocks")
        ).scalar_one()
    database.dispose()
    return done.num_points / ingest_s, done.num_points / compact_s, stored / done.num_points


def bulk_rows(url: str, num_points: int) -> float:
    """Points per second of plain rows, 10,000 per transaction."""
    database = Database(url)
    with database.transaction() as session:
        session.execute(text("DROP TABLE IF EXISTS bench_points"))
        session.execute(
            text(
                "CREATE TABLE bench_points (series integer, step bigint, time_ms bigint,"
                " value double precision, PRIMARY KEY (series, step))"
            )
        )
    mark = "?" if database.is_sqlite else "%s"
    statement = f"INSERT INTO bench_points VALUES ({mark}, {mark}, {mark}, {mark})"
    start = time.perf_counter()
    for at in range(0, num_points, 10_000):
        rows = [(i % 20, i // 20, i, 1.0 / (i + 1)) for i in range(at, at + 10_000)]
        with database.transaction() as session:
            cursor = session.connection().connection.cursor()
            cursor.executemany(statement, rows)
            cursor.close()
    seconds = time.perf_counter() - start
    with database.transaction() as session:
        session.execute(text("DROP TABLE bench_points"))
    database.dispose()
    return num_points / seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database-url", help="default: a new SQLite file")
    arguments.add_argument("--points", type=int, default=500_000)
    given = arguments.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, {given.points:,} points")
    for label, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            url = given.database_url or f"sqlite:///{Path(folder) / 'bench.db'}"
            points = given.points if shape[1] > 1 else given.points // 5
            reference = bulk_rows(url, points)
            ingest, compact, size = measure(url, points, shape)
        print(f"{label}:")
        print(
            f"  ingest {ingest:,.0f} points/s = {ingest / reference:.2f} x bulk-loading rows "
            f"({reference:,.0f}/s); compaction {compact:,.0f} points/s; "
            f"{size:.1f} bytes per point"
        )


if __name__ == "__main__":
    main()
