"""Metrics that leave the database: every reader answers as before, and no crash loses a point."""

from __future__ import annotations

import ast
import datetime as dt
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sqlalchemy import delete, func, select

from muster_server.check import _check_cold_metrics
from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    MetricBlockRow,
    MetricFileRow,
    TrialRow,
)
from muster_server.db.queries import metrics_blocks as blocks_db
from muster_server.errors import Unavailable
from muster_server.services.metrics import (
    cold_store,
    compaction,
    cooling,
    export,
    growth,
    ingest,
    retention,
    trial_curves,
)
from muster_server.services.metrics import series as metrics_series
from muster_server.services.metrics.values import value_at
from muster_server.settings import get_settings
from muster_server.tasks.sweep import sweep_once
from support.buckets import buckets
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

pytestmark = pytest.mark.both_databases

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "operations.md"
LOSS, OTHER = "train/loss", "val/loss"
DAY = dt.timedelta(days=1)
LATER = NOW + 31 * DAY
MUCH_LATER = LATER + 2 * cooling.RETIRED_FOR
NUM_POINTS = 9_000
WINDOWS = ({}, {"from_step": 4_000, "to_step": 4_200}, {"from_step": 8_990}, {"to_step": 3})


class Trial:
    def __init__(self, database: Database) -> None:
        self.database, self.seq = database, 0
        with database.transaction() as session:
            trial = add_trial(session, add_experiment(session))
            (allocation,) = add_attempt(session, trial)
            self.id, self.allocation_id = trial.id, allocation.id

    def report(self, name: str, first_step: int, curve: np.ndarray, rank: int = 0) -> None:
        self.seq += 1
        pairs = list(enumerate(curve.tolist(), start=first_step))
        with self.database.transaction() as session:
            ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, self.allocation_id),
                seq=self.seq,
                record=metrics_record({name: pairs}, rank=rank),
                at=NOW,
            )

    def restart(self, no: int, resume_step: int) -> None:
        with self.database.transaction() as session:
            trial = session.get_one(TrialRow, self.id)
            (allocation,) = add_attempt(session, trial, no=no, resume_step=resume_step)
            self.allocation_id = allocation.id

    def end(self) -> None:
        with self.database.transaction() as session:
            trial = session.get_one(TrialRow, self.id)
            trial.state, trial.ended_at = "COMPLETED", NOW
        assert compaction.compact_trial(self.database, self.id, NOW).is_done

    def cool(self, now: dt.datetime = LATER) -> cooling.Cooled | None:
        return cooling.cool_trial(self.database, self.id, now)

    def due(self, now: dt.datetime = LATER) -> list[int]:
        with self.database.read() as session:
            return cooling.due_trials(session, now, days=30)

    def num_warm(self) -> int:
        with self.database.read() as session:
            warm = select(func.count()).select_from(MetricBlockRow).where(~blocks_db.is_cold())
            return session.scalar(warm) or 0

    def answers(self) -> list[str]:
        """What every reader says, bit by bit."""
        found = []
        with self.database.read() as session:
            for window in WINDOWS:
                for max_points in (20, 1_000):
                    reply = metrics_series.series(
                        session, self.id, names=None, ranks=None, max_points=max_points, **window
                    )
                    found.append(repr(reply))
            found.append(repr(metrics_series.list_series(session, self.id)))
            curves = trial_curves.curves(
                session,
                [self.id],
                names=[LOSS, OTHER],
                ranks=None,
                from_step=None,
                to_step=None,
                max_points=50,
                axis="metric",
                x_name=LOSS,
            )
            found.append(repr(curves))
            steps = (0, 5, 100, 4_096, 4_097, NUM_POINTS)
            found.append(repr([value_at(session, self.id, LOSS, step) for step in steps]))
            found.append(repr(session.get_one(TrialRow, self.id).summary))
        for form in (export.as_csv, export.as_json_lines):
            pieces = export.visible_pieces(self.database, self.id)
            found.append(repr(b"".join(form(pieces))))
        window = export.visible_pieces(self.database, self.id, from_step=4_090, to_step=4_100)
        found.append(repr(b"".join(export.as_csv(window))))
        return found


