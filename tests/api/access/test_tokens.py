"""A token makes nothing that outranks or outlives it, and takes nothing away from what ranks above."""

import datetime as dt

import pytest
import time_machine
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import ApiTokenRow, JoinTokenRow, UserRow
from muster_server.security import passwords
from muster_server.services.core.accounts import auth
from muster_server.services.core.audit import Author
from muster_server.settings import Settings

# What is revoked with what is decided in SQL.
pytestmark = pytest.mark.either_database

DAY = dt.timedelta(days=1)
PASSWORD = "a tolerable passphrase"


@pytest.fixture
def token(connect, make_user_token):
    """`token("admin")` is a client with a token of that role, valid for a day."""
    return lambda role, **more: connect(token=make_user_token(role, **more))


def make(client, connect, *, expect=201, **body):
    """A client with a token that this one has made, and what was said of it."""
    reply = client.post("/api/v1/tokens", json={"name": "made", **body})
    assert reply.status_code == expect, reply.text
    said = reply.json()
    return (connect(token=said["secret"]), said) if expect == 201 else said["error"]


def is_in(client):
    status = client.get("/api/v1/auth/me").status_code
    assert status in (200, 401)
    return status == 200


def own_id(database):
    """Of the token that the test was given."""
    with database.read() as session:
        return session.scalar(select(ApiTokenRow.id).where(ApiTokenRow.name == "test"))


@pytest.fixture
def signed_in(client, database):
    """A browser of an administrator with a password."""
    with database.transaction() as session:
        session.add(
            UserRow(
                username="ada",
                password_hash=passwords.hash_password(PASSWORD),
                role="admin",
                created_at=clock.now(),
            )
        )
        session.flush()
        secret = auth.create_sign_in_token(session, username="ada", now=clock.now())
    assert client.post("/api/v1/auth/one-time", json={"token": secret}).status_code == 200
    return client


# ---- it makes nothing that outlives it


def test_a_token_makes_none_that_outlives_it(token, connect):
    parent = token("member")
    refused = make(parent, connect, expires_in_days=3650, expect=422)
    assert refused["code"] == "tokens.outlives_parent"
    assert refused["fields"][0]["path"] == "expires_in_days"
    child, said = make(parent, connect)
    ends_at = dt.datetime.fromisoformat(said["expires_at"])
    assert clock.now() < ends_at <= clock.now() + DAY
    assert is_in(child)
    with time_machine.travel(clock.now() + DAY + dt.timedelta(minutes=1)):
        assert not is_in(parent)
        assert not is_in(child)


def test_a_person_makes_tokens_that_last(signed_in, connect):
    _, said = make(signed_in, connect, expires_in_days=300)
    assert dt.datetime.fromisoformat(said["expires_at"]) > clock.now() + 299 * DAY
    _, said = make(signed_in, connect)
    assert dt.datetime.fromisoformat(said["expires_at"]) > clock.now() + 89 * DAY


def test_what_it_made_is_revoked_with_it(token, connect, database, signed_in):
    parent = token("admin")
    child, said = make(parent, connect)
    grandchild, _ = make(child, connect, role="viewer")
    other, _ = make(signed_in, connect)
    join = grandchild.post("/api/v1/join-tokens", json={})
    assert join.status_code == 403
    join = child.post("/api/v1/join-tokens", json={}).json()
    assert said["parent_id"] == own_id(database)
    assert all(map(is_in, (parent, child, grandchild, other)))
    assert signed_in.delete(f"/api/v1/tokens/{said['parent_id']}").status_code == 204
    assert not any(map(is_in, (parent, child, grandchild)))
    assert is_in(other)
    assert connect(token=join["secret"]).post("/agent/v1/register", json={}).status_code == 401
    assert signed_in.get("/api/v1/join-tokens").json()["items"] == []


def test_a_revoked_token_makes_no_more(token, database):
    """Even where it was let in a moment before it was revoked."""
    from muster_server.errors import NotSignedIn
    from muster_server.services.core.accounts import tokens

    token("member")
    with database.transaction() as session:
        session.execute(update(ApiTokenRow).values(revoked_at=clock.now()))
        row = session.scalars(select(ApiTokenRow)).one()
        with pytest.raises(NotSignedIn):
            tokens.create_api_token(
                session, user=session.get_one(UserRow, row.user_id), name="late", role=None,
                own_role="member", lifetime=None, parent_id=row.id, by=Author("t", clock.now()),
            )  # fmt: skip


