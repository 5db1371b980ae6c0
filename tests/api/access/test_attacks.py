"""What hostile requests get: a refusal, quickly, and never a 500 or their own words back."""

from __future__ import annotations

import json

import pytest

from muster_server.middleware.strict_json import Unstorable, check_json

LOGIN = "/api/v1/auth/login"
TOKENS = "/api/v1/tokens"
JSON = {"Content-Type": "application/json"}
SECRET = "correct-horse-battery"


def code(reply):
    return reply.json()["error"]["code"]


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": NaN}',
        b'{"expires_in_days": Infinity, "name": "x"}',
        b'{"expires_in_days": 1e400, "name": "x"}',
        b'{"expires_in_days": 1' + b"0" * 30 + b', "name": "x"}',
        b'{"expires_in_days": ' + b"9" * 5000 + b', "name": "x"}',
        b'{"expires_in_days": true, "name": "x"}',
        b'{"expires_in_days": "7", "name": "x"}',
        b'{"expires_in_days": 7.0, "name": "x"}',
        b'{"name": "x", "name": "y"}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "\\ud800"}',
        b'{"name": "\xff"}',
        b'\xef\xbb\xbf{"name": "x"}',
        b'{"name": "x"} trailing',
        b'{"name": "x", "role": "admin", "user_id": 1}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"",
        b"null",
        b"[]",
    ],
    ids=range(20),
)
def test_ambiguous_or_unstorable_json_is_refused(member_client, body):
    reply = member_client.post(TOKENS, content=body, headers=JSON)
    assert reply.status_code in (400, 422), reply.text
    assert len(member_client.get(TOKENS).json()["items"]) == 1, "nothing was made"


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_json_under_another_name_is_refused(member_client, content_type):
    headers = {"Content-Type": content_type}
    reply = member_client.post(TOKENS, content=b'{"name": "x"}', headers=headers)
    assert reply.status_code in (400, 415, 422)


def test_the_check_itself_takes_what_is_fine():
    check_json(json.dumps({"a": [1, -2.5, "é", None, True, {"b": 2**63 - 1}]}).encode())
    with pytest.raises(Unstorable, match="twice"):
        check_json(b'{"a": {"b": 1, "b": 2}}')


def test_a_refused_body_is_not_echoed(client):
    for body in (
        {"username": "ada", "pasword": SECRET},
        {"username": ["ada"], "password": {"p": SECRET}},
        {"username": "ada", "password": SECRET * 100},
    ):
        reply = client.post(LOGIN, json=body)
        assert reply.status_code == 422
        assert SECRET not in reply.text
        assert reply.json()["error"]["fields"]


def test_a_body_with_a_thousand_mistakes_gets_a_short_answer(client):
    reply = client.post(LOGIN, json={f"field{i}": "x" * 100 for i in range(1000)})
    assert reply.status_code == 422
    assert len(reply.content) < 10_000


# ---------------------------------------------------------------- sizes


def test_a_body_over_the_limit_is_refused_before_and_while_it_is_read(member_client):
    big = b'{"name": "' + b"x" * 1_100_000 + b'"}'
    assert member_client.post(TOKENS, content=big, headers=JSON).status_code == 413
    headers = JSON | {"Transfer-Encoding": "chunked"}
    request = member_client.build_request("POST", TOKENS, content=big, headers=headers)
    del request.headers["Content-Length"]
    assert member_client.send(request).status_code == 413


def test_too_many_or_too_long_headers_are_refused(client):
    many = {f"X-{i}": "1" for i in range(200)}
    assert client.get("/healthz", headers=many).status_code == 431
    assert client.get("/healthz", headers={"X-Long": "x" * 40_000}).status_code == 431


def test_too_long_addresses_are_refused(client):
    assert client.get("/healthz?" + "x" * 9000).status_code == 414
    assert client.get("/healthz?" + "&".join(f"a{i}=1" for i in range(700))).status_code == 414


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "1000000000"},
        {"limit": "-1"},
        {"limit": "0"},
        {"cursor": "x" * 600},
        {"cursor": "AAAA"},
        {"cursor": "\x00"},
        {"cursor": "WzFlNDAwXQ"},
    ],
)
def test_odd_pages_are_refused(admin_client, query):
    for path in ("/api/v1/audit", "/api/v1/users", TOKENS):
        assert admin_client.get(path, params=query).status_code == 422


@pytest.mark.parametrize("number", ["0", "-1", "1e3", str(2**31), str(10**30), "9" * 5000, "%00"])
def test_odd_ids_are_refused(admin_client, number):
    assert admin_client.delete(f"{TOKENS}/{number}").status_code in (404, 414, 422)


# ---------------------------------------------------------------- Host


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8470",
        "localhost.evil.example",
        "localhost@evil.example",
        "localhost/healthz?",
        "localhost:notaport",
        "127.0.0.2",
        "",
        "evil.example, localhost",
    ],
)
def test_unknown_hosts_are_421(admin_client, host):
    reply = admin_client.get("/api/v1/auth/me", headers={"Host": host})
    assert reply.status_code == 421
    assert "Location" not in reply.headers
    assert host not in reply.text or not host


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:8470"])
def test_our_own_names_are_answered(admin_client, host):
    assert admin_client.get("/api/v1/auth/me", headers={"Host": host}).status_code == 200


