"""Delivery of secrets to the node that runs a job, with the rights of the job's owner."""

from __future__ import annotations

import dataclasses
import json

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from muster.wire import SecretsReply, SecretsRequest, load
from muster_server.db.models import ExperimentRow, SecretRow, TrialRow
from muster_server.security.stack_secrets import new_key

API = "/api/v1/secrets"
VALUE = "canary-0123456789"
DOCUMENT = "environment: {secrets: [HF_TOKEN]}\n"


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"secrets_key": SecretStr(new_key())})


@pytest.fixture
def ask():
    """`ask(node, spec)` asks for the secrets of an allocation as its agent does."""

    def ask(node, spec, *, expect=200, **changes):
        request = SecretsRequest(
            node_id=node.node_id, session_epoch=node.epoch, attempt_no=spec.attempt_no
        )
        body = dataclasses.asdict(dataclasses.replace(request, **changes))
        answer = node.client.post(f"/agent/v1/allocations/{spec.allocation_id}/secrets", json=body)
        assert answer.status_code == expect, answer.text
        if expect != 200:
            return answer.json()["error"]["code"]
        return {s.name: s for s in load(SecretsReply, answer.json()).secrets}

    return ask


def placed(controller, node):
    controller.tick()
    node.poll()
    (assignment,) = node.specs.values()
    return assignment.spec


def test_the_node_of_a_job_gets_its_secrets_and_no_other_does(
    member_client, admin_client, controller, agent, submit, ask, database
):
    member_client.put(f"{API}/HF_TOKEN", json={"value": VALUE})
    node, other = agent("node-1"), agent("node-2", slots=0)
    submit(DOCUMENT)
    spec = placed(controller, node)
    assert spec.secrets == ["HF_TOKEN"]
    assert "canary" not in json.dumps(dataclasses.asdict(spec))
    secret = ask(node, spec)["HF_TOKEN"]
    assert (secret.value, secret.version, secret.owner.startswith("user:")) == (VALUE, 1, True)
    assert ask(other, spec, expect=404) == "agent.unknown_allocation"
    assert ask(other, spec, expect=403, node_id=node.node_id) == "auth.forbidden"
    assert ask(node, spec, expect=404, attempt_no=7) == "agent.unknown_allocation"
    assert ask(node, spec, expect=410, session_epoch=node.epoch - 1) == "agent.session_superseded"
    entries = admin_client.get("/api/v1/audit").json()["items"]
    (delivered,) = [e for e in entries if e["action"] == "secrets.delivered"]
    assert delivered["actor"] == "node:node-1"
    assert delivered["detail"]["names"] == ["HF_TOKEN"]
    assert "canary" not in json.dumps(entries)
    (listed,) = member_client.get(API).json()["items"]
    assert listed["last_used_at"] is not None
    with database.transaction() as session:
        session.scalars(select(TrialRow)).one().attempt_no += 1
    assert ask(node, spec, expect=409) == "agent.allocation_over"


def test_the_owners_own_secret_comes_before_the_projects(
    member_client, admin_client, controller, agent, submit, ask
):
    admin_client.post("/api/v1/projects", json={"name": "vision", "submission": "all"})
    shared = "/api/v1/projects/vision/secrets/HF_TOKEN"
    admin_client.put(shared, json={"value": "of the project"})
    admin_client.put(f"{API}/HF_TOKEN", json={"value": "of the administrator"})
    submit("project: vision\n" + DOCUMENT)
    node = agent()
    spec = placed(controller, node)
    assert ask(node, spec)["HF_TOKEN"].value == "of the project"
    member_client.put(f"{API}/HF_TOKEN", json={"value": "of the member"})
    assert ask(node, spec)["HF_TOKEN"].value == "of the member"


def test_a_fork_uses_the_rights_of_whoever_forks(
    member_client, admin_client, submit, connect, make_user_token
):
    member_client.put(f"{API}/HF_TOKEN", json={"value": VALUE})
    source = submit(DOCUMENT)
    eve = connect(token=make_user_token("member", username="eve"))
    fork = f"/api/v1/experiments/{source}:fork"
    refused = eve.post(fork, json={})
    assert refused.json()["error"]["code"] == "experiments.invalid_document"
    eve.put(f"{API}/HF_TOKEN", json={"value": "eve's own value"})
    assert eve.post(fork, json={}).status_code == 201


def test_a_secret_that_is_gone_or_was_moved_in_the_database_starts_nothing(
    member_client, controller, agent, submit, ask, database
):
    for name in ("HF_TOKEN", "OTHER"):
        member_client.put(f"{API}/{name}", json={"value": f"{name} {VALUE}"})
    submit(DOCUMENT)
    node = agent()
    spec = placed(controller, node)
    with database.transaction() as session:
        rows = {row.name: row for row in session.scalars(select(SecretRow))}
        mine, other = rows["HF_TOKEN"], rows["OTHER"]
        mine.ciphertext, mine.nonce = other.ciphertext, other.nonce
    assert ask(node, spec, expect=409) == "secrets.unreadable"
    member_client.delete(f"{API}/HF_TOKEN")
    assert ask(node, spec, expect=409) == "secrets.missing"


def test_an_experiment_without_an_owner_has_the_projects_alone(
    member_client, admin_client, controller, agent, submit, ask, database
):
    member_client.put(f"{API}/HF_TOKEN", json={"value": VALUE})
    submit(DOCUMENT)
    node = agent()
    spec = placed(controller, node)
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().owner_id = None
    assert ask(node, spec, expect=409) == "secrets.missing"
    admin_client.put("/api/v1/projects/default/secrets/HF_TOKEN", json={"value": "of the project"})
    assert ask(node, spec)["HF_TOKEN"].value == "of the project"
