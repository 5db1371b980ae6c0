"""What the charts of a search are drawn from."""

import datetime as dt
from itertools import pairwise

from sqlalchemy import select

from muster_server.db.models import TrialRow
from muster_server.domain.search.ranking import RungEntry
from muster_server.services.experiments.views import RUNG_BEST, RUNG_TRIALS_MAX, thinned

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
DOCUMENT = """
name: search
trainer: {}
hyperparameters:
  lr: {log: [1e-4, 1e-1]}
  weight_decay: {uniform: [0, 1]}
  optimizer: {choice: [adamw, sgd]}
  momentum: {uniform: [0, 0.99], when: {optimizer: sgd}}
search: {method: random, metric: val/loss, goal: min, trials: 40, concurrent: 40}
"""


def submit(client, *overrides):
    reply = client.post(
        "/api/v1/experiments", json={"document": DOCUMENT, "overrides": list(overrides)}
    )
    assert reply.status_code == 201, reply.text
    return reply.json()["id"]


def test_results_stand_in_columns_and_absent_values_are_null(member_client):
    experiment_id = submit(member_client)
    found = member_client.get(f"/api/v1/experiments/{experiment_id}/search/results").json()
    assert [(p["name"], p["kind"], p["log"]) for p in found["parameters"]] == [
        ("lr", "number", True),
        ("momentum", "number", False),
        ("optimizer", "choice", False),
        ("weight_decay", "number", False),
    ]
    assert found["no"] == list(range(1, 41))
    assert found["epoch"] == [None] * 40
    _, momentum, optimizer, _ = found["values"]
    assert [m is not None for m in momentum] == [o == "sgd" for o in optimizer]
    assert found["metric"] == [None] * 40


def test_importance_says_from_how_many_trials_and_none_from_too_few(member_client, database):
    experiment_id = submit(member_client)
    path = f"/api/v1/experiments/{experiment_id}/search/importance"
    assert member_client.get(path).json() == {"num_trials": 0, "min_trials": 20, "shares": None}
    with database.transaction() as session:
        for trial in session.scalars(select(TrialRow)):
            trial.metric = (trial.hparams["weight_decay"] - 0.5) ** 2
    found = member_client.get(path).json()
    assert found["num_trials"] == 40
    assert next(iter(found["shares"])) == "weight_decay"
    assert abs(sum(found["shares"].values()) - 1) < 1e-6
    assert "momentum" not in found["shares"]


def test_the_front_is_made_of_trials_that_have_ended_well(member_client, database):
    experiment_id = submit(
        member_client,
        "search.metric=null",
        "search.goal=null",
        "search.trials=5",
        "search.objectives=[{metric: val/loss, goal: min}, {metric: val/accuracy, goal: max}]",
    )
    values = [(0.5, 0.9), (0.4, 0.8), (0.6, 0.8), (0.1, 1.0), (0.3, "NaN")]
    with database.transaction() as session:
        for trial, (loss, accuracy) in zip(session.scalars(select(TrialRow)), values, strict=True):
            trial.state = "FAILED" if loss == 0.1 else "COMPLETED"
            trial.summary = {"val/loss": {"last": loss}, "val/accuracy": {"last": accuracy}}
    found = member_client.get(f"/api/v1/experiments/{experiment_id}/search/results").json()
    assert (found["metric_name"], found["metric_goal"]) == ("val/loss", "min")
    assert found["objectives"][1] == {
        "metric": "val/accuracy",
        "goal": "max",
        "values": [0.9, 0.8, 0.8, 1.0, "NaN"],
    }
    assert found["front"] == [0, 1]


def test_a_full_rung_is_shown_by_its_best_and_evenly_down_to_its_last():
    entries = [RungEntry(trial_no=no, value=float(no), goes_on=None) for no in range(10_000)]
    shown = [entry.trial_no for entry in thinned(entries)]
    assert shown[:RUNG_BEST] == list(range(RUNG_BEST))
    assert len(set(shown)) == RUNG_TRIALS_MAX
    assert shown == sorted(shown)
    assert shown[-1] == 9_999
    gaps = [b - a for a, b in pairwise(shown[RUNG_BEST:])]
    assert max(gaps) - min(gaps) <= 1
    assert thinned(entries[:RUNG_TRIALS_MAX]) == entries[:RUNG_TRIALS_MAX]
