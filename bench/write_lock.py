"""How long the background keeps SQLite's write lock, seen by somebody else who wants it.

    python bench/write_lock.py [--names N] [--points N]

One trial logs N names, some points each, as records of all names at one step. While metrics are
compacted in one process, this one takes the lock again and again, as an API server does for agents,
and notes how long it waited. Then the same while the trial's experiment is deleted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.orm import Session

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base, ExperimentRow
from muster_server.services.experiments import deletion
from muster_server.services.metrics import compaction, ingest
from support.data import (
    add_attempt,
    add_experiment,
    add_trial,
    add_worker,
    metrics_record,
)


def log(database: Database, names: int, points: int) -> tuple[int, int]:
    """(trial, experiment) of a job that logged."""
    Base.metadata.create_all(database.engine)
    with database.transaction() as session:
        experiment = add_experiment(session)
        trial = add_trial(session, experiment)
        (allocation,) = add_attempt(session, trial)
        add_worker(session, allocation, 0)
    for step in range(1, points + 1):
        record = metrics_record({f"layer/{n}/norm": [(step, n / step)] for n in range(names)})
        with database.transaction() as session:
            row = session.get_one(AllocationRow, allocation.id)
            ingest.ingest(session, allocation=row, seq=step, record=record, at=clock.now())
    return trial.id, experiment.id


class Watched(Database):
    """Notes how long its transactions held the lock, by the clock and of this thread's own time."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.longest_s = self.longest_own_s = 0.0

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with super().transaction() as session:
            session.connection()  # takes the lock
            began, own = time.perf_counter(), time.thread_time()
            yield session
        self.longest_s = max(self.longest_s, time.perf_counter() - began)
        self.longest_own_s = max(self.longest_own_s, time.thread_time() - own)

    def tell(self) -> None:
        print(
            f"  longest transaction {1e3 * self.longest_s:.0f} ms, "
            f"processor's time of the longest {1e3 * self.longest_own_s:.0f} ms",
            flush=True,
        )


def compact(url: str, trial_id: int) -> None:
    database = Watched(url)
    assert compaction.compact_trial(database, trial_id, clock.now()).is_done
    database.tell()


def delete(url: str, experiment_id: int) -> None:
    database = Watched(url)
    with database.transaction() as session:
        session.get_one(ExperimentRow, experiment_id).deleting_at = clock.now()
    assert deletion.clear(database, only=experiment_id, for_s=3600)
    database.tell()


def waits_during(
    path: Path, work: Callable[[str, int], None], of: int
) -> tuple[float, list[float]]:
    """Seconds it took, and seconds of each wait for the lock meanwhile."""
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(f"sqlite:///{path}", of)
    )
    connection = sqlite3.connect(path, timeout=600, isolation_level=None)
    started = time.perf_counter()
    process.start()
    waits = []
    while process.is_alive():
        asked = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        waits.append(time.perf_counter() - asked)
        connection.execute("ROLLBACK")
        time.sleep(0.002)
    process.join()
    assert process.exitcode == 0
    return time.perf_counter() - started, waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=25_000)
    parser.add_argument("--points", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "muster.db"
        database = Database(f"sqlite:///{path}")
        trial_id, experiment_id = log(database, arguments.names, arguments.points)
        database.dispose()
        for what, work, of in (
            ("compaction", compact, trial_id),
            ("deletion", delete, experiment_id),
        ):
            seconds, waits = waits_during(path, work, of)
            waits.sort()
            print(
                f"{what}: {seconds:.1f} s; longest wait for the lock {1e3 * waits[-1]:.0f} ms, "
                f"99 % within {1e3 * waits[int(0.99 * len(waits))]:.0f} ms, "
                f"median {1e3 * statistics.median(waits):.1f} ms, of {len(waits):,}"
            )


if __name__ == "__main__":
    main()
