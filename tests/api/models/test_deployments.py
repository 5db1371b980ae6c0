"""Deployments over REST: what can be deployed and changed by whom, and the history."""

from __future__ import annotations

import hashlib
import json

import pytest

from muster_models.services.deployments.routing import load_routes
from support.data import NOW

API = "/api/v1"
CONFIG = {"format": "muster-model", "format_version": 1}


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


@pytest.fixture
def settings(settings, tmp_path):
    update = {"router_dir": tmp_path / "router", "router_url": "https://lab.example/models"}
    return settings.model_copy(update=update)


def add_version(client, name="digits"):
    data = json.dumps({**CONFIG, "n": client.get(f"{API}/models").text}).encode()
    digest = hashlib.sha256(data).hexdigest()
    client.put(f"{API}/model-blobs/{digest}?size_bytes={len(data)}", content=data)
    answer = client.post(
        f"{API}/models/{name}/versions", json={"files": [{"path": "config.json", "sha256": digest}]}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["number"]


def deploy(client, model="digits", **more):
    return client.post(f"{API}/deployments", json={"model": model, **more})


def test_a_deployment_remembers_what_it_was_told_by_whom_and_why(member_client):
    first, second = add_version(member_client), add_version(member_client)
    member_client.put(f"{API}/models/digits/aliases/production", json={"version": first})
    made = deploy(member_client, "digits@production", replicas=2, reason="the first")
    assert made.status_code == 202, made.text
    found = made.json()
    assert (found["name"], found["state"], found["version"]) == ("digits", "starting", first)
    assert (found["num_replicas"], found["num_ready"]) == (2, 0)
    assert found["url"].endswith("/digits")
    path = f"{API}/deployments/digits"
    assert error(deploy(member_client)) == (409, "deployments.name_taken")
    assert error(member_client.post(f"{path}:rollback", json={})) == (
        409,
        "deployments.nothing_before",
    )
    same = member_client.post(f"{path}:update", json={"model": f"digits:{first}"})
    assert error(same) == (409, "deployments.same_version")
    member_client.post(f"{path}:update", json={"model": f"digits:{second}", "reason": "newer"})
    member_client.post(f"{path}:scale", json={"replicas": 3})
    found = member_client.get(path).json()
    assert (found["version"], found["num_replicas"]) == (second, 3)
    assert [(r["version"], r["state"], r["reason"]) for r in found["revisions"]] == [
        (second, "rolling_out", "newer"),
        (first, "replaced", "the first"),
    ]
    back = member_client.post(f"{path}:rollback", json={"revision": 1})
    assert back.json()["version"] == first
    assert back.json()["revisions"][0]["reason"] == "rolled back to revision 1"
    assert error(member_client.post(f"{path}:rollback", json={"revision": 9})) == (
        404,
        "deployments.no_revision",
    )
    assert error(member_client.delete(path)) == (409, "deployments.not_stopped")
    assert member_client.post(f"{path}:stop").json()["state"] == "stopping"
    assert error(member_client.post(f"{path}:scale", json={"replicas": 1})) == (
        409,
        "deployments.stopped",
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"model": "nothing"}, "deployments.bad_model"),
        ({"model": "digits@nowhere"}, "deployments.bad_model"),
        ({"model": "digits", "project": "nowhere"}, "deployments.no_project"),
        ({"model": "digits", "name": "Über"}, "request.invalid"),
        ({"model": "digits", "name": "a\nshow env"}, "request.invalid"),
        ({"model": "digits", "replicas": 65}, "request.invalid"),
        ({"model": "Digits_2"}, "deployments.bad_name"),
        ({"model": "digits", "name": "models"}, "deployments.bad_name"),
    ],
)
def test_what_cannot_be_deployed_is_refused(member_client, body, code):
    add_version(member_client)
    add_version(member_client, "Digits_2")
    assert error(member_client.post(f"{API}/deployments", json=body)) == (422, code)


def test_only_its_owner_and_administrators_change_a_deployment(
    member_client, admin_client, connect, make_user_token
):
    add_version(member_client)
    deploy(member_client)
    eve = connect(token=make_user_token("member", username="eve"))
    path = f"{API}/deployments/digits"
    assert eve.get(path).json()["may_change"] is False
    for verb, body in (("stop", None), ("scale", {"replicas": 2}), ("rollback", {})):
        assert error(eve.post(f"{path}:{verb}", json=body)) == (403, "deployments.not_yours")
    assert admin_client.post(f"{path}:scale", json={"replicas": 2}).status_code == 202


def test_the_router_gets_tokens_that_may_use_deployments_and_no_names(
    member_client, connect, make_user_token, database
):
    add_version(member_client)
    deploy(member_client)
    viewer, member = (
        make_user_token("viewer", username="v"),
        make_user_token("member", username="m"),
    )
    made = connect(token=member).post(f"{API}/tokens", json={"name": "t", "role": "predict"}).json()
    with database.read() as session:
        routes = load_routes(session, NOW)
    digests = {secret: hashlib.sha256(secret.encode()).hexdigest() for secret in (viewer, member)}
    assert digests[member] in routes.tokens
    assert digests[viewer] not in routes.tokens
    assert hashlib.sha256(made["secret"].encode()).hexdigest() in routes.tokens
    assert routes.names == {hashlib.sha256(b"digits").hexdigest(): "d1"}
    assert len(routes.keys["d1"]) == 64
    predicting = connect(token=made["secret"])
    assert predicting.get(f"{API}/deployments/digits/address").status_code == 200
    assert predicting.get(f"{API}/deployments").status_code == 403


def test_without_a_router_the_package_is_named(member_client, app, settings):
    add_version(member_client)
    app.state.settings = settings.model_copy(update={"router_dir": None})
    answer = deploy(member_client)
    assert error(answer) == (503, "deployments.no_router")
    assert "apt-get install haproxy" in answer.json()["error"]["hint"]
    app.state.settings = settings


def test_a_project_with_a_deployment_stays(member_client, admin_client):
    add_version(member_client)
    admin_client.post(f"{API}/projects", json={"name": "serving", "submission": "all"})
    assert deploy(member_client, project="serving").status_code == 202
    assert error(admin_client.delete(f"{API}/projects/serving")) == (409, "projects.in_use")
