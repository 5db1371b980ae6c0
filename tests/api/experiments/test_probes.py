"""Short runs of an experiment, made to find out something about it."""

from __future__ import annotations

import datetime as dt

import pytest

from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.errors import InvalidRequest
from muster_server.services.insight.probes import check_probe, launch_probe

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
DOCUMENT = """
name: digits
trainer: {model: mlp, epochs: 9, early_stopping: {patience: 2}}
resources: {slots: 4, min_slots: 2}
hyperparameters: {lr: {log: [1e-4, 1e-1]}, epochs: {choice: [5, 7]}}
search: {method: random, trials: 3, metric: val/loss, goal: min}
budget: {slot_hours: 1}
checkpoints: {every: {epochs: 1}}
"""


@pytest.fixture
def source(member_client):
    answer = member_client.post("/api/v1/experiments", json={"document": DOCUMENT})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_a_probe_is_a_short_run_with_the_hyperparameters_of_the_best_trial(
    member_client, database, source
):
    with database.transaction() as session:
        row = session.get_one(ExperimentRow, source)
        best = session.query(TrialRow).filter_by(experiment_id=source, no=2).one()
        row.best_trial_id = best.id
        hparams = best.hparams
        probe_id = launch_probe(
            session, row, ["resources.slots=2"], purpose="scaling", name="probe", num_steps=40,
            user_id=None, user_name="eve", now=NOW,
        )  # fmt: skip
    made = member_client.get(f"/api/v1/experiments/{probe_id}").json()
    assert (made["name"], made["purpose"]) == ("probe", "scaling")
    assert made["parent"]["experiment_id"] == source
    config = made["config"]
    assert config["hyperparameters"] == {"lr": hparams["lr"]}
    assert (config["trainer"]["steps"], config["trainer"]["epochs"]) == (40, None)
    assert config["trainer"]["early_stopping"] is None
    assert config["resources"]["slots"] == 2
    assert config["resources"]["min_slots"] is None
    assert config["budget"] is None
    assert config["checkpoints"]["every"] is None
    assert made["num_trials"] == 1
    listed = member_client.get("/api/v1/experiments").json()["items"]
    assert [(e["id"], e["purpose"]) for e in listed] == [(probe_id, "scaling"), (source, None)]


def test_a_probe_that_cannot_work_is_refused_with_the_key(database, source):
    with database.transaction() as session:
        row = session.get_one(ExperimentRow, source)
        config = check_probe(
            session,
            row,
            ["resources.slots=1"],
            purpose="scaling",
            num_steps=5,
            user_id=None,
            now=NOW,
        )
        assert config.resources.slots == 1
        assert config.trainer.options == {"rows_per_s": 0, "time_network": True}
        other = check_probe(
            session, row, [], purpose="diagnose", num_steps=5, user_id=None, now=NOW
        )
        assert other.trainer.options == {"rows_per_s": 0}
        with pytest.raises(InvalidRequest) as refused:
            check_probe(
                session,
                row,
                ["strategy.kind=ps", "resources.slots=1"],
                purpose="scaling",
                num_steps=5,
                user_id=None,
                now=NOW,
            )
    assert [f.path for f in refused.value.fields] == ["resources.slots"]
