"""Service accounts, what their tokens are limited to, and the sessions of people."""

from __future__ import annotations

import datetime as dt

import pytest
import time_machine
from sqlalchemy import select

from muster_models.domain.deployments.routing import seen_by_entry
from muster_models.services.deployments.routing import load_routes
from muster_server import clock
from muster_server.api.live import seen_topics
from muster_server.db.models import (
    ApiTokenProjectRow,
    AuditRow,
    DeploymentRow,
    ExperimentRow,
    ProjectRow,
    UserRow,
)
from muster_server.db.sight import hiding
from muster_server.errors import Conflict
from muster_server.security import passwords
from muster_server.security.tokens import hash_secret
from muster_server.services.core.accounts import auth, identity
from muster_server.services.quota.projects import delete_project

# What a limited token sees is decided in SQL.
pytestmark = pytest.mark.either_database

PASSWORD = "a tolerable passphrase"
DAY = dt.timedelta(days=1)
JOB = "name: x\nentrypoint: -m x\nproject: {}\n"


@pytest.fixture
def boss(client, database):
    """A browser of an administrator with a password."""
    with database.transaction() as session:
        session.add(
            UserRow(
                username="boss",
                password_hash=passwords.hash_password(PASSWORD),
                role="admin",
                created_at=clock.now(),
            )
        )
        session.flush()
        secret = auth.create_sign_in_token(session, username="boss", now=clock.now())
    reply = client.post(
        "/api/v1/auth/one-time", json={"token": secret}, headers={"User-Agent": "Firefox/1"}
    )
    assert reply.status_code == 200
    return client


@pytest.fixture
def ci(boss):
    """Id of a service account."""
    body = {"username": "ci-bot", "kind": "service", "description": "Nightly runs"}
    reply = boss.post("/api/v1/users", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()["id"]


@pytest.fixture
def vision(boss, ci):
    """Two projects, of which ci-bot is a member."""
    for name in ("vision", "audio"):
        assert boss.post("/api/v1/projects", json={"name": name}).status_code == 201
        member = f"/api/v1/projects/{name}/members/users/ci-bot"
        assert boss.put(member, json={"role": "member"}).is_success


def make(client, path, connect, *, expect=201, **body):
    """A client with a token that this one has made, and the answer."""
    reply = client.post(path, json={"name": "nightly", **body})
    assert reply.status_code == expect, reply.text
    said = reply.json()
    return (connect(token=said["secret"]), said) if expect == 201 else said["error"]


@pytest.fixture
def limited(boss, ci, vision, connect):
    """A client with a token of ci-bot for the project vision."""
    return make(boss, f"/api/v1/users/{ci}/tokens", connect, projects=["vision"])[0]


def error_of(reply, status):
    assert reply.status_code == status, reply.text
    return reply.json()["error"]


# ---------------------------------------------------------------- the account


def test_a_service_account_is_shown_as_one(boss, ci):
    shown = {user["username"]: user for user in boss.get("/api/v1/users").json()["items"]}
    assert shown["ci-bot"]["kind"] == "service"
    assert shown["ci-bot"]["description"] == "Nightly runs"
    assert (shown["ci-bot"]["role"], shown["boss"]["kind"]) == ("member", "person")
    only = boss.get("/api/v1/users?kind=service").json()["items"]
    assert [user["username"] for user in only] == ["ci-bot"]
    taken = boss.post("/api/v1/users", json={"username": "CI-bot", "kind": "service"})
    assert error_of(taken, 409)["code"] == "users.name_taken"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "service", "password": PASSWORD}, "password"),
        ({"kind": "service", "role": "admin"}, "role"),
        ({"kind": "person"}, "password"),
        ({"kind": "robot"}, "kind"),
        ({"kind": "service", "description": "x" * 201}, "description"),
    ],
)
def test_what_an_account_cannot_be_is_said_by_field(boss, body, field):
    error = error_of(boss.post("/api/v1/users", json={"username": "x", **body}), 422)
    assert [problem["path"] for problem in error["fields"]] == [field]


def test_a_service_account_gets_no_more_than_it_may_have(boss, ci, database, connect):
    error = error_of(boss.patch(f"/api/v1/users/{ci}", json={"role": "admin"}), 422)
    assert error["fields"][0]["path"] == "role"
    with database.transaction() as session, pytest.raises(Conflict) as refused:
        auth.create_sign_in_token(session, username="ci-bot", now=clock.now())
    assert refused.value.code == "users.service_account"
    client, _ = make(boss, f"/api/v1/users/{ci}/tokens", connect)
    first = client.post("/api/v1/auth/password", json={"new_password": PASSWORD})
    assert error_of(first, 403)["code"] == "auth.session_needed"
    login = connect().post("/api/v1/auth/login", json={"username": "ci-bot", "password": PASSWORD})
    assert login.status_code == 401
    error = make(boss, f"/api/v1/users/{ci}/tokens", connect, role="admin", expect=403)
    assert error["code"] == "tokens.role_too_high"


