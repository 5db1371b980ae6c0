"""A project that only its members see, and one that a token is not for: for whoever must not see it,
it is, and all that is in it, as if it did not exist."""

import re

import pytest
from sqlalchemy import delete, select

from muster_models.domain.deployments.routing import seen_by_entry
from muster_models.services.deployments.routing import load_routes
from muster_server import clock
from muster_server.db.models import (
    DeploymentRow,
    EventRow,
    ExperimentRow,
    GroupMemberRow,
    GroupRow,
    InboxRow,
    ModelRow,
    NotificationRow,
    NotificationRuleRow,
    PanelRow,
    ProjectMemberRow,
    ProjectRow,
    SavedViewRow,
    TrialRow,
    UserRow,
)
from muster_server.security.tokens import hash_secret
from muster_server.services.core.events import add_event
from support.client import plain_app
from support.data import NOW

MARK = "zqmark"
"""Part of every name and text in the hidden project."""
NOBODY = 987654
"""An id that nothing has."""
MEANS_NOTHING = {"code": "BCDF-GHJK", "user_id": 1, "rule_id": 1, "target_id": 1, "view_id": 1, "token_id": 1, "no": 1,
                 "rank": 0, "media_id": 1, "point": 1, "username": "eve", "group": "g", "key": "k",
                 "kind": "runs", "version": "2.0", "sha256": "0" * 64, "path": "runs/get",
                 "node_id": "n0", "preflight_id": 1, "local_rank": 0, "stream": "stdout",
                 "deletion_id": 1, "session_id": "0" * 16, "reservation_id": 1}  # fmt: skip
"""Parts of addresses that name nothing of the project."""
OPERATIONS = [
    operation
    for operation in plain_app().state.operations
    if operation.permission in ("view", "submit", "self") and operation.kind == "http"
]
OF_THE_CALLER = {
    "change_password", "logout", "create_token", "get_me", "list_tokens", "revoke_token",
    "create_live_ticket",
}  # fmt: skip
"""Operations that concern the caller alone, and change who the caller is."""


@pytest.fixture
def database_url(any_database_url):
    """Both kinds, always: what is left out is decided in SQL."""
    return any_database_url


@pytest.fixture
def hidden(theirs, database, make_user_token):
    """Ids of what ada has in a project that eve does not see; eve had a notification of it."""
    make_user_token("member", username="eve")
    with database.transaction() as session:
        project = session.scalars(select(ProjectRow)).one()
        project.name, project.visibility = f"{MARK}-project", "members"
        session.scalars(select(ExperimentRow)).one().name = f"{MARK}-experiment"
        session.scalars(select(ModelRow)).one().name = f"{MARK}-net"
        session.scalars(select(DeploymentRow)).one().name = f"{MARK}-net"
        session.scalars(select(PanelRow)).one().title = f"{MARK}-panel"
        eve, ada = (
            session.scalars(select(UserRow.id).where(UserRow.username == name)).one()
            for name in ("eve", "ada")
        )
        session.add_all(
            [
                EventRow(
                    at=NOW, level="error", type="trial.failed", message=f"{MARK} failed", **{of: theirs.get(of, project.id)}
                )
                for of in ("project_id", "experiment_id", "trial_id")
            ]
        )  # fmt: skip
        about = [{"experiment_id": theirs["experiment_id"]}, {"project": project.name}]
        for one in about:
            row = NotificationRow(
                at=NOW, kind="trial.failed", level="error", message=f"{MARK} failed", **one
            )
            session.add(row)
            session.flush()
            session.add(InboxRow(user_id=eve, notification_id=row.id))
        session.add(
            SavedViewRow(
                owner_id=ada, project_id=project.id, name=f"{MARK}-view", page="experiments", query="",
                created_at=NOW, changed_at=NOW,
            )
        )  # fmt: skip
        session.scalars(select(TrialRow)).one().pending_reason = f"waits for {MARK}"
        return {**theirs, "name": f"{MARK}-net", "project": project.name}


@pytest.fixture
def eve(connect, make_user_token):
    return connect(token=make_user_token("member", username="eve"))


