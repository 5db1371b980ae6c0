"""Signing in at an OpenID provider: a public one, and one that lies."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from joserfc import jwt
from joserfc.jwk import RSAKey
from pydantic import SecretStr
from sqlalchemy import select

from muster_server import clock
from muster_server.app import create_app
from muster_server.db.models import (
    AuditRow,
    GroupMemberRow,
    GroupRow,
    OpenidSessionRow,
    SessionRow,
    UserRow,
)
from muster_server.security import openid as provider_calls
from muster_server.security.encryption import key_ring
from muster_server.services.core.accounts import openid_checks
from muster_server.services.core.accounts.openid import CHECK_EVERY
from muster_server.services.secrets import store
from support.accounts.providers import Person, public_provider, scripted_provider
from support.client import make_client, running

pytestmark = pytest.mark.either_database

START = "/api/v1/auth/oidc/start"
KEY, OTHER_KEY = "A" * 43 + "=", "B" * 42 + "A="


@pytest.fixture(scope="module")
def public():
    with public_provider() as issuer:
        yield issuer


@pytest.fixture
def scripted():
    with scripted_provider() as provider:
        yield provider


@pytest.fixture
def settings(settings, request):
    """Settings name the scripted provider, unless the test uses `public`."""
    issuer = (
        request.getfixturevalue("public")
        if "public" in request.fixturenames
        else request.getfixturevalue("scripted").issuer
    )
    more = getattr(request, "param", {})
    return settings.model_copy(
        update={
            "oidc_issuer": issuer,
            "oidc_client_id": "muster",
            "oidc_client_secret": SecretStr("se cret:/"),
            "secrets_key": SecretStr(KEY),
            "sign_in_attempts_per_minute": 1000,
            **more,
        }
    )


@pytest.fixture(autouse=True)
def _no_rounds(monkeypatch):
    """The tests ask again themselves: the server's own round must not be first."""
    monkeypatch.setattr(openid_checks, "ROUND_S", 3600.0)


WITH = pytest.mark.parametrize


def page(client, to="/"):
    """The provider's page to which a sign-in leads."""
    reply = client.get(START, params={"to": to} if to != "/" else {})
    assert reply.status_code == 303, reply.text
    return reply.headers["location"]


def sign_in(client, who, to="/"):
    return client.get(who.allow(page(client, to)))


def problem(reply):
    """Why the browser is sent back to the page for signing in."""
    assert reply.status_code == 303
    at = urlsplit(reply.headers["location"])
    assert at.path == "/sign-in"
    return parse_qs(at.query)["problem"][0]


def reasons(database):
    with database.read() as session:
        query = select(AuditRow.detail).where(AuditRow.action == "auth.openid_refused")
        return [detail["reason"] for detail in session.scalars(query.order_by(AuditRow.id))]


def me(client):
    reply = client.get("/api/v1/auth/me")
    return reply.json() if reply.status_code == 200 else None


# ---------------------------------------------------------------- a public provider


def test_the_first_sign_in_makes_the_account_and_the_next_finds_it(public, connect, database):
    ada = Person(public, "u-1", preferred_username="ada", email="ada@lab.example")
    first, second = connect(), connect()
    reply = sign_in(first, ada, "/experiments/7?tab=logs")
    assert (reply.status_code, reply.headers["location"]) == (303, "/experiments/7?tab=logs")
    mine = me(first)
    assert (mine["username"], mine["role"], mine["has_password"]) == ("ada", "member", False)
    assert mine["provider_account"] == "ada@lab.example"
    # Whatever the provider calls her now, she is the same person.
    ada.say(preferred_username="countess", email="ada@lab.example")
    sign_in(second, ada)
    assert me(second)["id"] == mine["id"]
    assert first.get("/api/v1/auth/state").json()["provider"] == "single sign-on"