def noisy(num: int, seed: int = 1) -> np.ndarray:
    curve = np.random.default_rng(seed).normal(0, 1, num)
    curve[num // 3], curve[num // 2], curve[num // 5] = math.inf, -math.inf, math.nan
    return curve


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of cold metrics, of files with small row groups."""
    monkeypatch.setattr(cooling, "GROUP_ROWS", 1_000)
    yield from _store(str(tmp_path / "cold"), monkeypatch, tmp_path / "cold")


def _store(url: str, monkeypatch: pytest.MonkeyPatch, path: Path) -> Iterator[Path]:
    monkeypatch.setenv("MUSTER_METRIC_COLD_URL", url)
    get_settings.cache_clear()
    cold_store._failures.clear()
    cold_store._file_system.cache_clear()  # It keeps the address of an earlier test's server.
    yield path
    monkeypatch.undo()
    get_settings.cache_clear()


@pytest.fixture
def old(database: Database, store: Path) -> Trial:
    """A trial of two attempts that ended long ago, with two ranks and a short series."""
    return make_old(database)


@pytest.fixture
def plain(database: Database, store: Path) -> Trial:
    """A trial of one series that no restart has cut."""
    trial = Trial(database)
    trial.report(LOSS, 1, noisy(NUM_POINTS))
    trial.end()
    return trial


def make_old(database: Database) -> Trial:
    trial = Trial(database)
    trial.report(LOSS, 1, noisy(NUM_POINTS))
    trial.report(LOSS, 1, noisy(50, seed=3), rank=1)
    trial.restart(2, 5_000)
    trial.report(LOSS, 5_001, noisy(3_000, seed=2))
    trial.report(OTHER, 1, noisy(500))
    trial.end()
    return trial


def files(store: Path) -> list[Path]:
    return sorted(store.rglob("*.parquet"))


def check_cold(trial: Trial, before: list[str]) -> None:
    assert trial.num_warm() == 0
    assert trial.answers() == before


def test_every_reader_answers_as_before(old: Trial, store: Path) -> None:
    before = old.answers()
    assert old.due() == [old.id]
    done = old.cool()
    assert done is not None
    assert done.num_points == NUM_POINTS + 50 + 3_000 + 500
    check_cold(old, before)
    (path,) = files(store)
    assert done.size_bytes == path.stat().st_size
    assert (old.due(), old.cool()) == ([], None)


values = st.one_of(
    st.floats(width=64), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 7.0])
)
histories = st.lists(
    st.tuples(
        st.sampled_from([LOSS, OTHER]),
        st.integers(0, 1),
        st.integers(1, 60),
        st.lists(values, min_size=1, max_size=60),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(histories)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_history_reads_the_same_cold(
    database: Database, store: Path, monkeypatch: pytest.MonkeyPatch, history: list
) -> None:
    """Names, ranks and attempts at will, steps written over; twice, with late values in between."""
    monkeypatch.setattr(cooling, "GROUP_ROWS", 7)
    trial = Trial(database)
    for no, (name, rank, first_step, curve, restarts) in enumerate(history, start=2):
        trial.report(name, first_step, np.array(curve), rank)
        if restarts:
            trial.restart(no, first_step)
    trial.end()
    before = trial.answers()
    assert trial.cool() is not None
    assert trial.answers() == before
    name, rank, first_step, curve, _ = history[0]
    trial.report(name, first_step + 1, np.array(curve), rank)
    uncompacted = trial.answers()
    trial.end()
    warm = trial.answers()
    assert warm[-2:] == uncompacted[-2:], "every point"
    assert trial.cool() is not None
    assert trial.answers() == warm


def test_the_file_is_what_the_export_is_and_all_that_is_hidden(old: Trial, store: Path) -> None:
    old.cool()
    (path,) = files(store)
    assert path.parent.parts[-2:] == ("experiment=1", f"trial={old.id}")
    table = parquet.ParquetFile(path).read()
    assert table.column_names == list(export.FIELDS)
    exported = parquet.read_table(
        _bytes(b"".join(export.as_parquet(export.visible_pieces(old.database, old.id))))
    )
    rows = set(zip(*(table.column(c).to_pylist() for c in export.FIELDS[:5]), strict=True))
    visible = set(zip(*(exported.column(c).to_pylist() for c in export.FIELDS[:5]), strict=True))
    assert visible < rows
    assert {row[3] for row in rows - visible} == set(range(5_001, NUM_POINTS + 1))
    assert list(table.schema.types) == list(exported.schema.types)
    footer = parquet.read_metadata(path)
    assert footer.num_row_groups == math.ceil(len(table) / 1_000)
    name = footer.row_group(0).column(0)
    assert (name.compression, name.statistics.max) == ("ZSTD", LOSS)


def _bytes(content: bytes):
    import pyarrow as pa

    return pa.BufferReader(content)


def test_a_window_reads_the_row_groups_that_it_needs(
    plain: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.cool()
    read: list[int] = []
    from muster_server.services.metrics import cold

    real = cold.read_group

    def noting(source: Any, index: int, **more: Any) -> Any:
        read.append(index)
        return real(source, index, **more)

    monkeypatch.setattr(cold, "read_group", noting)
    with plain.database.read() as session:

        def window(**given: int) -> None:
            metrics_series.series(session, plain.id, names=[LOSS], ranks=[0], **given)

        window(max_points=20)
        assert read == [], "roll-ups are in the database"
        window(from_step=100, to_step=300)
        assert 0 < len(read) <= 5, "one block of 4,096 points"
        num_read = len(read)
        window(from_step=200, to_step=400)
        assert len(read) == num_read, "they are kept"


@pytest.mark.parametrize("step", ["_write", "_verify", "_store", "_refer", "_finish"])
def test_a_process_that_dies_loses_nothing(
    old: Trial, store: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It dies after each step in turn; of the blocks, after a part of them."""
    before = old.answers()
    real: Callable = getattr(cooling, step)

    class Died(BaseException):
        pass

    def die(*args, **kwargs):
        if step == "_refer":
            real(args[0], args[1][:2])
        else:
            real(*args, **kwargs)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(cooling, step, die)
        with pytest.raises(Died):
            old.cool()
    assert old.answers() == before
    assert len(files(store)) == 1
    is_done = step == "_finish"
    assert (old.due(), old.cool()) == ([], None), "somebody may be at work"
    much_later = LATER + cooling.WRITING_MAX + DAY
    assert cooling.delete_unneeded(old.database, much_later) == 0
    cooling.delete_unneeded(old.database, much_later + DAY)
    assert len(files(store)) == (1 if step in ("_store", "_refer", "_finish") else 0)
    assert old.answers() == before
    if not is_done:
        assert old.cool(much_later) is not None
        cooling.delete_unneeded(old.database, much_later + 2 * DAY)
    check_cold(old, before)
    assert len(files(store)) == 1
    with old.database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricFileRow)) == 1


