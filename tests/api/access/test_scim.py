"""Accounts and groups that an identity provider manages by SCIM: as a public tester, Entra ID and Okta ask."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from pydantic import SecretStr
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server
from sqlalchemy import select

from muster_server import clock
from muster_server.app import create_app
from muster_server.db.models import ApiTokenRow, AuditRow, GroupMemberRow, GroupRow, UserRow
from support.accounts.providers import scripted_provider
from support.client import make_client, running
from support.live import serving

pytestmark = pytest.mark.either_database

TOKEN = "scim-" + "t" * 40
BASE = "/api/scim/v2"
CORE = "urn:ietf:params:scim:schemas:core:2.0"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


@pytest.fixture
def provider():
    with scripted_provider() as provider:
        yield provider


@pytest.fixture
def settings(settings, request):
    more = {"scim_token": SecretStr(TOKEN), **getattr(request, "param", {})}
    if "provider" in request.fixturenames:
        issuer = request.getfixturevalue("provider").issuer
        more |= {"oidc_issuer": issuer, "oidc_client_id": "muster"}
    return settings.model_copy(update=more)


@pytest.fixture
def scim(connect):
    client = connect(token=TOKEN)
    client.headers["Content-Type"] = "application/scim+json"
    return client


@pytest.fixture
def admin(connect, make_user_token):
    return connect(token=make_user_token("admin", username="root"))


def add_user(scim, name, /, **more):
    body = {"schemas": [f"{CORE}:User"], "userName": name, **more}
    reply = scim.post(f"{BASE}/Users", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()


def add_group(scim, name, *members, **more):
    body = {
        "schemas": [f"{CORE}:Group"],
        "displayName": name,
        "members": [{"value": user["id"]} for user in members],
        **more,
    }
    reply = scim.post(f"{BASE}/Groups", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()


def patch(scim, resource, *operations):
    """Change a resource, named by its address, as Entra ID and Okta do."""
    path = urlsplit(resource["meta"]["location"]).path
    return scim.patch(path, json={"schemas": [PATCH], "Operations": list(operations)})


def refused(reply, status, scim_type=None):
    """Whether a reply is an error as RFC 7644, 3.12, has it; its text."""
    body = reply.json()
    assert reply.headers["content-type"] == "application/scim+json"
    assert (reply.status_code, body["status"]) == (status, str(status)), body
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert body.get("scimType") == scim_type, body
    return body["detail"]


def found(scim, place, filter):
    return scim.get(f"{BASE}/{place}", params={"filter": filter}).json()["Resources"]


def account(database, username):
    with database.read() as session:
        user = session.scalars(select(UserRow).where(UserRow.username == username)).one()
        return user.id, user.role, user.is_active


def members(database, group):
    with database.read() as session:
        query = (
            select(UserRow.username)
            .join(GroupMemberRow, GroupMemberRow.user_id == UserRow.id)
            .join(GroupRow, GroupRow.id == GroupMemberRow.group_id)
            .where(GroupRow.name == group)
            .order_by(UserRow.id)
        )
        return list(session.scalars(query))


# ---------------------------------------------------------------- the protocol


@pytest.mark.both_databases
def test_a_public_conformance_tester_finds_nothing_but_that_active_cannot_be_taken_away(app):
    with serving(app) as port:
        base = f"http://localhost:{port}{BASE}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx2.Client(base_url=base, headers=headers, trust_env=False) as http:
            results = check_server(SyncSCIMClient(http))
    passed = [one for one in results if one.status is Status.SUCCESS]
    assert len(passed) > 40
    others = {(one.status, one.title, one.reason) for one in results if one not in passed}
    assert others == {
        # Every account is active or not.
        (
            Status.ERROR,
            "check_remove_attribute",
            "PATCH modify() did not remove attribute 'active'",
        ),
        # Users and groups are searched apart, which the protocol leaves open.
        (
            Status.SKIPPED,
            "search_with_attributes",
            "POST /.search: searching several resource types at once is not supported by the server",
        ),
    }


def test_lists_are_bounded_and_filtered_by_what_clients_look_for(scim):
    for number in range(3):
        add_user(scim, f"user-{number}@lab.example", externalId=f"x-{number}")
    page = scim.get(f"{BASE}/Users", params={"startIndex": 2, "count": 1}).json()
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (3, 2, 1)
    assert page["Resources"][0]["userName"] == "user-1@lab.example"
    assert scim.get(f"{BASE}/Users", params={"count": 1_000_000}).json()["itemsPerPage"] == 3
    assert scim.get(f"{BASE}/Users", params={"count": 0}).json()["totalResults"] == 3
    (one,) = found(scim, "Users", 'userName EQ "USER-1@lab.example"')
    assert found(scim, "Users", 'externalId eq "x-1"') == [one]
    assert found(scim, "Users", f'id eq "{one["id"]}"') == [one]
    assert found(scim, "Users", 'externalId eq "X-1"') == []
    detail = refused(
        scim.get(f"{BASE}/Users", params={"filter": 'userName sw "u"'}), 400, "invalidFilter"
    )
    assert 'userName eq "…"' in detail
    refused(scim.get(f"{BASE}/Users", params={"filter": "userName eq"}), 400, "invalidFilter")
    nested = "(" * 1000 + 'userName eq "u"' + ")" * 1000
    refused(scim.get(f"{BASE}/Users", params={"filter": nested}), 400, "invalidFilter")
    refused(scim.post(f"{BASE}/Users/.search", json={"filter": nested * 5}), 400, "invalidFilter")
    refused(scim.get(f"{BASE}/Users/9999"), 404)
    refused(scim.get(f"{BASE}/Users/ada"), 404)
    refused(scim.post(f"{BASE}/Bulk", json={}), 404)


def test_names_are_compared_whatever_their_case_in_every_alphabet(scim):
    user = add_user(scim, "Jürgen.GRÜN@lab.example")
    assert found(scim, "Users", 'userName eq "JÜRGEN.grün@LAB.example"') == [user]


def test_what_cannot_be_is_refused_and_said(scim):
    for body, scim_type in (
        ({"userName": ""}, "invalidValue"),
        ({"userName": "x" * 255}, "invalidValue"),
        ({}, "invalidValue"),
        ({"userName": "@"}, "invalidValue"),
        ({"userName": "ada", "active": "perhaps"}, "invalidValue"),
        ({"userName": "ada", "externalId": "x" * 256}, "invalidValue"),
    ):
        reply = scim.post(f"{BASE}/Users", json={"schemas": [f"{CORE}:User"], **body})
        refused(reply, 400, scim_type)
    reply = scim.post(f"{BASE}/Users", content=b"{")
    refused(reply, 400, "invalidSyntax")
    ada = add_user(scim, "ada")
    refused(patch(scim, ada, {"op": "remove", "path": "userName"}), 400, "mutability")
    refused(patch(scim, ada, {"op": "shout"}), 400, "invalidValue")
    refused(patch(scim, ada, *[{"op": "replace", "path": "active", "value": True}] * 101), 413)


def test_two_who_create_the_same_user_at_a_time_make_one(scim):
    body = {"schemas": [f"{CORE}:User"], "userName": "ada", "externalId": "x-1"}
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: scim.post(f"{BASE}/Users", json=body), range(4)))
    assert sorted(reply.status_code for reply in replies) == [201, 409, 409, 409]


# ---------------------------------------------------------------- who may ask


def test_the_token_lets_in_to_scim_alone_and_nothing_else_lets_in_there(
    scim, client, admin, connect, database
):
    assert scim.get("/api/v1/users").status_code == 401
    assert scim.get("/metrics").status_code == 401
    refused(client.get(f"{BASE}/Users"), 401)
    refused(admin.get(f"{BASE}/Users"), 403)
    refused(connect(token=TOKEN + "x").delete(f"{BASE}/Users/1"), 401)
    with database.read() as session:
        query = select(AuditRow.action, AuditRow.subject).where(AuditRow.action.contains("refused"))
        assert {
            ("auth.token_refused", "token:unknown"),
            ("calls.refused", "operation:scim_read"),
        } <= {tuple(row) for row in session.execute(query)}


def test_scim_is_off_without_a_token(settings):
    app = create_app(settings.model_copy(update={"scim_token": None}))
    with running(app) as portal, make_client(app, portal, token=TOKEN) as client:
        assert "MUSTER_SCIM_TOKEN" in refused(client.get(f"{BASE}/Users"), 401)


def test_two_tokens_are_valid_while_one_replaces_the_other(settings):
    both = SecretStr(f"{'n' * 32} {TOKEN}")
    app = create_app(settings.model_copy(update={"scim_token": both}))
    with running(app) as portal:
        for token in ("n" * 32, TOKEN):
            with make_client(app, portal, token=token) as client:
                assert client.get(f"{BASE}/Users").status_code == 200


# ---------------------------------------------------------------- as clients ask


def test_entra_id_provisions_and_takes_away_a_user(scim, connect, database):
    assert found(scim, "Users", 'userName eq "ada@lab.example"') == []
    user = add_user(
        scim,
        "ada@lab.example",
        schemas=[f"{CORE}:User", ENTERPRISE],
        externalId="0a21f0f2",
        active=True,
        displayName="Ada",
        emails=[{"primary": True, "type": "work", "value": "ada@lab.example"}],
        meta={"resourceType": "User"},
        name={"formatted": "Ada L", "familyName": "L", "givenName": "Ada"},
        roles=[],
        **{ENTERPRISE: {"department": "Vision"}},
    )
    assert user["meta"]["location"].endswith(f"{BASE}/Users/{user['id']}")
    assert account(database, "ada")[1:] == ("member", True)
    reply = scim.post(
        f"{BASE}/Users", json={"schemas": [f"{CORE}:User"], "userName": "ADA@lab.example"}
    )
    assert "ada" in refused(reply, 409, "uniqueness")
    reply = patch(
        scim,
        user,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "a@lab.example"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Speech"},
        {"op": "Replace", "path": "displayName", "value": "Ada L."},
        {"op": "Replace", "value": {"userName": "ada.l@lab.example", "name.givenName": "Ada"}},
    )
    assert reply.status_code == 200, reply.text
    assert reply.json()["userName"] == "ada.l@lab.example"
    token = token_of(database, "ada")
    assert connect(token=token).get("/api/v1/auth/me").json()["username"] == "ada"
    reply = patch(scim, user, {"op": "Replace", "path": "active", "value": "False"})
    assert reply.json()["active"] is False
    assert connect(token=token).get("/api/v1/auth/me").status_code == 401
    patch(scim, user, {"op": "Replace", "path": "active", "value": "True"})
    assert connect(token=token).get("/api/v1/auth/me").status_code == 200


def test_entra_id_provisions_groups(scim, database):
    ada, bob, cy = (add_user(scim, name) for name in ("ada", "bob", "cy"))
    group = add_group(scim, "Lab Vision", externalId="g-1")
    assert "members" not in group
    value = [{"$ref": None, "value": user["id"]} for user in (ada, bob, cy)]
    reply = patch(scim, group, {"op": "Add", "path": "members", "value": value})
    assert members(database, "Lab-Vision") == ["ada", "bob", "cy"]
    assert [one["value"] for one in reply.json()["members"]] == [ada["id"], bob["id"], cy["id"]]
    path = f'members[value eq "{ada["id"]}"]'
    patch(scim, group, {"op": "Remove", "path": path})
    patch(scim, group, {"op": "Remove", "path": "members", "value": [{"value": bob["id"]}]})
    assert members(database, "Lab-Vision") == ["cy"]
    reply = patch(scim, group, {"op": "Replace", "path": "displayName", "value": "Lab Sight"})
    assert reply.json()["displayName"] == "Lab Sight"
    shown = scim.get(
        f"{BASE}/Groups",
        params={"excludedAttributes": "members", "filter": 'displayName eq "lab sight"'},
    ).json()["Resources"]
    assert [(one["id"], "members" in one) for one in shown] == [(group["id"], False)]
    reply = scim.post(
        f"{BASE}/Groups", json={"schemas": [f"{CORE}:Group"], "displayName": "LAB SIGHT"}
    )
    refused(reply, 409, "uniqueness")
    assert scim.delete(f"{BASE}/Groups/{group['id']}").status_code == 204
    refused(scim.get(f"{BASE}/Groups/{group['id']}"), 404)


def test_okta_provisions_users_and_groups(scim, database):
    user = add_user(
        scim,
        "ada@lab.example",
        name={"givenName": "Ada", "familyName": "L"},
        emails=[{"primary": True, "value": "ada@lab.example", "type": "work"}],
        displayName="Ada L",
        locale="en-US",
        externalId="00ujl29u0le5T6Aj10h7",
        groups=[],
        password="1mz050nq",
        active=True,
    )
    assert "password" not in user
    with database.read() as session:
        assert session.scalars(select(UserRow.password_hash)).all() == [None]
    profile = {
        "schemas": [f"{CORE}:User"],
        "id": user["id"],
        "userName": "ada@lab.example",
        "name": {"givenName": "Another", "middleName": ""},
        "active": True,
        "groups": [],
        "meta": {"resourceType": "User"},
    }
    reply = scim.put(f"{BASE}/Users/{user['id']}", json=profile)
    assert reply.json()["externalId"] == "00ujl29u0le5T6Aj10h7"
    group = add_group(scim, "vision", user)
    assert members(database, "vision") == ["ada"]
    renamed = {"id": group["id"], "displayName": "sight"}
    assert patch(scim, group, {"op": "replace", "value": renamed}).json()["displayName"] == "sight"
    body = {"schemas": [f"{CORE}:Group"], "id": group["id"], "displayName": "sight", "members": []}
    assert scim.put(f"{BASE}/Groups/{group['id']}", json=body).status_code == 200
    assert members(database, "vision") == []
    reply = patch(scim, user, {"op": "replace", "value": {"active": False}})
    assert (reply.json()["active"], account(database, "ada")[2]) == (False, False)


def token_of(database, username):
    from muster_server.security.tokens import hash_secret, mint

    secret = mint("usr")
    with database.transaction() as session:
        session.add(
            ApiTokenRow(
                user_id=session.scalars(
                    select(UserRow.id).where(UserRow.username == username)
                ).one(),
                name="laptop",
                secret_hash=hash_secret(secret),
                prefix=secret[:14],
                role="member",
                created_at=clock.now(),
            )
        )
    return secret


# ---------------------------------------------------------------- what it cannot reach


def test_accounts_that_scim_did_not_make_are_out_of_its_reach(scim, admin, database):
    root = account(database, "root")[0]
    ada = add_user(scim, "ada")
    assert [one["userName"] for one in scim.get(f"{BASE}/Users").json()["Resources"]] == ["ada"]
    body = {"schemas": [f"{CORE}:User"], "userName": "root", "active": False}
    for reply in (
        scim.get(f"{BASE}/Users/{root}"),
        scim.put(f"{BASE}/Users/{root}", json=body),
        scim.patch(
            f"{BASE}/Users/{root}",
            json={"schemas": [PATCH], "Operations": [{"op": "remove", "path": "active"}]},
        ),
        scim.delete(f"{BASE}/Users/{root}"),
    ):
        refused(reply, 404)
    refused(scim.post(f"{BASE}/Users", json=body), 409, "uniqueness")
    group = {
        "schemas": [f"{CORE}:Group"],
        "displayName": "vision",
        "members": [{"value": ada["id"]}, {"value": str(root)}],
    }
    assert str(root) in refused(scim.post(f"{BASE}/Groups", json=group), 400, "invalidValue")
    assert account(database, "root") == (root, "admin", True)


def test_a_group_here_is_filled_only_if_administrators_let_the_provider(scim, admin, database):
    admin.put("/api/v1/groups/vision", json={})
    admin.put("/api/v1/projects/default/groups/vision", json={"role": "maintainer"})
    ada = add_user(scim, "ada")
    body = {"schemas": [f"{CORE}:Group"], "displayName": "vision", "members": []}
    detail = refused(scim.post(f"{BASE}/Groups", json=body), 409, "uniqueness")
    assert "--provider-group" in detail
    made = admin.put("/api/v1/groups/vision", json={"provider_group": "vision"}).json()
    assert made["is_provisioned"] is False
    group = add_group(scim, "vision", ada)
    shown = admin.get("/api/v1/groups").json()["items"]
    assert [(one["name"], one["is_provisioned"]) for one in shown] == [("vision", True)]
    assert members(database, "vision") == ["ada"]
    kept = admin.put("/api/v1/groups/vision/members/root")
    assert (kept.status_code, kept.json()["error"]["code"]) == (409, "groups.filled_by_scim")
    reply = admin.put("/api/v1/groups/vision", json={"provider_group": None})
    assert reply.json()["error"]["code"] == "groups.filled_by_scim"
    # What administrators have made stays, without members.
    assert scim.delete(f"{BASE}/Groups/{group['id']}").status_code == 204
    assert members(database, "vision") == []
    assert admin.get("/api/v1/groups/vision/members").status_code == 200
    assert add_group(scim, "vision")["id"] == group["id"]


def test_who_is_deleted_is_gone_for_scim_and_owns_what_they_owned(scim, admin, connect, database):
    ada = add_user(scim, "ada", externalId="x-1")
    add_group(scim, "vision", ada)
    token = token_of(database, "ada")
    assert scim.delete(f"{BASE}/Users/{ada['id']}").status_code == 204
    refused(scim.get(f"{BASE}/Users/{ada['id']}"), 404)
    refused(scim.delete(f"{BASE}/Users/{ada['id']}"), 404)
    assert found(scim, "Users", 'userName eq "ada"') == []
    assert (account(database, "ada")[2], members(database, "vision")) == (False, [])
    # A stranger of the same name does not get the account.
    body = {"schemas": [f"{CORE}:User"], "userName": "ada", "externalId": "x-2"}
    assert "deleted" in refused(scim.post(f"{BASE}/Users", json=body), 409, "uniqueness")
    assert add_user(scim, "ada", externalId="x-1")["id"] == ada["id"]
    assert account(database, "ada")[2]
    assert connect(token=token).get("/api/v1/auth/me").status_code == 401
    # Administrators can give an account back.
    scim.delete(f"{BASE}/Users/{ada['id']}")
    admin.patch(f"/api/v1/users/{ada['id']}", json={"is_active": True})
    assert [one["id"] for one in found(scim, "Users", 'userName eq "ada"')] == [ada["id"]]


def test_who_has_closed_an_account_opens_it_again(scim, admin, database):
    ada = add_user(scim, "ada", externalId="x-1")
    path = f"/api/v1/users/{ada['id']}"
    shown = {user["username"]: user for user in admin.get("/api/v1/users").json()["items"]}
    assert (shown["ada"]["is_provisioned"], shown["root"]["is_provisioned"]) == (True, False)
    patch(scim, ada, {"op": "replace", "value": {"active": False}})
    reply = admin.patch(path, json={"is_active": True})
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "users.closed_by_scim")
    patch(scim, ada, {"op": "replace", "value": {"active": True}})
    assert admin.patch(path, json={"is_active": False}).status_code == 200
    for wanted in (False, True):
        reply = patch(scim, ada, {"op": "replace", "value": {"active": wanted}})
    refused(reply, 403)
    assert account(database, "ada")[2] is False
    # Nor does a client get around it by adding the user again.
    scim.delete(f"{BASE}/Users/{ada['id']}")
    body = {"schemas": [f"{CORE}:User"], "userName": "ada", "externalId": "x-1"}
    refused(scim.post(f"{BASE}/Users", json=body), 409, "uniqueness")
    assert admin.patch(path, json={"is_active": True}).status_code == 200
    assert [one["active"] for one in found(scim, "Users", 'userName eq "ada"')] == [True]


# ---------------------------------------------------------------- signing in


def sign_in(client, provider, **claims):
    """Sign in as somebody; the user's name, or else why not."""
    provider.claims = claims
    page = client.get("/api/v1/auth/oidc/start").headers["location"]
    back = client.get(provider.allow(page))
    problem = parse_qs(urlsplit(back.headers["location"]).query).get("problem")
    return problem[0] if problem else client.get("/api/v1/auth/me").json()["username"]


