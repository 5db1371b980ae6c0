"""What a search says of trials that fail, and of a metric that nobody reports; real controller."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import AttemptRow, EventRow, ExperimentRow, TrialRow
from muster_server.domain.lifecycle import LifecycleStep, SetTrial
from muster_server.loops.search import search_pass
from muster_server.services.lifecycle import apply_step
from muster_server.services.metrics import summaries
from muster_server.services.search.standstill import standstill
from support.data import add_attempt

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
SCRIPT = """
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: random, metric: val/acc, goal: max, trials: 6, concurrent: 6}
"""
MEMORY = (
    "rank {no} on node-{no} exited with code 1: RuntimeError: 3 heads do not divide {no}4; "
    "no restart is left (restarts.user allows 0 restarts)"
)


@pytest.fixture
def end(database):
    """End a trial as the lifecycle does, after it has reported these metrics."""

    def finish(no, state="COMPLETED", reason="it ended", **metrics):
        with database.transaction() as session:
            trial = session.scalars(select(TrialRow).where(TrialRow.no == no)).one()
            trial.state = "RUNNING"
            for name, value in metrics.items():
                key = name.replace("__", "/")
                trial.summary = {
                    **trial.summary,
                    key: summaries.add_value(trial.summary.get(key), value, 1),
                }
                trial.step = 1
            trial_id = trial.id
        action = SetTrial(trial_id=trial_id, before="RUNNING", after=state, reason=reason)
        with database.transaction() as session:
            apply_step(
                session, LifecycleStep(subject=f"trial:{trial_id}", actions=(action,)), now=NOW
            )
        search_pass(database, NOW)

    return finish


def only(database, column):
    with database.read() as session:
        return session.scalars(select(column)).one()


def states(database):
    with database.read() as session:
        return list(session.scalars(select(TrialRow.desired).order_by(TrialRow.no)))


def events(database):
    with database.read() as session:
        query = select(EventRow.message).where(EventRow.type == "search.metric_missing")
        return list(session.scalars(query))


def notices(show):
    return [notice["text"] for notice in show("/experiments/1")["notices"]]


def test_the_first_trial_without_the_metric_is_told_of_once_with_the_nearest_name(
    database, submit, end, show
):
    submit(SCRIPT)
    search_pass(database, NOW)
    assert notices(show) == []
    end(1, val__accuracy=0.5, val__loss=1.0, time__step_ms=3.0)
    end(2, val__accuracy=0.6)
    (message,) = events(database)
    assert message.startswith("Trial 1 ended without val/acc, by which this search compares trials")
    assert "It reported val/accuracy: is that the one?" in message
    (notice,) = notices(show)
    assert notice.startswith("2 of 2 trials that ended normally have no value of val/acc")
    assert "val/accuracy" in notice


def test_a_search_of_which_nobody_reported_the_metric_is_not_completed(
    database, submit, end, show, controller
):
    submit(SCRIPT)
    search_pass(database, NOW)
    for no in range(1, 7):
        end(no, loss=0.1 * no, epoch_loss=1.0)
    controller.tick()
    experiment = show("/experiments/1")
    assert experiment["state"] == "FAILED"
    assert experiment["reason"] == (
        "No trial reported val/acc, by which this search compares trials. Trial 1: It reported "
        "epoch_loss, loss. Set `search.metric` to one of these, or log val/acc"
    )


@pytest.mark.parametrize("values", [{"val__acc": 0.5}, {"val__acc": float("nan")}])
def test_one_value_is_enough_to_complete_a_search_and_one_that_is_not_finite_is_one(
    database, submit, end, show, controller, values
):
    submit(SCRIPT)
    search_pass(database, NOW)
    for no in range(1, 6):
        end(no, loss=0.1)
    end(6, **values)
    controller.tick()
    assert show("/experiments/1")["state"] == "COMPLETED"
    assert len(events(database)) == 1


def test_first_trials_that_fail_alike_before_any_report_end_the_search(
    database, submit, end, show, controller
):
    submit(SCRIPT)
    search_pass(database, NOW)
    for no in (1, 2):
        end(no, "FAILED", MEMORY.format(no=no))
    assert only(database, ExperimentRow.search_state)["finished"] is False
    end(3, "FAILED", MEMORY.format(no=3))
    reason = only(database, ExperimentRow.search_state)["finish_reason"]
    assert reason.startswith(
        "its first 3 trials failed alike before any of them reported a value: RuntimeError: 3 heads"
    )
    assert "Correct that and submit again" in reason
    assert states(database)[3:] == ["early"] * 3
    assert notices(show) == [
        "3 of 6 trials failed, all for the same reason: RuntimeError: 3 heads do not divide 14."
    ]
    for no in (4, 5, 6):
        end(no, "STOPPED_EARLY")
    controller.tick()
    experiment = show("/experiments/1")
    assert (experiment["state"], experiment["reason"]) == (
        "FAILED",
        reason.replace("its", "Its", 1),
    )


@pytest.mark.parametrize(
    ("limits", "reasons", "reports", "is_over"),
    [
        ("", [MEMORY, MEMORY, MEMORY], {}, True),
        # Other causes, a report of anybody, and what the document allows.
        ("", [MEMORY, "exit code 3", MEMORY, MEMORY], {}, False),
        ("", [MEMORY, MEMORY, MEMORY, MEMORY], {"loss": 1.0}, False),
        ("max_failures: 5, ", [MEMORY] * 4, {}, False),
        ("max_failures: 2, ", [MEMORY] * 2, {}, True),
    ],
)
def test_what_counts_as_failing_alike(database, submit, end, limits, reasons, reports, is_over):
    submit(SCRIPT.replace("method: random, ", f"method: random, {limits}"))
    search_pass(database, NOW)
    for no, reason in enumerate(reasons, start=1):
        end(no, "FAILED", reason.format(no=no), **(reports if no == 1 else {}))
    assert only(database, ExperimentRow.search_state)["finished"] is is_over


def test_a_search_with_failed_trials_says_so_whatever_its_state(
    database, submit, end, show, controller
):
    submit(SCRIPT)
    search_pass(database, NOW)
    end(1, val__acc=0.5)
    end(2, "FAILED", "rank 1 on n: size mismatch for layers.0: [8, 1]")
    assert notices(show) == ["1 of 6 trials failed (trial 2): size mismatch for layers.0: [8, 1]."]
    end(3, "FAILED", "rank 0 on m: size mismatch for layers.0: [16, 1]")
    end(4, "FAILED", "exit code 3")
    for no in (5, 6):
        end(no, val__acc=0.6)
    controller.tick()
    experiment = show("/experiments/1")
    assert experiment["state"] == "COMPLETED"
    (notice,) = experiment["notices"]
    assert notice["text"] == (
        "3 of 6 trials failed. Of the first 3, 2 failed for the same reason as trial 2: size "
        "mismatch for layers.0: [8, 1]."
    )
    assert notice["parts"][0]["code"] == "search.some_failed_alike"


def test_a_single_training_says_none_of_this(database, submit, end, show, controller):
    submit("search: {metric: a, goal: min}")
    search_pass(database, NOW)
    end(1, loss=1.0)
    controller.tick()
    assert show("/experiments/1")["state"] == "COMPLETED"
    assert (notices(show), events(database)) == ([], [])


def test_every_objective_has_to_be_reported(database, submit, end, show, controller):
    submit(
        "search: {method: random, trials: 1,"
        " objectives: [{metric: loss, goal: min}, {metric: size, goal: min}]}"
    )
    search_pass(database, NOW)
    end(1, loss=1.0)
    controller.tick()
    assert show("/experiments/1")["state"] == "FAILED"
    assert "No trial reported size" in show("/experiments/1")["reason"]


POPULATION = """
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: pbt, metric: val/loss, goal: min, population: 3, max_length: {epochs: 4}}
"""


def test_a_search_that_stands_still_for_longer_than_its_trials_ran_says_so(database, submit, show):
    submit(POPULATION)
    search_pass(database, NOW)
    with database.transaction() as session:
        for trial in session.scalars(select(TrialRow)):
            trial.state, trial.desired = "PAUSED", "pause"
            add_attempt(session, trial)
        for attempt in session.scalars(select(AttemptRow)):
            attempt.started_at, attempt.ended_at = NOW, NOW + dt.timedelta(minutes=9)
        session.scalars(select(ExperimentRow)).one().state = "RUNNING"
        moved_at = max(session.scalars(select(EventRow.at)))

    def said(minutes):
        at = moved_at + dt.timedelta(minutes=minutes)
        with database.read() as session:
            message = standstill(session, session.get_one(ExperimentRow, 1), {"PAUSED": 2}, at)
        return None if message is None else message.english

    assert said(9) is None
    assert show("/experiments/1")["standstill"] is None
    assert said(10) == (
        "This search has stood still for 10 min, longer than any of its trials ran: nothing of it runs "
        "or is queued, and 2 paused trials at a rung can no longer be judged. Stop the experiment and "
        "continue it: its trials go on from their checkpoints."
    )
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().search_seq -= 1
    assert "the controller has not decided on 1 event of it" in said(10)
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().desired = "pause"
    assert said(10) is None


def test_a_single_training_that_stands_still_says_so_and_one_that_was_paused_does_not(
    database, submit, show, monkeypatch
):
    """The default document: one trial, without a search."""
    submit()
    search_pass(database, NOW)
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().state = "RUNNING"
    later = clock.now() + dt.timedelta(minutes=3)
    monkeypatch.setattr(clock, "now", lambda: later)
    for state, stands_still in (("COMPLETED", True), ("PAUSED", False), ("QUEUED", False)):
        with database.transaction() as session:
            session.scalars(select(TrialRow)).one().state = state
        warnings = show("/cluster")["warnings"]
        assert len(warnings) == stands_still, state
        for warning in warnings:
            assert warning["standstill"]["text"] == (
                "It has stood still for 3 min, longer than any of its attempts ran: nothing of it runs or is "
                "queued, and it has not ended. Stop the experiment and continue it: its trials go on from their "
                "checkpoints."
            )


def test_a_standstill_is_on_the_page_and_in_the_list(database, submit, show, monkeypatch):
    submit(POPULATION)
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().state = "RUNNING"
        for trial in session.scalars(select(TrialRow)):
            trial.state = "PAUSED"
    later = clock.now() + dt.timedelta(minutes=3)
    monkeypatch.setattr(clock, "now", lambda: later)
    found = show("/experiments/1")
    assert found["standstill"]["text"].startswith("This search has stood still for 3 min")
    assert found["notices"][0] == found["standstill"]
    assert show("/experiments")["items"][0]["standstill"] == found["standstill"]
    cluster = show("/cluster")
    (warning,) = cluster["warnings"]
    assert (warning["experiment_id"], warning["standstill"]) == (1, found["standstill"])
    assert (warning["non_finite_metric"], cluster["num_warnings"]) == (None, 1)
