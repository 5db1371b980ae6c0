"""From reported values to new trials and early stops, through the database."""

from __future__ import annotations

import datetime as dt
import math
import threading
from dataclasses import dataclass, field

import pytest
from sqlalchemy import delete, event, select
from sqlalchemy.orm import undefer

from muster_server.db.models import EventRow, ExperimentRow, SearchEventRow, TrialRow
from muster_server.domain.lifecycle import LifecycleStep, SetTrial
from muster_server.domain.search import PauseTrial, ResumeTrial, Searcher
from muster_server.loops.search import search_pass
from muster_server.schemas.experiments import ExperimentIn
from muster_server.security.principal import Principal
from muster_server.services.experiments import operations, submission, views
from muster_server.services.lifecycle import apply_step
from muster_server.services.search import decide, events
from muster_server.services.search import results as search_results

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ADMIN = operations.Caller(principal=Principal(kind="user", name="ada", role="admin"), now=NOW)
ASHA = """
name: search
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: asha, metric: val/loss, goal: min, trials: 6, max_length: {epochs: 9},
  divisor: 3, concurrent: 3}
"""
SCRIPT = ASHA.replace("trainer: {}", "entrypoint: train.py\ncode: {installed: /srv}")


@dataclass(frozen=True)
class Update:
    value: float
    epoch: float | None = None
    step: int = 0
    name: str = "val/loss"
    progress: dict[str, float] = field(default_factory=dict)


@pytest.fixture
def submit(database):
    def create(document=ASHA, *overrides):
        body = ExperimentIn(document=document, overrides=list(overrides))
        with database.transaction() as session:
            made = submission.create_experiment(
                session, body, user_id=None, user_name="ada", now=NOW
            )
        return made.experiment_id

    return create


@pytest.fixture
def report(database):
    def send(no, *updates):
        with database.transaction() as session:
            trial = session.scalars(select(TrialRow).where(TrialRow.no == no)).one()
            trial.state = "RUNNING"
            events.on_metrics(session, trial, updates, NOW)

    return send


@pytest.fixture
def end(database):
    def finish(no, state="COMPLETED"):
        with database.transaction() as session:
            trial = session.scalars(select(TrialRow).where(TrialRow.no == no)).one()
            trial.state = state
            events.on_trial_terminal(session, trial, NOW)

    return finish


def trials(database):
    with database.read() as session:
        rows = session.scalars(select(TrialRow).order_by(TrialRow.no)).all()
        session.expunge_all()  # they are read after the session has ended
        return {row.no: row for row in rows}


def experiment(database):
    with database.read() as session:
        row = session.scalars(
            select(ExperimentRow).options(undefer(ExperimentRow.search_state))
        ).one()
        session.expunge_all()
        return row


def keys_heard(database):
    with database.read() as session:
        rows = session.scalars(select(SearchEventRow).order_by(SearchEventRow.seq)).all()
        return [row.key for row in rows]


def test_a_trial_behind_at_its_rung_is_stopped_with_the_reason(database, submit, report):
    submit()
    # Six trials fill two rungs: 3 and 9 epochs.
    report(1, Update(0.5, epoch=2.9))
    assert keys_heard(database) == ["started"]
    for no, value in enumerate([0.5, 0.4, 0.6], start=1):
        report(no, Update(value, epoch=3))
    assert len(search_pass(database, NOW)) == 1
    stopped = trials(database)[3]
    assert stopped.desired == "early"
    assert "val/loss of 0.6 at rung 1 of 2 (3 epochs)" in stopped.reason
    with database.read() as session:
        view = views.search_out(session, stopped.experiment_id)
    assert [(t.trial_no, t.promoted, t.stopped) for t in view.rungs[0].trials] == [
        (2, True, False),
        (1, True, False),
        (3, False, True),
    ]
    assert view.rungs[0].cutoff == 0.4
    assert view.rungs[1].trials == []


