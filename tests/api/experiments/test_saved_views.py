"""Saved views: one's own, and those shared with a project."""

from __future__ import annotations

import pytest

API = "/api/v1/views"
VIEW = {"page": "experiments", "name": "Best first", "query": "sort=-best&state=RUNNING"}


@pytest.fixture
def eve(connect, make_user_token):
    return connect(token=make_user_token("member", username="eve"))


def make(client, **changes):
    answer = client.post(API, json={**VIEW, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()


def seen(client, **params):
    return [item["name"] for item in client.get(API, params=params).json()["items"]]


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_a_view_is_its_owners_until_it_is_shared(member_client, eve, admin_client):
    admin_client.post("/api/v1/projects", json={"name": "vision"})
    made = make(member_client)
    assert (made["query"], made["is_mine"], made["project"]) == (VIEW["query"], True, None)
    assert (seen(member_client), seen(eve)) == (["Best first"], [])
    path = f"{API}/{made['id']}"
    assert error(eve.patch(path, json={"name": "x"})) == (404, "views.not_found")
    shared = member_client.patch(path, json={"project": "vision"}).json()
    assert (shared["project"], shared["name"]) == ("vision", "Best first")
    assert seen(eve) == ["Best first"]
    assert error(eve.delete(path)) == (403, "views.not_yours")
    assert admin_client.patch(path, json={"query": "q=x"}).json()["query"] == "q=x"
    assert member_client.patch(path, json={"project": None}).json()["project"] is None
    assert member_client.delete(path).status_code == 204
    assert seen(member_client) == []


def test_one_view_of_a_page_opens_first(member_client):
    first = make(member_client, is_default=True)
    make(member_client, name="Other", is_default=True)
    make(member_client, name="Elsewhere", page="compare", is_default=True)
    views = member_client.get(API).json()["items"]
    assert [(v["name"], v["is_default"]) for v in views] == [
        ("Best first", False), ("Other", True), ("Elsewhere", True),
    ]  # fmt: skip
    member_client.patch(f"{API}/{first['id']}", json={"is_default": True})
    assert [v["is_default"] for v in member_client.get(API).json()["items"]] == [True, False, True]
    assert seen(member_client, page="compare") == ["Elsewhere"]


def test_what_cannot_be_is_refused(member_client, viewer_client, eve):
    made = make(member_client)
    assert error(member_client.post(API, json=VIEW)) == (409, "views.name_taken")
    make(eve)
    for changes in ({"page": "queue"}, {"query": "a b"}, {"query": "x" * 4001}, {"name": ""}):
        answer = member_client.post(API, json={**VIEW, "name": "New", **changes})
        assert error(answer) == (422, "request.invalid")
    nowhere = member_client.patch(f"{API}/{made['id']}", json={"project": "nowhere"})
    assert error(nowhere) == (422, "views.no_project")
    assert make(viewer_client)["is_mine"], "a viewer keeps views too"
    answer = viewer_client.post(API, json={**VIEW, "name": "x", "project": "default"})
    assert error(answer) == (403, "views.no_sharing")


def test_views_are_paged(member_client):
    for name in "abc":
        make(member_client, name=name)
    first = member_client.get(API, params={"limit": 2}).json()
    rest = member_client.get(API, params={"cursor": first["next"]}).json()
    assert [v["name"] for v in first["items"] + rest["items"]] == ["a", "b", "c"]
