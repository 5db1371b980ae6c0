"""Secrets over the REST API and on the command line: they go in and never come out."""

from __future__ import annotations

import os

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from muster_server.db.models import SecretRow, UserRow
from muster_server.security.stack_secrets import new_key
from support import preloaded

API = "/api/v1/secrets"
OF_PROJECT = "/api/v1/projects/vision/secrets"
VALUE = "canary-0123456789"
DOCUMENT = (
    "name: x\nproject: vision\nentrypoint: -m x\nenvironment: {secrets: [HF_TOKEN, WANDB_KEY]}\n"
)


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"secrets_key": SecretStr(new_key())})


@pytest.fixture
def eve(connect, make_user_token):
    return connect(token=make_user_token("member", username="eve"))


@pytest.fixture
def project(admin_client):
    assert (
        admin_client.post(
            "/api/v1/projects", json={"name": "vision", "submission": "all"}
        ).status_code
        == 201
    )


def put(client, path, value=VALUE):
    return client.put(path, json={"value": value})


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def names(client, path=API):
    return [item["name"] for item in client.get(path).json()["items"]]


def test_a_secret_is_set_replaced_listed_and_deleted_by_its_owner_alone(member_client, eve):
    made = put(member_client, f"{API}/HF_TOKEN")
    assert made.status_code == 200, made.text
    assert made.json()["version"] == 1
    again = put(member_client, f"{API}/HF_TOKEN", VALUE + "x").json()
    assert (again["version"], again["owner"], again["owner_name"]) == (2, "user", "member")
    assert again["changed_by"].endswith("(member)")
    assert again["last_used_at"] is None
    assert (names(member_client), names(eve)) == (["HF_TOKEN"], [])
    assert error(eve.delete(f"{API}/HF_TOKEN")) == (404, "secrets.not_found")
    assert member_client.delete(f"{API}/HF_TOKEN").status_code == 204
    assert names(member_client) == []


def test_no_answer_and_no_row_holds_a_value(member_client, admin_client, database, project):
    answers = [put(member_client, f"{API}/HF_TOKEN"), put(admin_client, f"{OF_PROJECT}/HF_TOKEN")]
    answers += [
        member_client.get(API),
        admin_client.get(OF_PROJECT),
        admin_client.get("/api/v1/audit"),
    ]
    answers.append(put(member_client, f"{API}/hf", VALUE))
    answers.append(put(member_client, f"{API}/X", "canary\0"))
    answers.append(put(member_client, f"{API}/X", "canary"))
    answers.append(member_client.put(f"{API}/X", json={"value": VALUE, "extra": VALUE}))
    answers.append(member_client.put(f"{API}/X", json={"value": [VALUE]}))
    for answer in answers:
        assert "canary" not in answer.text
    with database.read() as session:
        for row in session.scalars(select(SecretRow)):
            assert b"canary" not in row.ciphertext
    actions = [e["action"] for e in admin_client.get("/api/v1/audit").json()["items"]]
    assert actions.count("secrets.set") == 2


def test_secrets_of_a_project_are_set_by_its_maintainers_and_seen_by_all(
    admin_client, member_client, viewer_client, project
):
    refused = (403, "projects.not_maintainer")
    assert error(put(member_client, f"{OF_PROJECT}/HF_TOKEN")) == refused
    assert put(admin_client, f"{OF_PROJECT}/HF_TOKEN").json()["owner_name"] == "vision"
    assert names(viewer_client, OF_PROJECT) == ["HF_TOKEN"]
    assert error(member_client.delete(f"{OF_PROJECT}/HF_TOKEN")) == refused
    assert error(put(viewer_client, f"{API}/HF_TOKEN")) == (403, "auth.forbidden")
    assert error(put(admin_client, "/api/v1/projects/none/secrets/X")) == (
        404,
        "projects.not_found",
    )
    path = "/api/v1/projects/vision/members/users/member"
    assert admin_client.put(path, json={"role": "maintainer"}).is_success
    assert put(member_client, f"{OF_PROJECT}/OTHER").status_code == 200
    assert member_client.delete(f"{OF_PROJECT}/HF_TOKEN").status_code == 204
    assert names(viewer_client, OF_PROJECT) == ["OTHER"]


def test_what_cannot_be_is_refused_with_the_reason(member_client):
    for name in ("hf_token", "PATH", "LD_PRELOAD", "RANK"):
        assert error(put(member_client, f"{API}/{name}")) == (422, "secrets.bad_name")
    short = put(member_client, f"{API}/X", "hunter2")
    assert error(short) == (422, "secrets.bad_value")
    assert "could not be masked" in short.json()["error"]["message"]
    assert error(put(member_client, f"{API}/X", "é" * 40_000)) == (422, "secrets.bad_value")
    assert error(put(member_client, f"{API}/X", "x" * 70_000)) == (422, "request.invalid")


def test_a_user_has_only_so_many(member_client, monkeypatch):
    monkeypatch.setattr("muster_server.services.secrets.store.PER_OWNER_MAX", 2)
    for name in ("A", "B"):
        assert put(member_client, f"{API}/{name}").status_code == 200
    assert error(put(member_client, f"{API}/C")) == (409, "secrets.too_many")
    assert put(member_client, f"{API}/B").status_code == 200


