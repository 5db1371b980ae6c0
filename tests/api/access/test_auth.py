"""Set-up, signing in and out, sessions and passwords."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import AuditRow, OneTimeTokenRow, SessionRow, UserRow
from muster_server.services.core.accounts import auth

PASSWORD = "a tolerable passphrase"


@pytest.fixture
def setup_token(database):
    with database.transaction() as session:
        return auth.create_setup_token(session, now=clock.now())


@pytest.fixture
def admin(client, setup_token):
    """A client that has just set the installation up, signed in by cookie."""
    reply = client.post(
        "/api/v1/auth/setup",
        json={"token": setup_token, "username": "ada", "password": PASSWORD},
    )
    assert reply.status_code == 200, reply.text
    return client


def log_in(client, username="ada", password=PASSWORD):
    return client.post("/api/v1/auth/login", json={"username": username, "password": password})


def code(reply):
    return reply.json()["error"]["code"]


def audit_actions(database):
    with database.read() as session:
        return list(session.scalars(select(AuditRow.action).order_by(AuditRow.id)))


# ---------------------------------------------------------------- set-up


def test_setup_makes_the_first_administrator_and_signs_in(admin, database):
    me = admin.get("/api/v1/auth/me").json()
    assert (me["username"], me["role"], me["has_password"]) == ("ada", "admin", True)
    assert me["permissions"] == ["view", "submit", "admin"]
    assert admin.get("/api/v1/auth/state").json()["setup_required"] is False
    assert "auth.setup" in audit_actions(database)


def test_setup_works_once_ever(admin, connect, setup_token):
    again = {"token": setup_token, "username": "eve", "password": PASSWORD}
    assert code(connect().post("/api/v1/auth/setup", json=again)) == "auth.already_set_up"


def test_setup_needs_the_token(client, setup_token):
    body = {"token": "mst_once_" + "x" * 43, "username": "eve", "password": PASSWORD}
    reply = client.post("/api/v1/auth/setup", json=body)
    assert (reply.status_code, code(reply)) == (401, "auth.bad_one_time_token")
    assert client.get("/api/v1/auth/state").json()["setup_required"] is True


def test_setup_token_expires(client, setup_token, database):
    with database.transaction() as session:
        session.query(OneTimeTokenRow).update({"expires_at": clock.now()})
    body = {"token": setup_token, "username": "eve", "password": PASSWORD}
    assert client.post("/api/v1/auth/setup", json=body).status_code == 401


def test_a_user_with_only_tokens_does_not_end_the_setup(client, make_user_token):
    make_user_token("admin", username="local")
    assert client.get("/api/v1/auth/state").json()["setup_required"] is True


@pytest.mark.parametrize(
    "password", ["", "x", "short12", "password1234", "aaaaaaaaaaaaaaaa", "ada-ada-1234"]
)
def test_easy_passwords_are_refused(client, setup_token, password):
    body = {"token": setup_token, "username": "ada-ada", "password": password}
    reply = client.post("/api/v1/auth/setup", json=body)
    assert reply.status_code == 422
    assert client.get("/api/v1/auth/state").json()["setup_required"] is True


# ---------------------------------------------------------------- signing in


@pytest.mark.parametrize(
    ("username", "password"),
    [("admin", "admin"), ("admin", ""), ("determined", ""), ("root", "root"), ("muster", "muster")],
)
def test_default_credentials_do_not_work(client, username, password):
    assert log_in(client, username, password).status_code == 401


def test_wrong_password_and_unknown_user_get_the_same_answer(admin, connect):
    replies = [
        log_in(connect(), "ada", "not her passphrase"),
        log_in(connect(), "nobody", "not her passphrase"),
    ]
    for reply in replies:
        reply.json()["error"].pop("request_id")
    assert {reply.status_code for reply in replies} == {401}
    assert {code(reply) for reply in replies} == {"auth.wrong_credentials"}


def test_failed_logins_are_audited_without_what_was_typed(admin, connect, database):
    log_in(connect(), "my secret passphrase typed too early", "x")
    with database.read() as session:
        query = select(AuditRow.subject).where(AuditRow.action == "auth.login_failed")
        assert session.scalars(query).one() == "user:unknown"


def test_sixth_wrong_password_is_refused_with_retry_after(admin, connect):
    attacker = connect(address="10.0.0.9")
    for _ in range(5):
        assert log_in(attacker, password="wrong").status_code == 401
    reply = log_in(attacker, password="wrong")
    assert reply.status_code == 429
    assert 1 <= int(reply.headers["Retry-After"]) <= 60
    assert log_in(connect(address="10.0.0.10")).status_code == 200, "the owner, from elsewhere"


def test_spraying_one_password_over_many_accounts_is_refused(admin, connect):
    attacker = connect(address="10.0.0.9")
    statuses = [
        attacker.post(
            "/api/v1/auth/login",
            json={"username": f"user{i}", "password": "Summer2026!"},
            headers={"X-Forwarded-For": f"10.9.8.{i}"},
        ).status_code
        for i in range(22)
    ]
    assert statuses[:20] == [401] * 20
    assert statuses[20:] == [429] * 2


def test_login_gives_a_new_session_whatever_cookie_the_browser_had(admin, connect):
    victim = connect()
    victim.cookies.set("muster_sid", "planted-by-an-attacker")
    reply = log_in(victim)
    assert reply.status_code == 200
    assert "planted" not in reply.headers["set-cookie"]


def test_cookie_is_not_for_scripts_and_not_for_other_sites(admin, connect):
    cookie = log_in(connect()).headers["set-cookie"].lower()
    assert cookie.startswith("muster_sid=")
    for attribute in ("httponly", "samesite=lax", "path=/", "max-age=604800"):
        assert attribute in cookie
    assert "domain" not in cookie


def test_only_hashes_of_secrets_are_stored(admin, database):
    cookie = admin.cookies["muster_sid"]
    with database.read() as session:
        stored = session.scalars(select(SessionRow.secret_hash)).one()
        password_hash = session.scalars(select(UserRow.password_hash)).one()
    assert cookie not in stored
    assert password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


# ---------------------------------------------------------------- sessions


def test_logout_ends_the_session_at_the_server(admin, connect):
    stolen = connect()
    stolen.cookies.set("muster_sid", admin.cookies["muster_sid"])
    assert stolen.get("/api/v1/auth/me").status_code == 200
    assert admin.post("/api/v1/auth/logout").status_code == 204
    assert stolen.get("/api/v1/auth/me").status_code == 401


@pytest.mark.parametrize(
    ("column", "age"), [("last_seen_at", dt.timedelta(hours=12)), ("expires_at", dt.timedelta(0))]
)
def test_idle_and_old_sessions_end(admin, database, column, age):
    with database.transaction() as session:
        session.query(SessionRow).update({column: clock.now() - age})
    assert admin.get("/api/v1/auth/me").status_code == 401


def test_using_a_session_keeps_it_from_idling(admin, database):
    earlier = clock.now() - dt.timedelta(hours=11)
    with database.transaction() as session:
        session.query(SessionRow).update({"last_seen_at": earlier})
    admin.get("/api/v1/auth/me")
    with database.read() as session:
        assert session.scalars(select(SessionRow.last_seen_at)).one() > earlier


def test_password_change_ends_other_sessions_and_keeps_this_one(admin, connect):
    other = connect()
    log_in(other)
    new = "quite another passphrase"
    body = {"current_password": PASSWORD, "new_password": new}
    assert admin.post("/api/v1/auth/password", json=body).status_code == 204
    assert other.get("/api/v1/auth/me").status_code == 401
    assert admin.get("/api/v1/auth/me").status_code == 200
    assert log_in(connect()).status_code == 401
    assert log_in(connect(), password=new).status_code == 200


def test_password_change_needs_the_current_one(admin):
    body = {"current_password": "wrong", "new_password": "quite another passphrase"}
    reply = admin.post("/api/v1/auth/password", json=body)
    assert (reply.status_code, code(reply)) == (403, "auth.wrong_password")


# ---------------------------------------------------------------- one-time tokens


def test_one_time_token_signs_in_once(admin, connect, database):
    with database.transaction() as session:
        token = auth.create_sign_in_token(session, username=None, now=clock.now())
    first = connect()
    assert first.post("/api/v1/auth/one-time", json={"token": token}).status_code == 200
    assert first.get("/api/v1/auth/me").json()["username"] == "ada"
    assert connect().post("/api/v1/auth/one-time", json={"token": token}).status_code == 401


def test_a_setup_token_does_not_sign_in(client, setup_token):
    assert client.post("/api/v1/auth/one-time", json={"token": setup_token}).status_code == 401


# ---------------------------------------------------------------- users and tokens


def test_deactivated_user_is_out_at_once(admin, connect):
    admin.post(
        "/api/v1/users", json={"username": "bob", "password": PASSWORD, "role": "member"}
    ).raise_for_status()
    bob = connect()
    log_in(bob, "bob")
    token = bob.post("/api/v1/tokens", json={"name": "ci"}).json()["secret"]
    by_token = connect(token=token)
    assert by_token.get("/api/v1/auth/me").json()["role"] == "member"
    assert admin.patch("/api/v1/users/2", json={"is_active": False}).status_code == 200
    assert bob.get("/api/v1/auth/me").status_code == 401
    assert by_token.get("/api/v1/auth/me").status_code == 401
    assert log_in(connect(), "bob").status_code == 401


def test_the_last_administrator_stays_one(admin):
    for change in ({"role": "viewer"}, {"is_active": False}):
        assert code(admin.patch("/api/v1/users/1", json=change)) == "users.last_admin"


def test_user_names_differ_by_more_than_case(admin):
    body = {"username": "ADA", "password": PASSWORD}
    assert code(admin.post("/api/v1/users", json=body)) == "users.name_taken"


def test_a_token_never_acts_above_its_user(make_user_token, connect):
    client = connect(token=make_user_token("viewer", token_role="admin"))
    assert client.get("/api/v1/auth/me").json()["role"] == "viewer"
    assert client.get("/api/v1/users").status_code == 403


def test_a_token_cannot_make_one_above_itself(make_user_token, connect):
    weak = connect(token=make_user_token("admin", token_role="viewer"))
    reply = weak.post("/api/v1/tokens", json={"name": "up", "role": "admin"})
    assert (reply.status_code, code(reply)) == (403, "tokens.role_too_high")


def test_revoked_token_stops_working_and_leaves_the_list(member_client):
    made = member_client.post("/api/v1/tokens", json={"name": "ci"}).json()
    headers = {"Authorization": f"Bearer {made['secret']}"}
    assert member_client.get("/api/v1/auth/me", headers=headers).status_code == 200
    assert member_client.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert member_client.get("/api/v1/auth/me", headers=headers).status_code == 401
    ids = [token["id"] for token in member_client.get("/api/v1/tokens").json()["items"]]
    assert made["id"] not in ids


def test_nobody_revokes_the_token_of_another(member_client, viewer_client):
    made = member_client.post("/api/v1/tokens", json={"name": "ci"}).json()
    assert viewer_client.delete(f"/api/v1/tokens/{made['id']}").status_code == 404


def test_lists_page_through_everything_once(member_client):
    for i in range(5):
        member_client.post("/api/v1/tokens", json={"name": f"t{i}"})
    names, cursor = [], None
    for _ in range(10):
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = member_client.get("/api/v1/tokens", params=params).json()
        names += [token["name"] for token in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == ["t4", "t3", "t2", "t1", "t0", "test"]


def test_join_token_life(admin_client, database):
    made = admin_client.post("/api/v1/join-tokens", json={"uses": 2, "pool": "gpu"}).json()
    assert made["secret"] in made["command"]
    (listed,) = admin_client.get("/api/v1/join-tokens").json()["items"]
    assert (listed["uses_left"], listed["pool"]) == (2, "gpu")
    assert admin_client.delete(f"/api/v1/join-tokens/{made['id']}").status_code == 204
    assert admin_client.get("/api/v1/join-tokens").json()["items"] == []


def test_audit_names_who_did_what(admin_client):
    admin_client.post("/api/v1/join-tokens", json={})
    entry = admin_client.get("/api/v1/audit").json()["items"][0]
    assert entry["action"] == "join_tokens.created"
    assert entry["actor"].endswith("(admin)")
    assert entry["remote_addr"] == "127.0.0.1"


def test_audit_is_searched_in_what_it_shows(admin_client):
    admin_client.post("/api/v1/join-tokens", json={})
    admin_client.post("/api/v1/projects", json={"name": "vision_1"})

    def found(text):
        reply = admin_client.get("/api/v1/audit", params={"q": text})
        return {entry["action"] for entry in reply.json()["items"]}

    assert found("JOIN_TOKENS.created") == {"join_tokens.created"}
    assert found("project:vision_1") == {"projects.created"}
    assert {"projects.created", "join_tokens.created"} <= found("(ADMIN)")
    # Underscores and percent signs are text, not patterns.
    assert found("visionX1") == set()
    assert found("%") == set()


def refusals(database):
    with database.read() as session:
        rows = session.scalars(select(AuditRow).where(AuditRow.actor == "anonymous"))
        return [(row.action, row.subject, row.remote_addr, row.detail) for row in rows]


def test_refused_tokens_are_audited_and_a_flood_is_bounded(admin, connect, database):
    made = admin.post("/api/v1/tokens", json={"name": "ci", "role": "viewer"}).json()
    admin.delete(f"/api/v1/tokens/{made['id']}")
    for secret, num in ((made["secret"], 1), ("mst_usr_never-made", 40), ("nonsense", 1)):
        caller = connect(address="10.0.0.9", token=secret)
        for _ in range(num):
            assert caller.get("/api/v1/experiments").status_code == 401
    assert connect().get("/api/v1/experiments").status_code == 401, "nothing was presented"
    unknown = ("auth.token_refused", "token:unknown", "10.0.0.9")
    assert refusals(database) == [
        ("auth.token_refused", f"token:{made['id']}", "10.0.0.9", {"reason": "revoked"}),
        (*unknown, {"reason": "unknown"}),
        *((*unknown, {"reason": "unknown", "times": times}) for times in (2, 3, 4, 5, 10)),
    ]


def test_refused_links_and_passwords_are_audited(admin, connect, database):
    caller = connect(address="10.0.0.8")
    caller.post("/api/v1/auth/one-time", json={"token": "mst_once_never-made"})
    for _ in range(7):
        log_in(caller, password="not hers")
    body = {"current_password": "not hers", "new_password": "another passphrase 12"}
    assert admin.post("/api/v1/auth/password", json=body).status_code in (401, 403, 422)
    found = refusals(database)
    assert found[0][:3] == ("auth.link_refused", "sign-in link", "10.0.0.8")
    assert [detail.get("times", 1) for action, subject, _, detail in found
            if (action, subject) == ("auth.login_failed", "user:ada")] == [1, 2, 3, 4, 5]  # fmt: skip
    assert found[-1][:2] == ("auth.password_refused", "user:ada")


# ---------------------------------------------------------------- refused calls


def refused_calls(database):
    with database.read() as session:
        query = select(AuditRow).where(AuditRow.action == "calls.refused").order_by(AuditRow.id)
        return [(row.actor, row.subject, row.detail) for row in session.scalars(query)]


def test_a_call_that_the_role_does_not_allow_is_in_the_audit_trail(
    connect, make_user_token, database
):
    viewer = connect(token=make_user_token("viewer"))
    assert viewer.get("/api/v1/users").status_code == 403
    ((actor, subject, detail),) = refused_calls(database)
    assert actor.endswith("(viewer)")
    assert (subject, detail) == ("operation:list_users", {"reason": "/api/v1/users"})


def test_so_is_one_that_the_project_does_not_allow(connect, make_user_token, database):
    owner = connect(token=make_user_token("admin"))
    owner.post("/api/v1/projects", json={"name": "theirs"})
    member = connect(token=make_user_token("member"))
    path = "/api/v1/projects/theirs/members/users/member"
    assert member.put(path, json={"role": "maintainer"}).status_code == 403
    ((actor, subject, detail),) = refused_calls(database)
    assert (actor.endswith("(member)"), subject) == (True, "operation:set_project_user")
    assert detail == {"reason": path}


def test_a_flood_of_refused_calls_adds_a_few_lines(connect, make_user_token, database):
    viewer = connect(token=make_user_token("viewer"))
    for _ in range(12):
        viewer.get("/api/v1/users")
    times = [detail.get("times", 1) for _, _, detail in refused_calls(database)]
    assert times == [1, 2, 3, 4, 5, 10]


def test_what_is_allowed_or_is_not_there_is_no_refusal(connect, make_user_token, database):
    viewer = connect(token=make_user_token("viewer"))
    assert viewer.get("/api/v1/experiments").status_code == 200
    assert viewer.get("/api/v1/experiments/99").status_code == 404
    assert refused_calls(database) == []
