"""A search that is changed while it goes on."""

import pytest

from muster_server import clock
from muster_server.loops.search import search_pass

DOCUMENT = """
name: search
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}, optimizer: {choice: [adamw, sgd]}}
search: {method: asha, variant: promotion, metric: val/loss, goal: min, trials: 4,
  max_length: {epochs: 9}, divisor: 2, rungs: 2, concurrent: 1}
"""


@pytest.fixture
def submitted(member_client):
    def make(document=DOCUMENT, *overrides):
        body = {"document": document, "overrides": list(overrides)}
        reply = member_client.post("/api/v1/experiments", json=body)
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    return make


def hparams(client, experiment_id):
    items = client.get(f"/api/v1/experiments/{experiment_id}/trials").json()["items"]
    return {trial["no"]: trial["hparams"] for trial in items}


def test_a_point_of_a_user_is_tried_next_and_more_run_at_once(member_client, submitted, database):
    experiment_id = submitted()
    base = f"/api/v1/experiments/{experiment_id}/search"
    point = {"lr": 0.02, "optimizer": "sgd"}
    assert member_client.post(f"{base}/points", json={"hparams": point}).status_code == 202
    assert member_client.put(f"{base}/limits", json={"concurrent": 2}).status_code == 202
    search_pass(database, clock.now())
    assert hparams(member_client, experiment_id)[2] == point
    reply = member_client.put(f"{base}/limits", json={"trials": 64})
    assert reply.status_code == 202
    search_pass(database, clock.now())
    view = member_client.get(base).json()
    assert view["num_trials_planned"] == 64
    assert [rung["units"] for rung in view["rungs"]] == [4, 9]
    shown = member_client.get(f"/api/v1/experiments/{experiment_id}").json()
    assert shown["num_trials_planned"] == 64


@pytest.mark.parametrize(
    ("point", "path", "message"),
    [
        ({"lr": 0.1}, "hparams.optimizer", "is missing"),
        ({"lr": "x", "optimizer": "sgd"}, "hparams.lr", "not a finite number"),
        ({"lr": 0.1, "optimizer": "lamb"}, "hparams.optimizer", "not one of the choices"),
        ({"lr": 0.1, "optimizer": "sgd", "optimiser": 1}, "hparams.optimiser", "no hyperparameter"),
    ],
)
def test_points_that_are_none_are_refused(member_client, submitted, point, path, message):
    experiment_id = submitted()
    reply = member_client.post(
        f"/api/v1/experiments/{experiment_id}/search/points", json={"hparams": point}
    )
    assert reply.status_code == 422
    (problem,) = reply.json()["error"]["fields"]
    assert problem["path"] == path
    assert message in problem["message"]


def test_limits_that_cannot_be_are_refused(member_client, submitted):
    path = f"/api/v1/experiments/{submitted()}/search/limits"
    assert member_client.put(path, json={"trials": 1}).status_code == 422
    several = submitted(DOCUMENT, "search.brackets=conservative")
    path = f"/api/v1/experiments/{several}/search/limits"
    reply = member_client.put(path, json={"trials": 9})
    assert "with several brackets" in reply.json()["error"]["fields"][0]["message"]


def test_only_a_waiting_trial_of_a_search_that_goes_on_is_sent_on(member_client, submitted):
    experiment_id = submitted()
    items = member_client.get(f"/api/v1/experiments/{experiment_id}/trials").json()["items"]
    reply = member_client.post(f"/api/v1/trials/{items[0]['id']}:promote")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "search.not_waiting")
    member_client.post(f"/api/v1/experiments/{experiment_id}:stop")
    reply = member_client.post(f"/api/v1/trials/{items[0]['id']}:promote")
    assert reply.json()["error"]["code"] == "search.finished"
