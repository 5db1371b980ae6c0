"""Nobody reaches a route that the permission table does not let them: every route, every credential."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from fastapi import APIRouter, FastAPI
from starlette.routing import Mount

from muster_server import clock
from muster_server.api.http.guard import UnguardedRoute, operations_of
from muster_server.db.models import ApiTokenRow, JoinTokenRow, NodeRow, UserRow
from muster_server.parts import permissions
from muster_server.security.permissions import ROLES, allows
from muster_server.security.tokens import hash_secret, mint, visible_prefix
from support.client import plain_app

OPERATIONS = {o.id: o for o in plain_app().state.operations}
HTTP = [o for o in OPERATIONS.values() if o.kind == "http"]
CLOSED = [o for o in HTTP if o.permission != "public"]
PUBLIC = {"healthz", "readyz", "dashboard"} | {
    "get_auth_state",
    "setup",
    "login",
    "one_time_sign_in",
    "open_report_link",
    "check_invitation",
    "accept_invitation",
}
PUBLIC |= {"start_openid", "finish_openid", "create_device_login", "create_device_token"}


def path_of(operation):
    """A path that matches, with ids that exist nowhere."""
    path = re.sub(r"\{\w*sha256\}", "0" * 64, operation.path)
    path = path.replace("{stream}", "stdout").replace("{path:page}", "")
    return re.sub(r"\{[^}]+\}", "999999", path)


def call(client, operation, **kwargs):
    method = sorted(operation.methods)[0]
    assert operation.pattern.match(path_of(operation)), path_of(operation)
    return client.request(method, path_of(operation), **kwargs)


def refusal_of(reply):
    """The code of an error, which MLflow's API has in a place of its own. SCIM has none but the status."""
    body = reply.json()
    if "status" in body:
        return {"401": "auth.not_signed_in", "403": "auth.forbidden"}.get(body["status"], "")
    return body["error_code"] if "error_code" in body else body["error"]["code"]


# ---------------------------------------------------------------- the table


def test_only_these_routes_are_public():
    assert {o.id for o in OPERATIONS.values() if o.permission == "public"} == PUBLIC


def test_every_entry_of_the_table_is_a_route():
    assert set(permissions()) == set(OPERATIONS)


def test_a_route_without_an_entry_keeps_the_server_from_starting():
    router = APIRouter()
    router.get("/x-health", operation_id="sneaky")(lambda: None)
    app = FastAPI(openapi_url=None)
    app.include_router(router)
    with pytest.raises(UnguardedRoute, match="sneaky"):
        operations_of(app.routes)


def test_a_route_without_an_operation_id_is_known_by_the_name_of_its_function():
    def sneaky():
        raise AssertionError

    app = FastAPI(openapi_url=None)
    app.get("/x")(sneaky)
    with pytest.raises(UnguardedRoute, match=r"\(sneaky\) has no entry"):
        operations_of(app.routes)


def test_a_websocket_and_a_mount_are_not_forgotten():
    app = FastAPI(openapi_url=None)

    @app.websocket("/events")
    async def events(socket):
        raise AssertionError

    with pytest.raises(UnguardedRoute, match="events"):
        operations_of(app.routes)
    app = FastAPI(openapi_url=None)
    app.router.routes.append(Mount("/sub", app=FastAPI()))
    with pytest.raises(UnguardedRoute, match="sub"):
        operations_of(app.routes)


def test_the_framework_adds_no_documentation_routes():
    paths = {o.path for o in OPERATIONS.values()}
    assert not paths & {"/redoc", "/docs/oauth2-redirect"}


def test_roles_only_grow():
    assert ROLES["viewer"] < ROLES["member"] < ROLES["admin"]
    assert not allows("nobody", "view")


# ---------------------------------------------------------------- credentials


@pytest.fixture
def bad_secrets(database, make_user_token):
    """Credentials of every kind that must not work."""
    now = clock.now()
    past = now - dt.timedelta(seconds=1)
    secrets = {name: mint("usr") for name in ("expired", "revoked", "inactive")}
    with database.transaction() as session:
        users = [
            UserRow(username="gone", role="admin", is_active=False, created_at=now),
            UserRow(username="here", role="admin", created_at=now),
        ]
        session.add_all(users)
        session.flush()
        for name, secret in secrets.items():
            session.add(
                ApiTokenRow(
                    user_id=users[0].id if name == "inactive" else users[1].id,
                    name=name,
                    secret_hash=hash_secret(secret),
                    prefix=visible_prefix(secret),
                    role="admin",
                    created_at=past,
                    expires_at=past if name == "expired" else now + dt.timedelta(days=1),
                    revoked_at=past if name == "revoked" else None,
                )
            )
        for name, uses, expires in (
            ("join_used", 0, now + dt.timedelta(days=1)),
            ("join_old", 1, past),
        ):
            secrets[name] = mint("join")
            session.add(
                JoinTokenRow(
                    secret_hash=hash_secret(secrets[name]),
                    prefix=visible_prefix(secrets[name]),
                    pool="default",
                    uses_left=uses,
                    created_at=past,
                    expires_at=expires,
                )
            )
        secrets["removed_agent"] = add_node(session, "removed", state="REMOVED")
    good = make_user_token("admin")
    return {
        **secrets,
        "garbage": "garbage",
        "unknown": mint("usr"),
        "agent_unknown": mint("agt"),
        "one_time": mint("once"),
        "truncated": good[:-1],
        "longer": good + "A",
        "other_kind": good.replace("mst_usr_", "mst_agt_"),
        "huge": "mst_usr_" + "a" * 5000,
        "empty": "",
    }


