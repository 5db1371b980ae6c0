"""Users, groups and members of projects on the command line."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from muster_server import clock
from muster_server.services.core.accounts import auth


@pytest.fixture
def ok(muster):
    def run(*words, **options):
        done = muster(*words, **options)
        assert done.exit_code == 0, done.output
        return done.output

    return run


@pytest.fixture
def project(ok, admin_client):
    assert admin_client.post("/api/v1/projects", json={"name": "vision"}).is_success


def test_users_are_added_and_changed_by_administrators(ok, muster):
    added = ok("user", "add", "ben", "--role", "viewer", as_="admin", input="long-enough-word\n")
    assert "Added ben as viewer." in added
    assert "long-enough-word" not in added
    assert "ben: member, active" in ok("user", "set", "ben", "--role", "member", as_="admin")
    assert "ben: member, inactive" in ok("user", "set", "ben", "--inactive", as_="admin")
    users = json.loads(ok("user", "list", "--json", as_="admin"))
    assert [(u["role"], u["is_active"]) for u in users if u["username"] == "ben"] == [
        ("member", False)
    ]
    assert "ben" in ok("user", "list", as_="admin")
    assert "Nothing to change" in str(muster("user", "set", "ben", as_="admin").exception)
    nobody = muster("user", "set", "nobody", "--inactive", as_="admin")
    assert "There is no user nobody" in str(nobody.exception)
    assert muster("user", "list").exit_code == 1


def test_a_service_account_and_its_tokens(ok, muster, project, client):
    added = ok("user", "add", "ci", "--service", "--description", "Nightly", as_="admin")
    assert "Added service account ci as member." in added
    shown = {u["username"]: u for u in json.loads(ok("user", "list", "--json", as_="admin"))}
    assert (shown["ci"]["kind"], shown["ci"]["description"]) == ("service", "Nightly")
    assert "service" in ok("user", "list", as_="admin")
    ok("user", "set", "ci", "--description", "Weekly", as_="admin")

    words = ("token", "create", "nightly", "--for", "ci", "--project", "vision")
    made = json.loads(ok(*words, "--json", as_="admin"))
    assert made["projects"] == ["vision"]
    assert made["secret"].startswith("mst_usr_")
    listed = ok("token", "list", "--for", "ci", as_="admin")
    assert "vision" in listed
    assert "(soon)" in listed
    assert "nightly" not in ok("token", "list", as_="admin")
    assert json.loads(ok("token", "list", "--for", "ci", "--json", as_="admin"))[0]["expires_soon"]
    assert "Revoked" in ok("token", "revoke", str(made["id"]), as_="admin")
    assert "No tokens." in ok("token", "list", "--for", "ci", as_="admin")


def test_sessions_are_listed_and_ended(ok, muster, database, make_user_token):
    make_user_token("member", username="ben")
    with database.transaction() as session:
        user = auth.find_user(session, "ben")
        auth.start_session(
            session, user_id=user.id, lifetime=dt.timedelta(hours=1), now=clock.now(),
            remote_addr="10.0.0.9", user_agent="Firefox/1",
        )  # fmt: skip
    listed = ok("sign-in", "list", "--for", "ben", as_="admin")
    assert "Firefox/1" in listed
    assert "10.0.0.9" in listed
    (one,) = json.loads(ok("sign-in", "list", "--for", "ben", "--json", as_="admin"))
    assert "Ended session" in ok("sign-in", "end", one["id"], as_="admin")
    assert "No sessions." in ok("sign-in", "list", "--for", "ben", as_="admin")
    assert "No sessions." in ok("sign-in", "list")
    assert "There is no session" in str(muster("sign-in", "end", one["id"]).exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("token", "create", "x", "--for", "nobody"), "There is no user nobody"),
        (("token", "create", "x", "--for", "admin"), "is a person"),
        (("token", "create", "x", "--expires", "2w"), "outlives it"),
        (("token", "create", "x", "--expires", "soon"), "no number of days or weeks"),
        (("token", "create", "x", "--expires", "3d", "--days", "3"), "leave out --days"),
        (("token", "create", "x", "--project", "nothing"), "no project 'nothing'"),
        (("user", "add", "x", "--service", "--role", "admin"), "cannot be admin"),
        (("user", "add", "x", "--service", "--from-file", "f"), "has no password"),
    ],
)
def test_what_accounts_and_tokens_cannot_be_is_said(muster, words, said):
    done = muster(*words, as_="admin")
    assert done.exit_code != 0
    assert said in str(done.exception)


def test_members_and_groups_of_a_project(ok, muster, project, make_user_token):
    make_user_token("member", username="ben")
    assert "has no members" in ok("project", "member", "list", "vision")
    assert "ben is a member of project vision." in ok(
        "project", "member", "add", "vision", "ben", as_="admin"
    )
    assert "Created group team." in ok("group", "create", "team", as_="admin")
    assert "Nobody is in group team" in ok("group", "show", "team")
    ok("group", "add", "team", "ben", as_="admin")
    assert "ben" in ok("group", "show", "team")
    group = ("vision", "team", "--group")
    said = ok("project", "member", "add", *group, "--role", "maintainer", as_="admin")
    assert "Group team is a maintainer of project vision." in said
    listed = json.loads(ok("project", "member", "list", "vision", "--json"))
    assert [(m["kind"], m["name"], m["role"]) for m in listed] == [
        ("user", "ben", "member"),
        ("group", "team", "maintainer"),
    ]
    assert "team (group)" in ok("project", "member", "list", "vision")
    ok("project", "member", "remove", *group, as_="admin")
    ok("project", "member", "remove", "vision", "ben", as_="admin")
    assert "has no members" in ok("project", "member", "list", "vision")
    ok("group", "remove", "team", "ben", as_="admin")
    assert "team" in ok("group", "list")
    ok("group", "delete", "team", "--yes", as_="admin")
    assert "There are no groups yet" in ok("group", "list")
    assert muster("project", "member", "add", "vision", "member").exit_code == 1


def test_a_project_is_opened_to_everybody(ok, project):
    assert "submissions of its members" in ok("project", "show", "vision")
    opened = ok("project", "set", "vision", "--submission", "all", as_="admin")
    assert "submissions of everybody" in opened


def test_the_audit_log_is_searched_and_exported(ok, muster):
    for name in ("ben", "eve"):
        ok("user", "add", name, as_="admin", input="long-enough-word\n")
    said = ok("audit", "users.created", "--limit", "1", as_="admin")
    assert "user:eve" in said
    assert "user:ben" not in said
    exported = json.loads(ok("audit", "--limit", "0", "--json", as_="admin"))
    assert [e["subject"] for e in exported if e["action"] == "users.created"] == [
        "user:eve",
        "user:ben",
    ]
    assert "No entry has that." in ok("audit", "nothing-like-it", as_="admin")
    assert muster("audit").exit_code == 1