def test_deactivated_its_tokens_rest_until_it_is_active_again(boss, ci, connect):
    client, _ = make(boss, f"/api/v1/users/{ci}/tokens", connect)
    for is_active, status in ((True, 200), (False, 401), (True, 200)):
        assert boss.patch(f"/api/v1/users/{ci}", json={"is_active": is_active}).is_success
        assert client.get("/api/v1/auth/me").status_code == status


def test_a_description_changes_and_nobody_is_signed_out(boss, ci):
    me = boss.get("/api/v1/auth/me").json()["id"]
    for user_id in (ci, me):
        changed = boss.patch(f"/api/v1/users/{user_id}", json={"description": "new"})
        assert changed.json()["description"] == "new"
    assert boss.get("/api/v1/auth/me").status_code == 200


# ---------------------------------------------------------------- its tokens


def test_its_tokens_are_listed_and_revoked_by_administrators(boss, ci, connect, database):
    path = f"/api/v1/users/{ci}/tokens"
    client, made = make(boss, path, connect, expires_in_days=5)
    assert dt.datetime.fromisoformat(made["expires_at"]) < clock.now() + 6 * DAY
    (listed,) = boss.get(path).json()["items"]
    assert (listed["name"], listed["expires_soon"], listed["projects"]) == ("nightly", True, None)
    assert "secret" not in listed
    assert client.get("/api/v1/auth/me").json()["username"] == "ci-bot"
    assert client.get(path).status_code == 403
    assert boss.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert client.get("/api/v1/auth/me").status_code == 401
    assert boss.get(path).json()["items"] == []
    with database.read() as session:
        actors = session.scalars(select(AuditRow.actor).where(AuditRow.action == "tokens.created"))
        assert list(actors) == ["user:boss"]


def test_its_tokens_always_end(boss, ci, connect):
    path = f"/api/v1/users/{ci}/tokens"
    client, made = make(boss, path, connect)
    lasts = dt.datetime.fromisoformat(made["expires_at"]) - clock.now()
    assert 89 * DAY < lasts <= 90 * DAY
    assert made["expires_soon"] is False
    error = make(boss, path, connect, expires_in_days=366, expect=422)
    assert error["fields"][0]["path"] == "expires_in_days"
    assert "365" in error["message"]
    with time_machine.travel(clock.now() + 84 * DAY):
        (listed,) = client.get("/api/v1/tokens").json()["items"]
        assert listed["expires_soon"] is True


def test_the_tokens_of_a_person_are_theirs(boss, connect, member_client):
    member = member_client.get("/api/v1/auth/me").json()["id"]
    for reply in (
        boss.get(f"/api/v1/users/{member}/tokens"),
        boss.post(f"/api/v1/users/{member}/tokens", json={"name": "x"}),
    ):
        error = error_of(reply, 409)
        assert error["code"] == "tokens.of_a_person"
        assert "--service" in error["hint"]
    assert boss.get("/api/v1/users/98765/tokens").status_code == 404


# ---------------------------------------------------------------- limited to projects


def test_a_limited_token_acts_in_its_projects_alone(limited, boss, database):
    said = limited.post("/api/v1/experiments", json={"document": JOB.format("vision")})
    assert said.status_code == 201, said.text
    with database.read() as session:
        actors = session.scalars(
            select(AuditRow.actor).where(AuditRow.action == "experiments.created")
        ).all()
        assert all(actor.endswith(" (ci-bot)") for actor in actors)
    elsewhere = boss.post("/api/v1/experiments", json={"document": JOB.format("audio")}).json()
    assert limited.get(f"/api/v1/experiments/{elsewhere['id']}").status_code == 404
    projects = [p["name"] for p in limited.get("/api/v1/projects").json()["items"]]
    assert projects == ["vision"]
    assert limited.get("/api/v1/auth/me").json()["permissions"] == ["view", "submit"]


@pytest.mark.parametrize("project", ["audio", "new", "default"])
def test_it_submits_to_no_other_project_and_makes_none(limited, boss, project, database):
    ours = {"name": "m", "project": project}
    for path, body in (
        ("experiments", {"document": JOB.format(project)}),
        ("experiments:preview", {"document": JOB.format(project)}),
        ("models", ours),
    ):
        error = error_of(limited.post(f"/api/v1/{path}", json=body), 404)
        assert error["code"] == "projects.not_found"
        assert error["message"] == f"There is no project {project!r}."
    mlflow = limited.post(
        "/api/2.0/mlflow/experiments/create",
        json={"name": "run", "tags": [{"key": "muster.project", "value": project}]},
    )
    assert not mlflow.is_success, mlflow.text
    with database.read() as session:
        names = set(session.scalars(select(ProjectRow.name)))
        assert names == {"vision", "audio"}
        assert session.scalars(select(ExperimentRow)).all() == []