def test_trials_that_outran_their_stop_are_counted_apart_from_those_it_reached(
    database, submit, report, end
):
    submit()
    for no, value in enumerate([0.4, 0.5, 0.6], start=1):
        report(no, Update(value, epoch=3))
    search_pass(database, NOW)
    rows = trials(database)
    assert [rows[no].desired for no in (1, 2, 3)] == ["run", "early", "early"]
    end(2, "STOPPED_EARLY")
    end(3, "COMPLETED")
    with database.read() as session:
        view = views.search_out(session, rows[1].experiment_id)
    rung = view.rungs[0]
    assert (rung.num_trials, rung.num_promoted, rung.num_outran) == (3, 1, 1)
    assert [(t.promoted, t.stopped, t.outran) for t in rung.trials] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_nothing_is_decided_twice(database, submit, report, end):
    submit()
    for _ in range(3):
        report(1, Update(math.nan, epoch=3))
        end(1, "STOPPED_EARLY")
        search_pass(database, NOW)
    assert keys_heard(database) == ["started", "validation:1:3", "ended:1"]
    assert sorted(trials(database)) == [1, 2, 3, 4]
    assert search_pass(database, NOW) == []


def test_a_metric_reported_at_every_step_is_heard_once_per_rung(database, submit, report):
    submit(ASHA, "search.max_length={steps: 90}")
    for step in range(1, 101):
        report(1, Update(1 / step, step=step))
    assert keys_heard(database) == [
        "started",
        "validation:1:30",
        "validation:1:90",
        "validation:1:91",
    ]
    search_pass(database, NOW)
    assert "past the search's max_length of 90 steps" in trials(database)[1].reason


def test_a_search_runs_to_its_end(database, submit, report, end):
    submit()
    for no in range(1, 7):
        search_pass(database, NOW)
        report(no, Update(no / 10, epoch=3), Update(no / 20, epoch=9))
        search_pass(database, NOW)
        end(no, "STOPPED_EARLY" if trials(database)[no].desired == "early" else "COMPLETED")
    reasons = search_pass(database, NOW)
    assert reasons[-1].endswith("finish: all 6 trials have ended")
    done = experiment(database)
    assert done.search_state["finished"] is True
    assert done.best_metric == 0.05
    assert done.best_trial_id == trials(database)[1].id
    assert sorted(trials(database)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("goal", "best"), [("min", 0.1), ("max", 0.9)])
def test_the_best_value_is_kept_and_never_one_that_is_not_finite(
    database, submit, report, goal, best
):
    submit(ASHA, f"search.goal={goal}")
    report(1, Update(0.5, epoch=0.1), Update(math.nan, epoch=0.2), Update(0.9, epoch=0.3))
    report(2, Update(-math.inf, epoch=0.1), Update(math.inf, epoch=0.2), Update(0.1, epoch=0.3))
    report(1, Update(0.4, epoch=0.4), Update(7.0, epoch=0.4, name="train/loss"))
    assert experiment(database).best_metric == best
    assert experiment(database).best_trial_id == trials(database)[2 if goal == "min" else 1].id
    assert trials(database)[1].metric == (0.4 if goal == "min" else 0.9)


def test_values_without_an_epoch_are_reported_once_and_not_judged(database, submit, report):
    submit()
    for step in range(5):
        report(1, Update(0.5, step=step))
    assert keys_heard(database) == ["started"]
    with database.read() as session:
        warnings = session.scalars(select(EventRow.type).where(EventRow.level == "warning")).all()
    assert warnings == ["search.metric_without_length"]


