"""Downsampling: what it keeps of any curve, and what is said of it afterwards."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, EventRow, MetricBlockRow, TrialRow
from muster_server.db.queries.metrics_codec import (
    Points,
    as_entries,
    bucketed,
    decode_block,
    downsample,
    encode_block,
    is_downsampled,
)
from muster_server.schemas.data import Series
from muster_server.services.metrics import compaction, export, ingest, retention
from muster_server.services.metrics import series as metrics_series
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

LOSS, SHORT = "train/loss", "val/loss"
NUM_POINTS = 9_000
LATER = NOW + dt.timedelta(days=31)

values = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 7.0])
)


@st.composite
def curves(draw: st.DrawFn) -> Points:
    steps = sorted(draw(st.sets(st.integers(0, 5_000), min_size=1, max_size=200)))
    drawn = draw(st.lists(values, min_size=len(steps), max_size=len(steps)))
    return Points(np.array(steps), np.array(steps) * 10, np.array(drawn, float))


@given(curves(), st.integers(0, 12), st.one_of(st.none(), st.integers(0, 5_000)))
def test_every_bucket_keeps_its_extremes_its_ends_and_what_is_not_finite(
    points: Points, log_width: int, cut: int | None
) -> None:
    width = 1 << log_width
    kept = downsample(points, width, cut)
    # Real points of the curve, in order, few a bucket.
    where = np.searchsorted(points.steps, kept.steps)
    assert (points.steps[where] == kept.steps).all()
    assert np.array_equal(points.values[where], kept.values, equal_nan=True)
    parts = [(points, kept)]
    if cut is not None:
        parts = [
            (p.between(a, b), k.between(a, b))
            for p, k in parts
            for a, b in ((0, cut), (cut + 1, 9_999))
        ]
    for before, after in parts:
        whole, left = bucketed(as_entries(before), width), bucketed(as_entries(after), width)
        for column in ("step", "time_ms", "min", "max", "last"):
            assert np.array_equal(whole[column], left[column], equal_nan=True), column
        had = whole["count"] > whole["num_finite"]
        assert np.array_equal(had, left["count"] > left["num_finite"])
        assert (left["count"] <= 5).all()
    assert len(downsample(kept, width, cut)) == len(kept)


@given(curves())
def test_a_downsampled_block_says_so(points: Points) -> None:
    assert not is_downsampled(encode_block(points))
    data = encode_block(points, is_downsampled=True)
    assert is_downsampled(data)
    assert np.array_equal(decode_block(data).values, points.values, equal_nan=True)


class Trial:
    """A trial that has ended, with a long series and a short one."""

    def __init__(self, database: Database, curve: np.ndarray) -> None:
        self.database, self.seq = database, 0
        with database.transaction() as session:
            trial = add_trial(session, add_experiment(session))
            (allocation,) = add_attempt(session, trial)
            self.id, self.allocation_id = trial.id, allocation.id
        self.report(LOSS, 1, curve)
        self.report(SHORT, 1, curve[:500])
        self.end()

    def report(self, name: str, first_step: int, curve: np.ndarray) -> None:
        self.seq += 1
        with self.database.transaction() as session:
            ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, self.allocation_id),
                seq=self.seq,
                record=metrics_record({name: list(enumerate(curve.tolist(), start=first_step))}),
                at=NOW,
            )

    def end(self) -> None:
        with self.database.transaction() as session:
            trial = session.get_one(TrialRow, self.id)
            trial.state, trial.ended_at = "COMPLETED", NOW
        assert compaction.compact_trial(self.database, self.id, NOW).is_done

    def age(self, **more: float) -> retention.Downsampled:
        return retention.downsample_old(self.database, LATER, days=30, **more)

    def read(self, name: str = LOSS, **window: int) -> Series:
        with self.database.read() as session:
            (series,) = metrics_series.series(
                session, self.id, names=[name], ranks=[0], **window
            ).series
        return series

    def num_raw_blocks(self) -> int:
        with self.database.read() as session:
            blocks = session.scalars(select(MetricBlockRow.data)).all()
        return sum(not is_downsampled(data) for data in blocks)


def noisy(num: int, seed: int = 1) -> np.ndarray:
    curve = np.random.default_rng(seed).normal(0, 1, num)
    curve[num // 3], curve[num // 2], curve[num // 5] = 99.0, -99.0, math.nan
    return curve


@pytest.fixture
def old(database: Database) -> Trial:
    return Trial(database, noisy(NUM_POINTS))


def test_the_whole_curve_looks_as_before_and_takes_little(old: Trial) -> None:
    before, short = old.read(max_points=70), old.read(SHORT)
    with old.database.read() as session:
        plan = retention.plan(session, LATER, metric_days=30, log_days=None).metrics
    done = old.age()
    assert done.num_trials == 1
    assert old.read(max_points=70) == before
    assert (min(filter(None, before.min)), max(filter(None, before.max))) == (-99.0, 99.0)
    assert old.read(SHORT) == short
    assert short.raw
    assert plan.num_trials == 1
    assert plan.num_points == NUM_POINTS
    assert abs(plan.freed_bytes - done.freed_bytes) < 0.01 * done.freed_bytes
    assert done.freed_bytes > 0.9 * plan.size_bytes
    # Nothing is due any more, and nothing would be freed.
    assert old.age() == retention.Downsampled(0, 0, 0)
    with old.database.read() as session:
        again = retention.plan(session, LATER, metric_days=30, log_days=None)
        assert session.get_one(TrialRow, old.id).num_points_dropped == done.num_points
        (message,) = session.scalars(
            select(EventRow.message).where(EventRow.type == "metrics.downsampled")
        )
    assert again.metrics.num_trials == again.metrics.freed_bytes == 0
    assert f"{done.num_points:,} points" in message


def test_a_window_says_that_points_are_gone_and_shows_the_extremes_in_it(old: Trial) -> None:
    curve = noisy(NUM_POINTS)
    old.age()
    series = old.read(from_step=2_900, to_step=3_100)
    assert (series.downsampled, series.raw) == (True, False)
    assert series.bucket_steps == 128
    assert 99.0 in series.max
    whole = old.read()
    assert whole.downsampled
    assert sum(whole.count) == whole.num_points == NUM_POINTS
    finite = curve[np.isfinite(curve)]
    assert min(filter(None, whole.min)) == finite.min()
    assert max(filter(None, whole.max)) == finite.max()
    exported = list(export.visible_pieces(old.database, old.id, names=[LOSS]))
    values = np.concatenate([piece.points.values for piece in exported])
    assert len(values) < NUM_POINTS / 20
    assert {99.0, -99.0} <= set(values.tolist())


def test_young_trials_and_short_series_are_left_alone(old: Trial) -> None:
    before = old.num_raw_blocks()
    young = retention.downsample_old(old.database, LATER, days=40)
    assert young == retention.Downsampled(0, 0, 0)
    assert old.num_raw_blocks() == before
    old.age()
    assert old.num_raw_blocks() == 1  # of the short one


def test_it_goes_on_where_the_time_was_up(old: Trial) -> None:
    assert old.age(budget_s=0.0).num_trials == 0
    with old.database.read() as session:
        assert session.get_one(TrialRow, old.id).downsampled_at is None
    assert old.age().num_trials == 1


def test_what_is_not_compacted_waits(old: Trial) -> None:
    old.report(LOSS, NUM_POINTS + 1, np.zeros(10))
    assert old.age().num_trials == 0


def test_a_trial_that_goes_on_is_exact_again_from_there(old: Trial) -> None:
    old.age()
    before = old.read(max_points=75)
    more = noisy(5_000, seed=2)
    old.report(LOSS, NUM_POINTS + 1, more)
    old.end()
    series = old.read(from_step=NUM_POINTS + 1, to_step=NUM_POINTS + 800)
    assert (series.raw, series.downsampled) == (True, False)
    assert np.array_equal(series.last, more[:800], equal_nan=True)
    whole = old.read(max_points=115)
    assert whole.num_points == NUM_POINTS + 5_000
    assert whole.bucket_steps == before.bucket_steps == 128
    assert whole.max[: len(before.max) - 1] == before.max[:-1]
    assert old.age().num_trials == 1  # its new points are of age now, too


def test_a_late_point_within_what_was_dropped_counts_and_shows(old: Trial) -> None:
    old.age()
    with old.database.read() as session:
        num_blocks = session.scalar(select(func.count()).select_from(MetricBlockRow))
    old.report(LOSS, 4_200, np.array([500.0]))
    old.end()
    series = old.read(max_points=70)
    assert max(v for v in series.max if v is not None) == 500.0
    with old.database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricBlockRow)) == num_blocks
        (info,) = [i for i in metrics_series.list_series(session, old.id).items if i.name == LOSS]
    assert (info.min, info.max) == (-99.0, 500.0)


def test_what_a_restart_hides_takes_no_extreme_from_what_it_leaves(old: Trial) -> None:
    """Steps 2,944 to 3,071 share a bucket, and the next attempt resumes within it."""
    curve = np.zeros(NUM_POINTS)
    curve[2_990], curve[3_040] = 50.0, 99.0
    old.report("lr", 1, curve)
    with old.database.transaction() as session:
        trial = session.get_one(TrialRow, old.id)
        (allocation,) = add_attempt(session, trial, no=2, resume_step=3_000)
        old.allocation_id = allocation.id
    old.report("lr", 3_001, np.zeros(10))
    old.end()

    def peak() -> float:
        return max(v for v in old.read("lr").max if v is not None)

    assert peak() == 50.0
    old.age()
    assert peak() == 50.0
    exported = list(export.visible_pieces(old.database, old.id, names=["lr"]))
    assert max(piece.points.values.max() for piece in exported) == 50.0


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.integers(1, 1_600), st.integers(0, 1_500))
def test_the_extremes_of_the_whole_curve_are_never_lost(seed: int, width: int, start: int) -> None:
    chance = np.random.default_rng(seed)
    points = Points(
        np.arange(start, start + 4_096), np.arange(4_096), chance.standard_cauchy(4_096)
    )
    kept = downsample(points, 1 << (width % 13))
    assert kept.values.min() == points.values.min()
    assert kept.values.max() == points.values.max()
