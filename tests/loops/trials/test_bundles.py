"""Code bundles: for the nodes that run them, and for no others."""

import gzip
import hashlib
import io
import tarfile

import pytest

from muster.wire import JobEnvironment, StateRecord


@pytest.fixture
def bundle(member_client):
    """A bundle that was uploaded; its digest and bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"1\n"))
    data = gzip.compress(plain.getvalue(), mtime=0)
    digest = hashlib.sha256(data).hexdigest()
    member_client.put(f"/api/v1/blobs/{digest}", content=data).raise_for_status()
    return digest, data


def test_a_bundle_is_for_the_nodes_that_run_it(bundle, agent, controller, member_client):
    digest, data = bundle
    path = f"/agent/v1/blobs/{digest}"
    runs, other = agent("runs", slots=1), agent("other", slots=1)
    assert {node.client.get(path).status_code for node in (runs, other)} == {404}
    document = "name: t\nentrypoint: train.py\nresources: {slots: 1}\n"
    body = {"document": document, "blob_sha256": digest}
    member_client.post("/api/v1/experiments", json=body).raise_for_status()
    controller.tick()
    if not runs.poll():
        runs, other = other, runs
    (allocation_id,) = runs.poll()
    assert runs.client.get(path).content == data
    refused = other.client.get(path)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "blobs.not_found")
    runs.get_ready(allocation_id)
    assert runs.client.get(path).content == data  # again, for one that starts anew
    runs.exit(allocation_id, "success")
    assert runs.client.get(path).status_code == 404
    assert member_client.get(path).status_code == 403


def test_a_job_that_misses_a_file_that_was_left_out_of_its_code_says_so(
    bundle, agent, controller, member_client
):
    digest, _ = bundle
    node = agent("n1", slots=1)
    body = {
        "document": "name: t\nentrypoint: train.py\n",
        "blob_sha256": digest,
        "left_out": ["data/train.bin"],
    }
    first = member_client.post("/api/v1/experiments", json=body).raise_for_status().json()
    assert first["left_out"] == ["data/train.bin"]
    # The code of a fork is that of its source, and so is what it lacks.
    fork = member_client.post(f"/api/v1/experiments/{first['id']}:fork", json={}).raise_for_status()
    member_client.post(f"/api/v1/experiments/{first['id']}:kill").raise_for_status()
    controller.tick()
    (allocation_id,) = node.poll()
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    missing = "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'"
    node.exit(allocation_id, "user_error", message=missing)
    controller.tick()
    (trial,) = member_client.get(f"/api/v1/experiments/{fork.json()['id']}/trials").json()["items"]
    assert trial["state"] == "FAILED"
    hint = (
        "not uploaded, because an ignore file names it; `code: {include: [data/train.bin]}` uploads"
    )
    assert f"{missing} ({hint}" in trial["reason"]


VERSION = {
    "commit": "a" * 40,
    "branch": "main",
    "is_dirty": True,
    "diff": "-lr = 0.1\n+lr = 0.2\n",
    "is_diff_cut": False,
    "untracked": ["new.py"],
    "version": "1.2.4.dev3+gaaaaaaaaa.d20260101",
}


def test_a_trial_tells_what_it_takes_to_run_it_again(bundle, agent, controller, member_client):
    digest, data = bundle
    node = agent("n1", slots=1)
    body = {
        "document": "name: t\nentrypoint: train.py --epochs 3\n",
        "overrides": ["resources.priority=60"],
        "blob_sha256": digest,
        "code_version": VERSION,
    }
    first = member_client.post("/api/v1/experiments", json=body).raise_for_status().json()

    def told(experiment):
        path = f"/api/v1/trials/{experiment['only_trial_id']}/reproduction"
        return member_client.get(path).raise_for_status().json()

    before = told(first)
    assert (before["command"], before["environment"]) == ([], None)
    assert before["code_version"] == VERSION
    assert (before["code_sha256"], before["code_size_bytes"]) == (digest, len(data))
    assert before["origins"]["name"] == "document"
    assert before["origins"]["resources.priority"] == "override"
    assert before["origins"]["resources.pool"] == "default"

    controller.tick()
    ((allocation_id, assignment),) = node.poll().items()
    assert assignment.spec is not None
    assert assignment.spec.environment == {
        "MUSTER_CODE_COMMIT": VERSION["commit"],
        "SETUPTOOLS_SCM_PRETEND_VERSION": VERSION["version"],
    }
    ran_with = JobEnvironment(
        python="/usr/bin/python3", python_version="3.11.7", torch_version="2.13",
        packages=["numpy==2.1.0"], num_packages=1, variables={"NCCL_ALGO": "Ring"},
    )  # fmt: skip
    node.send(allocation_id, StateRecord(observed="PREPARING"))
    node.send(allocation_id, StateRecord(observed="READY", environment=ran_with))
    after = told(first)
    assert after["command"] == [
        "torchrun", "--nnodes=1", "--nproc-per-node=1", "train.py", "--epochs", "3",
    ]  # fmt: skip
    environment = after["environment"]
    assert (environment["attempt_no"], environment["node_name"]) == (1, "n1")
    assert environment["torch_version"] == "2.13"
    assert environment["packages"] == ["numpy==2.1.0"]
    assert environment["variables"] == {"NCCL_ALGO": "Ring"}

    # A fork has the code of its source, and the commit with it; other code has none of that.
    fork = f"/api/v1/experiments/{first['id']}:fork"
    same = member_client.post(fork, json={}).raise_for_status().json()
    assert told(same)["code_version"] == VERSION
    other = member_client.post(fork, json={"blob_sha256": digest}).raise_for_status().json()
    assert told(other)["code_version"] is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("commit", "main"), ("diff", "x" * 70_000), ("untracked", ["a"] * 101), ("branch", "b" * 256)],
)
def test_a_code_version_is_bounded(bundle, member_client, field, value):
    body = {
        "document": "name: t\nentrypoint: train.py\n",
        "blob_sha256": bundle[0],
        "code_version": VERSION | {field: value},
    }
    refused = member_client.post("/api/v1/experiments", json=body)
    assert refused.status_code == 422
    (problem,) = refused.json()["error"]["fields"]
    assert problem["path"].startswith(f"code_version.{field}")