def test_a_block_that_changes_meanwhile_stays(old: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    real = cooling._verify

    def verify(*args):
        real(*args)
        old.report(OTHER, 100, np.array([123.0]))
        old.end()

    with monkeypatch.context() as patch:
        patch.setattr(cooling, "_verify", verify)
        old.cool()
    assert old.num_warm() == 1
    after = old.answers()
    assert "123.0" in after[-2]
    assert old.due() == []
    assert old.due(LATER + 2 * DAY) == [old.id]
    assert old.cool() is not None
    check_cold(old, after)


def test_late_values_are_taken_and_go_into_the_next_file(old: Trial, store: Path) -> None:
    old.cool()
    old.report(LOSS, 100, np.array([1e6, math.nan]))  # of attempt 2, before all it has
    old.report(OTHER, 250, np.array([2e6]))  # written over
    old.report(OTHER, 501, np.array([3e6]))  # after the last
    waiting = old.answers()
    old.end()
    warm = old.answers()
    assert warm[-2] == waiting[-2]  # every point
    assert "3000000.0" in warm[-2]
    with old.database.read() as session:
        assert session.get_one(TrialRow, old.id).cold_at is None
    assert old.due() == [], "not for every late value"
    assert old.due(LATER + 2 * DAY) == [old.id]
    assert old.cool() is not None
    check_cold(old, warm)
    assert len(files(store)) == 2
    assert cooling.delete_unneeded(old.database, MUCH_LATER) == 1
    check_cold(old, warm)


def test_a_trial_that_goes_on_is_not_touched_until_it_has_ended(old: Trial) -> None:
    old.cool()
    with old.database.transaction() as session:
        session.get_one(TrialRow, old.id).ended_at = None
    old.restart(3, 8_000)
    old.report(LOSS, 7_001, noisy(1_500, seed=9))
    compaction.compact_trial(old.database, old.id, NOW)
    assert old.due() == []
    assert old.cool() is None
    warm = old.answers()
    old.end()
    assert old.due(LATER + 2 * DAY) == [old.id]
    old.cool()
    check_cold(old, warm)


def test_the_file_of_a_deleted_experiment_is_deleted(old: Trial, store: Path) -> None:
    old.cool()
    with old.database.transaction() as session:
        session.execute(delete(ExperimentRow))
    sweep_once(old.database, LATER, enqueue=lambda _: None, cool=lambda: None)
    assert files(store) == []
    with old.database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricFileRow)) == 0