@pytest.mark.parametrize("unit", ["samples", "seconds"])
def test_rungs_count_samples_and_seconds_where_the_document_says_so(database, submit, report, unit):
    submit(ASHA, f"search.max_length={{{unit}: 9000}}", "trainer.epochs=99")

    def at(value, units, epoch=1.0):
        return Update(value, epoch=epoch, progress={unit: units})

    # A little past each of the rungs at 3,000 and 9,000.
    report(1, at(0.1, 2_999.5), at(0.2, 3_020.5), at(0.2, 9_012))
    report(2, at(0.9, 2_000, epoch=99.0), at(0.8, 3_001))
    # Without what is counted in: warned of, not judged. Nothing is guessed from the epoch.
    report(3, Update(0.5, epoch=9.0, progress={"other": 9_000.0}))
    search_pass(database, NOW)
    assert keys_heard(database) == [
        "started",
        "validation:1:3000",
        "validation:1:9000",
        "validation:2:3000",
    ]
    assert (trials(database)[1].desired, trials(database)[2].desired) == ("run", "early")
    assert "was not among the best" in trials(database)[2].reason
    with database.read() as session:
        query = select(EventRow.message).where(EventRow.level == "warning")
        (warned,) = session.scalars(query).all()
    assert f"Log progress/{unit}" in warned
    # It was let to end by itself; it reports again instead.
    report(1, at(0.2, 9_500))
    search_pass(database, NOW)
    assert f"past the search's max_length of 9000 {unit}" in trials(database)[1].reason


def test_a_user_s_stop_is_not_overwritten_and_no_trial_is_created_after_it(
    database, submit, report, end
):
    experiment_id = submit()
    report(1, Update(math.nan, epoch=3))
    with database.transaction() as session:
        operations.run(session, operations.STOP, experiment_id, ADMIN)
    end(1, "CANCELED")
    search_pass(database, NOW)
    assert {t.desired for t in trials(database).values()} == {"stop"}
    assert len(trials(database)) == 3


def test_a_decision_on_a_search_that_changed_meanwhile_is_dropped(database, submit, end):
    submit()
    end(1)
    stale = experiment(database)
    search_pass(database, NOW)
    searcher = Searcher.from_state(stale.search_state)
    with database.transaction() as session, pytest.raises(decide.Raced):
        decide.save_search(session, stale, searcher.state(), 2)


def test_trials_that_report_at_the_same_time_all_count(database, submit):
    submit(ASHA.replace("concurrent: 3", "concurrent: 6"))
    failures = []
    barrier = threading.Barrier(6)

    def one(no):
        try:
            barrier.wait(timeout=20)
            with database.transaction() as session:
                trial = session.scalars(select(TrialRow).where(TrialRow.no == no)).one()
                events.on_metrics(session, trial, [Update(no / 10, epoch=3)], NOW)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(no,)) for no in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    keys = keys_heard(database)
    assert sorted(keys[1:]) == [f"validation:{no}:3" for no in range(1, 7)]
    assert experiment(database).best_metric == 0.1


PBT = """
name: population
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: pbt, metric: val/loss, goal: min, population: 3, interval: 2,
  max_length: {epochs: 4}, concurrent: 3}
"""


def rest(database, no, checkpoint_id):
    with database.transaction() as session:
        trial = session.scalars(select(TrialRow).where(TrialRow.no == no)).one()
        trial.state, trial.latest_checkpoint_id = "PAUSED", checkpoint_id
        events.on_trial_paused(session, trial, NOW)


def test_a_clone_begins_from_its_parent_s_checkpoint_once_every_member_rests(
    database, submit, report
):
    submit(PBT)
    assert experiment(database).config.search.trials == 4
    for no, value in enumerate([0.3, 0.1, 0.2], start=1):
        report(no, Update(value, epoch=2))
    search_pass(database, NOW)
    assert {t.desired for t in trials(database).values()} == {"pause"}
    for no in (1, 2, 3, 3):
        rest(database, no, 40 + no)
    search_pass(database, NOW)
    rows = trials(database)
    assert rows[1].desired == "early"
    assert "a clone of trial 2 takes its place" in rows[1].reason
    clone = rows[4]
    assert (clone.parent_no, clone.generation, clone.source_checkpoint_id) == (2, 1, 42)
    assert clone.hparams["lr"] != rows[2].hparams["lr"]
    assert [rows[2].desired, rows[3].desired] == ["run", "run"]
    with database.read() as session:
        results = search_results.results_out(session, clone.experiment_id)
    assert (results.parent_no, results.generation) == ([None, None, None, 2], [0, 0, 0, 1])


