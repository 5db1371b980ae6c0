"""The trials of an experiment: conditions on any hyperparameter and metric, and the order by them."""

from __future__ import annotations

import datetime as dt

import pytest

from muster_server.services.experiments import trial_columns
from support import data

pytestmark = pytest.mark.both_databases

API = "/api/v1"
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def summary(last, low=None):
    return {"last": last, "min": low, "max": 9.0, "count": 3, "step": 3}


@pytest.fixture
def search(database):
    """Five trials: lr 0.1 to 0.4 and one with none; the losses 3, 1, NaN, 2 and none."""
    with database.transaction() as session:
        experiment = data.add_experiment(session, metric_name="loss")
        losses = [3.0, 1.0, "NaN", 2.0, None]
        for no, loss in enumerate(losses, start=1):
            trial = data.add_trial(session, experiment, no=no)
            trial.hparams = {"lr": no / 10, "opt": "sgd" if no % 2 else "adam"} if no < 5 else {}
            trial.started_at, trial.ended_at = START, START + dt.timedelta(seconds=100 - no)
            if loss is not None:
                trial.summary = {"loss": summary(loss, 0.5 * no), "val/acc": summary(no)}
        return experiment.id


def numbers(client, experiment_id, limit=50, **params):
    found, cursor = "", None
    for _ in range(20):
        query = {**params, "limit": limit, **({"cursor": cursor} if cursor else {})}
        answer = client.get(f"{API}/experiments/{experiment_id}/trials", params=query)
        assert answer.status_code == 200, answer.text
        found += "".join(str(item["no"]) for item in answer.json()["items"])
        cursor = answer.json()["next"]
        if cursor is None:
            return found
    raise AssertionError("the pages do not end")


def test_trials_are_in_the_order_of_any_column(viewer_client, search):
    orders = {
        "-hparam.lr": "43215",
        "hparam.opt": "24135",
        "metric.last.loss": "24135",  # then NaN, then what has no value
        "-metric.last.loss": "14235",
        "metric.min.loss": "12345",
        "metric.best.loss": "12345",
        "-metric.last.val/acc": "43215",
        "elapsed": "54321",
        "-no": "54321",
    }
    for sort, expected in orders.items():
        for limit in (50, 2):
            assert numbers(viewer_client, search, limit, sort=sort) == expected, (sort, limit)


def test_conditions_hold_together(viewer_client, search):
    assert numbers(viewer_client, search, where=["hparam.lr >= 0.2"]) == "234"
    where = ["hparam.lr >= 0.2", "metric.last.loss < 3", "hparam.opt = adam"]
    assert numbers(viewer_client, search, where=where, sort="-hparam.lr") == "42"
    assert numbers(viewer_client, search, where=["metric.best.loss > 1"]) == "34"
    assert numbers(viewer_client, search, where=["no <= 2"], sort="-no") == "21"
    assert numbers(viewer_client, search, where=["state = RUNNING", "no > 3"]) == "45"
    assert numbers(viewer_client, search, where=["state != RUNNING"]) == ""
    assert numbers(viewer_client, search, where=["elapsed < 97.5"]) == "345"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"sort": "config.resources.slots"}, "experiments.bad_column"),
        ({"sort": "priority"}, "experiments.bad_column"),
        ({"where": ["owner = eve"]}, "experiments.bad_column"),
        ({"where": ["lr<1"]}, "experiments.bad_column"),
        ({"where": ["no > 1"] * 11}, "request.invalid"),
    ],
)
def test_what_is_no_column_of_trials_is_refused(viewer_client, search, params, code):
    answer = viewer_client.get(f"{API}/experiments/{search}/trials", params=params)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)


def test_more_trials_than_can_be_sorted_are_refused(viewer_client, search, monkeypatch):
    monkeypatch.setattr(trial_columns, "SORT_ROWS_MAX", 4)
    path = f"{API}/experiments/{search}/trials"
    answer = viewer_client.get(path, params={"sort": "hparam.lr"})
    assert answer.json()["error"]["code"] == "trials.too_many_to_sort"
    assert viewer_client.get(path, params={"sort": "metric"}).status_code == 200
    narrowed = {"sort": "hparam.lr", "where": ["no < 4"]}
    assert viewer_client.get(path, params=narrowed).status_code == 200