def test_retention_thins_out_what_is_cold(old: Trial) -> None:
    twin = make_old(old.database)
    old.cool()
    with old.database.read() as session:
        plan = retention.plan(session, LATER, metric_days=30, log_days=None).metrics
    assert (plan.num_trials, plan.num_points) == (1, NUM_POINTS + 3_000), "of what is not cold"
    done = retention.downsample_old(old.database, LATER, days=30)
    assert done.num_trials == 2
    exported = [trial.answers()[-3:] for trial in (old, twin)]
    assert exported[0] == exported[1]
    assert repr(_read(old)) == repr(_read(twin))
    thin = old.answers()
    again = old.cool()
    assert again is not None
    assert again.num_points < NUM_POINTS / 4
    with old.database.read() as session:
        warm = session.scalars(select(MetricBlockRow.series_id).where(~blocks_db.is_cold())).all()
    assert len(warm) > 0, "the twin's"
    assert old.answers() == thin


def test_young_trials_and_a_server_without_an_age_move_nothing(old: Trial) -> None:
    with old.database.read() as session:
        assert cooling.due_trials(session, LATER, days=40) == []
    asked: list[bool] = []

    def sweep(days: int | None) -> None:
        sweep_once(
            old.database,
            LATER,
            enqueue=lambda _: None,
            cool=lambda: asked.append(True),
            metric_cold_days=days,
        )

    sweep(None)
    sweep(40)
    assert asked == []
    sweep(30)
    assert asked == [True]
    assert cooling.cool_due(old.database, LATER, days=30) == 1
    assert old.num_warm() == 0
    sweep(30)
    assert asked == [True]


