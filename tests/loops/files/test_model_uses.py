"""Versions of models that jobs read: resolved, kept, handed to agents, and what came of them."""

from __future__ import annotations

import hashlib

import pytest

from muster.sdk.shards import INDEX
from muster.wire import CheckpointRecord, MessageRecord, ModelResultRecord, content_digest
from support.agent import start

from .test_outputs import serve

API = "/api/v1"
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(200))}
DIGEST = content_digest({path: hashlib.sha256(data).hexdigest() for path, data in FILES.items()})
EVALUATION = "name: judge\nevaluate: {model: digits@production, data: digits}\n"
RESULT = {
    "data": "digits", "split": "test", "data_digest": "sha256:1", "metrics_version": 1,
    "num_samples": 180, "metrics": {"accuracy": 0.95, "ece": "NaN"}, "speed": {"rows_per_s": 10.0},
    "num_parameters": 5, "peak_memory_bytes": 7, "device": "cpu", "slots": 1,
}  # fmt: skip


def upload(client, name="digits", files=FILES):
    for data in files.values():
        path = f"{API}/model-blobs/{hashlib.sha256(data).hexdigest()}"
        assert client.put(path, params={"size_bytes": len(data)}, content=data).is_success
    listed = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()
    ]
    answer = client.post(f"{API}/models/{name}/versions", json={"files": listed})
    assert answer.status_code == 201, answer.text
    return answer.json()["number"]


@pytest.fixture
def production(member_client):
    upload(member_client)
    upload(member_client, files={"model.pt": b"pickled"})
    body = {"version": 1, "reason": "first"}
    assert member_client.put(f"{API}/models/digits/aliases/production", json=body).is_success
    return member_client


def submitted(client, document, status=201):
    answer = client.post(f"{API}/experiments", json={"document": document})
    assert answer.status_code == status, answer.text
    return answer.json()


def asked(node, allocation_id, call, status=200, **more):
    body = {
        "node_id": node.node_id,
        "session_epoch": node.epoch,
        "attempt_no": 1,
        "name": "model",
        **more,
    }
    return node._post(f"/allocations/{allocation_id}/{call}", body, status)


def test_an_evaluation_reads_the_version_that_its_alias_named_at_submission(
    production, controller, agent, show
):
    node, other = agent(slots=1), agent("other", slots=1)
    made = submitted(production, EVALUATION)
    production.put(f"{API}/models/digits/aliases/production", json={"version": 2})
    used = show(f"/experiments/{made['id']}")["config"]["models"]["model"]
    assert used == {"model": "digits", "version": 1, "digest": DIGEST}
    controller.tick()
    holder = node if node.poll() else other
    stranger = other if holder is node else node
    allocation_id = start(controller, holder)
    spec = holder.specs[allocation_id].spec
    assert spec.entrypoint == ["-m", "muster.inference.evaluate"]
    assert (spec.models["model"].version, spec.models["model"].digest) == (1, DIGEST)

    listed = asked(holder, allocation_id, "models")
    assert {f["path"]: f["size_bytes"] for f in listed["files"]} == {
        "config.json": 2, "model.safetensors": 200,
    }  # fmt: skip
    part = asked(holder, allocation_id, "models/parts", path="model.safetensors")
    assert (part["state"], part["export_id"]) == ("ready", None)
    query = {
        "node_id": holder.node_id, "session_epoch": holder.epoch, "attempt_no": 1, "name": "model",
        "path": "model.safetensors",
    }  # fmt: skip
    address = f"/agent/v1/allocations/{allocation_id}/models/content"
    got = holder.client.get(address, params=query, headers={"Range": "bytes=150-"})
    assert (got.status_code, got.content) == (206, FILES["model.safetensors"][150:])
    asked(holder, allocation_id, "models", 404, name="base")
    assert holder.refusal["code"] == "models.not_used"
    asked(holder, allocation_id, "models/parts", 404, path="model.pt")
    asked(holder, allocation_id, "models", 404, attempt_no=2)
    body = {"node_id": stranger.node_id, "session_epoch": stranger.epoch, "attempt_no": 1}
    stranger._post(f"/allocations/{allocation_id}/models", {**body, "name": "model"}, 404)
    assert stranger.refusal["code"] == "agent.unknown_allocation"

    # While it runs, the version cannot be deleted, not even by force.
    for path in ("/models/digits/versions/1", "/models/digits"):
        refused = production.delete(f"{API}{path}", params={"force": True})
        assert refused.status_code == 409
        problem = refused.json()["error"]
        assert problem["code"] == "models.used"
        assert f"experiment {made['id']} (judge) evaluates it" in problem["message"]

    holder.send(
        allocation_id,
        ModelResultRecord(name="base", result={}),
        ModelResultRecord(name="model", result={"text": "x" * 70_000}),
        ModelResultRecord(name="model", result=RESULT),
        MessageRecord(level="info", text="the end"),
    )
    (use,) = show(f"/experiments/{made['id']}/model-uses")["items"]
    assert (use["model"], use["version"], use["kind"]) == ("digits", 1, "evaluation")
    assert use["result"] == RESULT
    (trial,) = show(f"/experiments/{made['id']}/trials")["items"]
    said = " ".join(e["message"] for e in show(f"/trials/{trial['id']}/events")["items"])
    assert "'base' was not kept: the document names no such version" in said
    assert "bytes, and 65,536 are kept" in said

    (board,) = show("/models:leaderboards?data=digits")
    assert (board["metric"], board["num_versions"]) == ("accuracy", 1)
    (row,) = board["rows"]
    assert (row["rank"], row["version"], row["aliases"]) == (1, 1, [])
    assert row["metrics"] == {"accuracy": 0.95, "ece": "NaN"}
    assert show("/models:leaderboards?data=other") == []
    card = show("/models/digits/versions/1")["card"]
    assert "## Evaluations" in card
    assert "accuracy 0.95" in card
    lineage = show("/models/digits/versions/1/lineage")
    assert [(u["kind"], u["experiment_id"]) for u in lineage["uses"]] == [
        ("evaluation", made["id"])
    ]

    holder.exit(allocation_id)
    controller.tick()
    assert production.delete(f"{API}/models/digits/versions/1").status_code == 204
    assert show(f"/experiments/{made['id']}/model-uses")["items"] == []