def test_a_document_names_what_exists_for_its_submitter(
    member_client, eve, admin_client, project, muster, tmp_path
):
    def preview(client):
        return client.post("/api/v1/experiments:preview", json={"document": DOCUMENT}).json()

    put(admin_client, f"{OF_PROJECT}/WANDB_KEY")
    put(member_client, f"{API}/HF_TOKEN")
    assert preview(member_client)["valid"]
    (problem,) = preview(eve)["errors"]
    assert problem["path"] == "environment.secrets"
    assert "HF_TOKEN" in problem["message"]
    assert "project: WANDB_KEY" in problem["hint"]
    assert "muster secret set HF_TOKEN" in problem["hint"]
    refused = eve.post("/api/v1/experiments", json={"document": DOCUMENT})
    assert error(refused) == (422, "experiments.invalid_document")
    (tmp_path / "x.yaml").write_text(DOCUMENT)
    assert muster("validate", str(tmp_path / "x.yaml")).exit_code == 0


def test_secrets_of_a_deactivated_user_are_not_used(member_client, database, settings):
    from muster_server.services.secrets.lookup import find_secrets

    put(member_client, f"{API}/HF_TOKEN")
    with database.transaction() as session:
        user_id = session.scalar(select(UserRow.id).where(UserRow.username == "member"))
        assert list(find_secrets(session, user_id=user_id, project_id=None)) == ["HF_TOKEN"]
        session.execute(update(UserRow).where(UserRow.id == user_id).values(is_active=False))
        assert find_secrets(session, user_id=user_id, project_id=None) == {}


def test_the_command_line_takes_values_from_files_and_standard_input(muster, tmp_path, project):
    path = tmp_path / "token"
    path.write_text(VALUE)
    made = muster("secret", "set", "HF_TOKEN", "--from-file", str(path))
    assert made.exit_code == 0, made.output
    assert "environment: {secrets: [HF_TOKEN]}" in made.stderr
    piped = muster("secret", "set", "OTHER", input=f"{VALUE}\n")
    assert piped.exit_code == 0, piped.output
    shared = muster("secret", "set", "HF_TOKEN", "--project", "vision", input=VALUE, as_="admin")
    assert shared.exit_code == 0, shared.output
    listed = muster("secret", "list")
    assert "HF_TOKEN" in listed.output
    assert "OTHER" in listed.output
    assert "HF_TOKEN" in muster("secret", "list", "--project", "vision").output
    assert muster("secret", "delete", "OTHER", "--yes").exit_code == 0
    assert "OTHER" not in muster("secret", "list").output
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is not text" in str(muster("secret", "set", "X", "--from-file", str(binary)).exception)
    short = muster("secret", "set", "X", input="short")
    assert short.exit_code == 1
    for result in (made, piped, shared, listed, short):
        assert "canary" not in result.output


class TestWithoutKey:
    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"secrets_key": None})

    def test_secrets_are_off_and_say_so(self, member_client):
        refused = put(member_client, f"{API}/HF_TOKEN")
        assert error(refused) == (409, "secrets.off")
        assert "no key" in refused.json()["error"]["message"]
        assert names(member_client) == []


def test_keys_are_made_and_rotated_by_commands(
    database_url, database, member_client, settings, tmp_path
):
    def run(*arguments, **more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        return preloaded.run(
            [preloaded.SERVER, "secrets", *arguments],
            environment={**environment, "MUSTER_DATABASE_URL": database_url, **more},
            folder=tmp_path,
            timeout_s=60,
        )

    for name in ("A", "B", "C"):
        put(member_client, f"{API}/{name}")
    old = settings.secrets_key.get_secret_value()
    path = tmp_path / "keys"
    assert run("new-key", "--out", str(path)).returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert run("new-key", "--out", str(path)).returncode == 1, "a key is never written over"
    new = path.read_text()
    alone = run("rotate", MUSTER_SECRETS_KEY_FILE=str(path))
    assert alone.returncode == 1
    assert "none of the keys decrypts user:" in alone.stderr
    path.write_text(new + old + "\n")
    done = run("rotate", MUSTER_SECRETS_KEY_FILE=str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(": 3")
    path.write_text(new)
    assert run("rotate", MUSTER_SECRETS_KEY_FILE=str(path)).stdout.strip().endswith(": 0")
    off = run("rotate")
    assert off.returncode == 1
    assert "Secrets are off" in off.stderr
    with database.read() as session:
        assert len({row.key_id for row in session.scalars(select(SecretRow))}) == 1
        assert all(row.rotated_at for row in session.scalars(select(SecretRow)))


def test_many_secrets_are_rotated_in_batches(database, member_client, settings, monkeypatch):
    from muster_server import clock
    from muster_server.security.encryption import key_ring
    from muster_server.services.secrets import store

    monkeypatch.setattr(store, "ROTATE_BATCH", 2)
    for name in ("A", "B", "C", "D", "E"):
        put(member_client, f"{API}/{name}")
    old = settings.secrets_key.get_secret_value()
    keys = key_ring(settings.model_copy(update={"secrets_key": SecretStr(f"{new_key()} {old}")}))
    counts, after_id = [], None
    while True:
        with database.transaction() as session:
            batch = store.rotate_batch(session, keys, after_id=after_id, now=clock.now())
        after_id = batch.last_id
        if after_id is None:
            break
        counts.append(batch.num_rotated)
    assert counts == [2, 2, 1]