def test_a_turn_ends_when_its_time_is_up_or_the_store_fails(
    old: Trial, plain: Trial, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cooling.cool_due(old.database, LATER, days=30, budget_s=-1) == 0
    store.write_text("no folder")
    monkeypatch.setattr(cooling, "FAILURES_MAX", 2)
    with pytest.raises(Unavailable):
        cooling.cool_due(old.database, LATER, days=30)
    store.unlink()
    assert cooling.cool_due(old.database, LATER, days=30) == 0, "both were tried lately"
    assert cooling.cool_due(old.database, MUCH_LATER, days=30) == 2
    assert plain.num_warm() == 0


def test_a_store_that_is_away_fails_what_needs_it_alone(plain: Trial, store: Path) -> None:
    whole = repr(_read(plain, max_points=20))
    plain.cool()
    store.rename(store.with_name("away"))
    assert repr(_read(plain, max_points=20)) == whole
    with plain.database.read() as session:
        metrics_series.list_series(session, plain.id)
    with pytest.raises(Unavailable, match="a file is missing") as caught:
        _read(plain, from_step=100, to_step=200)
    assert caught.value.code == "metrics.cold_unavailable"
    other = Trial(plain.database)
    other.report(LOSS, 1, noisy(100))
    other.end()
    assert len(_read(other, from_step=1, to_step=50).step) == 50
    store.with_name("away").rename(store)
    assert len(_read(plain, from_step=100, to_step=200).step) == 101


def test_a_store_that_cannot_be_written_leaves_everything(old: Trial, store: Path) -> None:
    before = old.answers()
    store.write_text("no folder")
    with pytest.raises(Unavailable, match="cannot be read"):
        old.cool()
    assert old.answers() == before
    store.unlink()
    assert old.due() == []
    assert old.due(MUCH_LATER) == [old.id]
    assert old.cool() is not None
    check_cold(old, before)


def test_a_damaged_file_is_found(old: Trial, store: Path) -> None:
    old.cool()
    (path,) = files(store)
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 64] = os.urandom(64)
    path.write_bytes(content)
    with pytest.raises(Unavailable, match="cannot be read"):
        list(export.visible_pieces(old.database, old.id))


def test_a_bucket_works_as_a_folder_does(
    database: Database, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with buckets("metrics") as bucket:
        for _ in _store("s3://metrics/muster", monkeypatch, store):
            trial = Trial(database)
            trial.report(LOSS, 1, noisy(NUM_POINTS))
            trial.end()
            before = trial.answers()
            assert trial.cool() is not None
            check_cold(trial, before)
            (url,) = bucket.keys("s3://metrics/")
            assert url.startswith(f"s3://metrics/muster/experiment=1/trial={trial.id}/")
            with database.transaction() as session:
                session.execute(delete(ExperimentRow))
            assert cooling.delete_unneeded(database, LATER) == 1
            left = [key for key in bucket.keys("s3://metrics/") if key.endswith(".parquet")]
            assert left == []


def test_check_names_files_that_are_missing(old: Trial, store: Path) -> None:
    def said() -> tuple[bool, str]:
        lines: list[str] = []
        is_fine = _check_cold_metrics(get_settings(), old.database, lines.append)
        return is_fine, "".join(lines)

    assert said() == (True, "cold metrics: ok (0 files, 0.0 GB)")
    old.cool()
    assert said() == (True, "cold metrics: ok (1 file, 0.0 GB)")
    (path,) = files(store)
    path.write_bytes(path.read_bytes()[:-1])
    is_fine, text = said()
    assert not is_fine
    assert f"1 of 1 files looked at are missing or incomplete in {store}" in text
    assert path.name in text


def test_the_forecast_counts_files_beside_the_database(old: Trial, store: Path) -> None:
    def sizes() -> dict[str, int]:
        with old.database.read() as session:
            plan = retention.plan(session, LATER, metric_days=None, log_days=None)
            found = growth.forecast(old.database, session, LATER, plan=plan, audit_days=None)
        return {item.kind: item.size_bytes for item in found.items}

    before = sizes()
    old.cool()
    after = sizes()
    assert before["cold_metrics"] == 0
    assert after["cold_metrics"] == files(store)[0].stat().st_size
    assert after["metrics"] < 0.3 * before["metrics"]


def test_the_guide_reads_the_files(
    old: Trial, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old.cool()
    section = GUIDE.read_text().partition("## Cold metrics")[2].partition("\n## ")[0]
    code = section.partition("```python\n")[2].partition("```")[0]
    assert "/srv/muster-metrics" in code
    exec(code.replace("/srv/muster-metrics", str(store)).replace('"val/loss"', f'"{OTHER}"'))
    (best,) = ast.literal_eval(capsys.readouterr().out.replace("-inf", "-1e999"))
    wanted = {"experiment": 1, "trial": old.id, "step_max": 500, "value_min": -math.inf}
    assert best == wanted


def _read(trial: Trial, **window: int):
    with trial.database.read() as session:
        (series,) = metrics_series.series(
            session, trial.id, names=[LOSS], ranks=[0], **window
        ).series
    return series
