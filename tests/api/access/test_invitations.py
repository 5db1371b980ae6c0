"""Links with which people who are invited choose their password."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import ApiTokenRow, AuditRow, OneTimeTokenRow, UserRow
from muster_server.services.core.accounts import auth, tokens
from muster_server.services.core.audit import Author

PASSWORD = "a tolerable passphrase"


@pytest.fixture
def project(admin_client):
    assert admin_client.post("/api/v1/projects", json={"name": "vision"}).is_success


@pytest.fixture
def invite(admin_client):
    def run(username="ben", **body):
        reply = admin_client.post("/api/v1/users:invite", json={"username": username, **body})
        assert reply.status_code == 201, reply.text
        return reply.json()

    return run


def token_of(invitation):
    return invitation["url"].split("#invitation=")[1]


def accept(client, token, password=PASSWORD):
    body = {"token": token, "password": password}
    return client.post("/api/v1/auth/invitation", json=body)


def check(client, token):
    return client.post("/api/v1/auth/invitation:check", json={"token": token})


def code(reply):
    return reply.json()["error"]["code"]


def log_in(client, username="ben", password=PASSWORD):
    return client.post("/api/v1/auth/login", json={"username": username, "password": password})


def listed(client, username="ben"):
    users = client.get("/api/v1/users", params={"limit": 200}).json()["items"]
    return next(user for user in users if user["username"] == username)


def test_an_invited_person_chooses_a_password_and_is_signed_in(
    admin_client, connect, invite, project, database
):
    made = invite(role="viewer", projects=[{"project": "vision", "role": "maintainer"}])
    assert (made["user"]["username"], made["user"]["role"]) == ("ben", "viewer")
    assert (
        made["user"]["invited_until"] == made["expires_at"] == listed(admin_client)["invited_until"]
    )
    assert made["this_machine_only"] is True
    with database.read() as session:  # nothing of the secret is kept
        row = session.scalars(select(OneTimeTokenRow)).one()
        kept = repr([vars(r) for r in (row, *session.scalars(select(AuditRow)))])
        assert token_of(made) not in kept

    browser = connect()
    assert check(browser, token_of(made)).json() == {
        "username": "ben",
        "expires_at": made["expires_at"],
    }
    reply = accept(browser, token_of(made))
    assert (reply.status_code, reply.json()["username"]) == (200, "ben")
    assert browser.get("/api/v1/auth/me").json()["role"] == "viewer"
    assert log_in(connect()).status_code == 200
    assert listed(admin_client)["invited_until"] is None
    members = admin_client.get("/api/v1/projects/vision/members").json()["items"]
    assert [(m["name"], m["role"]) for m in members] == [("ben", "maintainer")]
    with database.read() as session:
        said = [
            (a.action, a.actor) for a in session.scalars(select(AuditRow).order_by(AuditRow.id))
        ]
    assert "users.invited" in [action for action, _ in said]
    assert ("auth.invitation_accepted", "user:ben") in said


def test_a_link_works_once(connect, invite):
    token = token_of(invite())
    assert accept(connect(), token).status_code == 200
    for again in (check(connect(), token), accept(connect(), token, "another passphrase")):
        assert (again.status_code, code(again)) == (401, "auth.bad_invitation")
    assert log_in(connect()).status_code == 200


def test_a_weak_password_does_not_use_the_link_up(connect, invite):
    token = token_of(invite())
    weak = accept(connect(), token, "abababababab")
    assert (weak.status_code, code(weak)) == (422, "auth.weak_password")
    assert accept(connect(), token).status_code == 200


def test_nobody_signs_in_before_the_link_is_used(connect, invite):
    invite()
    assert code(log_in(connect())) == "auth.wrong_credentials"


def test_a_link_expires(connect, admin_client, database):
    with database.transaction() as session:
        token = auth.create_setup_token(session, now=clock.now())
    browser = connect()
    ada = {"token": token, "username": "ada", "password": PASSWORD}
    assert browser.post("/api/v1/auth/setup", json=ada).is_success
    body = {"username": "ben", "expires_in_days": 3}
    made = browser.post("/api/v1/users:invite", json=body).json()
    left = dt.datetime.fromisoformat(made["expires_at"]) - clock.now()
    assert dt.timedelta(days=2) < left <= dt.timedelta(days=3)
    with database.transaction() as session:
        session.query(OneTimeTokenRow).update({"expires_at": clock.now()})
    assert code(accept(connect(), token_of(made))) == "auth.bad_invitation"
    assert listed(admin_client)["invited_until"] is None


@pytest.mark.parametrize("days", [0, 31])
def test_a_lifetime_out_of_bounds_is_refused(admin_client, days):
    body = {"username": "ben", "expires_in_days": days}
    reply = admin_client.post("/api/v1/users:invite", json=body)
    assert reply.status_code == 422
    assert reply.json()["error"]["fields"][0]["path"] == "expires_in_days"


def test_a_new_link_ends_the_old_one_and_keeps_the_role(admin_client, connect, invite):
    old = token_of(invite(role="viewer"))
    new = invite()
    assert new["user"]["role"] == "viewer"
    assert code(accept(connect(), old)) == "auth.bad_invitation"
    assert accept(connect(), token_of(new)).status_code == 200


def test_a_link_is_revoked(admin_client, connect, invite, database):
    made = invite()
    address = f"/api/v1/users/{made['user']['id']}/invitation"
    assert admin_client.delete(address).status_code == 204
    assert code(accept(connect(), token_of(made))) == "auth.bad_invitation"
    gone = admin_client.delete(address)
    assert (gone.status_code, code(gone)) == (404, "users.no_invitation")
    with database.read() as session:
        actions = list(session.scalars(select(AuditRow.action)))
    assert "users.invitation_revoked" in actions


def test_deactivating_ends_the_link_for_good(admin_client, connect, invite):
    made = invite()
    address = f"/api/v1/users/{made['user']['id']}"
    for is_active in (False, True):
        assert admin_client.patch(address, json={"is_active": is_active}).is_success
        assert code(accept(connect(), token_of(made))) == "auth.bad_invitation"


def test_a_link_ends_with_the_api_token_that_made_it(connect, invite, database):
    token = token_of(invite())
    with database.transaction() as session:
        made_by = session.scalars(select(OneTimeTokenRow.api_token_id)).one()
        user_id = session.get_one(ApiTokenRow, made_by).user_id
        tokens.revoke_all_of_user(session, user_id, Author("system", clock.now()))
    assert code(accept(connect(), token)) == "auth.bad_invitation"


def test_who_has_signed_in_or_does_so_elsewhere_is_not_invited(
    admin_client, connect, invite, database
):
    accept(connect(), token_of(invite()))
    admin_client.post("/api/v1/users", json={"username": "ci", "kind": "service"})
    for name, expected in (("ben", "users.not_invitable"), ("ci", "users.service_account")):
        reply = admin_client.post("/api/v1/users:invite", json={"username": name})
        assert (reply.status_code, code(reply)) == (409, expected)
        assert reply.json()["error"]["hint"]
    invite("eve")
    with database.transaction() as session:
        session.query(UserRow).filter_by(username="eve").update({"is_active": False})
    reply = admin_client.post("/api/v1/users:invite", json={"username": "eve"})
    assert code(reply) == "users.not_invitable"


def test_who_acts_with_a_token_is_offered_no_link(admin_client, invite, database):
    """As the account of `muster up`, which is an administrator and never signs in."""
    for name in ("eve", "local"):
        invite(name)
    with database.transaction() as session:
        user = session.query(UserRow).filter_by(username="local").one()
        tokens.create_api_token(
            session, user=user, name="muster up", role="member", own_role="member",
            lifetime=dt.timedelta(days=1), by=Author("system", clock.now()),
        )  # fmt: skip
    users = {u["username"]: u for u in admin_client.get("/api/v1/users").json()["items"]}
    assert (users["eve"]["is_invitable"], users["local"]["is_invitable"]) == (True, False)
    reply = admin_client.post("/api/v1/users:invite", json={"username": "local"})
    assert (reply.status_code, code(reply)) == (409, "users.not_invitable")
    assert "with a name of their own" in reply.json()["error"]["hint"]


def test_an_unknown_project_makes_nobody(admin_client):
    body = {"username": "ben", "projects": [{"project": "nothing"}]}
    reply = admin_client.post("/api/v1/users:invite", json=body)
    assert (reply.status_code, code(reply)) == (404, "projects.not_found")
    assert "nothing" in reply.json()["error"]["message"]
    names = [user["username"] for user in admin_client.get("/api/v1/users").json()["items"]]
    assert "ben" not in names


def test_two_who_open_a_link_at_the_same_moment(connect, invite, database):
    from concurrent.futures import ThreadPoolExecutor

    token = token_of(invite())
    clients = [connect() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda client: accept(client, token), clients))
    assert sorted(reply.status_code for reply in replies) == [200, 401, 401, 401]


def test_invitations_are_made_on_the_command_line(muster, project, connect):
    def ok(*words):
        done = muster(*words, as_="admin")
        assert done.exit_code == 0, done.output
        return done.output

    words = ("user", "invite", "ben", "--role", "viewer", "--project", "vision:maintainer")
    made = json.loads(ok(*words, "--json"))
    assert accept(connect(), token_of(made)).status_code == 200
    said = ok("user", "invite", "eve", "--project", "vision")
    assert "/invitation#invitation=mst_once_" in said
    assert "Invited eve as member" in said
    assert "invited" in ok("user", "list")
    assert "Revoked" in ok("user", "uninvite", "eve")
    assert "invited" not in ok("user", "list").replace("user", "")
    bad = muster("user", "invite", "eve", "--project", "vision:owner", as_="admin")
    assert "projects.0.role" in str(bad.exception.fields)
    late = muster("user", "invite", "eve", "--days", "2", as_="admin")
    assert "outlives it" in str(late.exception)