@WITH("settings", [{"public_url": "http://localhost/muster"}], indirect=True)
def test_below_a_path_the_browser_comes_back_there(scripted, client, connect):
    begun = client.get(f"/muster{START}", params={"to": "/experiments/7"})
    there = parse_qs(urlsplit(begun.headers["location"]).query)["redirect_uri"]
    assert there == ["http://localhost/muster/api/v1/auth/oidc/callback"]
    back = scripted.allow(begun.headers["location"])
    assert client.get(back).headers["location"] == "/muster/experiments/7"
    refused = connect().get(back)
    assert refused.headers["location"] == "/muster/sign-in?problem=expired&to=%2Fexperiments%2F7"


def test_an_account_of_the_provider_gets_no_password(public, client):
    """Who has left, and may not sign in there any more, could else still come in."""
    sign_in(client, Person(public, "u-5", preferred_username="emil"))
    reply = client.post("/api/v1/auth/password", json={"new_password": "a tolerable passphrase"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "auth.provider_account")


def test_a_first_sign_in_may_come_from_two_tabs_at_a_time(scripted, client, connect):
    backs = [scripted.allow(page(client)) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        replies = list(pool.map(lambda back: client.get(back), backs))
    assert [reply.headers["location"] for reply in replies] == ["/", "/"]
    assert me(client)["username"] == "grace"


def test_who_cancels_at_the_provider_can_try_again(public, client):
    bob = Person(public, "u-2", preferred_username="bob")
    assert problem(client.get(bob.deny(page(client)))) == "canceled"
    assert me(client) is None
    sign_in(client, bob)
    assert me(client)["username"] == "bob"


@WITH("settings", [{"oidc_admin_groups": ["chiefs"], "oidc_default_role": "viewer"}], indirect=True)
def test_groups_decide_roles_and_memberships_within_a_minute(
    public, client, connect, database, app
):
    with database.transaction() as session:
        session.add_all(
            GroupRow(name=name, provider_group=theirs, created_at=clock.now(), created_by="test")
            for name, theirs in (("vision", "lab-vision"), ("speech", "lab-speech"), ("own", None))
        )
    who = Person(public, "u-3", preferred_username="chris", groups=["lab-vision", "elsewhere"])
    sign_in(client, who)
    assert (me(client)["role"], groups_of(database, "chris")) == ("viewer", ["vision"])
    who.say(preferred_username="chris", groups=["lab-speech"])
    checked(app)
    assert groups_of(database, "chris") == ["vision"], "it was asked a moment ago"
    later(app)
    assert groups_of(database, "chris") == ["speech"]
    who.say(preferred_username="chris", groups=["chiefs"])
    later(app)
    assert groups_of(database, "chris") == []
    # A new role ends sessions; the next one has it.
    assert me(client) is None
    sign_in(client, who)
    assert me(client)["role"] == "admin"


def test_a_session_ends_when_the_provider_takes_back_what_it_issued(public, client, database, app):
    dora = Person(public, "u-4", preferred_username="dora")
    sign_in(client, dora)
    later(app)
    assert me(client)["username"] == "dora"
    dora.leave()
    later(app)
    assert me(client) is None
    with database.read() as session:
        ended = select(AuditRow).where(AuditRow.action == "auth.openid_session_ended")
        assert session.scalars(ended).one().subject == "user:dora"


def test_whom_the_provider_refuses_is_let_in_by_nothing_until_they_sign_in_again(
    public, client, connect, app, database
):
    emmy = Person(public, "u-7", preferred_username="emmy")
    sign_in(client, emmy)
    token = client.post("/api/v1/tokens", json={"name": "laptop"}).json()["secret"]
    login = client.post("/api/v1/auth/device", json={"client": "muster on desk"}).json()
    client.post(f"/api/v1/auth/device/{login['user_code']}:approve")
    program, anybody = connect(token=token), connect()
    emmy.leave()
    later(app)
    assert me(client) is None
    assert me(program) is None
    assert program.get("/mlflow/api/2.0/mlflow/experiments/get?experiment_id=0").status_code == 401
    asked = {"device_code": login["device_code"]}
    assert anybody.post("/api/v1/auth/device/token", json=asked).status_code == 401
    with database.read() as session:
        refused = select(AuditRow.detail).where(AuditRow.action == "auth.token_refused")
        assert session.scalars(refused).first() == {"reason": "the provider has refused the user"}
        assert not store.may_use_own(session, session.scalars(select(UserRow.id)).one())
    sign_in(client, emmy)
    assert me(program)["username"] == "emmy"


@WITH("settings", [{"oidc_viewer_groups": ["lab"], "oidc_default_role": "none"}], indirect=True)
def test_who_is_no_longer_in_a_group_that_may_sign_in_is_refused(public, client, connect, app):
    finn = Person(public, "u-8", preferred_username="finn", groups=["lab"])
    sign_in(client, finn)
    program = connect(token=client.post("/api/v1/tokens", json={"name": "t"}).json()["secret"])
    finn.say(preferred_username="finn", groups=[])
    later(app)
    assert (me(client), me(program)) == (None, None)


def test_who_has_a_password_keeps_their_tokens_when_the_provider_refuses_them(
    scripted, connect, database, app
):
    hopper = signed_in_with_password(connect, database, "hopper")
    program = connect(token=hopper.post("/api/v1/tokens", json={"name": "t"}).json()["secret"])
    hopper.get(scripted.allow(hopper.post("/api/v1/auth/oidc/connect").json()["url"]))
    at_provider = connect()
    sign_in(at_provider, scripted)
    scripted.tokens = {"error": "invalid_grant"}
    later(app)
    assert me(at_provider) is None
    assert (me(program)["username"], me(hopper)["username"]) == ("hopper", "hopper")


def test_a_mistake_in_the_settings_stops_no_tokens(scripted, client, connect, app):
    """The provider refuses the server, and says nothing about people."""
    sign_in(client, scripted)
    program = connect(token=client.post("/api/v1/tokens", json={"name": "t"}).json()["secret"])
    scripted.tokens = {"error": "invalid_client"}
    later(app)
    assert me(client) is None
    assert me(program)["username"] == "grace"


def test_a_session_ends_when_the_provider_answers_about_another_person(
    scripted, client, connect, app, database
):
    sign_in(client, scripted)
    now = int(clock.now().timestamp())
    claims = {
        "iss": scripted.issuer, "aud": "muster", "sub": "s-2", "iat": now, "exp": now + 300,
        "preferred_username": "mallory", "groups": [],
    }  # fmt: skip
    scripted.tokens = {"id_token": scripted.signed(claims)}
    later(app)
    assert me(client) is None
    with database.read() as session:
        ended = select(AuditRow).where(AuditRow.action == "auth.openid_session_ended")
        assert session.scalars(ended).one().subject == "user:grace"


def test_rotating_the_keys_keeps_those_signed_in_who_are_away(
    public, client, database, app, settings
):
    sign_in(client, Person(public, "u-7", preferred_username="gus"))
    both = key_ring(settings.model_copy(update={"secrets_key": SecretStr(f"{OTHER_KEY} {KEY}")}))
    with database.transaction() as session:
        done = store.rotate_batch(
            session, both, of=OpenidSessionRow, after_id=None, now=clock.now()
        )
    assert done.num_rotated == 1
    app.state.settings = settings.model_copy(update={"secrets_key": SecretStr(OTHER_KEY)})
    later(app)
    assert me(client)["username"] == "gus"


def test_what_the_provider_is_asked_with_follows_a_new_key(public, client, database, app, settings):
    sign_in(client, Person(public, "u-6", preferred_username="fay"))
    app.state.settings = settings.model_copy(
        update={"secrets_key": SecretStr(f"{OTHER_KEY} {KEY}")}
    )
    later(app)
    app.state.settings = settings.model_copy(update={"secrets_key": SecretStr(OTHER_KEY)})
    later(app)
    assert me(client)["username"] == "fay"


def groups_of(database, username):
    with database.read() as session:
        query = (
            select(GroupRow.name)
            .join(GroupMemberRow, GroupMemberRow.group_id == GroupRow.id)
            .join(UserRow, UserRow.id == GroupMemberRow.user_id)
            .where(UserRow.username == username)
        )
        return sorted(session.scalars(query))


def checked(app):
    """Sessions about which the provider is asked now."""
    state = app.state
    return openid_checks.OpenidChecks(state.database, state.openid, state.settings).check_due()


def later(app):
    """Ask again once the sessions are due, while they are in use."""
    with app.state.database.transaction() as session:
        for row in session.scalars(select(SessionRow)):
            row.last_seen_at = clock.now() + CHECK_EVERY
    with time_machine.travel(clock.now() + CHECK_EVERY + dt.timedelta(seconds=1), tick=False):
        assert checked(app) == 1
        # Back to now: the next check is due after the same time.
    with app.state.database.transaction() as session:
        from muster_server.db.models import OpenidSessionRow

        for row in session.scalars(select(OpenidSessionRow)):
            row.checked_at = clock.now()


# ---------------------------------------------------------------- what is not believed


def wrong_key(provider, claims):
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, RSAKey.generate_key(2048))


def unsigned(provider, claims):
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def signed_with_the_public_key(provider, claims):
    """The classic confusion: the public key taken as a shared secret."""
    head = unsigned(provider, claims).rpartition(".")[0].partition(".")[2]
    text = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{head}"
    key = provider.key.as_pem(private=False)
    return f"{text}.{encoded(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def encoded(part):
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@WITH(
    "claims",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"aud": ["muster", "another"]},
        {"aud": ["muster"], "azp": "another"},
        {"nonce": "replayed"},
        {"nonce": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"sub": None},
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(scripted, client, database, claims):
    scripted.claims = claims
    assert problem(sign_in(client, scripted)) == "failed"
    assert me(client) is None
    assert "id_token" in reasons(database)[-1]


@WITH("sign", [wrong_key, unsigned, signed_with_the_public_key, lambda *_: "no token"])
def test_a_token_that_is_not_signed_as_it_should_be_is_refused(scripted, client, sign):
    scripted.sign = lambda claims: sign(scripted, claims)
    assert problem(sign_in(client, scripted)) == "failed"
    assert me(client) is None


def test_a_state_works_once_and_in_its_own_browser_alone(scripted, client, connect):
    stranger = connect()
    back = scripted.allow(page(client))
    assert problem(stranger.get(back)) == "expired"
    page(stranger)  # one that has begun a sign-in of its own
    assert problem(stranger.get(back)) == "expired"
    assert client.get(back).headers["location"] == "/"
    assert problem(client.get(back)) == "expired"
    assert problem(client.get("/api/v1/auth/oidc/callback?code=c&state=made-up")) == "expired"
    assert problem(client.get("/api/v1/auth/oidc/callback")) == "expired"


def test_a_state_ends_after_ten_minutes(scripted, client):
    back = scripted.allow(page(client))
    with time_machine.travel(clock.now() + dt.timedelta(minutes=10, seconds=1)):
        assert problem(client.get(back)) == "expired"


def test_two_tabs_may_sign_in_at_a_time(scripted, client):
    backs = [scripted.allow(page(client, to)) for to in ("/one", "/two")]
    assert [client.get(back).headers["location"] for back in backs] == ["/one", "/two"]


def test_a_stolen_code_is_worth_nothing_in_another_browser(scripted, client, connect):
    """Its challenge is that of the browser that began; PKCE holds against who injects it."""
    code = parse_qs(urlsplit(scripted.allow(page(client))).query)["code"][0]
    thief = connect()
    state = parse_qs(urlsplit(page(thief)).query)["state"][0]
    assert problem(thief.get(f"/api/v1/auth/oidc/callback?code={code}&state={state}")) == "failed"


def test_an_answer_in_the_name_of_another_issuer_is_refused(scripted, client):
    back = scripted.allow(page(client))
    assert problem(client.get(f"{back}&iss=https://elsewhere.example")) == "failed"


def test_what_else_a_provider_adds_to_its_answer_is_no_error(scripted, client):
    back = scripted.allow(page(client))
    reply = client.get(f"{back}&session_state=x&authuser=0&iss={scripted.issuer}")
    assert reply.headers["location"] == "/"


@WITH("to", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nSet-Cookie: x=1"])
def test_nobody_is_sent_elsewhere_after_signing_in(scripted, client, to):
    assert sign_in(client, scripted, to).headers["location"] == "/"


def test_keys_may_be_rotated(scripted, client, connect, monkeypatch):
    sign_in(client, scripted)
    scripted.rotate()
    other = connect()
    assert problem(sign_in(other, scripted)) == "failed", "they were fetched a moment ago"
    monkeypatch.setattr(provider_calls, "KEYS_AGAIN_S", 0)
    sign_in(other, scripted)
    assert me(other)["username"] == "grace"


def test_the_secret_goes_in_a_header_or_in_the_body_as_the_provider_wants(
    scripted, settings, client
):
    sign_in(client, scripted)
    basic = base64.b64encode(b"muster:se%20cret%3A%2F").decode()
    assert f"Basic {basic}" in [
        h.get("Authorization") or h.get("authorization") for h in scripted.headers
    ]
    scripted.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    app = create_app(settings)
    with running(app) as portal, make_client(app, portal) as other:
        sign_in(other, scripted)
    form = [form for path, form in scripted.asked if path == "/token"][-1]
    assert (form["client_id"], form["client_secret"]) == ("muster", "se cret:/")


# ---------------------------------------------------------------- who is not let in


@WITH(
    ("claims", "word"),
    [
        ({"preferred_username": None}, "preferred_username"),
        ({"preferred_username": "…"}, "letter or digit"),
        ({"groups": {"a": 1}}, "list of names"),
        ({"groups": None, "_claim_names": {"groups": "src1"}}, "too long"),
        ({"groups": [str(n) for n in range(2001)]}, "2001"),
    ],
)
def test_claims_that_do_not_say_who_somebody_is(scripted, client, database, claims, word):
    scripted.claims = claims
    assert problem(sign_in(client, scripted)) == "refused"
    assert word in reasons(database)[-1]


@WITH("settings", [{"oidc_member_groups": ["lab"], "oidc_default_role": "none"}], indirect=True)
def test_who_is_in_no_group_that_may_sign_in_is_refused(scripted, client, database):
    assert problem(sign_in(client, scripted)) == "refused"
    with database.read() as session:
        assert session.scalars(select(UserRow)).all() == []
    scripted.claims = {"groups": "lab"}  # some providers give one name as a text
    sign_in(client, scripted)
    assert me(client)["role"] == "member"


def test_a_name_that_somebody_has_here_is_not_taken_over(
    scripted, client, connect, make_user_token
):
    token = make_user_token("admin", username="Grace")
    assert problem(sign_in(client, scripted)) == "name_taken"
    assert me(client) is None
    # The owner of the account connects it.
    owner = connect(token=token)
    refused = owner.post("/api/v1/auth/oidc/connect")
    assert refused.status_code == 403, "a token connects nobody"


def test_an_account_is_connected_by_who_is_signed_in_to_it(scripted, client, connect, database):
    one, other = (signed_in_with_password(connect, database, name) for name in ("grace", "hopper"))
    reply = one.post("/api/v1/auth/oidc/connect")
    back = one.get(scripted.allow(reply.json()["url"]))
    assert back.headers["location"] == "/settings"
    assert me(one)["provider_account"] == "s-1"
    sign_in(client, scripted)
    assert me(client)["username"] == "grace"
    # One person is one account.
    reply = other.post("/api/v1/auth/oidc/connect")
    assert problem(other.get(scripted.allow(reply.json()["url"]))) == "identity_taken"
    assert me(other)["username"] == "hopper"


def signed_in_with_password(connect, database, username):
    from muster_server.security.passwords import hash_password

    with database.transaction() as session:
        password_hash = hash_password("a tolerable passphrase")
        session.add(
            UserRow(
                username=username,
                role="member",
                password_hash=password_hash,
                created_at=clock.now(),
            )
        )
    client = connect()
    body = {"username": username, "password": "a tolerable passphrase"}
    assert client.post("/api/v1/auth/login", json=body).status_code == 200
    return client


def test_a_deactivated_account_stays_closed(scripted, client, connect, make_user_token):
    sign_in(client, scripted)
    admin = connect(token=make_user_token("admin"))
    path = f"/api/v1/users/{me(client)['id']}"
    assert admin.patch(path, json={"is_active": False}).status_code == 200
    assert problem(sign_in(client, scripted)) == "refused"
    assert me(client) is None


@WITH("settings", [{"oidc_viewer_groups": ["all"]}], indirect=True)
def test_the_last_administrator_stays_one(scripted, client, connect, database):
    admin = signed_in_with_password(connect, database, "grace")
    with database.transaction() as session:
        session.scalars(select(UserRow)).one().role = "admin"
    scripted.claims = {"groups": ["all"]}
    admin.get(scripted.allow(admin.post("/api/v1/auth/oidc/connect").json()["url"]))
    assert me(admin)["role"] == "admin"


# ---------------------------------------------------------------- a provider that is away


def test_a_provider_that_is_away_leaves_passwords_and_sessions_alone(
    scripted, client, connect, database, app
):
    sign_in(client, scripted)
    scripted.status = 503
    back = scripted.allow(page(connect()))
    other = connect()
    back = scripted.allow(page(other))
    assert problem(other.get(back)) == "away"
    later(app)
    assert me(client)["username"] == "grace"
    assert me(signed_in_with_password(connect, database, "hopper"))["username"] == "hopper"


@WITH("settings", [{"oidc_issuer": "http://localhost:1"}], indirect=True)
def test_a_provider_that_was_never_there(scripted, client):
    assert problem(client.get(START)) == "away"
    assert client.get("/api/v1/auth/state").status_code == 200


def test_a_provider_that_speaks_for_another_issuer_is_none(scripted, settings, client):
    scripted.metadata = {"issuer": "https://elsewhere.example"}
    assert problem(client.get(START)) == "away"


def test_an_answer_without_an_end_is_cut(scripted, client):
    scripted.metadata = {"more": "x" * provider_calls.ANSWER_MAX_BYTES}
    assert problem(client.get(START)) == "away"


def test_without_a_provider_there_is_nothing_to_start(scripted, settings):
    app = create_app(settings.model_copy(update={"oidc_issuer": None}))
    with running(app) as portal, make_client(app, portal) as client:
        assert client.get(START).json()["error"]["code"] == "auth.no_provider"
        assert client.get("/api/v1/auth/state").json()["provider"] is None


@WITH("end", [None, "/end?x=1"])
def test_the_providers_own_session_can_be_ended(scripted, settings, end):
    scripted.metadata = {"end_session_endpoint": f"{scripted.issuer}{end}"} if end else {}
    app = create_app(settings)
    with running(app) as portal, make_client(app, portal) as client:
        sign_in(client, scripted)
        reply = client.post("/api/v1/auth/oidc/logout").json()
    if end is None:
        assert reply["error"]["code"] == "auth.no_logout"
    else:
        query = parse_qs(urlsplit(reply["url"]).query)
        assert (query["x"], query["client_id"]) == (["1"], ["muster"])
