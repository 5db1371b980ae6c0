"""Models over REST: versions of every source, aliases and their history, who may do what, and what a
version keeps from being deleted."""

from __future__ import annotations

import hashlib

import pytest
from sqlalchemy import select, update

from muster.wire import OutputFile
from muster_models.services.registry import uploads
from muster_server.db.models import (
    AuditRow,
    CheckpointRow,
    EventRow,
    ExperimentRow,
    ModelBlobRow,
    TrialOutputsRow,
    TrialRow,
    UserRow,
)
from muster_server.services.checkpoints import cleaning
from muster_server.services.core.output_lists import encode_files
from support.data import NOW, add_experiment, add_trial

API = "/api/v1"
MODELS = f"{API}/models"
MIB = 1 << 20


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def eve(connect, make_user_token):
    return connect(token=make_user_token("member", username="eve"))


@pytest.fixture
def checkpoints(member_client, database):
    """An ended experiment of the member's: two checkpoints that its script saved through the SDK."""
    user = member_client.get(f"{API}/auth/me").json()
    with database.transaction() as session:
        experiment = add_experiment(session, metric_name="val/loss")
        experiment.owner_id = session.scalars(
            select(UserRow.id).where(UserRow.username == user["username"])
        ).one()
        experiment.state = "COMPLETED"
        experiment.blob_sha256 = "c" * 64
        experiment.code_version = {"commit": "d" * 40, "branch": "main", "is_dirty": True}
        experiment.source = {
            "experiment_id": 77,
            "experiment_name": "base",
            "step": 5,
            "load": "all",
        }
        trial = add_trial(session, experiment)
        trial.state, trial.attempt_no, trial.step = "COMPLETED", 1, 20
        trial.summary = {"val/loss": {"last": 0.5}, "time/step_ms": {"last": 3.0}}
        trial.hparams = {"lr": 0.1}
        rows = [
            CheckpointRow(
                trial_id=trial.id, attempt_no=1, step=step, path=f"step-{step:08d}",
                node_name="node-1", storage_id="s" * 32, size_bytes=30,
                files={"weights.pt": f"{step:064x}", "config.json": "b" * 64},
                metrics={"val/loss": value}, state="complete", created_at=NOW,
            )
            for step, value in ((10, 0.4), (20, "NaN"))
        ]  # fmt: skip
        session.add_all(rows)
        session.flush()
        trial.latest_checkpoint_id = rows[1].id
        return experiment.id, trial.id, [row.id for row in rows]