def add_node(session, name, *, state="ONLINE"):
    now = clock.now()
    secret = mint("agt")
    session.add(
        NodeRow(
            id=name,
            name=name,
            pool="default",
            state=state,
            credential_hash=hash_secret(secret),
            registered_at=now,
            last_seen_at=now,
            lease_expires_at=now + dt.timedelta(hours=1),
        )
    )
    return secret


@pytest.fixture
def agent_client(database, connect):
    with database.transaction() as session:
        secret = add_node(session, "node-1")
    return connect(token=secret)


def test_without_credentials_every_route_but_the_public_ones_is_401(client):
    for operation in CLOSED:
        reply = call(client, operation)
        assert reply.status_code == 401, operation.id
        if operation.methods != {"HEAD"}:
            assert refusal_of(reply) in ("auth.not_signed_in", "UNAUTHENTICATED")


def test_a_bad_credential_is_401_everywhere(client, bad_secrets):
    for name, secret in bad_secrets.items():
        for operation in CLOSED[:: 7 if name != "revoked" else 1]:
            reply = call(client, operation, headers={"Authorization": f"Bearer {secret}"})
            assert reply.status_code == 401, (name, operation.id)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
        {"Authorization": "{token}"},
        {"Authorization": "Token {token}"},
        {"X-Api-Key": "{token}"},
        {"Cookie": "muster_sid={token}"},
        {"Cookie": "muster_sid=" + "x" * 43},
    ],
)
def test_a_credential_in_the_wrong_place_is_401(client, make_user_token, headers):
    token = make_user_token("admin")
    headers = {name: value.format(token=token) for name, value in headers.items()}
    assert client.get("/api/v1/auth/me", headers=headers).status_code == 401


def test_tokens_are_not_taken_from_the_address(client, make_user_token):
    token = make_user_token("admin")
    for name in ("token", "access_token", "ticket", "api_key"):
        assert client.get("/api/v1/auth/me", params={name: token}).status_code == 401


def test_a_bad_token_is_not_backed_up_by_a_cookie(client, database, make_user_token):
    from muster_server.services.core.accounts import auth

    make_user_token("admin")
    with database.transaction() as session:
        secret = auth.start_session(
            session, user_id=1, lifetime=dt.timedelta(hours=1), now=clock.now()
        )
    client.cookies.set("muster_sid", secret)
    assert client.get("/api/v1/auth/me").status_code == 200
    reply = client.get("/api/v1/auth/me", headers={"Authorization": "Bearer nonsense"})
    assert reply.status_code == 401


# ---------------------------------------------------------------- roles


@pytest.mark.parametrize("role", ["viewer", "member", "admin", "agent", "join"])
def test_each_role_reaches_exactly_what_the_table_says(request, role):
    client = request.getfixturevalue(f"{role}_client")
    for operation in CLOSED:
        if operation.id == "agent_assignments":
            continue  # a long poll; its refusals are covered by the other agent routes
        # A body no route takes: who is let in gets some other refusal, and nothing is changed.
        reply = call(client, operation, content=b"]", headers={"Content-Type": "application/json"})
        refused = reply.status_code in (401, 403) and (
            operation.methods == {"HEAD"}
            or refusal_of(reply).startswith(("auth.", "UNAUTHENTICATED", "PERMISSION_DENIED"))
        )
        assert refused is not allows(role, operation.permission), (operation.id, reply.text)
        assert reply.status_code < 500, operation.id


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/users/../health",
        "/api/v1/users?x=/healthz",
        "/api/v1/users/healthz",
        "/api/v1/users;/healthz",
        "/api/v1//users",
        "/API/v1/users",
        "/api/v1/users/",
        "http://localhost:8470//api/v1/users",
        "/api/v1/users%2f..%2f..%2fhealthz",
    ],
)
def test_spelling_a_path_otherwise_opens_nothing(client, path):
    reply = client.get(path)
    is_page = reply.headers["content-type"].startswith("text/html")  # of the dashboard: no data
    assert reply.status_code in (401, 404) or is_page
    assert "items" not in reply.text