def test_a_join_token_ends_with_the_token_that_made_it(token, database):
    admin = token("admin")
    week = admin.post("/api/v1/join-tokens", json={"expires_in_s": 7 * 86_400})
    assert week.json()["error"]["code"] == "tokens.outlives_parent"
    assert admin.post("/api/v1/join-tokens", json={"expires_in_s": 3600}).status_code == 201
    with database.transaction() as session:
        session.execute(
            update(ApiTokenRow).values(expires_at=clock.now() + dt.timedelta(seconds=90))
        )
    said = admin.post("/api/v1/join-tokens", json={}).json()
    assert dt.datetime.fromisoformat(said["expires_at"]) < clock.now() + dt.timedelta(seconds=91)


def test_a_token_sets_no_first_password(token, connect, database):
    """With a password it would let its holder in for ever, and with its user's role."""
    viewer = token("admin", token_role="viewer")
    reply = viewer.post("/api/v1/auth/password", json={"new_password": PASSWORD})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "auth.session_needed")
    with database.read() as session:
        assert session.scalar(select(UserRow.password_hash)) is None


# ---- it takes nothing away from what ranks above it


def test_a_token_revokes_none_that_ranks_above_it(token, connect, database):
    admin = token("admin", username="ada")
    viewer = token("admin", username="ada", token_role="viewer")
    refused = viewer.delete(f"/api/v1/tokens/{own_id(database)}")
    assert refused.json()["error"]["code"] == "tokens.role_too_high"
    assert is_in(admin)
    _, own = make(viewer, connect)
    assert viewer.delete(f"/api/v1/tokens/{own['id']}").status_code == 204
    other = token("admin", username="eve")
    with database.read() as session:
        ids = session.scalars(select(ApiTokenRow.id).order_by(ApiTokenRow.id)).all()
    member = token("member", username="bob")
    assert member.delete(f"/api/v1/tokens/{ids[-1]}").status_code == 404
    assert is_in(other)


# ---- passwords and users


def test_a_password_change_revokes_the_tokens_unless_told_not_to(signed_in, connect, token):
    mine, _ = make(signed_in, connect)
    child, _ = make(mine, connect)
    other = token("admin", username="eve")
    body = {"current_password": PASSWORD, "new_password": PASSWORD + "2"}
    kept = signed_in.post("/api/v1/auth/password", json={**body, "revoke_tokens": False})
    assert kept.status_code == 204, kept.text
    assert is_in(mine)
    body = {"current_password": PASSWORD + "2", "new_password": PASSWORD}
    assert signed_in.post("/api/v1/auth/password", json=body).status_code == 204
    assert not is_in(mine)
    assert not is_in(child)
    assert is_in(signed_in)
    assert is_in(other)


@pytest.mark.parametrize("change", [{"is_active": False}, {"role": "member"}])
def test_who_is_no_administrator_any_more_lets_no_agents_in(
    signed_in, token, connect, database, change
):
    admin = token("admin", username="eve")
    join = admin.post("/api/v1/join-tokens", json={}).json()
    with database.read() as session:
        user_id = session.scalar(select(UserRow.id).where(UserRow.username == "eve"))
    assert signed_in.patch(f"/api/v1/users/{user_id}", json=change).status_code == 200
    assert connect(token=join["secret"]).post("/agent/v1/register", json={}).status_code == 401
    assert admin.get("/api/v1/users").status_code in (401, 403)
    with database.read() as session:
        assert session.scalar(select(JoinTokenRow.revoked_at)) is not None


# ---- the command that joins a node


def test_a_command_that_no_other_machine_can_use_says_so(muster):
    made = muster("agent", "token", as_="admin")
    assert "http://localhost:8470" in made.output
    for word in ("Warning", "MUSTER_PUBLIC_URL", "muster up --address"):
        assert word in made.output


@pytest.mark.parametrize(
    ("public_url", "alone"),
    [
        ("http://127.3.2.1:8470", True),
        ("http://[::1]:8470", True),
        ("http://muster.localhost", True),
        ("http://10.0.0.5:8470", False),
        ("https://muster.example", False),
        ("http://[fd00::5]:8470", False),
        (None, True),
    ],
)
def test_which_addresses_only_this_machine_reaches(public_url, alone):
    settings = Settings(public_url=public_url, host="0.0.0.0")
    assert settings.is_for_this_machine_alone() is alone