def test_the_first_sign_in_finds_the_account_by_the_external_id_alone(provider, scim, connect):
    ada = add_user(scim, "ada@lab.example", externalId="s-9")
    other = connect()
    assert sign_in(other, provider, sub="s-8", preferred_username="ada@lab.example") == "name_taken"
    client = connect()
    assert sign_in(client, provider, sub="s-9", preferred_username="countess") == "ada"
    assert str(client.get("/api/v1/auth/me").json()["id"]) == ada["id"]
    reply = client.post("/api/v1/auth/password", json={"new_password": "a tolerable passphrase"})
    assert reply.json()["error"]["code"] == "auth.provider_account"
    patch(scim, ada, {"op": "replace", "value": {"active": False}})
    assert client.get("/api/v1/auth/me").status_code == 401
    assert sign_in(connect(), provider, sub="s-9") == "refused"


@pytest.mark.parametrize(
    "settings", [{"scim_external_id_claim": "oid", "scim_username_claim": "upn"}], indirect=True
)
def test_other_claims_say_who_somebody_is_if_they_are_trusted(provider, scim, connect):
    add_user(scim, "ada@lab.example", externalId="o-1")
    add_user(scim, "bob@lab.example")
    assert sign_in(connect(), provider, sub="a", oid="o-1", preferred_username="x") == "ada"
    assert (
        sign_in(connect(), provider, sub="b", upn="BOB@lab.example", preferred_username="y")
        == "bob"
    )
    # Who has an account is connected to it alone, and the name of another domain is another's.
    assert (
        sign_in(connect(), provider, sub="c", oid="o-1", preferred_username="ada") == "name_taken"
    )
    assert (
        sign_in(connect(), provider, sub="d", upn="bob@evil.example", preferred_username="bob")
        == "name_taken"
    )


