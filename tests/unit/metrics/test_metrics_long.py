"""Long series: spans of blocks, and points that come late, on a real database."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from sqlalchemy import func, select, text

from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    Base,
    ExperimentRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
    MetricSpanRow,
    TrialRow,
)
from muster_server.db.queries import metrics as queries
from muster_server.domain.metrics import BLOCK_POINTS, SPAN_BLOCKS
from muster_server.schemas.data import Series
from muster_server.services.experiments import deletion
from muster_server.services.metrics import compaction, export, ingest
from muster_server.services.metrics import series as metrics_series
from muster_server.services.metrics.curves import CurveSegment
from muster_server.services.metrics.loading import load
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

LOSS = "train/loss"
NUM_POINTS = (SPAN_BLOCKS + 2) * BLOCK_POINTS + 10


class Trial:
    """A trial that reports one series."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.seq = 0
        with database.transaction() as session:
            trial = add_trial(session, add_experiment(session))
            (allocation,) = add_attempt(session, trial)
            self.id, self.allocation_id = trial.id, allocation.id

    def report(self, steps: np.ndarray, values: np.ndarray) -> None:
        for at in range(0, len(steps), 50_000):
            self.seq += 1
            pairs = zip(
                steps[at : at + 50_000].tolist(), values[at : at + 50_000].tolist(), strict=True
            )
            with self.database.transaction() as session:
                ingest.ingest(
                    session,
                    allocation=session.get_one(AllocationRow, self.allocation_id),
                    seq=self.seq,
                    record=metrics_record({LOSS: list(pairs)}),
                    at=NOW,
                )

    def compact(self) -> None:
        assert compaction.compact_trial(self.database, self.id, NOW).is_done

    def read(self, **window: int) -> Series:
        with self.database.read() as session:
            (series,) = metrics_series.series(
                session, self.id, names=[LOSS], ranks=[0], **window
            ).series
        return series


