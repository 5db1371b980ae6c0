"""What the service says to honest mistakes: the field, what is wrong, and what would work."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest
from sqlalchemy import text

EXPERIMENTS = "/api/v1/experiments"
GOOD = {"name": "x", "entrypoint": ["-m", "platform"]}


def error(reply):
    return reply.json()["error"]


def only_field(reply):
    (field,) = error(reply)["fields"]
    return field["path"], field["message"], field["hint"]


# ---------------------------------------------------------------- bodies


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", "application/yaml", ""]
)
def test_a_body_that_is_not_json_is_told_what_to_send(member_client, content_type):
    # What `curl -d` sends when nobody says otherwise.
    body = json.dumps({"document": json.dumps(GOOD)})
    reply = member_client.post(EXPERIMENTS, content=body, headers={"Content-Type": content_type})
    assert reply.status_code == 415
    assert error(reply)["code"] == "request.unsupported_media_type"
    assert "Content-Type: application/json" in error(reply)["message"]


def test_actions_need_neither_body_nor_content_type(member_client):
    made = member_client.post(EXPERIMENTS, json={"document": json.dumps(GOOD)}).json()
    assert member_client.post(f"{EXPERIMENTS}/{made['id']}:stop").status_code == 202
    empty = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "0"}
    again = member_client.post(f"{EXPERIMENTS}/{made['id']}:stop", headers=empty)
    assert again.status_code == 202


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "must be a JSON object"),
        ({"document": "x" * 300_000}, "must have at most 262,144 characters, has 300,000"),
        ({"document": ""}, "must have at least 1 character, has 0"),
        ({"document": "{}", "overrides": ["a=1"] * 101}, "must have at most 100 entries, has 101"),
        ({"document": 7}, "must be text, not a whole number"),
        ({}, "is missing"),
    ],
)
def test_limits_are_named_in_the_words_of_the_one_who_wrote(member_client, body, message):
    reply = member_client.post(EXPERIMENTS, json=body)
    assert reply.status_code == 422
    assert only_field(reply)[1] == message


def test_long_text_in_a_document_is_counted_in_characters(member_client):
    document = json.dumps({**GOOD, "name": "x" * 201})
    reply = member_client.post(EXPERIMENTS, json={"document": document})
    assert only_field(reply)[:2] == ("name", "must have at most 200 characters, has 201")


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b[31mb", "a\u202eb", "a\u2028b", "\u200b"])
def test_names_are_one_line_of_visible_text(member_client, name):
    document = json.dumps({**GOOD, "name": name})
    reply = member_client.post(EXPERIMENTS, json={"document": document})
    assert reply.status_code == 422
    assert only_field(reply)[:2] == ("name", "must be one line of visible characters")
    made = member_client.post(EXPERIMENTS, json={"document": json.dumps(GOOD)}).json()
    renamed = member_client.patch(f"{EXPERIMENTS}/{made['id']}", json={"name": name})
    assert renamed.status_code == 422


@pytest.mark.parametrize("name", ["日本語", "é à la carte", "🚀", "naïve – 2"])
def test_names_may_be_in_any_language(member_client, name):
    document = json.dumps({**GOOD, "name": name})
    assert member_client.post(EXPERIMENTS, json={"document": document}).json()["name"] == name


@pytest.mark.parametrize("pool", ["../x", "a b", "", "é", "x" * 65])
def test_a_join_token_names_a_pool_that_documents_can_name(admin_client, pool):
    assert admin_client.post("/api/v1/join-tokens", json={"pool": pool}).status_code == 422


# ---------------------------------------------------------------- queries


@pytest.mark.parametrize(
    ("query", "path", "hint"),
    [
        ("sate=RUNNING", "sate", "did you mean 'state'?"),
        (
            "offset=3",
            "offset",
            "known here: archived, column, cursor, label, limit, owner, project, q, sort, state, "
            "where",
        ),
    ],
)
def test_an_unknown_parameter_is_refused_instead_of_ignored(member_client, query, path, hint):
    reply = member_client.get(f"{EXPERIMENTS}?{query}")
    assert reply.status_code == 422
    assert only_field(reply) == (path, "does not exist", hint)


def test_a_parameter_given_twice_is_refused_where_one_is_used(member_client):
    reply = member_client.get(f"{EXPERIMENTS}?limit=1&limit=2")
    assert only_field(reply)[:2] == ("limit", "is given twice, and takes one value")
    both = member_client.get(f"{EXPERIMENTS}?state=RUNNING&state=QUEUED")
    assert both.status_code == 200


def test_a_route_without_parameters_says_so(member_client):
    reply = member_client.get("/api/v1/auth/me?x=1")
    assert only_field(reply) == ("x", "does not exist", "none are known here")


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", EXPERIMENTS, "/openapi.json", "/api/v1/cluster", "/"]
)
def test_head_answers_as_get_without_the_body(member_client, path):
    head, get = member_client.head(path), member_client.get(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers["Content-Type"] == get.headers["Content-Type"]


def test_head_needs_the_same_permission(client, viewer_client):
    assert client.head(EXPERIMENTS).status_code == 401
    assert viewer_client.head("/api/v1/users").status_code == 403


def test_head_of_a_server_that_is_not_ready_is_503(connect, database):
    with database.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert connect().head("/readyz").status_code == 503


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (EXPERIMENTS, "GET, HEAD, POST"),
        (f"{EXPERIMENTS}/1", "DELETE, GET, HEAD, PATCH"),
        ("/api/v1/auth/login", "POST"),
        ("/healthz", "GET, HEAD"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "FOO"])
def test_a_wrong_method_is_told_all_that_work(member_client, path, allowed, method):
    reply = member_client.request(method, path)
    assert reply.status_code == 405
    assert reply.headers["Allow"] == allowed
    assert error(reply)["code"] == "request.method_not_allowed"


# ---------------------------------------------------------------- credentials


def test_a_credential_that_is_not_valid_is_told_apart_from_none(client):
    assert "Sign in" in error(client.get(EXPERIMENTS))["message"]
    for header, said in (
        ("Bearer mst_usr_nothing", "expired or revoked"),
        ("Basic eDp5", "must be 'Bearer mst_usr_…'"),
        ("Bearer ", "must be 'Bearer mst_usr_…'"),
        ("mst_usr_x", "must be 'Bearer mst_usr_…'"),
    ):
        reply = client.get(EXPERIMENTS, headers={"Authorization": header})
        assert reply.status_code == 401
        assert error(reply)["code"] == "auth.not_signed_in"
        assert said in error(reply)["message"]


# ---------------------------------------------------------------- bundles


def bundle(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in members:
            info = tarfile.TarInfo(name)
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            archive.addfile(info, io.BytesIO(b""))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (("train.py", "./train.py"), "it is there twice"),
        (("train.py", "train.py/x"), "it is inside of something that is a file"),
        (("a/b", "a"), "something else is inside of it, which is a file"),
        (("x" * 256,), "a name in its path is longer than 255 bytes"),
        (("é" * 130,), "a name in its path is longer than 255 bytes"),
        (("/".join(["d"] * 501),), "its path is longer than 1,000 characters"),
    ],
)
def test_a_bundle_that_no_node_could_unpack_is_refused_when_sent(member_client, members, said):
    data = bundle(*members)
    reply = member_client.put(
        f"/api/v1/blobs/{hashlib.sha256(data).hexdigest()}",
        content=data,
        headers={"Content-Type": "application/gzip"},
    )
    assert reply.status_code == 422
    assert said in error(reply)["message"]


def test_a_folder_may_be_listed_more_than_once(member_client):
    data = bundle("a/", "a/x.py", "a/", "b/y.py")
    reply = member_client.put(f"/api/v1/blobs/{hashlib.sha256(data).hexdigest()}", content=data)
    assert reply.status_code == 200