def test_what_an_experiment_read_is_in_the_lineage_of_what_it_made(
    production, controller, agent, show
):
    node = agent(slots=1)
    document = (
        "name: tune\nentrypoint: tune.py\ncode: {installed: /srv}\nmodels: {base: 'digits:1'}\n"
    )
    made = submitted(production, document)
    controller.tick()
    allocation_id = start(controller, node)
    assert node.specs[allocation_id].spec.models["base"].version == 1
    files = {"weights.bin": "a" * 64}
    node.send(
        allocation_id, CheckpointRecord(step=5, path="step-00000005", size_bytes=3, files=files)
    )
    node.exit(allocation_id)
    controller.tick()
    (trial,) = show(f"/experiments/{made['id']}/trials")["items"]
    (checkpoint,) = show(f"/trials/{trial['id']}/checkpoints")["items"]
    answer = production.post(
        f"{API}/models/tuned/versions", json={"checkpoint_id": checkpoint["id"]}
    )
    assert answer.status_code == 201, answer.text
    tuned = show("/models/tuned/versions/1/lineage")
    assert [(u["model"], u["version"], u["name"]) for u in tuned["read"]] == [("digits", 1, "base")]
    base = show("/models/digits/versions/1/lineage")
    assert base["produced"] == [{"model": "tuned", "version": 1, "experiment_id": made["id"]}]
    assert base["num_uses"] == 1


def test_references_that_mean_nothing_are_told_with_their_place(production, database, show):
    def problem(text):
        answer = submitted(production, text, 422)["error"]
        assert answer["code"] == "experiments.invalid_document"
        return [(f["path"], f["message"]) for f in answer["fields"]]

    job = "name: x\nentrypoint: a.py\ncode: {installed: /srv}\n"
    assert problem("name: x\nevaluate: {model: nothing}\n") == [
        ("evaluate.model", "there is no model nothing")
    ]
    assert problem(f"{job}models: {{base: digits@staging}}\n") == [
        ("models.base", "model digits has no alias staging")
    ]
    assert problem(f"{job}models: {{base: 'digits:9'}}\n") == [
        ("models.base", "model digits has no version 9")
    ]
    wrong = f"{{model: digits, version: 1, digest: 'sha256:{'0' * 64}'}}"
    assert problem(f"{job}models: {{base: {wrong}}}\n") == [
        ("models.base", f"version 1 of model digits has the digest {DIGEST}")
    ]
    many = ", ".join(f"m{n}: digits" for n in range(9))
    assert problem(f"{job}models: {{{many}}}\n")[0][0] == "models"
    assert problem(EVALUATION + "resources: {slots: 2}\n") == [
        ("resources.slots", "2 slots are more than evaluate makes use of")
    ]
    assert problem(EVALUATION + "trainer: {model: mlp}\n") == [
        ("evaluate", "cannot be combined with trainer")
    ]
    assert [
        path for path, _ in problem("name: x\nevaluate: {model: digits, data: 'mine:load'}\n")
    ] == ["code"]


def test_a_version_of_the_built_in_trainer_says_what_rebuilds_it(
    member_client, controller, agent, show
):
    node = agent(slots=1)
    made = submitted(member_client, "name: t\ntrainer: {model: mlp, data: digits, width: 24}\n")
    controller.tick()
    allocation_id = start(controller, node)
    files = {INDEX: "a" * 64, "shard-00000.safetensors": "b" * 64}
    node.send(
        allocation_id, CheckpointRecord(step=5, path="step-00000005", size_bytes=9, files=files)
    )
    node.exit(allocation_id)
    controller.tick()
    (trial,) = show(f"/experiments/{made['id']}/trials")["items"]
    (checkpoint,) = show(f"/trials/{trial['id']}/checkpoints")["items"]
    body = {"checkpoint_id": checkpoint["id"]}
    assert member_client.post(f"{API}/models/digits/versions", json=body).status_code == 201
    answer = submitted(member_client, "name: early\nevaluate: {model: 'digits:1'}\n", 422)
    assert (
        answer["error"]["fields"][0]["message"] == "version 1 of model digits is still being made"
    )
    (export,) = node.exports()
    serve(node, export, b"weights")
    controller.tick()
    version = show("/models/digits/versions/1")
    assert [f["path"] for f in version["files"]] == ["config.json", "model.safetensors"]
    assert not version["is_unsafe"]
    address = f"{API}/models/digits/versions/1/files/content"
    config = member_client.get(address, params={"path": "config.json"}).json()
    assert (config["data"], config["classes"]) == ("digits", 10)
    assert config["inputs"] == {"shape": [1, 8, 8], "dtype": "float32"}
    assert config["trainer"]["width"] == 24
    again = member_client.post(f"{API}/models/digits/versions", json=body).json()
    assert (again["number"], again["is_new"]) == (1, False)