def test_a_member_that_a_user_paused_before_its_report_arrived_rests_at_its_rung(
    database, submit, report
):
    submit(PBT)
    rest(database, 1, 41)
    search_pass(database, NOW)
    with database.transaction() as session:
        trial = session.scalars(select(TrialRow).where(TrialRow.no == 1)).one()
        events.on_metrics(session, trial, [Update(0.3, epoch=2)], NOW)
    search_pass(database, NOW)
    for no in (2, 3):
        report(no, Update(no / 10, epoch=2))
        rest(database, no, 40 + no)
    search_pass(database, NOW)
    assert trials(database)[4].parent_no == 2


def test_members_that_trained_past_their_rungs_are_judged_at_each_of_them(database, submit, report):
    submit(PBT, "search.max_length={epochs: 6}", "search.interval={epochs: 1}")
    for no, value in enumerate([0.3, 0.1, 0.2], start=1):
        for epoch in (1, 2, 3):
            report(no, Update(value / epoch, epoch=epoch))
    search_pass(database, NOW)
    for no in (1, 2, 3):
        rest(database, no, None)
    search_pass(database, NOW)
    row = experiment(database)
    assert [len(rung) for rung in Searcher.from_state(row.search_state).rungs] == [3, 3, 3, 0, 0, 0]
    assert {t.desired for t in trials(database).values()} == {"run"}


@pytest.mark.parametrize("first", [ResumeTrial, PauseTrial])
def test_of_several_decisions_about_a_trial_the_last_stands(database, submit, first):
    submit(PBT)
    last = {ResumeTrial: PauseTrial, PauseTrial: ResumeTrial}[first]
    with database.transaction() as session:
        trial = session.scalars(select(TrialRow).where(TrialRow.no == 1)).one()
        trial.state = "PAUSED"
        trial.desired = {ResumeTrial: "pause", PauseTrial: "run"}[first]
        row = session.scalars(select(ExperimentRow)).one()
        decide.carry_out(session, row, [first(no=1, reason="a"), last(no=1, reason="b")], NOW)
    is_paused = last is PauseTrial
    assert trials(database)[1].desired == ("pause" if is_paused else "run")
    # It rests already, and the searcher has to hear of it again.
    assert ("rested:1:0" in keys_heard(database)) is is_paused


POPULATION = """
name: population
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: pbt, metric: val/loss, goal: min, population: 4, max_length: {epochs: 3},
  interval: 1, seed: 3, concurrent: 16}
"""


def _population(database, pass_):
    """A population from its first member to its end; what there was of each trial."""
    values = {1: 0.4, 2: 0.1, 3: 0.3, 4: 0.2}
    for epoch in (1, 2, 3):
        for no, trial in trials(database).items():
            if trial.state in ("STOPPED_EARLY", "COMPLETED"):
                continue
            with database.transaction() as session:
                row = session.get_one(TrialRow, trial.id)
                row.state, row.attempt_no = "RUNNING", epoch
                value = values.get(no, no / 100)
                row.summary = {"val/loss": {"min": value, "max": value}}
                events.on_metrics(session, row, [Update(value, epoch=float(epoch))], NOW)
        pass_()
        for trial in trials(database).values():
            if trial.state != "RUNNING":
                continue
            with database.transaction() as session:
                row = session.get_one(TrialRow, trial.id)
                if epoch == 3:
                    row.state = "COMPLETED"
                    events.on_trial_terminal(session, row, NOW)
                else:
                    row.state, row.latest_checkpoint_id = "PAUSED", 100 * epoch + row.no
                    events.on_trial_paused(session, row, NOW)
        pass_()
        for trial in trials(database).values():
            if trial.desired == "early" and trial.state != "STOPPED_EARLY":
                with database.transaction() as session:
                    row = session.get_one(TrialRow, trial.id)
                    row.state = "STOPPED_EARLY"
                    events.on_trial_terminal(session, row, NOW)
        pass_()
    return [
        (t.no, t.state, t.hparams, t.parent_no, t.generation, t.source_checkpoint_id, t.reason)
        for t in trials(database).values()
    ]


