"""What guards would have done, by request and by command, and what they do in words."""

import datetime as dt
import math

import pytest

from muster_server.db.models import AttemptRow
from muster_server.services.metrics import ingest
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

SPIKE = "- {metric: train/loss, spike: {times: 5, window: 10}, action: notify}\n"


@pytest.fixture
def trial(database):
    """A trial with a spike at step 1,240 and a loss that is not finite in its second attempt."""
    losses = [2.0] * 1239 + [13.2] + [2.0] * 60
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        row.hparams = {"lr": 0.1}
        row.summary = {"train/loss": {"last": 2.0, "min": 2.0, "max": 13.2, "count": 1, "step": 1}}
        first = list(enumerate(losses, 1))
        again = [(1201, 2.0), (1202, math.nan)]
        for no, points in enumerate((first, again), 1):
            (allocation,) = add_attempt(session, row, no=no)
            record = metrics_record({"train/loss": points})
            ingest.ingest(session, allocation=allocation, seq=1, record=record, at=NOW)
    return row


def try_guards(client, trial, guards=None):
    return client.post(f"/api/v1/trials/{trial.id}/guards:try", json={"guards": guards})


def test_on_stored_values(viewer_client, trial):
    guards = SPIKE + "- {metric: train/loss, not_finite: true, action: rollback, set: {lr: x0.5}}"
    spike, infinite = try_guards(viewer_client, trial, guards).json()["items"]
    assert spike["text"] == (
        "Would have acted at step 1,240: train/loss 13.2 is 6.6 times the median of 10 values."
    )
    assert (spike["num_values"], spike["is_cut"]) == (1302, False)
    (firing,) = infinite["firings"]
    assert firing["text"] == "Would have acted at step 1,202: train/loss is NaN."
    assert (firing["attempt_no"], firing["before_step"], firing["value"]) == (2, 1201, "NaN")


@pytest.mark.parametrize("name", ["time/step_ms", "test/logloss"])
def test_silence_is_heard_from_the_start_of_the_workers_on(viewer_client, database, name):
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row, no=1)
        record = metrics_record({name: [(1, 1.0), (2, 1.0)]})
        ingest.ingest(session, allocation=allocation, seq=1, record=record, at=NOW)
        first_ms = record.series[0].times_ms[0]
        attempt = session.get_one(AttemptRow, allocation.attempt_id)
        attempt.started_at = dt.datetime.fromtimestamp(first_ms / 1000 - 3600, dt.UTC)
    (one,) = try_guards(viewer_client, row, "[{no_step_for_min: 30, action: stop}]").json()["items"]
    assert one["text"] == "Would have acted at step 0: there has been no step for 60 min."
    assert one["num_values"] == 2


def test_a_trial_without_any_step(viewer_client, database):
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
    (one,) = try_guards(viewer_client, row, "[{no_step_for_min: 30, action: stop}]").json()["items"]
    assert one["text"] == "The trial has made no step that was measured or logged."


def test_a_metric_that_is_not_there(viewer_client, trial):
    (one,) = try_guards(
        viewer_client, trial, "[{metric: train/los, above: 1, action: stop}]"
    ).json()["items"]
    assert one["text"] == "The trial has no values of train/los: did you mean 'train/loss'?"


def test_guards_that_cannot_work(viewer_client, trial):
    reply = try_guards(
        viewer_client, trial, "[{metric: a, above: 1, action: rollback, set: {lrr: 1}}]"
    )
    (field,) = reply.json()["error"]["fields"]
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "guards.invalid")
    assert (field["path"], field["hint"]) == ("guards[0].set.lrr", "did you mean 'lr'?")


def test_more_values_than_are_read(viewer_client, trial, monkeypatch):
    monkeypatch.setattr("muster_server.services.runtime.guard_trials.POINTS_PER_TRY", 100)
    (one,) = try_guards(viewer_client, trial, SPIKE).json()["items"]
    assert (one["num_values"], one["is_cut"]) == (100, True)
    assert one["text"] == "Would not have acted on 100 values."


def test_by_default_the_guards_of_the_trial(viewer_client, trial):
    assert try_guards(viewer_client, trial).json() == {"items": []}


def test_by_command(muster, trial, tmp_path):
    file = tmp_path / "guards.yaml"
    file.write_text(SPIKE)
    shown = muster("guard", "try", str(trial.experiment_id), str(file))
    assert shown.exit_code == 0, shown.output
    assert "Guard 1: When train/loss exceeds 5 times the median" in shown.stdout
    assert "Would have acted at step 1,240" in shown.stdout
    assert muster("guard", "try", str(trial.experiment_id)).stdout.strip() == (
        "The trial has no guards."
    )


def test_validate_says_what_they_do(muster, tmp_path):
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "name: x\ntrainer: {}\n"
        "guards: [{no_step_for_min: 30, action: restart_elsewhere, max_times: 3}]\n"
    )
    shown = muster("validate", str(file))
    assert shown.exit_code == 0, shown.output
    assert " ".join(shown.stdout.split()).startswith(
        "Valid: 1 trial. Guard 1: When there is no step for 30 min, restart the trial from its newest "
        "checkpoint on other nodes. It acts at most 3 times. If no other node fits, tell people instead."
    )