@pytest.fixture(scope="module")
def long_trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """Compacted: one span, two blocks that are in none, and a last block of 10 points."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('long') / 'long.db'}")
    Base.metadata.create_all(database.engine)
    trial = Trial(database)
    trial.report(*curve(NUM_POINTS))
    trial.compact()
    yield trial
    database.dispose()


def curve(num: int) -> tuple[np.ndarray, np.ndarray]:
    steps = np.arange(1, num + 1)
    values = np.sin(steps / 5_000)
    values[num // 3] = 99.0
    values[num // 4] = -99.0
    values[num // 5] = math.nan
    return steps, values


def check_against(series: Series, steps: np.ndarray, values: np.ndarray) -> None:
    """That the buckets tell of exactly these points, and lie where they must."""
    keys = steps // series.bucket_steps
    borders = np.concatenate(([0], np.flatnonzero(np.diff(keys)) + 1))
    assert series.step == steps[np.append(borders[1:], len(steps)) - 1].tolist()
    assert series.min == np.fmin.reduceat(values, borders).tolist()
    assert series.max == np.fmax.reduceat(values, borders).tolist()
    assert sum(series.count) == series.num_points == len(steps)


def test_a_coarse_picture_is_read_from_spans_and_is_the_same(long_trial: Trial) -> None:
    steps, values = curve(NUM_POINTS)
    series = long_trial.read(max_points=100)
    assert series.bucket_steps == 4096
    check_against(series, steps, values)
    with long_trial.database.read() as session:
        (record,) = queries.find_series(session, [long_trial.id])
        segment = CurveSegment(record, 1, NUM_POINTS)
        assert [len(p.rollups) for p in load(session, [segment], [2048])] == [1 + 3]
        assert [len(p.rollups) for p in load(session, [segment], [512])] == [SPAN_BLOCKS + 3]


def test_an_export_holds_every_point(long_trial: Trial) -> None:
    steps, values = curve(NUM_POINTS)
    pieces = list(export.visible_pieces(long_trial.database, long_trial.id))
    assert len(pieces) > 1, "it is read piece by piece"
    assert np.array_equal(np.concatenate([piece.points.steps for piece in pieces]), steps)
    exported = np.concatenate([piece.points.values for piece in pieces])
    assert np.array_equal(exported, values, equal_nan=True)


@pytest.mark.parametrize(
    "window",
    [(5_000, NUM_POINTS), (1, NUM_POINTS - 9_000), (5_000, 100_000), (200_000, NUM_POINTS)],
    ids=["begins in a span", "ends in a block", "within a span", "leaves a span"],
)
@pytest.mark.parametrize("max_points", [10, 1000])
def test_any_window_shows_its_own_points_and_extremes(
    long_trial: Trial, window: tuple[int, int], max_points: int
) -> None:
    steps, values = curve(NUM_POINTS)
    first, last = window
    series = long_trial.read(from_step=first, to_step=last, max_points=max_points)
    assert len(series.step) <= max_points
    check_against(series, steps[first - 1 : last], values[first - 1 : last])


def test_a_late_point_within_a_span_shows_before_and_after_compaction(
    long_trial: Trial,
) -> None:
    """After the others: it changes the trial that they read."""
    steps, values = curve(NUM_POINTS)
    values[6_999] = -500.0
    long_trial.report(np.array([7_000]), np.array([-500.0]))
    check_against(long_trial.read(max_points=100), steps, values)
    long_trial.compact()
    check_against(long_trial.read(max_points=100), steps, values)
    with long_trial.database.read() as session:
        assert len(session.scalars(select(MetricSpanRow.first_step)).all()) == 1
        series = session.scalars(select(MetricSeriesRow)).one()
        assert (series.count, series.min_value) == (NUM_POINTS, -500.0)
        assert session.get_one(TrialRow, long_trial.id).summary[LOSS]["count"] == NUM_POINTS


def test_a_deleted_experiment_gives_its_pages_back(long_trial: Trial) -> None:
    """After the others: the trial is gone. SQLite writes the next metrics into these pages."""
    database = long_trial.database

    def pages_in_use() -> int:
        with database.read() as session:
            total = session.scalar(text("PRAGMA page_count"))
            free = session.scalar(text("PRAGMA freelist_count"))
        assert total is not None
        assert free is not None
        return int(total - free)

    with database.read() as session:
        blocks = session.scalar(select(func.sum(func.length(MetricBlockRow.data))))
        page_bytes = session.scalar(text("PRAGMA page_size"))
    assert blocks is not None
    before = pages_in_use()
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().deleting_at = NOW
    while not deletion.clear(database, for_s=60):
        pass  # the next round goes on where this one ended
    assert before - pages_in_use() >= blocks / page_bytes
    with database.read() as session:
        for row in (MetricBatchRow, MetricBlockRow, MetricSpanRow, MetricSeriesRow):
            assert session.scalar(select(func.count()).select_from(row)) == 0


def test_late_points_rewrite_only_the_blocks_in_which_they_land(database: Database) -> None:
    trial = Trial(database)
    even = np.arange(2, 2 * 5 * BLOCK_POINTS + 1, 2)
    trial.report(even, even / 2)
    trial.compact()
    with database.read() as session:
        before = dict(session.execute(select(MetricBlockRow.first_step, MetricBlockRow.data)).all())
    middle = 2 * (2 * BLOCK_POINTS) + 100
    late = np.concatenate(([1], np.arange(middle + 1, middle + 3_001, 2)))
    trial.report(late, late * 1.0)
    trial.compact()
    with database.read() as session:
        rows = session.execute(
            select(MetricBlockRow.first_step, MetricBlockRow.num_points, MetricBlockRow.data)
        ).all()
    after = {row.first_step: row.data for row in rows}
    unchanged = [first for first, data in after.items() if before.get(first) == data]
    assert len(unchanged) == 3, "two of five blocks got late points"
    assert min(row.num_points for row in rows) >= BLOCK_POINTS // 2
    expected = {**dict(zip(even.tolist(), (even / 2).tolist(), strict=True))}
    expected |= dict(zip(late.tolist(), late.tolist(), strict=True))
    window = trial.read(from_step=middle - 200, to_step=middle + 1_000, max_points=10_000)
    assert dict(zip(window.step, window.last, strict=True)) == {
        step: value for step, value in expected.items() if middle - 200 <= step <= middle + 1_000
    }
    assert trial.read(max_points=10).num_points == len(expected)