def test_it_changes_nothing_that_belongs_to_no_project(boss, vision, connect, make_user_token):
    """Whatever its role."""
    client = connect(token=make_user_token("admin", username="root", projects=["vision"]))
    refused = [
        ("GET", "users", None),
        ("POST", "users", {"username": "x", "kind": "service"}),
        ("PUT", "pools/big", {}),
        ("PUT", "groups/g", None),
        ("POST", "join-tokens", {}),
        ("POST", "projects", {"name": "x"}),
        ("PATCH", "projects/vision", {"weight": 2.0}),
        ("GET", "audit", None),
        ("GET", "retention", None),
        ("GET", "sessions", None),
        ("PUT", "secrets/KEY", {"value": "v"}),
        ("POST", "auth/password", {"new_password": PASSWORD}),
        ("POST", "views", {"page": "experiments", "name": "v", "query": ""}),
        ("POST", "notifications/rules", {"kinds": ["trial.failed"]}),
        ("POST", "notifications/targets",
         {"name": "t", "config": {"kind": "webhook", "url": "https://example.com/"}}),
    ]  # fmt: skip
    for method, path, body in refused:
        reply = client.request(method, f"/api/v1/{path}", json=body)
        assert error_of(reply, 403)["code"] == "auth.limited_token", path
    assert client.get("/metrics").status_code == 403
    assert client.get("/api/v1/nodes").status_code == 200
    member = client.put("/api/v1/projects/vision/members/users/boss", json={"role": "viewer"})
    assert member.is_success, "of its project it changes the members, as an administrator may"


def test_it_makes_only_tokens_with_the_same_limit_or_less(boss, ci, vision, connect):
    both = ["vision", "audio"]
    parent, _ = make(boss, f"/api/v1/users/{ci}/tokens", connect, projects=both)
    _, same = make(parent, "/api/v1/tokens", connect)
    assert same["projects"] == ["audio", "vision"]
    child, fewer = make(parent, "/api/v1/tokens", connect, projects=["vision"])
    assert fewer["projects"] == ["vision"]
    for name in ("audio", "nothing"):
        error = make(child, "/api/v1/tokens", connect, projects=["vision", name], expect=422)
        assert error["code"] == "tokens.no_project"
        assert error["message"] == f"There is no project {name!r} to limit the token to."
        assert [problem["path"] for problem in error["fields"]] == ["projects.1"]


def test_a_token_that_sees_less_revokes_none_that_sees_more(boss, ci, vision, connect):
    path = f"/api/v1/users/{ci}/tokens"
    whole, all_ = make(boss, path, connect)
    _, audio = make(boss, path, connect, projects=["audio"])
    limited, own = make(boss, path, connect, projects=["vision"])
    for made in (all_, audio):
        error = error_of(limited.delete(f"/api/v1/tokens/{made['id']}"), 403)
        assert error["code"] == "tokens.sees_more"
    assert limited.delete(f"/api/v1/tokens/{own['id']}").status_code == 204
    assert limited.get("/api/v1/auth/me").status_code == 401
    assert whole.delete(f"/api/v1/tokens/{audio['id']}").status_code == 204


@pytest.mark.parametrize(
    ("body", "path"),
    [({"projects": []}, "projects"), ({"projects": ["p"] * 21}, "projects"),
     ({"projects": ["vision"], "role": "metrics"}, "projects")],
)  # fmt: skip
def test_limits_that_cannot_be_are_refused(boss, ci, vision, connect, body, path):
    error = make(boss, f"/api/v1/users/{ci}/tokens", connect, expect=422, **body)
    assert error["fields"][0]["path"] == path


def test_a_deleted_project_leaves_a_token_with_less_and_never_with_more(
    boss, limited, ci, database
):
    assert boss.delete("/api/v1/projects/vision").status_code == 204
    (listed,) = boss.get(f"/api/v1/users/{ci}/tokens").json()["items"]
    assert listed["projects"] == []
    # SQLite may give the id of the deleted project to this one.
    assert boss.post("/api/v1/projects", json={"name": "next"}).status_code == 201
    assert limited.get("/api/v1/projects").json()["items"] == []
    for name in ("vision", "audio", "next"):
        reply = limited.post("/api/v1/experiments", json={"document": JOB.format(name)})
        assert error_of(reply, 404)["code"] == "projects.not_found"