def test_two_hosts_are_one_too_many(admin_client):
    headers = [("Host", "localhost"), ("Host", "evil.example")]
    assert admin_client.get("/api/v1/auth/me", headers=headers).status_code == 421


def test_a_trailing_slash_is_not_redirected(admin_client):
    assert admin_client.get("/api/v1/users/").status_code == 404


# ---------------------------------------------------------------- Origin


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost.evil.example:8470"},
    {"Origin": "http://localhost:8471"},
    {"Origin": "https://localhost:8470"},
    {"Origin": "http://localhost:8470/"},
    {"Origin": "http://localhost:8470.evil.example"},
    {"Origin": "file://"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "PUT"])
def test_foreign_pages_change_nothing(admin_client, headers, method):
    reply = admin_client.request(method, f"{TOKENS}/1", headers=headers)
    assert (reply.status_code, code(reply)) == (403, "request.foreign_origin")


@pytest.mark.parametrize("headers", FOREIGN)
def test_foreign_pages_cannot_sign_anybody_in(client, headers):
    body = {"username": "ada", "password": "x"}
    assert client.post(LOGIN, json=body, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost:8470"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://127.0.0.1:8470", "Host": "127.0.0.1:8470"},
        {},
    ],
)
def test_our_own_pages_may(member_client, headers):
    reply = member_client.post(TOKENS, json={"name": "x"}, headers=headers)
    assert reply.status_code == 201


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_no_other_origin_may_read(admin_client, origin):
    preflight = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    for reply in (
        admin_client.get("/api/v1/auth/me", headers={"Origin": origin}),
        admin_client.options("/api/v1/auth/me", headers=preflight),
    ):
        assert not [name for name in reply.headers if name.startswith("access-control")]


class TestBehindHttps:
    """With a public https address: the proxy's name counts, plain HTTP in that name does not."""

    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"public_url": "https://muster.example"})

    @pytest.mark.parametrize(
        ("origin", "status"),
        [
            ("https://muster.example", 201),
            ("http://muster.example", 403),
            ("https://muster.example:444", 403),
            ("https://evil.example", 403),
        ],
    )
    def test_origin(self, member_client, origin, status):
        headers = {"Host": "muster.example", "Origin": origin}
        assert member_client.post(TOKENS, json={"name": "x"}, headers=headers).status_code == status

    def test_cookie_is_bound_to_the_host(self, client, database):
        from muster_server import clock
        from muster_server.services.core.accounts import auth

        with database.transaction() as session:
            token = auth.create_setup_token(session, now=clock.now())
        body = {"token": token, "username": "ada", "password": "a tolerable passphrase"}
        reply = client.post("/api/v1/auth/setup", json=body, headers={"Host": "muster.example"})
        cookie = reply.headers["set-cookie"]
        assert cookie.startswith("__Host-muster_sid=")
        assert "; secure" in cookie.lower()
        assert "max-age=31536000" in reply.headers["strict-transport-security"]


# ---------------------------------------------------------------- answers


def test_answers_are_hardened(admin_client, client):
    for reply in (
        admin_client.get("/api/v1/auth/me"),
        client.get("/api/v1/auth/me"),
        client.get("/healthz", headers={"X-Long": "x" * 40_000}),
        admin_client.get("/api/v1/auth/me", headers={"Host": "evil"}),
    ):
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-request-id"]
        assert "server" not in reply.headers
    assert admin_client.get("/api/v1/auth/me").headers["x-request-id"] != "given"


def test_errors_carry_the_request_id_of_their_header(client):
    reply = client.get("/api/v1/auth/me", headers={"X-Request-Id": "given"})
    assert reply.json()["error"]["request_id"] == reply.headers["x-request-id"] != "given"


def test_what_goes_wrong_inside_is_not_told(app, connect, make_user_token, caplog, monkeypatch):
    from muster_server.services.core.accounts import users

    def fail(*_, **__):
        raise RuntimeError(f"postgresql://muster:{SECRET}@db/ is unhappy")

    monkeypatch.setattr(users, "list_users", fail)
    reply = connect(token=make_user_token("admin")).get("/api/v1/users")
    assert (reply.status_code, code(reply)) == (500, "server.internal_error")
    assert SECRET not in reply.text
    assert "Traceback" not in reply.text
    assert reply.headers["x-request-id"] in caplog.text, "the log has the rest under this id"


def test_a_database_that_is_away_is_a_503_with_retry_after(app, connect, make_user_token, tmp_path):
    client = connect(token=make_user_token("admin"))
    database = app.state.database
    database.dispose()
    app.state.database = type(database)(f"sqlite:///{tmp_path}/no/such/folder/x.db")
    try:
        reply = client.get("/api/v1/users")
        assert (reply.status_code, code(reply)) == (503, "server.database_unavailable")
        assert int(reply.headers["retry-after"]) >= 1
        assert str(tmp_path) not in reply.text
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["database"] == "unreachable"
        assert client.get("/healthz").status_code == 200
    finally:
        app.state.database.dispose()
        app.state.database = database