STAIRS = """
name: stairs
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}, width: {int: [1, 64]}}
search: {metric: val/loss, goal: min, max_length: {epochs: 4}, divisor: 2, concurrent: 3, seed: 3,
  method: asha, variant: promotion, sampler: tpe, trials: 6}
"""
HYPERBAND = "search={method: hyperband, metric: val/loss, goal: min, max_length: {epochs: 4}, divisor: 2, concurrent: 3}"
STOPPING = "search.variant=stopping"


def _stairs(database, pass_):
    """Trials that are paused at rungs and sent on, to the end of the search; what there was of each."""
    values = {no: (no * 7 % 11) / 10 for no in range(1, 40)}
    epochs = {}
    for _ in range(60):
        pass_()
        alive = [t for t in trials(database).values() if t.ended_at is None]
        if not alive:
            break
        for trial in alive:
            with database.transaction() as session:
                row = session.get_one(TrialRow, trial.id)
                if row.desired == "early":
                    row.state = "STOPPED_EARLY"
                elif row.desired == "pause":
                    row.state = "PAUSED"
                elif row.no == 5:
                    row.state = "FAILED"
                else:
                    row.state, row.attempt_no = "RUNNING", 1
                    epoch = epochs[row.no] = epochs.get(row.no, 0) + 1
                    reported = [Update(values[row.no] / epoch, epoch=float(epoch))]
                    events.on_metrics(session, row, reported, NOW)
                    if epoch == 4:
                        row.state = "COMPLETED"
                if row.state in ("STOPPED_EARLY", "FAILED", "COMPLETED"):
                    row.ended_at = NOW
                    events.on_trial_terminal(session, row, NOW)
    return [
        (t.no, t.state, t.hparams, t.reason, epochs.get(t.no)) for t in trials(database).values()
    ]


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("document", "overrides", "play"),
    [
        (POPULATION, [], _population),
        (STAIRS, [], _stairs),
        (STAIRS, [STOPPING], _stairs),
        (STAIRS, [HYPERBAND], _stairs),
    ],
    ids=["pbt", "promotion", "stopping", "hyperband"],
)
def test_a_search_is_the_same_when_the_controller_dies_between_any_two_statements(
    submit, database, document, overrides, play
):
    """Every pass of the loop is broken off before each of its statements in turn, then carried out."""
    submit(document, *overrides)
    deaths = 0

    def undisturbed():
        search_pass(database, NOW)

    def dying():
        nonlocal deaths
        for at in range(1, 1_000):
            seen = 0

            def die(*_args, at=at):
                nonlocal seen
                seen += 1
                if seen == at:
                    raise Killed

            event.listen(database.engine, "before_cursor_execute", die)
            try:
                search_pass(database, NOW)
                return
            except Killed:
                deaths += 1
            finally:
                event.remove(database.engine, "before_cursor_execute", die)
        raise AssertionError("the pass does not end")

    found = play(database, dying)
    assert experiment(database).search_state["finished"] is True
    if play is _population:
        assert [row[3:6] for row in found if row[3] is not None] == [(2, 1, 102), (5, 2, 205)]
    else:
        assert {"COMPLETED", "FAILED", "STOPPED_EARLY"} == {row[1] for row in found}
    assert deaths > 30
    with database.transaction() as session:
        for table in (SearchEventRow, EventRow, TrialRow, ExperimentRow):
            session.execute(delete(table))
    submit(document, *overrides)
    assert play(database, undisturbed) == found


def test_a_member_that_has_given_up_its_slots_is_heard_of_with_its_checkpoint(database, submit):
    submit(POPULATION)
    (first, *_) = trials(database).values()
    with database.transaction() as session:
        row = session.get_one(TrialRow, first.id)
        row.state, row.desired, row.latest_checkpoint_id = "RUNNING", "pause", 107
    pause = SetTrial(trial_id=first.id, before="RUNNING", after="PAUSED", reason="at its rung")
    with database.transaction() as session:
        apply_step(session, LifecycleStep(subject=f"trial:{first.id}", actions=(pause,)), now=NOW)
    with database.read() as session:
        (rested,) = session.scalars(
            select(SearchEventRow.event).where(SearchEventRow.key == "rested:1:0")
        )
    assert rested["checkpoint_id"] == 107


