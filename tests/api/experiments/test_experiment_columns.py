"""The experiments table: columns of any key or metric, the order by them, conditions on them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import literal, update

from muster_server.db.models import ExperimentRow
from muster_server.db.models.base import Json
from muster_server.services.experiments import groups, order
from support import data

pytestmark = pytest.mark.both_databases

API = "/api/v1"


def summary(last, low=None, high=None):
    return {"last": last, "min": low, "max": high, "count": 3, "step": 3}


@pytest.fixture
def table(database):
    """name → id. Losses: a 0.5, b 2, c NaN, d Infinity, e -Infinity, f none, g no trial; width: a
    number in two, a text in one."""
    losses = {"a": 0.5, "b": 2, "c": "NaN", "d": "Infinity", "e": "-Infinity", "f": None}
    ids = {}
    with database.transaction() as session:
        for name in "abcdefg":
            experiment = data.add_experiment(session, metric_name="loss")
            experiment.name = name
            width = {"a": 10, "b": 9, "c": "wide"}.get(name)
            experiment.labels = {"team": "vision"} if name in "ab" else {}
            experiment.config = replace(experiment.config, hyperparameters={"width": width})
            ids[name] = experiment.id
            if name == "g":
                continue
            trial = data.add_trial(session, experiment)
            trial.hparams = {"flag": name == "a"}
            if losses[name] is not None:
                trial.summary = {"loss": summary(losses[name], 0.25, 8.0)}
    return ids


def names(client, **params):
    answer = client.get(f"{API}/experiments", params=params)
    assert answer.status_code == 200, answer.text
    return "".join(item["name"] for item in answer.json()["items"])


def walked(client, limit, between=lambda _page: None, **params):
    found, cursor = "", None
    for page in range(20):
        answer = client.get(
            f"{API}/experiments",
            params={**params, "limit": limit, **({"cursor": cursor} if cursor else {})},
        )
        assert answer.status_code == 200, answer.text
        found += "".join(item["name"] for item in answer.json()["items"])
        cursor = answer.json()["next"]
        if cursor is None:
            return found
        between(page)
    raise AssertionError("the pages do not end")


ORDERS = {
    # Infinities at the ends of the numbers, then NaN, then what has no value.
    "metric.last.loss": "eabdcfg",
    "-metric.last.loss": "dbaecgf",
    # Numbers, then text, then nothing.
    "config.hyperparameters.width": "bacdefg",
    "-config.hyperparameters.width": "abcgfed",
    "hparam.flag": "bcdefag",
    "name": "abcdefg",
    "-name": "gfedcba",
    "-created": "gfedcba",
    "started": "abcdefg",
    "owner": "abcdefg",
}


def test_every_order_is_defined_and_pages_continue_it(viewer_client, table):
    for sort, expected in ORDERS.items():
        assert names(viewer_client, sort=sort) == expected, sort
        assert walked(viewer_client, 3, sort=sort) == expected, sort
    assert walked(viewer_client, 1, sort="-metric.last.loss") == ORDERS["-metric.last.loss"]


def test_what_is_added_meanwhile_shifts_nothing(viewer_client, database, table):
    def add(page):
        with database.transaction() as session:
            experiment = data.add_experiment(session)
            experiment.name = "a" if page % 2 else "z"

    for sort in ("metric.last.loss", "name", "-created"):
        found = walked(viewer_client, 2, add, sort=sort)
        old = [name for name in found if name in "bcdefg"]
        assert old == [name for name in ORDERS[sort] if name in "bcdefg"], sort


def test_values_of_columns_come_with_the_rows(viewer_client, table):
    columns = [
        "metric.last.loss", "metric.min.loss", "metric.best.loss", "metric.best.accuracy",
        "config.resources.slots", "config.hyperparameters", "config.no.such", "hparam.flag",
    ]  # fmt: skip
    answer = viewer_client.get(f"{API}/experiments", params={"column": columns, "sort": "name"})
    rows = {item["name"]: item["values"] for item in answer.json()["items"]}
    assert rows["a"] == {
        "metric.last.loss": 0.5, "metric.min.loss": 0.25, "metric.best.loss": 0.25,
        "metric.best.accuracy": None, "config.resources.slots": 2,
        "config.hyperparameters": '{"width": 10}', "config.no.such": None, "hparam.flag": True,
    }  # fmt: skip
    assert rows["c"]["metric.last.loss"] == "NaN"
    assert (rows["g"]["metric.last.loss"], rows["g"]["config.resources.slots"]) == (None, 2)


CONDITIONS = {
    "metric.last.loss < 1": "ae",
    "metric.last.loss >= 2": "bd",
    "metric.last.loss = 2": "b",
    "metric.min.loss > 0.2": "abcde",
    "config.hyperparameters.width > 9": "a",
    "config.hyperparameters.width = wide": "c",
    "hparam.flag = true": "a",
    "name != a": "bcdefg",
    "slots = 2": "abcdefg",
    "label.team = vision": "ab",
    "label.team is missing": "cdefg",
    "config.hyperparameters.width is set": "abc",
    "metric.last.loss is set": "abcde",
    "metric.last.loss is missing": "fg",
    "owner is missing": "abcdefg",
}


def test_conditions_narrow_the_list(viewer_client, table):
    for condition, expected in CONDITIONS.items():
        assert names(viewer_client, where=condition, sort="name") == expected, condition


@pytest.mark.parametrize(
    "name",
    ["acc > 0.5", "timing(s)/gen", "eval_ndcg@10", "a: b, c", "=1+1", "准确率/训练", "50%", "it's",
     'say "acc"', "C:\\loss", '\\"{,}', "a.b"],
)  # fmt: skip
def test_metrics_of_any_name_are_columns(viewer_client, database, name):
    with database.transaction() as session:
        for number, value in enumerate((1.0, 2.0)):
            experiment = data.add_experiment(session)
            experiment.name = "xy"[number]
            data.add_trial(session, experiment).summary = {name: summary(value)}
    column = f"metric.last.{name}"
    assert names(viewer_client, where=f"{column} > 1.5") == "y"
    assert names(viewer_client, where=f"{column} is set", sort=f"-{column}") == "yx"
    items = viewer_client.get(f"{API}/experiments", params={"column": column}).json()["items"]
    assert sorted(item["values"][column] for item in items) == [1.0, 2.0]


@pytest.mark.parametrize("name", ['a"b', "a\\b", '{"}', "plain"])
def test_hyperparameters_of_any_name_are_columns(viewer_client, database, name):
    values = (True, "10", 2.5, [1, {"x": None}], None)
    with database.transaction() as session:
        for number, value in enumerate(values):
            experiment = data.add_experiment(session)
            experiment.name = "abcde"[number]
            data.add_trial(session, experiment).hparams = {name: value}
    column = f"hparam.{name}"
    assert names(viewer_client, where=f"{column} = true") == "a"
    assert names(viewer_client, where=f"{column} = 10") == "b"
    assert names(viewer_client, where=f"{column} > 2") == "c"
    assert names(viewer_client, where=f"{column} is set", sort=column) == "cbda"
    items = viewer_client.get(f"{API}/experiments", params={"column": column}).json()["items"]
    found = {item["name"]: item["values"][column] for item in items}
    assert found == {"a": True, "b": "10", "c": 2.5, "d": '[1, {"x": null}]', "e": None}


def test_conditions_hold_together_and_narrow_bulk_operations(member_client, table):
    both = ["metric.last.loss < 10", "config.hyperparameters.width > 9"]
    assert names(member_client, where=both) == "a"
    body = {"action": "archive", "filter": {"where": both}}
    seen = member_client.post(f"{API}/experiments:bulk-preview", json=body).json()
    assert [item["id"] for item in seen["items"]] == [table["a"]]


REFUSED = (
    {"sort": "no_such"},
    {"sort": "config."},
    {"column": "metric.mean.loss"},
    {"where": "name"},
    {"where": "metric.last.loss ~ 3"},
    {"where": "metric.last.loss < NaN"},
    {"where": "metric.last.loss is 3"},
    {"where": ["name = x"] * 11},
    {"sort": "name", "cursor": "WzFd"},
    {"sort": "metric.last.loss", "cursor": "WzFd"},
)


def test_what_cannot_be_meant_is_refused(viewer_client):
    for params in REFUSED:
        answer = viewer_client.get(f"{API}/experiments", params=params)
        assert answer.status_code == 422, params


def test_the_count_is_of_the_same_filters_and_of_every_page(viewer_client, table):
    def count(**params):
        return viewer_client.get(f"{API}/experiments:count", params=params).json()

    assert count() == {"num_experiments": 7}
    for condition, expected in CONDITIONS.items():
        assert count(where=condition)["num_experiments"] == len(expected), condition
    assert count(q="a", state="PAUSED") == {"num_experiments": 0}
    assert viewer_client.get(f"{API}/experiments:count", params={"limit": 3}).status_code == 422


def test_too_many_to_put_in_order_is_said(viewer_client, table, monkeypatch):
    monkeypatch.setattr(order, "SORT_ROWS_MAX", 6)
    answer = viewer_client.get(f"{API}/experiments", params={"sort": "metric.last.loss"})
    assert answer.json()["error"]["code"] == "experiments.too_many_to_sort"
    assert names(viewer_client, sort="name") == "abcdefg", "there is an index for it"


def test_the_choice_of_columns_says_how_many_have_each(viewer_client, database, table):
    with database.transaction() as session:
        config = literal({"a.b": 1, "x": {"y": None, "z": 1}}, Json)
        session.execute(
            update(ExperimentRow).where(ExperimentRow.id == table["b"]).values(config=config),
            execution_options={"synchronize_session": False},
        )
    found = viewer_client.get(f"{API}/experiments:columns").json()
    counts = {item["column"]: item["num_experiments"] for item in found["items"]}
    assert found["num_searched"] == 7
    assert (counts["metric.last.loss"], counts["hparam.flag"], counts["config.x.z"]) == (5, 6, 1)
    assert "config.resources.slots" in counts
    assert "config.x.y" not in counts, "nothing stands there"


def test_the_best_of_a_metric_follows_the_goal(viewer_client, database):
    with database.transaction() as session:
        for name, goal in (("low", "min"), ("high", "max")):
            experiment = data.add_experiment(session, metric_name="score")
            experiment.name, experiment.metric_goal = name, goal
            data.add_trial(session, experiment).summary = {"score": summary(3, 1.0, 7.0)}
    params = {"sort": "metric.best.score", "column": "metric.best.score"}
    items = viewer_client.get(f"{API}/experiments", params=params).json()["items"]
    assert [(i["name"], i["values"]["metric.best.score"]) for i in items] == [
        ("low", 1), ("high", 7),
    ]  # fmt: skip


def grouped(client, by, *columns, **params):
    answer = client.get(f"{API}/experiments:groups", params={**params, "by": by, "column": columns})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_groups_have_a_size_and_statistics_of_finite_numbers(viewer_client, table):
    reply = grouped(viewer_client, "label.team", "metric.last.loss", "slots")
    assert (reply["by"], reply["num_groups"]) == ("label.team", 2)
    none, vision = reply["items"]
    assert (none["value"], none["num_experiments"]) == (None, 5)
    assert (vision["value"], vision["num_by_state"]) == ("vision", {"RUNNING": 2})
    assert vision["columns"]["metric.last.loss"] == {
        "num_values": 2, "mean": 1.25, "min": 0.5, "max": 2.0,
    }  # fmt: skip
    assert none["columns"]["metric.last.loss"] == {
        "num_values": 0, "mean": None, "min": None, "max": None,
    }  # fmt: skip
    assert none["columns"]["slots"]["mean"] == 2.0


def test_a_group_is_found_again_by_its_condition(viewer_client, table):
    for by in ("config.hyperparameters.width", "hparam.flag", "metric.last.loss", "name", "state"):
        reply = grouped(viewer_client, by)
        assert sum(group["num_experiments"] for group in reply["items"]) == 7, by
        for group in reply["items"]:
            value = group["value"]
            text = "is missing" if value is None else f"= {value}"
            if value == "NaN":
                continue  # nothing equals it
            found = viewer_client.get(f"{API}/experiments:count", params={"where": f"{by} {text}"})
            assert found.json()["num_experiments"] == group["num_experiments"], (by, value)


def test_groups_are_of_what_matches_and_the_largest_are_shown(viewer_client, table, monkeypatch):
    assert grouped(viewer_client, "name", q="a")["num_groups"] == 1
    assert grouped(viewer_client, "name", q="nothing") == {
        "by": "name", "num_groups": 0, "items": [],
    }  # fmt: skip
    monkeypatch.setattr(groups, "MAX_GROUPS", 2)
    reply = grouped(viewer_client, "label.team")
    assert [group["num_experiments"] for group in reply["items"]] == [5, 2]
    reply = grouped(viewer_client, "name")
    assert (len(reply["items"]), reply["num_groups"]) == (2, 7)
    monkeypatch.setattr(order, "SORT_ROWS_MAX", 3)
    answer = viewer_client.get(f"{API}/experiments:groups", params={"by": "name"})
    assert answer.json()["error"]["code"] == "experiments.too_many_to_group"
    assert viewer_client.get(f"{API}/experiments:groups", params={"by": "no"}).status_code == 422