@pytest.mark.parametrize("settings", [{"scim_username_claim": "email"}], indirect=True)
def test_an_address_that_is_not_verified_says_nothing(provider, scim, connect):
    add_user(scim, "ada@lab.example")
    claims = {"sub": "a", "preferred_username": "ada", "email": "ada@lab.example"}
    assert sign_in(connect(), provider, **claims) == "name_taken"
    assert sign_in(connect(), provider, **claims, email_verified=True) == "ada"


def test_who_signed_in_before_scim_keeps_the_account(provider, scim, connect, database):
    client = connect()
    assert sign_in(client, provider, sub="s-9", preferred_username="ada") == "ada"
    user = add_user(scim, "ada@lab.example", externalId="s-9")
    assert user["id"] == str(client.get("/api/v1/auth/me").json()["id"])
    # But no administrator is taken over, and no account that administrators have closed opened.
    assert sign_in(connect(), provider, sub="s-6", preferred_username="bob") == "bob"
    with database.transaction() as session:
        session.scalars(select(UserRow).where(UserRow.username == "bob")).one().is_active = False
    body = {"schemas": [f"{CORE}:User"], "userName": "bob@lab.example", "externalId": "s-6"}
    refused(scim.post(f"{BASE}/Users", json=body), 403)
    assert sign_in(connect(), provider, sub="s-7", preferred_username="eve") == "eve"
    with database.transaction() as session:
        session.scalars(select(UserRow).where(UserRow.username == "eve")).one().role = "admin"
    body = {"schemas": [f"{CORE}:User"], "userName": "eve@lab.example", "externalId": "s-7"}
    refused(scim.post(f"{BASE}/Users", json=body), 409, "uniqueness")


def test_the_groups_claim_does_not_change_what_scim_says(provider, scim, connect, database):
    ada = add_user(scim, "ada", externalId="s-9")
    add_group(scim, "vision", ada)
    add_group(scim, "speech")
    sign_in(connect(), provider, sub="s-9", groups=["speech"])
    assert (members(database, "vision"), members(database, "speech")) == (["ada"], [])


def test_the_list_of_groups_says_who_manages_each(scim, muster):
    add_group(scim, "sight")
    for words in (("ours",), ("labs", "--provider-group", "lab-vision")):
        assert muster("group", "create", *words, as_="admin").exit_code == 0
    lines = muster("group", "list").output.splitlines()
    says = {
        name: next(line for line in lines if line.startswith(f"{name} "))
        for name in ("sight", "ours", "labs")
    }
    assert "SCIM" in says["sight"]
    assert "administrators" in says["ours"]
    assert "the provider's group lab-vision" in says["labs"]
    listed = {row["name"]: row for row in json.loads(muster("group", "list", "--json").output)}
    assert {name: row["is_provisioned"] for name, row in listed.items()} == {
        "sight": True, "ours": False, "labs": False,
    }  # fmt: skip
    assert listed["labs"]["provider_group"] == "lab-vision"
