"""A job that logs thousands of names: what one transaction of the background does is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, func, select

from muster_server.db.deleting import ROWS_MAX
from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
)
from muster_server.db.pace import LOCK_TARGET_S, Pace
from muster_server.domain.metrics import BLOCK_POINTS
from muster_server.services.experiments import deletion
from muster_server.services.metrics import compaction, ingest
from muster_server.services.metrics import series as metrics_series
from muster_server.services.metrics.compaction import LATE_BLOCKS_MAX, SERIES_MAX
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

pytestmark = pytest.mark.both_databases

NUM_NAMES = SERIES_MAX + 900
NAMES = [f"layer/{n}/norm" for n in range(NUM_NAMES)]


class Trial:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.seq = 0
        with database.transaction() as session:
            experiment = add_experiment(session)
            trial = add_trial(session, experiment)
            (allocation,) = add_attempt(session, trial)
            self.id, self.allocation_id = trial.id, allocation.id
            self.experiment_id = experiment.id

    def report(self, points: dict[str, list[tuple[int, float]]]) -> None:
        self.seq += 1
        with self.database.transaction() as session:
            ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, self.allocation_id),
                seq=self.seq,
                record=metrics_record(points),
                at=NOW,
            )

    def compact(self, max_parts: int = 10_000) -> compaction.Compacted:
        return compaction.compact_trial(self.database, self.id, NOW, max_parts=max_parts)

    def values(self, names: list[str]) -> dict[str, list[tuple[int, float | str | None]]]:
        with self.database.read() as session:
            found = metrics_series.series(
                session, self.id, names=names, ranks=[0], max_points=10_000
            ).series
        return {s.name: list(zip(s.step, s.last, strict=True)) for s in found}


@contextmanager
def rows_per_transaction(database: Database) -> Iterator[list[Counter[str]]]:
    """What each write transaction inserted and deleted: "INSERT metric_blocks" → rows."""
    transactions: list[Counter[str]] = []

    def begin(_connection: Any) -> None:
        transactions.append(Counter())

    def execute(
        _conn: Any, cursor: Any, statement: str, parameters: Any, _ctx: Any, many: bool
    ) -> None:
        words = statement.split()
        if words[0] in ("INSERT", "DELETE", "UPDATE"):
            table = words[1] if words[0] == "UPDATE" else words[2]
            transactions[-1][f"{words[0]} {table}"] += (
                len(parameters) if many else max(cursor.rowcount, 0)
            )

    event.listen(database.engine, "begin", begin)
    event.listen(database.engine, "after_cursor_execute", execute)
    yield transactions
    event.remove(database.engine, "begin", begin)
    event.remove(database.engine, "after_cursor_execute", execute)


def test_a_transaction_of_compaction_writes_a_bounded_number_of_series(database: Database) -> None:
    trial = Trial(database)
    for step in (1, 2):
        trial.report({name: [(step, step / 2)] for name in NAMES})
    for expected_blocks in (NUM_NAMES, 0):  # nothing there, then a block to go on with
        with rows_per_transaction(database) as transactions:
            done = trial.compact()
        assert (done.is_done, done.num_points, done.num_batches) == (True, 2 * NUM_NAMES, 2)
        assert sum(t["DELETE metric_batches"] for t in transactions) == 2
        for count in transactions:
            assert count["INSERT metric_blocks"] <= SERIES_MAX
            assert count["UPDATE metric_series"] <= SERIES_MAX
        assert sum(t["INSERT metric_blocks"] for t in transactions) == NUM_NAMES
        with database.read() as session:
            assert session.scalar(select(func.count()).select_from(MetricBlockRow)) == NUM_NAMES
        if expected_blocks:
            for step in (3, 4):
                trial.report({name: [(step, step / 2)] for name in NAMES})
    some = NAMES[:: NUM_NAMES // 7]
    assert trial.values(some) == {name: [(s, s / 2) for s in (1, 2, 3, 4)] for name in some}


def test_compaction_killed_between_transactions_loses_and_doubles_nothing(
    database: Database,
) -> None:
    trial = Trial(database)
    for step in (1, 2, 3):
        trial.report({name: [(step, step / 2)] for name in NAMES})
    ends = [NAMES[0], NAMES[NUM_NAMES // 2], NAMES[-1], sorted(NAMES)[0], sorted(NAMES)[-1]]
    whole = {name: [(s, s / 2) for s in (1, 2, 3)] for name in ends}
    num_parts = 0
    while not trial.compact(max_parts=1).is_done:  # nothing is remembered from one to the next
        num_parts += 1
        assert trial.values(ends) == whole
        with database.read() as session:
            stored = session.scalar(select(func.sum(MetricBlockRow.num_points))) or 0
            waiting = session.scalar(select(func.sum(MetricBatchRow.num_points))) or 0
        assert stored + waiting == 3 * NUM_NAMES
        if num_parts == 1:
            trial.report({name: [(4, 2.0)] for name in ends})
            whole = {name: [*points, (4, 2.0)] for name, points in whole.items()}
            break
    assert num_parts == 1, "it was all one transaction"
    assert trial.compact().is_done
    assert trial.values(ends) == whole
    with database.read() as session:
        assert session.scalar(select(func.sum(MetricSeriesRow.count))) == 3 * NUM_NAMES + len(
            set(ends)
        )


def test_late_points_of_a_long_series_change_a_bounded_number_of_blocks(
    database: Database,
) -> None:
    trial = Trial(database)
    num_blocks = LATE_BLOCKS_MAX + 6
    for no in range(num_blocks):  # every second step, so that there is room between
        first = 2 * no * BLOCK_POINTS
        trial.report({"a": [(first + 2 * i, 1.0) for i in range(BLOCK_POINTS)]})
    assert trial.compact().is_done
    late = [(2 * no * BLOCK_POINTS + 1, 5.0) for no in range(num_blocks)]
    trial.report({"a": late})
    with rows_per_transaction(database) as transactions:
        assert trial.compact().is_done
    deleted = [t["DELETE metric_blocks"] for t in transactions if t["DELETE metric_blocks"]]
    assert sum(deleted) == num_blocks
    assert max(deleted) == LATE_BLOCKS_MAX
    with database.read() as session:
        stored = session.scalar(select(func.sum(MetricBlockRow.num_points)))
        (series,) = metrics_series.series(
            session, trial.id, names=["a"], ranks=[0], max_points=100
        ).series
    assert stored == num_blocks * (BLOCK_POINTS + 1) == series.num_points
    assert max(v for v in series.max if v is not None) == 5.0


def test_a_transaction_of_deletion_deletes_a_bounded_number_of_rows(database: Database) -> None:
    trial = Trial(database)
    trial.report({name: [(1, 1.0)] for name in NAMES})
    assert trial.compact().is_done
    with database.transaction() as session:
        session.get_one(ExperimentRow, trial.experiment_id).deleting_at = NOW
    with rows_per_transaction(database) as transactions:
        while not deletion.clear(database, for_s=60):
            pass  # the next round goes on where this one ended
    for count in transactions:
        assert sum(n for what, n in count.items() if what.startswith("DELETE")) <= ROWS_MAX
    assert sum(t["DELETE metric_series"] for t in transactions) == NUM_NAMES
    assert sum(t["DELETE metric_blocks"] for t in transactions) == NUM_NAMES  # none by a cascade
    with database.read() as session:
        assert session.get(ExperimentRow, trial.experiment_id) is None


def test_the_size_follows_from_how_long_the_lock_was_held() -> None:
    pace = Pace(1000, first=200, least=50)
    pace.took(4 * LOCK_TARGET_S)
    assert pace.size == 100
    pace.took(LOCK_TARGET_S / 1.5)
    assert pace.size == 150
    pace.took(0.0)
    assert pace.size == 300
    for _ in range(9):
        pace.took(0.0)
    assert pace.size == 1000
    for _ in range(9):
        pace.took(60.0)
    assert pace.size == 50