@pytest.mark.parametrize("name", ["eval_cosine_ndcg@10", "timing(s)/gen", "val/损失", "acc > 0.5"])
def test_a_search_metric_is_looked_up_exactly_as_the_script_says_it(database, submit, report, name):
    submit(SCRIPT, f'search.metric="{name}"')
    report(1, Update(0.5, epoch=3, name=name), Update(0.1, epoch=3, name=name[:-1]))
    assert experiment(database).best_metric == 0.5
    assert keys_heard(database) == ["started", "validation:1:3"]


def test_choices_of_mappings_have_one_label_wherever_they_are_shown(database, submit):
    submit(SCRIPT, "hyperparameters.arch={choice: [{width: 1, b: 2}, {width: 2, b: 名}]}")
    with database.read() as session:
        results = search_results.results_out(session, experiment(database).id)
    (at,) = [i for i, p in enumerate(results.parameters) if p.name == "arch"]
    choices = results.parameters[at].choices
    assert choices == ['{"b": 2, "width": 1}', '{"b": "名", "width": 2}']
    assert set(results.values[at]) <= set(choices)


def test_a_metric_named_epoch_counts_where_a_report_does_not_say_its_epoch(
    database, submit, report
):
    submit()
    report(1, Update(0.5, step=300, progress={"epochs": 3.0}))
    report(2, Update(0.5, epoch=2.0, progress={"epochs": 3.0}))
    report(3, Update(0.5, step=300))
    assert keys_heard(database) == ["started", "validation:1:3"]
    with database.read() as session:
        told = session.scalars(
            select(EventRow.message).where(EventRow.type == "search.metric_without_length")
        ).all()
    (message,) = told
    assert "Report the epoch, or log a metric named epoch" in message


def test_a_trial_that_ends_is_heard_of_with_all_its_objectives(database, submit):
    submit("""
name: two
entrypoint: train.py
code: {installed: /srv/code}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: random, trials: 2, objectives: [{metric: a, goal: min}, {metric: b, goal: max}]}
""")
    (first, *_) = trials(database).values()
    with database.transaction() as session:
        row = session.get_one(TrialRow, first.id)
        row.state, row.summary = "RUNNING", {"a": {"last": 1.5}, "b": {"last": "NaN"}}
    end = SetTrial(trial_id=first.id, before="RUNNING", after="COMPLETED", reason="done")
    with database.transaction() as session:
        apply_step(session, LifecycleStep(subject=f"trial:{first.id}", actions=(end,)), now=NOW)
    with database.read() as session:
        (ended,) = session.scalars(
            select(SearchEventRow.event).where(SearchEventRow.key == "ended:1")
        )
    assert ended["values"] == [1.5, "NaN"]


def test_an_event_says_when_another_trial_takes_the_lead(database, submit, report):
    submit()
    report(1, Update(0.5, epoch=0.1))
    report(1, Update(0.4, epoch=0.2))
    report(2, Update(0.45, epoch=0.1))
    report(2, Update(0.3, epoch=0.2))
    report(2, Update(0.2, epoch=0.3))
    with database.read() as session:
        told = session.scalars(
            select(EventRow.message).where(EventRow.type == "experiment.new_best")
        ).all()
    assert told == ["Trial 2 has the best val/loss so far: 0.3, before 0.4."]


@pytest.mark.parametrize(("use_guarded", "value"), [("true", 0.5), ("false", None)])
def test_the_result_of_a_trial_that_a_guard_has_changed(
    database, submit, report, end, use_guarded, value
):
    submit(ASHA, f"search.use_guarded={use_guarded}")
    search_pass(database, NOW)
    with database.transaction() as session:
        for trial in session.scalars(select(TrialRow).where(TrialRow.no == 1)):
            trial.hparams_before = {"lr": 0.1}
    for no in (1, 2):
        report(no, Update(0.5, epoch=9.0))
        end(no)
    with database.read() as session:
        rows = session.scalars(
            select(SearchEventRow).where(SearchEventRow.key.in_(("ended:1", "ended:2")))
        )
        assert {row.key: row.event["value"] for row in rows} == {"ended:1": value, "ended:2": 0.5}