@pytest.fixture(params=["stranger", "owner's token", "administrator's token"])
def outsider(request, hidden, database, connect, make_user_token):
    """Somebody who sees nothing of the project: a stranger, or a token that is for another project, whoever
    has it."""
    if request.param == "stranger":
        return connect(token=make_user_token("member", username="eve"))
    name, role = ("ada", "member") if request.param == "owner's token" else ("boss", "admin")
    make_user_token(role, username=name)
    add_member(database, name, "maintainer")
    with database.transaction() as session:
        session.scalars(select(ProjectRow)).one().visibility = "all"
        user_id = session.scalars(select(UserRow.id).where(UserRow.username == name)).one()
        for row in session.scalars(select(InboxRow)):
            row.user_id = user_id
        session.add(ProjectRow(name="other", submission="all", created_at=NOW))
    return connect(token=make_user_token(role, username=name, projects=["other"]))


def add_member(database, username, role):
    """Add a user by a role of their own, or of a group's."""
    with database.transaction() as session:
        project_id = session.scalars(select(ProjectRow.id)).one()
        user_id = session.scalars(select(UserRow.id).where(UserRow.username == username)).one()
        member = {"user_id": user_id, "role": role}
        if role == "group":
            group = GroupRow(name="lab", created_at=NOW, created_by="admin")
            session.add(group)
            session.flush()
            session.add(
                GroupMemberRow(group_id=group.id, user_id=user_id, added_at=NOW, added_by="admin")
            )
            member = {"group_id": group.id, "role": "viewer"}
        session.add(
            ProjectMemberRow(project_id=project_id, added_at=NOW, added_by="admin", **member)
        )


def nothing(ids):
    """The same kinds of ids, of what does not exist."""
    return {
        key: NOBODY if isinstance(value, int) else value.replace(MARK, "nobody")
        for key, value in ids.items()
    }


def paths(operation, ids):
    """The operation's address with these ids; a `name` may be that of a project."""
    ids = MEANS_NOTHING | ids
    if "/projects/{name}" in operation.path:
        ids["name"] = ids["project"]
    return re.sub(r"{(\w+)(?::\w+)?}", lambda m: str(ids[m[1]]), operation.path)


def answer(client, operation, ids, **query):
    """What is said, without the ids that were asked for and what differs from call to call."""
    method = next(m for m in ("POST", "GET", *operation.methods) if m in operation.methods)
    body = None if method in ("GET", "DELETE") else {}
    reply = client.request(method, paths(operation, ids), json=body, params=query)
    text = reply.text
    for name in {str(value) for value in ids.values()} | {"1"}:
        text = re.sub(rf"\b{re.escape(name)}\b", "THIS", text)
    text = re.sub(r'"(request_id|now|at|[a-z_]+_at)":"[^"]*"', r'"\1":""', text)
    return reply.status_code, text


def test_it_is_answered_as_what_does_not_exist(hidden, outsider):
    told = {}
    for operation in OPERATIONS:
        if "{" in operation.path and operation.id not in OF_THE_CALLER:
            found = answer(outsider, operation, hidden)
            if (
                found != answer(outsider, operation, nothing(hidden))
                or MARK in found[1]
                or found[0] > 499
            ):
                told[operation.id] = found
    assert told == {}


def test_no_list_names_it(hidden, outsider):
    told = {}
    for operation in OPERATIONS:
        if "GET" in operation.methods and "{" not in operation.path:
            for query in ({}, {"q": MARK}):
                found = answer(outsider, operation, {}, **query)
                if MARK in found[1] or found[0] > 499:
                    told[operation.id] = found
    assert told == {}


@pytest.mark.parametrize("who", ["viewer", "maintainer", "group", "admin"])
def test_members_and_administrators_see_it(hidden, database, connect, make_user_token, who):
    client = connect(token=make_user_token("admin" if who == "admin" else "viewer", username="mia"))
    if who != "admin":
        add_member(database, "mia", who)
    assert client.get(f"/api/v1/experiments/{hidden['experiment_id']}").status_code == 200
    for page in ("experiments", "projects", "models", "views?page=experiments"):
        assert MARK in client.get(f"/api/v1/{page}").text, page


