"""How long the server takes for a window of a long series, against GROUP BY over rows.

    python bench/series.py [--database-url URL] [--points N] [--repeat N]

The time is that of the service and of encoding the answer, which is all of the request but HTTP.
"""

from __future__ import annotations

import argparse
import gzip
import platform
import tempfile
from pathlib import Path

import numpy as np
from sqlalchemy import text
from timing import timed

from muster_server import clock
from muster_server.api.metrics import _columns, _json
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.services.metrics import compaction, ingest, series
from support.data import add_attempt, add_experiment, add_trial, metrics_record

NAME = "train/loss"


def fill(database: Database, num_points: int) -> int:
    """A compacted series of num_points and a tail of 600 points in 60 batches; the trial's id."""
    Base.metadata.create_all(database.engine)
    rng = np.random.default_rng(1)
    steps = np.arange(1, num_points + 601)
    noise = rng.normal(0, 0.02, len(steps)).astype(np.float32)
    values = (2.0 * np.exp(-steps / num_points * 3) + noise).tolist()
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
    seq = at = 0
    while at < len(values):
        size = 20_000 if at < num_points else 10
        seq += 1
        pairs = list(zip(range(at + 1, at + size + 1), values[at : at + size], strict=False))
        with database.transaction() as session:
            ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, allocation.id),
                seq=seq,
                record=metrics_record({NAME: pairs}),
                at=clock.now(),
            )
        at += size
        if at == num_points:
            compaction.compact_trial(database, trial.id, clock.now())
    return trial.id


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database-url", help="default: a new SQLite file")
    arguments.add_argument("--points", type=int, default=1_000_000)
    arguments.add_argument("--repeat", type=int, default=100)
    given = arguments.parse_args()
    n = given.points
    print(f"{platform.machine()}, Python {platform.python_version()}, a series of {n:,} points")
    with tempfile.TemporaryDirectory() as folder:
        database = Database(given.database_url or f"sqlite:///{Path(folder) / 'bench.db'}")
        trial_id = fill(database, n)

        def request(window: dict[str, int]) -> bytes:
            with database.read() as session:
                begin_snapshot(session)
                reply = series.series(
                    session, trial_id, names=[NAME], ranks=[0], max_points=1000, **window
                )
            return bytes(_json({"series": [_columns(s) for s in reply.series]}).body)

        windows: dict[str, dict[str, int]] = {
            "everything": {},
            "half": {"from_step": n // 4, "to_step": 3 * n // 4},
            "a tenth": {"from_step": n // 2, "to_step": n // 2 + n // 10},
            "500 points": {"from_step": n // 2, "to_step": n // 2 + 499},
        }
        p95s = []
        for label, window in windows.items():
            median, p95 = timed(lambda w=window: request(w), given.repeat)
            body = request(window)
            p95s.append(p95)
            print(
                f"  {label:>11}: median {median:6.1f} ms, p95 {p95:6.1f} ms, "
                f"{len(body) / 1e3:.0f} KB, {len(gzip.compress(body, 5)) / 1e3:.0f} KB gzip"
            )
        with database.transaction() as session:
            session.execute(text("DROP TABLE IF EXISTS bench_points"))
            session.execute(
                text("CREATE TABLE bench_points (step bigint PRIMARY KEY, value double precision)")
            )
            cursor = session.connection().connection.cursor()
            mark = "?" if database.is_sqlite else "%s"
            cursor.executemany(
                f"INSERT INTO bench_points VALUES ({mark}, {mark})",
                [(i, 1.0 / (i + 1)) for i in range(n)],
            )

        def rows() -> object:
            with database.read() as session:
                return session.execute(
                    text(
                        "SELECT step / 1024, min(value), max(value), avg(value), count(*)"
                        " FROM bench_points GROUP BY step / 1024"
                    )
                ).all()

        median, _ = timed(rows, 5)
        with database.transaction() as session:
            session.execute(text("DROP TABLE bench_points"))
        database.dispose()
    print(f"  GROUP BY over rows: {median:.0f} ms; everything is {median / p95s[0]:.0f} x faster")
    print(f"  worst p95 / goal of 30 ms: {max(p95s) / 30:.2f}")


if __name__ == "__main__":
    main()
