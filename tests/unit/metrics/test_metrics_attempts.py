"""Curves of trials that restarted, against a model of them, for all that joins attempts."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.wire import decode_number
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, ExperimentRow, TrialRow
from muster_server.schemas.data import Series
from muster_server.services.metrics import compaction, export, ingest, trial_curves
from muster_server.services.metrics import series as metrics_series
from muster_server.services.metrics.values import value_at
from muster_server.services.search import events
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

pytestmark = pytest.mark.both_databases

NAMES = ("loss", "val/loss", "lr")
Points = dict[int, float]


@dataclass
class Told:
    """A trial that reports, and what it has told: name → attempt → step → value."""

    database: Database
    goal: str = "min"
    told: dict[str, dict[int, Points]] = field(default_factory=dict)
    attempt: int = 1
    seq: int = 0
    newest_step: int = 0

    def __post_init__(self) -> None:
        with self.database.transaction() as session:
            experiment = add_experiment(session, metric_name="loss")
            experiment.metric_goal = self.goal
            trial = add_trial(session, experiment)
            (allocation,) = add_attempt(session, trial)
            self.id, self.experiment_id = trial.id, experiment.id
            self.allocation_id = allocation.id

    def restart(self, resume_step: int = 0) -> None:
        """Start the next attempt; resume_step: where the server believes that it resumes."""
        self.attempt += 1
        self.seq = 0
        with self.database.transaction() as session:
            trial = session.get_one(TrialRow, self.id)
            (allocation,) = add_attempt(session, trial, no=self.attempt, resume_step=resume_step)
            self.allocation_id = allocation.id

    def report(self, points: dict[str, Points]) -> None:
        self.seq += 1
        for name, values in points.items():
            self.told.setdefault(name, {}).setdefault(self.attempt, {}).update(values)
        with self.database.transaction() as session:
            updates = ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, self.allocation_id),
                seq=self.seq,
                record=metrics_record({name: [*p.items()] for name, p in points.items()}),
                at=NOW,
            )
            events.on_metrics(session, session.get_one(TrialRow, self.id), updates, NOW)

    def compact(self) -> None:
        assert compaction.compact_trial(self.database, self.id, NOW).is_done

    def visible(self, name: str) -> dict[int, tuple[int, float]]:
        """Step → (attempt, value): attempt after attempt takes all from its first step on."""
        curve: dict[int, tuple[int, float]] = {}
        for no, points in sorted(self.told.get(name, {}).items()):
            curve = {step: of for step, of in curve.items() if step < min(points)}
            curve |= {step: (no, value) for step, value in points.items()}
        return dict(sorted(curve.items()))

    def read(self, name: str, max_points: int = 1000, **window: int) -> Series | None:
        with self.database.read() as session:
            reply = metrics_series.series(
                session, self.id, names=[name], ranks=[0], max_points=max_points, **window
            )
        return reply.series[0] if reply.series else None

    def check(self, window: tuple[int, int]) -> None:
        """Compare whatever joins attempts with the model."""
        visible = {name: curve for name in NAMES if (curve := self.visible(name))}
        for name, curve in visible.items():
            _check_curve(self.read(name), curve)
            _check_buckets(self.read(name, max_points=3), curve)
            first, last = sorted(window)
            some = {step: of for step, of in curve.items() if first <= step <= last}
            read = self.read(name, from_step=first, to_step=last)
            assert read is not None
            assert read.step == list(some)
            assert all(map(_same, read.last, _values(some).values()))
            self._check_value_at(name, curve, last)
        self._check_together(visible)
        self._check_export(visible)
        self._check_summaries(visible)

    def _check_value_at(self, name: str, curve: dict[int, tuple[int, float]], step: int) -> None:
        before = [value for at, (_, value) in curve.items() if at <= step]
        with self.database.read() as session:
            found = value_at(session, self.id, name, step)
        assert _same(found, before[-1] if before else None)

    def _check_together(self, visible: dict[str, dict[int, tuple[int, float]]]) -> None:
        with self.database.read() as session:
            reply = trial_curves.curves(
                session,
                [self.id],
                names=list(NAMES),
                ranks=None,
                from_step=None,
                to_step=None,
                max_points=1000,
                axis="step",
                x_name=None,
            )
            assert {item.series.name for item in reply.items} == visible.keys()
            for item in reply.items:
                _check_curve(item.series, visible[item.series.name])
            for name, curve in visible.items():
                (one,) = metrics_series.experiment_series(
                    session, self.experiment_id, name=name, max_points=1000, max_trials=1
                ).items
                _check_curve(one.series, curve)
                stored = [*export.stored_points(session, self.id, name)]
                steps = [step for part in stored for step in part.steps.tolist()]
                assert steps == list(curve), "MLflow's history"

    def _check_export(self, visible: dict[str, dict[int, tuple[int, float]]]) -> None:
        expected = [
            (name, no, step, value)
            for name, curve in sorted(visible.items())
            for step, (no, value) in curve.items()
        ]
        text = b"".join(export.as_csv(export.visible_pieces(self.database, self.id))).decode()
        rows = [
            (r["name"], int(r["attempt_no"]), int(r["step"]), float(r["value"]))
            for r in csv.DictReader(io.StringIO(text))
        ]
        assert _told(rows) == _told(expected)
        text = b"".join(
            export.as_json_lines(export.visible_pieces(self.database, self.id))
        ).decode()
        lines = map(json.loads, text.splitlines())
        rows = [(r["name"], r["attempt_no"], r["step"], decode_number(r["value"])) for r in lines]
        assert _told(rows) == _told(expected)

    def _check_summaries(self, visible: dict[str, dict[int, tuple[int, float]]]) -> None:
        with self.database.read() as session:
            trial = session.get_one(TrialRow, self.id)
            experiment = session.get_one(ExperimentRow, self.experiment_id)
            listed = {i.name: i for i in metrics_series.list_series(session, self.id).items}
            assert trial.summary.keys() == listed.keys() == visible.keys()
            for name, curve in visible.items():
                values = list(_values(curve).values())
                finite = [v for v in values if math.isfinite(v)]
                ends = (min(finite, default=None), max(finite, default=None))
                entry, info = trial.summary[name], listed[name]
                assert (info.first_step, info.last_step) == (min(curve), max(curve))
                assert (info.min, info.max) == ends == (entry["min"], entry["max"])
                assert info.count == entry["count"] == len(curve)
                assert entry["step"] == max(curve)
                assert _same(decode_number(entry["last"]), values[-1])
                assert _same(info.last, values[-1])
            best = trial.summary.get("loss", {}).get(self.goal)
            assert (trial.metric, experiment.best_metric) == (best, best)
            assert experiment.best_trial_id == (None if best is None else self.id)


def _values(curve: dict[int, tuple[int, float]]) -> Points:
    return {step: value for step, (_, value) in curve.items()}


def _same(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))


def _told(rows: Sequence[tuple[str, int, int, float]]) -> list[str]:
    """Return rows as text, in which NaN equals NaN."""
    return [repr(row) for row in rows]


def _check_curve(series: Series | None, curve: dict[int, tuple[int, float]]) -> None:
    assert series is not None
    assert series.step == list(curve)
    assert all(map(_same, series.last, _values(curve).values()))
    firsts: dict[int, int] = {}
    for step, (no, _) in curve.items():
        firsts.setdefault(no, step)
    assert {a.no: a.first_step for a in series.attempts} == firsts


def _check_buckets(series: Series | None, curve: dict[int, tuple[int, float]]) -> None:
    assert series is not None
    assert len(series.step) <= 3
    assert sum(series.count) == series.num_points == len(curve)
    finite = [v for v in _values(curve).values() if math.isfinite(v)]
    lows = [v for v in series.min if v is not None and math.isfinite(v)]
    highs = [v for v in series.max if v is not None and math.isfinite(v)]
    assert min(lows, default=None) == min(finite, default=None)
    assert max(highs, default=None) == max(finite, default=None)
    assert series.step[-1] == max(curve)


@pytest.mark.parametrize("compacts", [False, True])
def test_a_script_that_resumes_from_its_own_file_keeps_its_first_curve(
    database: Database, compacts: bool
) -> None:
    """The server knows no checkpoint: it believes that the second attempt begins at step 0."""
    trial = Told(database)
    trial.report({"loss": {step: 100.0 - step for step in range(101)}, "epoch_loss": {50: 2.0}})
    if compacts:
        trial.compact()
    trial.restart(resume_step=0)
    trial.report({"loss": {step: 200.0 - step for step in range(90, 120)}})
    if compacts:
        trial.compact()

    series = trial.read("loss")
    assert series is not None
    assert series.step == list(range(120))
    assert series.last[88:92] == [12.0, 11.0, 110.0, 109.0]
    assert [(a.no, a.first_step) for a in series.attempts] == [(1, 0), (2, 90)]
    untouched = trial.read("epoch_loss")
    assert untouched is not None
    assert (untouched.step, untouched.last) == ([50], [2.0])


def test_a_best_value_that_was_superseded_is_the_best_no_more(database: Database) -> None:
    trial = Told(database)
    trial.report({"loss": {1: 5.0, 2: 4.0, 3: 0.1}})
    trial.restart()
    trial.report({"loss": {3: 3.0}})
    with database.transaction() as session:
        assert session.get_one(TrialRow, trial.id).metric == 3.0
        experiment = session.get_one(ExperimentRow, trial.experiment_id)
        assert (experiment.best_metric, experiment.best_trial_id) == (3.0, trial.id)
        rival = add_trial(session, experiment, no=2)
        rival.metric = 3.5
    trial.restart()
    trial.report({"loss": {1: 9.0}})
    with database.read() as session:
        experiment = session.get_one(ExperimentRow, trial.experiment_id)
        assert experiment.best_metric == 3.5
        assert experiment.best_trial_id != trial.id


values = st.one_of(st.floats(-9, 9, width=16), st.sampled_from([math.nan, math.inf, -math.inf]))
reports = st.dictionaries(
    st.sampled_from(NAMES),
    st.dictionaries(st.integers(0, 40), values, min_size=1, max_size=12),
    min_size=1,
)
histories = st.lists(
    st.lists(st.one_of(reports, st.just("compact")), max_size=4), min_size=1, max_size=4
)
"""Reports of each attempt, in any order of steps, and when compaction runs."""


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    histories,
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
    st.lists(st.integers(0, 40), min_size=4, max_size=4),
    st.sampled_from(["min", "max"]),
)
def test_every_reader_joins_attempts_in_the_same_way(
    database: Database,
    history: list[list[dict[str, Points] | str]],
    window: tuple[int, int],
    resume_steps: list[int],
    goal: str,
) -> None:
    trial = Told(database, goal)
    for no, attempt in enumerate(history):
        if no > 0:
            trial.restart(resume_steps[no])
        for what in attempt:
            if isinstance(what, str):
                trial.compact()
                continue
            # A step that one attempt reports twice is counted once only after compaction.
            known = {name: told.get(trial.attempt, {}) for name, told in trial.told.items()}
            fresh = {
                name: {s: v for s, v in points.items() if s not in known.get(name, {})}
                for name, points in what.items()
            }
            if any(fresh.values()):
                trial.report({name: points for name, points in fresh.items() if points})
    trial.check(window)
    trial.compact()
    trial.check(window)