def test_a_change_takes_effect_with_the_next_request(hidden, admin_client, eve):
    path = f"/api/v1/experiments/{hidden['experiment_id']}"
    project = f"/api/v1/projects/{hidden['project']}"
    assert eve.get(path).status_code == 404
    shown = admin_client.patch(project, json={"visibility": "all"}).json()
    assert shown["visibility"] == "all"
    assert eve.get(path).status_code == 200
    admin_client.patch(project, json={"visibility": "members"})
    assert eve.get(path).status_code == 404
    assert admin_client.put(f"{project}/members/users/eve", json={"role": "viewer"}).is_success
    assert eve.get(path).status_code == 200
    events = [e["message"] for e in eve.get(f"{project}/events").json()["items"]]
    assert any("Only its members see it: set by" in message for message in events)


def test_nobody_submits_into_it_or_from_it(hidden, outsider):
    """The answer is that of a project, a trial or a checkpoint that does not exist."""
    own = "project: other\n" if outsider.get("/api/v1/projects/other").is_success else ""
    for lines, code in (
        (f"project: {hidden['project']}\n", "projects.not_found"),
        (f"from: {{trial: {hidden['trial_id']}}}\n", "experiments.invalid_document"),
        (f"from: {{checkpoint: {hidden['checkpoint_id']}}}\n", "experiments.invalid_document"),
        (f"after: [{hidden['experiment_id']}]\n", "experiments.invalid_document"),
    ):
        lines = lines if lines.startswith("project") else lines + own
        reply = outsider.post(
            "/api/v1/experiments", json={"document": f"name: x\nentrypoint: -m x\n{lines}"}
        )
        assert reply.status_code in (404, 422), reply.text
        assert MARK not in reply.text.replace(hidden["project"], "")
        other = outsider.post(
            "/api/v1/experiments",
            json={"document": f"name: x\nentrypoint: -m x\n{re.sub('[0-9]+', '987', lines)}"},
        )
        if hidden["project"] not in lines:
            assert re.sub(r"[0-9]+", "N", reply.text.split('"request_id"')[0]) == re.sub(
                r"[0-9]+", "N", other.text.split('"request_id"')[0]
            )
        assert reply.json()["error"]["code"] == code, reply.text


def test_the_router_knows_which_tokens_see_its_deployments(
    hidden, database, make_user_token, admin_client
):
    tokens = {
        name: hash_secret(make_user_token("member", username=name)) for name in ("eve", "mia")
    }
    with database.transaction() as session:
        session.scalars(select(DeploymentRow)).one().backend = 3
    add_member(database, "mia", "viewer")
    with database.read() as session:
        routes = load_routes(session, clock.now())
    assert routes.hidden == {"d3"}
    assert seen_by_entry(tokens["mia"], "d3") in routes.seen_by
    assert not [entry for entry in routes.seen_by if entry.startswith(tokens["eve"])]
    assert len(routes.seen_by) == 2, "and the administrator's"
    assert set(tokens.values()) < routes.tokens


def test_nobody_is_notified_of_it_who_does_not_see_it(hidden, database):
    everything = {"whose": "all", "kinds": " trial.stuck ", "inbox": True}
    with database.transaction() as session:
        for name in ("eve", "ada"):
            user_id = session.scalars(select(UserRow.id).where(UserRow.username == name)).one()
            session.add(
                NotificationRuleRow(user_id=user_id, created_at=NOW, changed_at=NOW, **everything)
            )
        session.execute(delete(InboxRow))
    add_member(database, "ada", "viewer")
    with database.transaction() as session:
        add_event(
            session, "trial.stuck", "It stands.", level="warning", now=NOW,
            experiment_id=hidden["experiment_id"], trial_id=hidden["trial_id"],
        )  # fmt: skip
    with database.read() as session:
        told = session.scalars(
            select(UserRow.username).join(InboxRow, InboxRow.user_id == UserRow.id)
        ).all()
    assert told == ["ada"]
