"""services.metrics.ingest, metrics_series and metrics_compaction on a real database."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    Base,
    EventRow,
    ExperimentRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
    TrialRow,
    WorkerRow,
)
from muster_server.schemas.data import Series
from muster_server.services.metrics import compaction, ingest
from muster_server.services.metrics import series as metrics_series
from support.data import (
    NOW,
    add_attempt,
    add_experiment,
    add_trial,
    add_worker,
    metrics_record,
)

pytestmark = pytest.mark.both_databases

LOSS = "train/loss"


class Trial:
    """A trial that reports."""

    def __init__(self, database: Database, *, metric_name: str | None = None) -> None:
        self.database = database
        self.seq = 0
        with database.transaction() as session:
            experiment = add_experiment(session, metric_name=metric_name)
            trial = add_trial(session, experiment)
            (allocation,) = add_attempt(session, trial)
            self.id, self.allocation_id = trial.id, allocation.id

    def restart(self, no: int, resume_step: int) -> None:
        self.seq = 0
        with self.database.transaction() as session:
            trial = session.get_one(TrialRow, self.id)
            (allocation,) = add_attempt(session, trial, no=no, resume_step=resume_step)
            self.allocation_id = allocation.id

    def report(
        self,
        points: dict[str, Sequence[tuple[int, float]]],
        *,
        rank: int = 0,
        seq: int | None = None,
        max_series: int | None = None,
        epoch: float | None = None,
    ) -> list[ingest.MetricUpdate]:
        self.seq += 1
        with self.database.transaction() as session:
            return ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, self.allocation_id),
                seq=self.seq if seq is None else seq,
                record=metrics_record(points, rank=rank, epoch=epoch, num_steps_planned=500),
                at=NOW,
                max_series=max_series,
            )

    def compact(self) -> None:
        assert compaction.compact_trial(self.database, self.id, NOW).is_done

    def read(self, name: str = LOSS, rank: int = 0, **window: int) -> Series | None:
        with self.database.read() as session:
            reply = metrics_series.series(session, self.id, names=[name], ranks=[rank], **window)
        return reply.series[0] if reply.series else None

    def row(self, session: Session) -> TrialRow:
        return session.get_one(TrialRow, self.id)

    def summary(self) -> dict[str, dict[str, float]]:
        with self.database.read() as session:
            return self.row(session).summary


@pytest.fixture
def trial(database: Database) -> Trial:
    return Trial(database)


def curve(first: int, last: int) -> list[tuple[int, float]]:
    return [(s, 1.0 / s) for s in range(first, last + 1)]


def test_a_value_comes_with_the_progress_reported_with_it_or_last_before(
    database: Database,
) -> None:
    trial = Trial(database, metric_name="val/loss")
    (first,) = trial.report({"val/loss": [(1, 0.9)]})
    assert first.progress == {}
    trial.report({"progress/samples": [(2, 64.0)], "progress/seconds": [(2, math.nan)]})
    several = trial.report(
        {
            "val/loss": [(3, 0.8), (4, 0.7), (6, 0.6)],
            "progress/samples": [(4, 128.0), (5, 160.0), (7, 224.0)],
        }
    )
    assert [u.progress for u in several] == [{"samples": n} for n in (64.0, 128.0, 160.0)]


def test_a_record_is_stored_once_however_often_it_comes(trial: Trial) -> None:
    trial.report({LOSS: curve(1, 10)}, seq=1)
    trial.report({LOSS: curve(1, 10)}, seq=1)

    with trial.database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricBatchRow)) == 1
        assert session.scalars(select(MetricSeriesRow)).one().count == 10
        assert trial.row(session).step == 10
        assert trial.row(session).num_steps_planned == 500


def test_records_that_come_together_are_stored_as_one_and_tell_the_same(database: Database) -> None:
    together, one_by_one = (Trial(database, metric_name="val/loss") for _ in range(2))
    records = [
        metrics_record({LOSS: [(1, 3.0), (2, math.nan)], "val/loss": [(2, 0.5)]}, epoch=1.0),
        metrics_record({LOSS: [(2, 2.5), (3, 9.0)]}),
        metrics_record({LOSS: [(-1, 1.0)], "time/step_ms": [(4, 7.0)], "val/loss": [(4, 0.4)]}, epoch=3.0),
    ]  # fmt: skip
    with database.transaction() as session:
        updates = ingest.ingest_several(
            session,
            allocation=session.get_one(AllocationRow, together.allocation_id),
            records=list(enumerate(records, 1)),
            at=NOW,
        )
    apart = []
    for seq, record in enumerate(records, 1):
        with database.transaction() as session:
            allocation = session.get_one(AllocationRow, one_by_one.allocation_id)
            apart += ingest.ingest(session, allocation=allocation, seq=seq, record=record, at=NOW)
    assert updates == apart
    assert [(u.step, u.epoch, u.value) for u in updates] == [(2, 1.0, 0.5), (4, 3.0, 0.4)]
    assert together.summary() == one_by_one.summary()
    for trial in (together, one_by_one):
        series = trial.read()
        assert series is not None
        assert list(zip(series.step, series.last, strict=True)) == [(1, 3.0), (2, 2.5), (3, 9.0)]
        with database.read() as session:
            row = trial.row(session)
            assert (row.step, row.epoch) == (4, 3.0)
            event = session.scalars(select(EventRow).where(EventRow.trial_id == trial.id)).one()
            assert f"{LOSS!r}: step -1 lies outside" in event.message
    with database.read() as session:
        batches = select(MetricBatchRow.seq).where(MetricBatchRow.trial_id == together.id)
        assert session.scalars(batches).all() == [3]


@pytest.mark.parametrize("compacted", [False, True])
def test_nan_and_infinities_come_back(trial: Trial, compacted: bool) -> None:
    trial.report({LOSS: [(1, math.nan), (2, math.inf), (3, -math.inf), (4, 0.5)]})
    if compacted:
        trial.compact()
    series = trial.read()
    assert series is not None
    assert series.raw
    assert [str(v) for v in series.last] == ["nan", "inf", "-inf", "0.5"]
    assert trial.summary()[LOSS] == {"last": 0.5, "min": 0.5, "max": 0.5, "count": 4, "step": 4}


def test_a_diverged_loss_shows_in_the_summary_by_name(trial: Trial) -> None:
    trial.report({LOSS: [(1, 2.0), (2, math.nan)]})
    assert trial.summary()[LOSS]["last"] == "NaN"
    with trial.database.read() as session:
        (info,) = metrics_series.list_series(session, trial.id).items
    assert math.isnan(info.last)
    assert (info.min, info.num_non_finite) == (2.0, 1)


def test_the_lowest_rank_that_reports_a_name_stands_for_the_trial(trial: Trial) -> None:
    trial.report({LOSS: [(1, 9.0)], "only/one": [(1, 1.0)]}, rank=1)
    assert trial.summary()[LOSS]["last"] == 9.0
    trial.report({LOSS: [(1, 5.0)]}, rank=0)
    assert trial.summary()[LOSS] == {"last": 5.0, "min": 5.0, "max": 5.0, "count": 1, "step": 1}
    trial.report({LOSS: [(2, 8.0)], "only/one": [(2, 3.0)]}, rank=1)
    assert trial.summary()[LOSS]["last"] == 5.0
    assert trial.summary()["only/one"]["last"] == 3.0


def test_a_worker_shows_its_own_step_and_latest_values(trial: Trial) -> None:
    with trial.database.transaction() as session:
        add_worker(session, session.get_one(AllocationRow, trial.allocation_id), 1)
    trial.report({LOSS: [(7, 1.0)], "time/step_ms": [(7, math.inf)]}, rank=1)
    with trial.database.read() as session:
        worker = session.scalars(select(WorkerRow)).one()
        assert (worker.step, worker.last_report_at) == (7, NOW)
        assert worker.latest == {"time/step_ms": "Infinity"}


def test_the_search_metric_is_handed_on_with_the_epoch_of_each_value(
    database: Database,
) -> None:
    trial = Trial(database, metric_name="val/loss")
    updates = trial.report({LOSS: curve(1, 200), "val/loss": [(100, 0.5), (200, 0.4)]}, epoch=2.0)
    assert [(u.name, u.step, u.epoch, u.value) for u in updates] == [
        ("val/loss", 100, 1.0, 0.5),
        ("val/loss", 200, 2.0, 0.4),
    ]
    assert trial.report({"val/loss": [(200, 0.3)]}, rank=1) == []


def test_names_that_cannot_be_stored_are_reported_and_do_not_fail_the_record(trial: Trial) -> None:
    trial.report({"bad\nname": [(1, 1.0)], LOSS: [(1, 1.0)]})
    trial.report({"bad\nname": [(2, 1.0)]})
    with trial.database.read() as session:
        event = session.scalars(select(EventRow)).one()
        assert session.scalars(select(MetricSeriesRow.name)).all() == [LOSS]
        assert "bad?name" in event.message
        assert event.data == {"num_columns": 2}


def test_points_that_cannot_be_stored_do_not_cost_those_beside_them(trial: Trial) -> None:
    trial.report({LOSS: [(step, 0.5) for step in range(-1, 500)], "n": [(2**53, 1.0), (2, 2.0)]})
    trial.compact()
    series = trial.read()
    assert series is not None
    assert series.step == list(range(500))
    with trial.database.read() as session:
        event = session.scalars(select(EventRow)).one()
        rows = session.execute(select(MetricSeriesRow.name, MetricSeriesRow.count)).all()
        assert dict(map(tuple, rows)) == {LOSS: 500, "n": 1}
        assert "'train/loss': step -1 lies outside" in event.message
        assert "'n': step 9007199254740992 lies" in event.message


def test_too_many_series_are_cut_with_a_warning(trial: Trial) -> None:
    trial.report({"a": [(1, 1.0)], "b": [(1, 1.0)]}, max_series=3)
    trial.report({"b": [(2, 1.0)], "c": [(2, 1.0)], "d": [(2, 1.0)]}, max_series=3)
    with trial.database.read() as session:
        assert set(session.scalars(select(MetricSeriesRow.name))) == {"a", "b", "c"}
        event = session.scalars(select(EventRow)).one()
        assert event.level == "warning"
        assert "'d': more than 3 series" in event.message


def test_the_search_metric_and_losses_have_room_when_the_limit_is_reached(
    database: Database,
) -> None:
    trial = Trial(database, metric_name="ndcg@10")
    with database.transaction() as session:
        (experiment,) = session.scalars(select(ExperimentRow))
        search = replace(experiment.config.search, metric="ndcg@10")
        experiment.config = replace(experiment.config, search=search)
    layers = {f"layer/{no}": [(1, 1.0)] for no in range(4)}
    trial.report(layers, max_series=3, rank=1)
    updates = trial.report({"layer/4": [(2, 1.0)], "val/loss": [(2, 1.0)]}, max_series=3)
    assert updates == []
    (update,) = trial.report({"layer/5": [(3, 1.0)], "ndcg@10": [(3, 0.5)]}, max_series=3)
    assert (update.name, update.value) == ("ndcg@10", 0.5)
    with database.read() as session:
        names = set(session.scalars(select(MetricSeriesRow.name)))
    assert names == {"layer/0", "layer/1", "layer/2", "val/loss", "ndcg@10"}


def test_the_epoch_of_the_search_metric_is_the_last_that_a_metric_named_so_said(
    database: Database,
) -> None:
    trial = Trial(database, metric_name="val/loss")
    trial.report({"epoch": [(100, 1.0)], "train/loss": [(100, 2.0)]})
    (first,) = trial.report({"val/loss": [(110, 0.5)]})
    (second,) = trial.report({"epoch": [(200, 2.0)], "val/loss": [(200, 0.4)]})
    assert [(u.epoch, u.progress["epochs"]) for u in (first, second)] == [(None, 1.0), (None, 2.0)]


def test_a_long_curve_is_drawn_in_anchored_buckets_with_its_extremes(trial: Trial) -> None:
    points = [(s, math.sin(s / 50)) for s in range(1, 20_001)]
    points[12_344] = (12_345, 77.0)
    points[2] = (3, -77.0)
    for at in range(0, 20_000, 2_000):
        trial.report({LOSS: points[at : at + 2_000]})
        if at in (8_000, 16_000):
            trial.compact()

    series = trial.read(max_points=500)
    assert series is not None
    assert (series.raw, series.bucket_steps, series.num_points) == (False, 64, 20_000)
    assert len(series.step) <= 500
    assert (min(series.min), max(series.max), sum(series.count)) == (-77.0, 77.0, 20_000)
    assert series.step == sorted(set(series.step))

    trial.compact()
    again = trial.read(max_points=500)
    assert again is not None
    assert (again.step, again.min, again.max, again.last, again.count) == (
        series.step,
        series.min,
        series.max,
        series.last,
        series.count,
    )
    assert again.mean == pytest.approx(series.mean)


def test_a_window_with_few_points_is_exact(trial: Trial) -> None:
    trial.report({LOSS: curve(1, 9_000)})
    trial.compact()
    trial.report({LOSS: curve(9_001, 9_100)})
    series = trial.read(from_step=4_090, to_step=4_110)
    assert series is not None
    assert series.raw
    assert list(zip(series.step, series.last, strict=True)) == curve(4_090, 4_110)
    across = trial.read(from_step=8_990, to_step=9_010)
    assert across is not None
    assert list(zip(across.step, across.last, strict=True)) == curve(8_990, 9_010)


def test_a_restart_hides_what_it_reports_again_and_what_came_after(trial: Trial) -> None:
    trial.report({LOSS: [(s, float(s)) for s in range(1, 151)], "val/loss": [(140, 1.0)]})
    trial.restart(2, 100)
    before = trial.read()
    assert before is not None
    assert before.num_points == 150, "an attempt that has reported nothing hides nothing"
    trial.report({LOSS: [(s, 1000.0) for s in range(101, 121)]})

    def check() -> None:
        series = trial.read()
        assert series is not None
        assert series.step == list(range(1, 121))
        assert series.last[99:101] == [100.0, 1000.0]
        assert [(a.no, a.first_step) for a in series.attempts] == [(1, 1), (2, 101)]
        not_again = trial.read("val/loss")
        assert not_again is not None
        assert not_again.step == [140], "what no later attempt has reported stays"
        with trial.database.read() as session:
            info, _ = metrics_series.list_series(session, trial.id).items
            assert (info.count, info.min, info.max, info.last_step) == (120, 1.0, 1000.0, 120)
        assert trial.summary() == {
            LOSS: {"last": 1000.0, "min": 1.0, "max": 1000.0, "count": 120, "step": 120},
            "val/loss": {"last": 1.0, "min": 1.0, "max": 1.0, "count": 1, "step": 140},
        }

    check()
    trial.compact()
    check()
    with trial.database.read() as session:
        kept = session.scalars(select(MetricBlockRow.num_points)).all()
    assert sorted(kept) == [1, 20, 150], "hidden points are kept"


def test_a_script_that_starts_over_is_shown_as_it_last_ran(trial: Trial) -> None:
    trial.report({LOSS: [(s, 1.0) for s in range(50)]})
    trial.restart(2, 0)
    trial.report({LOSS: [(s, 2.0) for s in range(10)]})
    series = trial.read()
    assert series is not None
    assert series.step == list(range(10))
    assert set(series.last) == {2.0}


def test_a_late_record_of_an_earlier_attempt_changes_nothing_that_is_shown(trial: Trial) -> None:
    trial.report({LOSS: curve(1, 10)})
    first = trial.allocation_id
    trial.restart(2, 5)
    trial.report({LOSS: [(6, 7.0)]})
    shown = trial.summary()
    second, trial.allocation_id = trial.allocation_id, first
    assert trial.report({LOSS: curve(11, 12)}, seq=2) == []
    trial.allocation_id = second
    assert trial.summary() == shown
    series = trial.read()
    assert series is not None
    assert series.step == [1, 2, 3, 4, 5, 6]


def test_a_step_reported_twice_counts_once_after_compaction(trial: Trial) -> None:
    trial.report({LOSS: [(1, 9.0), (2, 8.0)]})
    trial.compact()
    trial.report({LOSS: [(2, 1.0), (3, 2.0)]})
    series = trial.read()
    assert series is not None
    assert (series.step, series.last) == ([1, 2, 3], [9.0, 1.0, 2.0])
    trial.compact()
    assert trial.summary()[LOSS] == {"last": 2.0, "min": 1.0, "max": 9.0, "count": 3, "step": 3}


def test_compacting_again_changes_nothing(trial: Trial) -> None:
    trial.report({LOSS: curve(1, 5_000)})
    trial.compact()
    with trial.database.read() as session:
        before = session.execute(select(MetricBlockRow.first_step, MetricBlockRow.data)).all()
    trial.compact()
    with trial.database.read() as session:
        assert (
            session.execute(select(MetricBlockRow.first_step, MetricBlockRow.data)).all() == before
        )
        assert session.scalar(select(func.count()).select_from(MetricBatchRow)) == 0


def test_compactions_at_once_write_every_point_once(trial: Trial) -> None:
    for no in range(60):
        trial.report({LOSS: curve(no * 100 + 1, no * 100 + 100), "b": [(no, 1.0)]}, rank=no % 2)
    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(compaction.compact_trial, trial.database, trial.id, NOW) for _ in range(4)
        ]
        for no in range(60, 80):
            trial.report({LOSS: curve(no * 100 + 1, no * 100 + 100)}, rank=no % 2)
        assert sum(run.result().num_points for run in runs) <= 8_060
    trial.compact()
    found = [trial.read(rank=rank, max_points=10_000) for rank in (0, 1)]
    assert [s.num_points for s in found if s] == [4_000, 4_000]
    steps = sorted(step for s in found if s for step in s.step)
    assert steps == list(range(1, 8_001))


def test_a_trial_is_due_when_its_batches_are_old_or_many_or_it_has_ended(trial: Trial) -> None:
    trial.report({LOSS: curve(1, 5)})

    def due(seconds: float) -> list[int]:
        with trial.database.read() as session:
            return compaction.due_trials(session, NOW + dt.timedelta(seconds=seconds))

    assert due(1) == []
    assert due(61) == [trial.id]
    with trial.database.transaction() as session:
        trial.row(session).state = "COMPLETED"
    assert due(1) == [trial.id]
    trial.compact()
    assert due(61) == []


records = st.lists(
    st.lists(st.tuples(st.integers(0, 300), st.floats(-5, 5)), min_size=1, max_size=40),
    min_size=1,
    max_size=8,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(records, st.sets(st.integers(0, 7)), st.integers(1, 50))
def test_what_is_read_does_not_depend_on_when_it_was_compacted(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[int, float]]],
    compact_after: set[int],
    max_points: int,
) -> None:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('m') / 'm.db'}")
    try:
        Base.metadata.create_all(database.engine)
        trial = Trial(database)
        expected: dict[int, float] = {}
        for no, pairs in enumerate(batches):
            trial.report({LOSS: pairs})
            expected |= dict(pairs)
            if no in compact_after:
                trial.compact()
        series = trial.read(max_points=max_points)
        assert series is not None
        assert series.num_points == len(expected)
        assert len(series.step) <= max_points
        assert min(series.min) == min(expected.values())
        assert max(series.max) == max(expected.values())
        assert series.step[-1] == max(expected)
        exact = trial.read(max_points=1000)
        assert exact is not None
        assert dict(zip(exact.step, exact.last, strict=True)) == expected
    finally:
        database.dispose()