def register(client, name, status=201, **body):
    answer = client.post(f"{MODELS}/{name}/versions", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def put_alias(client, name, alias, version, **more):
    return client.put(f"{MODELS}/{name}/aliases/{alias}", json={"version": version, **more})


def upload(client, data: bytes, piece=MIB):
    for offset in range(0, max(1, len(data)), piece):
        answer = client.put(
            f"{API}/model-blobs/{sha(data)}",
            params={"size_bytes": len(data), "offset": offset},
            content=data[offset : offset + piece],
        )
        assert answer.status_code == 200, answer.text
    return {"sha256": sha(data), **answer.json()}


def test_a_version_of_a_checkpoint_knows_where_it_came_from(member_client, checkpoints):
    experiment_id, trial_id, (first, _) = checkpoints
    made = register(
        member_client, "digits", checkpoint_id=first, notes="First.", tags={"team": "vision"},
        signature={"inputs": [{"type": "float32", "shape": [-1, 64]}]},
    )  # fmt: skip
    assert (made["number"], made["state"], made["is_new"]) == (1, "ready", True)
    assert [f["path"] for f in made["files"]] == ["config.json", "weights.pt"]
    assert made["metrics"] == {"val/loss": 0.4}
    lineage = made["lineage"]
    assert (lineage["experiment_id"], lineage["trial_id"], lineage["step"]) == (
        experiment_id, trial_id, 10,
    )  # fmt: skip
    assert lineage["git"] == {"commit": "d" * 40, "branch": "main", "is_dirty": True}
    assert lineage["parent"] == {"experiment_id": 77, "experiment_name": "base", "step": 5}
    assert (lineage["code_sha256"], lineage["hyperparameters"]) == ("c" * 64, {"lr": 0.1})
    assert made["is_unsafe"]
    assert [bool(f["warning"]) for f in made["files"]] == [False, True]
    assert "# digits, version 1" in made["card"]
    assert made["digest"].startswith("sha256:")

    again = register(member_client, "digits", checkpoint_id=first)
    assert (again["number"], again["is_new"]) == (1, False), "the same files are one version"
    page = member_client.get(f"{API}/experiments/{experiment_id}/model-versions").json()
    assert [(v["model"], v["number"], v["trial_id"]) for v in page["items"]] == [
        ("digits", 1, trial_id)
    ]
    (listed,) = member_client.get(MODELS).json()["items"]
    assert (listed["name"], listed["num_versions"], listed["latest_version"]) == ("digits", 1, 1)


def test_aliases_move_with_a_history_and_are_in_the_audit_log(
    member_client, viewer_client, eve, admin_client, checkpoints, database
):
    _, _, ids = checkpoints
    for checkpoint_id in ids:
        register(member_client, "digits", checkpoint_id=checkpoint_id)
    assert error(member_client.get(f"{MODELS}/digits/aliases/production")) == (
        404, "models.no_alias",
    )  # fmt: skip
    assert put_alias(member_client, "digits", "production", 1, reason="first").status_code == 200
    assert put_alias(admin_client, "digits", "production", 2, reason="fixes #3").status_code == 200
    assert put_alias(admin_client, "digits", "production", 2).status_code == 200  # changes nothing
    found = viewer_client.get(f"{MODELS}/digits/aliases/production").json()
    assert (found["number"], found["aliases"]) == (2, ["production"])
    moves = viewer_client.get(f"{MODELS}/digits/history").json()["items"]
    assert [(m["alias"], m["previous"], m["version"], m["reason"]) for m in moves] == [
        ("production", 1, 2, "fixes #3"), ("production", None, 1, "first"),
    ]  # fmt: skip

    assert error(put_alias(eve, "digits", "production", 1)) == (403, "models.not_yours")
    assert put_alias(viewer_client, "digits", "production", 1).status_code == 403
    assert error(put_alias(member_client, "digits", "latest", 1)) == (422, "models.reserved_alias")
    assert error(put_alias(member_client, "digits", "Prod!", 1)) == (422, "request.invalid")
    assert error(put_alias(member_client, "digits", "production", 9)) == (404, "models.no_version")
    assert error(put_alias(member_client, "nothing", "production", 1)) == (404, "models.not_found")

    refused = member_client.delete(f"{MODELS}/digits/versions/2")
    assert error(refused) == (409, "models.in_use")
    assert "used as production" in refused.json()["error"]["message"]
    assert error(member_client.delete(f"{MODELS}/digits")) == (409, "models.in_use")
    assert (
        member_client.delete(f"{MODELS}/digits/versions/2", params={"force": True}).status_code
        == 204
    )
    moves = viewer_client.get(f"{MODELS}/digits/history").json()["items"]
    assert (moves[0]["version"], moves[0]["previous"]) == (None, 2)
    assert error(member_client.get(f"{MODELS}/digits/versions/2")) == (404, "models.no_version")
    assert register(member_client, "digits", checkpoint_id=ids[1])["number"] == 3, (
        "never given twice"
    )
    with database.read() as session:
        actions = session.scalars(select(AuditRow.action).order_by(AuditRow.id)).all()
        types = set(session.scalars(select(EventRow.type)))
    assert [a for a in actions if a.startswith("models.alias")] == [
        "models.alias_moved", "models.alias_moved", "models.alias_removed",
    ]  # fmt: skip
    assert {"models.created", "models.version_registered", "models.version_deleted"} <= {*actions}
    assert {"model.registered", "model.alias_moved"} <= types


def test_what_a_version_consists_of_is_not_deleted(member_client, checkpoints, database):
    experiment_id, _, (first, second) = checkpoints
    register(member_client, "digits", checkpoint_id=first)
    plan = member_client.get(
        f"{API}/experiments/{experiment_id}/checkpoints:plan", params={"last": 1}
    ).json()
    kept = {row["id"]: row["reason"] for row in plan["checkpoints"] if row["is_kept"]}
    assert kept[first] == "version 1 of model digits consists of it"
    refused = member_client.delete(f"{API}/experiments/{experiment_id}")
    assert error(refused) == (409, "experiments.used_by_model")
    assert "version 1 of model digits" in refused.json()["error"]["message"]

    member_client.delete(f"{MODELS}/digits/versions/1")
    with database.transaction() as session:
        row = session.get_one(ExperimentRow, experiment_id)
        verdicts = cleaning.verdicts(session, row, cleaning.KeepPolicy(last=1, best=0))
    assert {v.checkpoint.id: v.is_kept for v in verdicts} == {first: False, second: True}
    assert member_client.delete(f"{API}/experiments/{experiment_id}").is_success


def test_outputs_become_a_version_when_they_do_not_change_any_more(
    member_client, checkpoints, database
):
    experiment_id, trial_id, _ = checkpoints
    files = [
        OutputFile(path=path, state=state, size_bytes=3, sha256=sha(path.encode()), parts=[sha(path.encode())])
        for path, state in (
            ("loss.csv", "growing"), ("out/model/config.json", "kept"), ("out/model/w.bin", "kept"),
        )
    ]  # fmt: skip
    with database.transaction() as session:
        session.add(
            TrialOutputsRow(
                trial_id=trial_id, node_rank=0, attempt_no=1, seq=1, is_final=False, node_id="n",
                node_name="node-1", storage_id="s" * 32, folder="experiment-1/trial-1/outputs",
                num_files=3, size_bytes=9, num_left_out=0, left_out_bytes=0,
                files=encode_files(files), updated_at=NOW,
            )
        )  # fmt: skip
    body = {"trial_id": trial_id, "paths": ["out/model/"]}
    refused = member_client.post(f"{MODELS}/digits/versions", json=body)
    assert error(refused) == (409, "models.outputs_open")
    with database.transaction() as session:
        session.execute(update(TrialOutputsRow).values(is_final=True))
    made = register(member_client, "digits", **body)
    assert [(f["path"], f["size_bytes"], f["num_parts"]) for f in made["files"]] == [
        ("config.json", 3, 1), ("w.bin", 3, 1),
    ]  # fmt: skip
    assert made["metrics"] == {"val/loss": 0.5}, "measurements of speed are none of the model"
    for paths, code in ((["out/nothing"], "models.no_output"), ([], "models.not_kept")):
        answer = member_client.post(
            f"{MODELS}/digits/versions", json={"trial_id": trial_id, "paths": paths}
        )
        assert error(answer) == (422, code)
    plan = member_client.get(
        f"{API}/experiments/{experiment_id}/outputs:plan", params={"max_bytes": 0}
    ).json()
    assert plan["trials"][0]["reason"] == "version 1 of model digits consists of them"
    refused = member_client.post(f"{API}/experiments/{experiment_id}:continue", json={})
    assert error(refused) == (409, "experiments.used_by_model")


def test_an_upload_continues_where_it_was_cut_off_and_is_verified(
    member_client, viewer_client, database, settings, monkeypatch
):
    data = bytes(range(256)) * (10 * 1024) + b"end"  # 2.5 MiB and a bit
    address = f"{API}/model-blobs/{sha(data)}"
    assert error(member_client.get(address)) == (404, "models.no_upload")
    whole = {"size_bytes": len(data)}
    first = member_client.put(address, params=whole, content=data[:MIB])
    assert (first.json()["received_bytes"], first.json()["is_complete"]) == (MIB, False)
    early = {"files": [{"path": "model.bin", "sha256": sha(data)}]}
    assert error(member_client.post(f"{MODELS}/up/versions", json=early)) == (
        422,
        "models.not_uploaded",
    )
    # Again, too far, of another size, and cut at an odd place.
    for params, content, refused in [
        ({**whole, "offset": 0}, data[:MIB], (409, "models.wrong_offset")),
        ({**whole, "offset": 2 * MIB}, data[2 * MIB :], (409, "models.wrong_offset")),
        ({"size_bytes": 5, "offset": MIB}, b"", (422, "models.wrong_size")),
        ({**whole, "offset": MIB}, b"odd", (422, "models.wrong_piece")),
    ]:
        assert error(member_client.put(address, params=params, content=content)) == refused
    rest = member_client.put(address, params={**whole, "offset": MIB}, content=data[MIB:])
    assert rest.json()["is_complete"]
    assert viewer_client.put(address, params=whole, content=b"").status_code == 403

    made = register(
        member_client, "up", metrics={"acc": 0.9},
        files=[{"path": "model.bin", "sha256": sha(data)}, {"path": "a/again", "sha256": sha(data)}],
    )  # fmt: skip
    assert (made["size_bytes"], made["source"], made["lineage"]) == (2 * len(data), "upload", {})
    content = f"{MODELS}/up/versions/1/files/content"
    got = viewer_client.get(content, params={"path": "model.bin"})
    assert (got.content, got.headers["etag"]) == (data, f'"{sha(data)}"')
    start = MIB + 7
    ranged = {"Range": f"bytes={start}-", "If-Range": f'"{sha(data)}"'}
    part = viewer_client.get(content, params={"path": "model.bin"}, headers=ranged)
    assert (part.status_code, part.content) == (206, data[start:])
    assert part.headers["content-range"] == f"bytes {start}-{len(data) - 1}/{len(data)}"
    other = {"Range": f"bytes={start}-", "If-Range": '"other"'}
    assert viewer_client.get(content, params={"path": "model.bin"}, headers=other).content == data
    assert error(viewer_client.get(content, params={"path": "none"})) == (404, "models.no_file")

    wrong = member_client.put(
        f"{API}/model-blobs/{'0' * 64}", params={"size_bytes": 3}, content=b"abc"
    )
    assert error(wrong) == (422, "models.wrong_digest")
    assert error(member_client.get(f"{API}/model-blobs/{'0' * 64}")) == (404, "models.no_upload")
    large = member_client.put(
        f"{API}/model-blobs/{'1' * 64}",
        params={"size_bytes": settings.model_file_max_bytes + 1},
        content=b"x",
    )
    assert error(large) == (413, "models.file_too_large")

    later = NOW.replace(year=2099)
    with database.transaction() as session:
        assert uploads.delete_unused(session, later) == 0, "a version consists of it"
    member_client.delete(f"{MODELS}/up")
    with database.transaction() as session:
        assert uploads.delete_unused(session, later) == 1
        assert session.scalars(select(ModelBlobRow)).all() == []


def test_paths_names_and_sources_that_cannot_be(member_client, eve, checkpoints, database):
    _, trial_id, (first, second) = checkpoints
    digest = upload(member_client, b"")["sha256"]
    for path in ("../x", "/x", "a//b", ".muster-model.json"):
        answer = member_client.post(
            f"{MODELS}/m/versions", json={"files": [{"path": path, "sha256": digest}]}
        )
        assert error(answer) == (422, "models.bad_path"), path
        assert answer.json()["error"]["fields"][0]["path"].startswith("files.")
    for body, refused in [
        ({}, (422, "models.one_source")),
        ({"checkpoint_id": first, "trial_id": trial_id}, (422, "models.one_source")),
        ({"checkpoint_id": 999_999}, (404, "checkpoints.not_found")),
        ({"trial_id": 999_999}, (404, "trials.not_found")),
        ({"trial_id": trial_id}, (422, "models.no_files")),
        ({"checkpoint_id": first, "project": "nowhere"}, (422, "models.no_project")),
    ]:
        assert error(member_client.post(f"{MODELS}/m/versions", json=body)) == refused, body
    answer = member_client.post(f"{MODELS}/bad name/versions", json={"checkpoint_id": first})
    assert error(answer) == (422, "request.invalid")
    answer = eve.post(f"{MODELS}/hers/versions", json={"checkpoint_id": first})
    assert error(answer) == (403, "experiments.not_yours")
    with database.transaction() as session:
        session.execute(
            update(CheckpointRow).where(CheckpointRow.id == second).values(state="deleting")
        )
    answer = member_client.post(f"{MODELS}/m/versions", json={"checkpoint_id": second})
    assert error(answer) == (409, "checkpoints.gone")
    assert member_client.get(MODELS).json()["items"] == [], "nothing is left of what was refused"


def test_models_are_renamed_described_and_belong_to_a_project(
    member_client, eve, admin_client, checkpoints
):
    admin_client.post(f"{API}/projects", json={"name": "vision", "submission": "all"})
    body = {"name": "digits", "project": "vision", "description": "Reads digits."}
    made = member_client.post(MODELS, json=body)
    assert (made.status_code, made.json()["latest_version"]) == (201, None)
    assert error(eve.post(MODELS, json=body)) == (409, "models.name_taken")
    assert error(eve.patch(f"{MODELS}/digits", json={"description": "x"})) == (
        403,
        "models.not_yours",
    )
    # Anybody may add a version of files of their own; only its owner says what is in production.
    digest = upload(eve, b"hers")["sha256"]
    register(eve, "digits", files=[{"path": "w", "sha256": digest}])
    assert error(eve.delete(f"{MODELS}/digits")) == (403, "models.not_yours")
    notes = eve.patch(f"{MODELS}/digits/versions/1", json={"notes": "Mine."})
    assert (notes.json()["notes"], notes.json()["may_change"]) == ("Mine.", True)
    renamed = member_client.patch(f"{MODELS}/digits", json={"name": "mnist", "tags": {"a": "b"}})
    assert (renamed.json()["name"], renamed.json()["tags"]) == ("mnist", {"a": "b"})
    assert error(member_client.get(f"{MODELS}/digits")) == (404, "models.not_found")
    for query, names in [({"project": "vision"}, ["mnist"]), ({"project": "default"}, []),
                         ({"q": "READS"}, ["mnist"]), ({"q": "%"}, [])]:  # fmt: skip
        items = member_client.get(MODELS, params=query).json()["items"]
        assert [m["name"] for m in items] == names
    assert error(admin_client.delete(f"{API}/projects/vision")) == (409, "projects.in_use")
    assert member_client.delete(f"{MODELS}/mnist").status_code == 204
    assert admin_client.delete(f"{API}/projects/vision").status_code == 204


def test_rules_need_an_experiment_a_metric_and_a_goal(member_client, eve, checkpoints, database):
    experiment_id, _, (first, _) = checkpoints
    register(member_client, "digits", checkpoint_id=first)
    rules = f"{MODELS}/digits/promotions"
    made = member_client.post(rules, json={"experiment_id": experiment_id, "alias": "candidate"})
    assert made.status_code == 201, made.text
    assert (made.json()["metric"], made.json()["goal"], made.json()["state"]) == (
        "val/loss", "min", "waiting",
    )  # fmt: skip
    for changes, refused in [
        ({"metric": "acc"}, (422, "models.no_goal")),
        ({"alias": "latest"}, (422, "models.reserved_alias")),
        ({"experiment_id": 999_999}, (404, "experiments.not_found")),
    ]:
        body = {"experiment_id": experiment_id, "alias": "candidate", **changes}
        assert error(member_client.post(rules, json=body)) == refused
    body = {"experiment_id": experiment_id, "alias": "candidate"}
    assert error(eve.post(rules, json=body)) == (403, "models.not_yours")
    (listed,) = member_client.get(rules).json()["items"]
    assert member_client.delete(f"{rules}/{listed['id']}").status_code == 204
    assert error(member_client.delete(f"{rules}/{listed['id']}")) == (404, "models.no_promotion")
    with database.transaction() as session:
        session.execute(update(TrialRow).values(state="COMPLETED"))
