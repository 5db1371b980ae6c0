"""What the charts of a search are drawn from."""

import datetime as dt

from sqlalchemy import select

from muster_server.db.models import TrialRow

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
DOCUMENT = """
name: search
trainer: {}
hyperparameters:
  lr: {log: [1e-4, 1e-1]}
  weight_decay: {uniform: [0, 1]}
  optimizer: {choice: [adamw, sgd]}
  momentum: {uniform: [0, 1], when: {optimizer: sgd}}
search: {method: random, metric: val/loss, goal: min, trials: 40, concurrent: 40}
"""


def submit(client):
    reply = client.post("/api/v1/experiments", json={"document": DOCUMENT})
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
