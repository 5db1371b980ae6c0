"""Exports of a version over REST: what a job has reported, and what it cannot claim."""

from __future__ import annotations

import hashlib
import json

import pytest
from sqlalchemy import select

from muster.wire import content_digest
from muster_server.db.models import ExperimentRow, ModelUseRow
from support.data import NOW

API = "/api/v1"
FILES = [
    {"path": "config.json", "size_bytes": 10, "sha256": "a" * 64},
    {"path": "model.onnx", "size_bytes": 90, "sha256": "b" * 64},
]
ONNX = {
    "format": "onnx", "state": "done", "message": "", "path": "muster-outputs/exports/onnx", "files": FILES,
    "verdict": "within", "compared_by": "onnxruntime 1.32.0", "max_abs": 1e-6, "max_rel": "Infinity",
    "agreement": 1.0, "tolerance": {"atol": 1e-5, "rtol": 1e-4}, "seconds": 1.5, "size_bytes": 7,
    "digest": "sha256:made up",
}  # fmt: skip
HF = {
    **ONNX, "format": "hf", "state": "failed", "message": "its answers are not those of the checkpoint",
    "files": [], "path": "", "verdict": "beyond",
}  # fmt: skip
RESULT = {
    "torch": "2.13.0",
    "inputs": {"source": "256 validation samples of digits", "rows": 256, "sha256": "c" * 64},
    "exports": [ONNX, HF],
}


@pytest.fixture
def version(member_client):
    data = b"weights"
    sha256 = hashlib.sha256(data).hexdigest()
    address = f"{API}/model-blobs/{sha256}"
    assert member_client.put(f"{address}?size_bytes={len(data)}", content=data).status_code == 200
    body = {"files": [{"path": "model.safetensors", "sha256": sha256}]}
    made = member_client.post(f"{API}/models/digits/versions", json=body)
    assert made.status_code == 201, made.text
    return f"{API}/models/digits/versions/1"


def submit(client, **changes):
    document = {
        "name": "export",
        "export": {"model": "digits", "formats": ["onnx", "hf", "pt2"]},
        **changes,
    }
    return client.post(f"{API}/experiments", json={"document": json.dumps(document)})


def report(database, experiment_id, result, state):
    with database.transaction() as session:
        use = session.scalars(select(ModelUseRow)).one()
        use.result, use.result_at = result, NOW
        session.get_one(ExperimentRow, experiment_id).state = state


def listed(client, version):
    (job,) = client.get(f"{version}/exports").json()["items"]
    return job, {export["format"]: export for export in job["exports"]}


def test_exports_are_listed_as_they_come(member_client, database, version) -> None:
    experiment = submit(member_client).json()
    job, exports = listed(member_client, version)
    assert job["experiment_id"] == experiment["id"]
    assert [(name, each["state"]) for name, each in exports.items()] == [
        ("onnx", "queued"), ("hf", "queued"), ("pt2", "queued"),
    ]  # fmt: skip

    report(database, experiment["id"], RESULT, "RUNNING")
    _, exports = listed(member_client, version)
    states = {name: each["state"] for name, each in exports.items()}
    assert states == {"onnx": "running", "hf": "failed", "pt2": "running"}

    report(database, experiment["id"], RESULT, "FAILED")
    job, exports = listed(member_client, version)
    assert (job["torch"], job["inputs_sha256"]) == ("2.13.0", "c" * 64)
    onnx = exports["onnx"]
    assert (onnx["state"], onnx["path"]) == ("done", "muster-outputs/exports/onnx")
    assert onnx["size_bytes"] == 100, "of the files, whatever the job says"
    assert onnx["digest"] == content_digest({f["path"]: f["sha256"] for f in FILES})
    assert onnx["comparison"]["max_rel"] == "Infinity"
    assert exports["hf"]["message"] == "its answers are not those of the checkpoint"
    assert exports["pt2"]["message"] == "the job ended before it was made"

    refused = member_client.delete(version)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "models.used")


@pytest.mark.parametrize(
    "result",
    [
        {"exports": "all of them"},
        {**RESULT, "exports": [{**ONNX, "files": [{**FILES[0], "path": "../config.json"}]}]},
        {**RESULT, "exports": [{**ONNX, "files": [{**FILES[0], "size_bytes": -1}]}]},
        {**RESULT, "exports": [{**ONNX, "verdict": "perfect"}]},
    ],
)
def test_a_report_that_cannot_be_is_none(member_client, database, version, result) -> None:
    experiment = submit(member_client).json()
    report(database, experiment["id"], result, "COMPLETED")
    _, exports = listed(member_client, version)
    assert {each["state"] for each in exports.values()} == {"failed"}
    assert member_client.delete(version).status_code == 204, "nothing was exported"


def test_a_version_of_which_every_export_failed_can_be_deleted(member_client, database, version):
    experiment = submit(member_client).json()
    report(database, experiment["id"], {**RESULT, "exports": [HF]}, "FAILED")
    assert member_client.delete(version).status_code == 204


def test_documents_that_cannot_be(member_client, version) -> None:
    for changes, path in (
        ({"outputs": None}, "outputs"),
        ({"export": {"model": "digits", "formats": ["tflite"]}}, "export.formats[0]"),
        ({"export": {"model": "digits", "formats": []}}, "export.formats"),
        ({"export": {"model": "letters"}}, "export.model"),
        ({"resources": {"slots": 2}}, "resources.slots"),
    ):
        answer = submit(member_client, **changes)
        assert answer.status_code == 422, changes
        assert path in [field["path"] for field in answer.json()["error"]["fields"]]
