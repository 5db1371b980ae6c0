"""Panels of experiments and projects: who sees them, who changes them, and what they must hold."""

from __future__ import annotations

import pytest

from muster_server.services.core import panels

API = "/api/v1/panels"
PANEL = {"title": "Gap", "kind": "line", "expressions": ["train/loss - val/loss"]}
DOCUMENT = "name: run\nentrypoint: train.py\ncode: {installed: /srv/code}\n"


@pytest.fixture
def eve(connect, make_user_token):
    return connect(token=make_user_token("member", username="eve"))


@pytest.fixture
def experiment(member_client):
    answer = member_client.post("/api/v1/experiments", json={"document": DOCUMENT})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def make(client, **changes):
    answer = client.post(API, json={**PANEL, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()


def titles(client, **params):
    return [item["title"] for item in client.get(API, params=params).json()["items"]]


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_an_experiment_shows_its_own_panels_and_those_of_its_project(
    member_client, viewer_client, admin_client, experiment
):
    admin_client.post("/api/v1/projects", json={"name": "vision"})
    make(member_client, title="Everywhere", project="default")
    made = make(member_client, title="Here", experiment_id=experiment)
    make(member_client, title="Elsewhere", project="vision")
    assert (made["project"], made["experiment_id"], made["may_change"]) == (
        "default", experiment, True,
    )  # fmt: skip
    assert titles(viewer_client, experiment=experiment) == ["Here", "Everywhere"]
    assert titles(viewer_client, project="default") == ["Everywhere"]
    assert [
        item["may_change"]
        for item in viewer_client.get(API, params={"experiment": experiment}).json()["items"]
    ] == [False, False]


def test_a_mark_stands_at_a_step(member_client, experiment):
    mark = {"kind": "mark", "expressions": [], "experiment_id": experiment}
    made = make(member_client, title="New data", x="1200", **mark)
    assert (made["kind"], made["x"], made["title"]) == ("mark", "1200", "New data")
    moved = member_client.patch(f"{API}/{made['id']}", json={"x": "1300"})
    assert moved.json()["x"] == "1300"


@pytest.mark.parametrize("x", [None, "-1", "1.5", "train/loss", "²", "9" * 17])
def test_a_mark_without_a_step_is_refused(member_client, experiment, x):
    body = {**PANEL, "kind": "mark", "x": x, "experiment_id": experiment}
    answer = member_client.post(API, json=body)
    assert error(answer) == (422, "panels.incomplete")
    assert answer.json()["error"]["fields"][0]["path"] == "x"


def test_panels_have_an_order(member_client, experiment):
    ids = [make(member_client, title=name, experiment_id=experiment)["id"] for name in "abc"]
    member_client.patch(f"{API}/{ids[2]}", json={"position": 0})
    assert titles(member_client, experiment=experiment) == ["c", "a", "b"]
    member_client.patch(f"{API}/{ids[2]}", json={"position": 99})
    assert titles(member_client, experiment=experiment) == ["a", "b", "c"]
    assert member_client.delete(f"{API}/{ids[0]}").status_code == 204
    items = member_client.get(API, params={"experiment": experiment}).json()["items"]
    assert [(item["title"], item["position"]) for item in items] == [("b", 0), ("c", 1)]


def test_who_may_change_a_panel(member_client, eve, admin_client, viewer_client, experiment):
    hers = make(eve, experiment_id=experiment)
    shared = make(eve, project="default")
    mine = make(member_client, experiment_id=experiment)
    assert error(eve.patch(f"{API}/{mine['id']}", json={"title": "x"})) == (
        403, "panels.not_yours",
    )  # fmt: skip
    assert error(member_client.delete(f"{API}/{shared['id']}")) == (403, "panels.not_yours")
    assert viewer_client.post(API, json={**PANEL, "project": "default"}).status_code == 403
    assert viewer_client.delete(f"{API}/{mine['id']}").status_code == 403
    changed = member_client.patch(f"{API}/{hers['id']}", json={"kind": "scatter", "x": "lr"})
    assert (changed.json()["x"], changed.json()["title"]) == ("lr", "Gap"), "the experiment is his"
    assert member_client.patch(f"{API}/{hers['id']}", json={"x": None}).json()["x"] is None
    assert admin_client.delete(f"{API}/{shared['id']}").status_code == 204
    assert error(admin_client.delete(f"{API}/{shared['id']}")) == (404, "panels.not_found")


def test_what_cannot_be_shown_is_refused(member_client, experiment, monkeypatch):
    made = make(member_client, experiment_id=experiment)
    refused = [
        ({"project": "nowhere"}, 422, "panels.no_project"),
        ({}, 422, "panels.no_project"),
        ({"experiment_id": 999_999}, 404, "experiments.not_found"),
        ({"project": "default", "expressions": []}, 422, "panels.incomplete"),
        ({"project": "default", "kind": "markdown"}, 422, "panels.incomplete"),
        ({"project": "default", "kind": "pie"}, 422, "request.invalid"),
        ({"project": "default", "expressions": ["a"] * 13}, 422, "request.invalid"),
        ({"project": "default", "expressions": ["a" * 501]}, 422, "request.invalid"),
    ]
    for changes, status, code in refused:
        assert error(member_client.post(API, json={**PANEL, **changes})) == (status, code), changes
    emptied = member_client.patch(f"{API}/{made['id']}", json={"expressions": []})
    assert error(emptied) == (422, "panels.incomplete")
    assert emptied.json()["error"]["fields"][0]["path"] == "expressions"
    monkeypatch.setattr(panels, "MAX_PANELS", 1)
    assert error(member_client.post(API, json={**PANEL, "experiment_id": experiment})) == (
        409, "panels.too_many",
    )  # fmt: skip


def test_panels_go_with_what_they_belong_to(member_client, admin_client, database):
    admin_client.post("/api/v1/projects", json={"name": "brief"})
    made = make(member_client, project="brief")
    assert admin_client.delete("/api/v1/projects/brief").status_code == 204
    assert error(member_client.delete(f"{API}/{made['id']}")) == (404, "panels.not_found")