def test_a_ticket_keeps_the_limit(limited, boss, database):
    job = {"document": JOB.format("audio")}
    theirs = boss.post("/api/v1/experiments", json=job).json()["id"]
    ours = limited.post("/api/v1/experiments", json={"document": JOB.format("vision")}).json()["id"]
    ticket = limited.post("/api/v1/live/tickets").json()["ticket"]
    with database.transaction() as session:
        found = identity.principal_of_live_ticket(session, ticket, now=clock.now())
        assert found is not None, "it opens the channel"
        hidden = found.hidden_projects
    with hiding(hidden, is_limited=True):
        topics = {f"experiment:{ours}", f"experiment:{theirs}", "cluster"}
        assert seen_topics(database, topics) == topics - {f"experiment:{theirs}"}
    with database.transaction() as session:
        seen = [found]
        assert identity.still_valid(session, seen, now=clock.now()) == set(seen)
        session.add(ProjectRow(name="new", created_at=clock.now()))
        session.flush()
        assert identity.still_valid(session, seen, now=clock.now()) == set()


def test_the_router_keeps_a_limited_token_to_its_projects(theirs, boss, database, make_user_token):
    with database.transaction() as session:
        row = session.scalars(select(DeploymentRow)).one()
        row.backend = 3
        name = session.get_one(ProjectRow, row.project_id).name
        session.add(ProjectRow(name="other", created_at=clock.now()))
    made = {
        project: hash_secret(make_user_token("member", username="ada", projects=[project]))
        for project in (name, "other")
    }
    with database.read() as session:
        routes = load_routes(session, clock.now())
    assert routes.hidden == frozenset(), "people go on using it"
    assert routes.limited == set(made.values())
    assert routes.seen_by == {seen_by_entry(made[name], "d3")}


def test_the_rows_of_a_deleted_project_are_gone(limited, database):
    with database.transaction() as session:
        delete_project(session, "vision")
    with database.read() as session:
        assert session.scalars(select(ApiTokenProjectRow)).all() == []


# ---------------------------------------------------------------- sessions


def test_sessions_are_listed_and_ended(boss, connect, database):
    with database.transaction() as session:
        secret = auth.create_sign_in_token(session, username="boss", now=clock.now())
    phone = connect(address="10.0.0.9")
    agent = "Phone" + "y" * 300
    reply = phone.post(
        "/api/v1/auth/one-time", json={"token": secret}, headers={"User-Agent": agent}
    )
    assert reply.status_code == 200
    shown = {one["is_current"]: one for one in boss.get("/api/v1/sessions").json()["items"]}
    assert (shown[True]["user_agent"], shown[False]["remote_addr"]) == ("Firefox/1", "10.0.0.9")
    assert shown[False]["user_agent"] == agent[:200]
    stored = {hash_secret(value) for value in (*boss.cookies.values(), *phone.cookies.values())}
    assert not {one["id"] for one in shown.values()} & stored
    assert boss.delete(f"/api/v1/sessions/{shown[False]['id']}").status_code == 204
    assert phone.get("/api/v1/auth/me").status_code == 401
    assert [one["is_current"] for one in boss.get("/api/v1/sessions").json()["items"]] == [True]
    again = boss.delete(f"/api/v1/sessions/{shown[False]['id']}")
    assert error_of(again, 404)["code"] == "sessions.not_found"
    assert boss.delete("/api/v1/sessions/everything").status_code == 422


def test_who_may_end_a_session(boss, member_client, make_user_token, connect, settings):
    (mine,) = boss.get("/api/v1/sessions").json()["items"]
    path = f"/api/v1/sessions/{mine['id']}"
    assert error_of(member_client.delete(path), 404)["code"] == "sessions.not_found"
    viewer = connect(token=make_user_token("admin", username="boss", token_role="viewer"))
    assert [one["id"] for one in viewer.get("/api/v1/sessions").json()["items"]] == [mine["id"]]
    assert error_of(viewer.delete(path), 403)["code"] == "sessions.role_too_high"
    root = connect(token=make_user_token("admin", username="root"))
    boss_id = boss.get("/api/v1/auth/me").json()["id"]
    assert len(root.get(f"/api/v1/users/{boss_id}/sessions").json()["items"]) == 1
    assert member_client.get(f"/api/v1/users/{boss_id}/sessions").status_code == 403
    assert root.delete(path).status_code == 204
    assert boss.get("/api/v1/auth/me").status_code == 401


def test_sessions_that_have_ended_are_not_listed(boss, database, settings):
    idle = dt.timedelta(seconds=settings.session_idle_s)
    with database.read() as session:
        user_id = session.scalars(select(UserRow.id).where(UserRow.username == "boss")).one()
        assert len(auth.list_sessions(session, user_id, idle=idle, now=clock.now())) == 1
        later = clock.now() + idle
        assert auth.list_sessions(session, user_id, idle=idle, now=later) == []
