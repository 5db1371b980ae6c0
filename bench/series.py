"""How long the server takes for a window of a long series, against GROUP BY over rows.

    python bench/series.py [--database-url URL] [--points N] [--repeat N]
    python bench/series.py --cold [--points N] [--folder PATH] …

The time is that of the service and of encoding the answer, which is all of the request but HTTP.
--cold: 12 series of N points together leave the database for a Parquet file; charts before and after.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sqlalchemy import func, select, text
from timing import of, timed

from muster_server import clock
from muster_server.api.metrics import _columns, _json
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base, MetricBlockRow, MetricSeriesRow
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.db.queries.metrics_codec import Points, encode_block, encode_rollup, split_blocks
from muster_server.services.metrics import cold, compaction, cooling, ingest, series
from muster_server.settings import get_settings
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


COLD_SERIES = 12
FILL_POINTS = 409_600


def fill_blocks(database: Database, num_points: int) -> int:
    """Blocks of COLD_SERIES series of a trial that has ended, of num_points together; the trial's id."""
    Base.metadata.create_all(database.engine)
    rng = np.random.default_rng(1)
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        trial.ended_at = clock.now()
    each = num_points // COLD_SERIES
    for no in range(COLD_SERIES):
        with database.transaction() as session:
            row = MetricSeriesRow(
                trial_id=trial.id, attempt_no=1, rank=0, name=f"train/loss-{no:02}",
                count=each, first_step=1, last_step=each, last_time_ms=1, last_value=1.0,
            )  # fmt: skip
            session.add(row)
        for first in range(1, each + 1, FILL_POINTS):
            steps = np.arange(first, min(first + FILL_POINTS, each + 1))
            times_ms = 1_700_000_000_000 + steps * 140 + rng.integers(0, 9, len(steps))
            noise = rng.normal(0, 0.02, len(steps)).astype(np.float32)
            values = (2.0 * np.exp(-steps / each * 3) + noise).astype(np.float32)
            points = Points(steps, times_ms, values.astype(float))
            with database.transaction() as session:
                blocks_db.insert_blocks(
                    session,
                    [
                        {
                            "series_id": row.id,
                            "first_step": int(block.steps[0]),
                            "last_step": int(block.steps[-1]),
                            "first_time_ms": int(block.times_ms[0]),
                            "last_time_ms": int(block.times_ms[-1]),
                            "num_points": len(block),
                            "rollup": encode_rollup(block),
                            "data": encode_block(block),
                        }
                        for block in split_blocks(points)
                    ],
                )
        compaction._roll_up(database, [row.id])
    return trial.id


def measure_cold(database: Database, num_points: int, repeat: int) -> None:
    trial_id = fill_blocks(database, num_points)
    each = num_points // COLD_SERIES

    def chart(**window: int) -> bytes:
        with database.read() as session:
            begin_snapshot(session)
            reply = series.series(session, trial_id, names=None, ranks=[0], **window)
        return bytes(_json({"series": [_columns(s) for s in reply.series]}).body)

    windows = {
        "everything": {},
        "1,000 steps": {"from_step": each // 2, "to_step": each // 2 + 999},
    }
    warm = {
        label: (chart(**w), worked_ms(lambda w=w: chart(**w), repeat))
        for label, w in windows.items()
    }
    data, rest = _stored_bytes(database)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, worked = time.perf_counter(), time.process_time()
    done = cooling.cool_trial(database, trial_id, clock.now())
    took_s, worked_s = time.perf_counter() - began, time.process_time() - worked
    rise_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    assert done is not None
    n = done.num_points
    marks, _ = _stored_bytes(database)
    print(f"  {n:,} points in {COLD_SERIES} series, load {os.getloadavg()[0]:.1f}")
    print(
        f"  bytes a value: {data / n:.2f} in blocks, then {done.size_bytes / n:.2f} in the file; "
        f"{rest / n:.2f} stay in the database, with {marks / n:.4f} for places"
    )
    print(
        f"  moved in {took_s:.1f} s, {worked_s:.1f} s of a processor, {1e-6 * n / worked_s:.1f} million "
        f"a processor second; memory rose by {rise_mb:.0f} MB from {before_kb / 1024:.0f} MB"
    )
    for label, window in windows.items():
        first_ms, _ = worked_ms(lambda w=window: _first(chart, w), max(2, repeat // 5))
        median, p95 = worked_ms(lambda w=window: chart(**w), repeat)
        body, (warm_median, warm_p95) = warm[label]
        assert chart(**window) == body, "the answer has changed"
        print(
            f"  {label:>11}, {COLD_SERIES} series, processor time: {warm_median:.1f} ms (p95 {warm_p95:.1f}) before, "
            f"{median:.1f} ms (p95 {p95:.1f}) after, {median / warm_median:.2f} x; "
            f"{first_ms:.1f} ms when nothing is kept; n = {repeat}"
        )


def worked_ms(call: Callable[[], object], repeat: int) -> tuple[float, float]:
    """(median, 95th percentile) of what calls take of a processor: others may use the machine."""
    return of([_worked_s(call) for _ in range(repeat)])


def _worked_s(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _first(chart: Callable[..., bytes], window: dict[str, int]) -> None:
    cold._groups.clear()
    cold._footer.cache_clear()
    chart(**window)


def _stored_bytes(database: Database) -> tuple[int, int]:
    """(bytes of points, bytes of roll-ups) in blocks."""
    with database.read() as session:
        sums = (func.sum(func.length(c)) for c in (MetricBlockRow.data, MetricBlockRow.rollup))
        return tuple(session.execute(select(*sums)).one())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database-url", help="default: a new SQLite file")
    arguments.add_argument("--points", type=int, default=1_000_000)
    arguments.add_argument("--repeat", type=int, default=100)
    arguments.add_argument("--cold", action="store_true")
    arguments.add_argument("--folder", help="of the database and the file of --cold")
    given = arguments.parse_args()
    n = given.points
    if given.cold:
        print(f"{platform.machine()}, Python {platform.python_version()}")
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            os.environ["MUSTER_METRIC_COLD_URL"] = f"{folder}/cold"
            get_settings.cache_clear()
            database = Database(given.database_url or f"sqlite:///{folder}/bench.db")
            measure_cold(database, n, given.repeat)
            database.dispose()
        return
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
