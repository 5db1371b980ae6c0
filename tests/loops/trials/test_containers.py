"""Trials with an image: where they are placed, what their node gets, and what is told afterwards."""

from __future__ import annotations

import dataclasses

import pytest
from pydantic import SecretStr

from muster.wire import JobEnvironment, SecretsReply, SecretsRequest, StateRecord, load
from muster_server.security.stack_secrets import new_key

DOCUMENT = """
environment: {image: ghcr.io/o/n:1, registry_login: GHCR, secrets: [HF_TOKEN]}
"""


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"secrets_key": SecretStr(new_key())})


def test_a_trial_with_an_image_waits_for_an_engine_and_tells_the_digest(
    controller, agent, submit, show, member_client
):
    preview = member_client.post(
        "/api/v1/experiments:preview",
        json={
            "document": "name: x\nentrypoint: t.py\ncode: {installed: /c}\n"
            "environment: {image: a/b, registry_login: GHCR}\n"
        },
    ).json()
    assert [problem["path"] for problem in preview["errors"]] == ["environment.registry_login"]
    for name in ("GHCR", "HF_TOKEN"):
        member_client.put(f"/api/v1/secrets/{name}", json={"value": f"value-of-{name}"})

    agent("bare", slots=2)
    submit(DOCUMENT)
    controller.tick()
    (item,) = show("/queue")["items"]
    assert item["is_impossible"]
    assert item["pending_reason"].startswith(
        "Needs 1 cpu slot in pool default, on nodes with a container engine: no node there has a "
        "container engine that works, which a container image needs. "
    )
    assert show("/nodes")["items"][0]["container_reason"] == "podman is not installed."

    node = agent("contained", slots=1, container_runtime="podman")
    controller.tick()
    (allocation_id,) = node.poll()
    spec = node.specs[allocation_id].spec
    assert spec.secrets == ["HF_TOKEN", "GHCR"]
    request = SecretsRequest(
        node_id=node.node_id, session_epoch=node.epoch, attempt_no=spec.attempt_no
    )
    answer = node.client.post(
        f"/agent/v1/allocations/{allocation_id}/secrets", json=dataclasses.asdict(request)
    )
    delivered = {s.name: s.value for s in load(SecretsReply, answer.json()).secrets}
    assert delivered == {"GHCR": "value-of-GHCR", "HF_TOKEN": "value-of-HF_TOKEN"}

    ran_with = JobEnvironment(
        python="python3", python_version="3.12.1", image="ghcr.io/o/n:1", image_id="ab12",
        image_digest="ghcr.io/o/n@sha256:cd34",
    )  # fmt: skip
    node.send(allocation_id, StateRecord(observed="PREPARING"))
    node.send(allocation_id, StateRecord(observed="READY", environment=ran_with))
    told = show(f"/trials/{item['trial_id']}/reproduction")["environment"]
    assert (told["image"], told["image_id"], told["image_digest"]) == (
        "ghcr.io/o/n:1", "ab12", "ghcr.io/o/n@sha256:cd34",
    )  # fmt: skip
