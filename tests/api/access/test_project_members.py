"""Projects are a boundary: only members submit to one, change what runs there and use its secrets."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from muster_server.db.models import ExperimentRow, ProjectMemberRow
from muster_server.security.stack_secrets import new_key
from muster_server.services.secrets.lookup import find_secrets

EXPERIMENTS = "/api/v1/experiments"
PROJECT = "/api/v1/projects/annaproj"
DOCUMENT = "name: x\nproject: {}\nentrypoint: -m x\n"
WITH_SECRET = DOCUMENT + "environment: {{secrets: [ANNA_TOKEN]}}\n"


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"secrets_key": SecretStr(new_key())})


@pytest.fixture
def anna(connect, make_user_token):
    return connect(token=make_user_token("member", username="anna"))


@pytest.fixture
def ben(connect, make_user_token):
    return connect(token=make_user_token("member", username="ben"))


def submit(client, project, document=DOCUMENT):
    return client.post(EXPERIMENTS, json={"document": document.format(project)})


@pytest.fixture
def annas(anna, ben):
    """An experiment of anna's, which has made the project annaproj."""
    made = submit(anna, "annaproj")
    assert made.status_code == 201, made.text
    return made.json()["id"]


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def members(client, path=f"{PROJECT}/members"):
    return [(m["kind"], m["name"], m["role"]) for m in client.get(path).json()["items"]]


NOT_MEMBER = (403, "projects.not_member")


def test_nobody_submits_into_the_project_of_another_with_its_secret(admin_client, anna, ben, annas):
    path = f"{PROJECT}/secrets/ANNA_TOKEN"
    assert admin_client.put(path, json={"value": "canary-0123456789"}).status_code == 200

    refused = submit(ben, "annaproj", WITH_SECRET)
    assert error(refused) == NOT_MEMBER
    problem = refused.json()["error"]
    assert "ben is not a member of project annaproj" in problem["message"]
    assert "Anna or an administrator can add them" in problem["hint"].replace("anna or", "Anna or")
    assert "`muster project member add annaproj ben`" in problem["hint"]
    assert "ANNA_TOKEN" not in refused.text
    previewed = ben.post(
        f"{EXPERIMENTS}:preview", json={"document": WITH_SECRET.format("annaproj")}
    )
    assert error(previewed) == NOT_MEMBER
    assert error(ben.get(f"{PROJECT}/secrets")) == NOT_MEMBER
    assert [s["name"] for s in anna.get(f"{PROJECT}/secrets").json()["items"]] == ["ANNA_TOKEN"]
    assert submit(anna, "annaproj", WITH_SECRET).status_code == 201
    assert submit(admin_client, "annaproj", WITH_SECRET).status_code == 201


def test_everybody_sees_what_they_saw_before_and_submits_elsewhere(anna, ben, annas):
    assert ben.get(f"{EXPERIMENTS}/{annas}").status_code == 200
    assert [e["id"] for e in ben.get(EXPERIMENTS).json()["items"]] == [annas]
    assert members(ben) == [("user", "anna", "maintainer")]
    assert submit(ben, "default").status_code == 201
    assert submit(anna, "default").status_code == 201
    assert submit(ben, "bensproj").status_code == 201
    assert error(submit(anna, "bensproj")) == NOT_MEMBER


def test_a_fork_needs_a_project_of_ones_own(ben, annas):
    assert error(ben.post(f"{EXPERIMENTS}/{annas}:fork", json={})) == NOT_MEMBER
    forked = ben.post(f"{EXPERIMENTS}/{annas}:fork", json={"overrides": ["project=bensproj"]})
    assert forked.status_code == 201, forked.text
    assert forked.json()["project"] == "bensproj"


def test_maintainers_say_who_the_members_are(admin_client, anna, ben, annas):
    user = f"{PROJECT}/members/users"
    assert error(ben.put(f"{user}/ben", json={})) == (403, "projects.not_maintainer")
    assert anna.put(f"{user}/ben", json={}).json()["role"] == "member"
    assert submit(ben, "annaproj").status_code == 201
    assert error(ben.put(f"{user}/ben", json={"role": "maintainer"})) == (
        403,
        "projects.not_maintainer",
    )
    assert anna.put(f"{user}/ben", json={"role": "viewer"}).json()["role"] == "viewer"
    assert members(anna) == [("user", "anna", "maintainer"), ("user", "ben", "viewer")]
    assert error(submit(ben, "annaproj")) == NOT_MEMBER
    assert anna.delete(f"{user}/ben").status_code == 204
    assert error(anna.delete(f"{user}/ben")) == (404, "projects.no_such_member")
    assert error(anna.put(f"{user}/nobody", json={})) == (404, "users.not_found")
    assert error(anna.put(f"{user}/ben", json={"role": "owner"})) == (422, "request.invalid")
    assert admin_client.delete(f"{user}/anna").status_code == 204
    assert error(submit(anna, "annaproj")) == NOT_MEMBER
    actions = [e["action"] for e in admin_client.get("/api/v1/audit").json()["items"]]
    assert actions.count("projects.member_set") == 2
    assert actions.count("projects.member_removed") == 2


def test_a_group_gives_its_members_a_role(admin_client, anna, ben, annas):
    assert error(anna.put("/api/v1/groups/vision")) == (403, "auth.forbidden")
    assert admin_client.put("/api/v1/groups/vision").json()["num_members"] == 0
    assert admin_client.put("/api/v1/groups/vision").status_code == 200
    group = f"{PROJECT}/members/groups/vision"
    assert error(anna.put(f"{PROJECT}/members/groups/none", json={})) == (404, "groups.not_found")
    assert anna.put(group, json={"role": "member"}).json()["kind"] == "group"
    assert error(submit(ben, "annaproj")) == NOT_MEMBER

    of_ben = "/api/v1/groups/vision/members/ben"
    assert error(anna.put(of_ben)) == (403, "auth.forbidden")
    assert admin_client.put(of_ben).status_code == 204
    assert admin_client.put(of_ben).status_code == 204
    (listed,) = anna.get("/api/v1/groups/vision/members").json()["items"]
    assert listed["username"] == "ben"
    assert submit(ben, "annaproj").status_code == 201
    assert [(g["name"], g["num_members"]) for g in ben.get("/api/v1/groups").json()["items"]] == [
        ("vision", 1)
    ]
    assert admin_client.delete(of_ben).status_code == 204
    assert error(admin_client.delete(of_ben)) == (404, "groups.no_such_member")
    assert error(submit(ben, "annaproj")) == NOT_MEMBER

    assert admin_client.put(of_ben).status_code == 204
    assert admin_client.delete("/api/v1/groups/vision").status_code == 204
    assert error(submit(ben, "annaproj")) == NOT_MEMBER
    assert members(anna) == [("user", "anna", "maintainer")]


def test_who_is_no_member_any_more_changes_nothing_and_gets_no_secrets(
    admin_client, anna, ben, annas, database
):
    assert admin_client.put(
        f"{PROJECT}/secrets/TOKEN", json={"value": "canary-0123456789"}
    ).is_success
    assert anna.put(f"{PROJECT}/members/users/ben", json={}).is_success
    mine = submit(ben, "annaproj").json()["id"]

    def secrets():
        with database.read() as session:
            row = session.get_one(ExperimentRow, mine)
            return set(find_secrets(session, user_id=row.owner_id, project_id=row.project_id))

    assert secrets() == {"TOKEN"}
    assert anna.delete(f"{PROJECT}/members/users/ben").is_success
    assert secrets() == set()
    for answer in (
        ben.patch(f"{EXPERIMENTS}/{mine}", json={"priority": 90}),
        ben.post(f"{EXPERIMENTS}/{mine}:pause"),
        ben.put(f"{EXPERIMENTS}/{mine}/budget", json={"slot_hours": 99.0}),
        ben.post(f"{EXPERIMENTS}/{mine}:fork", json={}),
    ):
        assert error(answer) == NOT_MEMBER
    assert admin_client.post(f"{EXPERIMENTS}/{mine}:fork", json={}).status_code == 201
    assert ben.post(f"{EXPERIMENTS}/{mine}:stop").is_success, "nobody else may know of it"
    assert error(ben.post(f"{EXPERIMENTS}/{annas}:stop"))[0] == 403


def test_an_administrator_opens_a_project_to_everybody_and_closes_it(
    admin_client, anna, ben, annas
):
    assert error(anna.patch(PROJECT, json={"submission": "all"})) == (403, "auth.forbidden")
    assert admin_client.patch(PROJECT, json={"submission": "all"}).json()["submission"] == "all"
    assert submit(ben, "annaproj").status_code == 201
    assert admin_client.patch(PROJECT, json={"submission": "members"}).is_success
    assert error(submit(ben, "annaproj")) == NOT_MEMBER
    said = [e["message"] for e in ben.get(f"{PROJECT}/events").json()["items"]]
    assert "takes submissions of its members" in said[0]

    made = admin_client.post("/api/v1/projects", json={"name": "open", "submission": "all"})
    assert made.json()["submission"] == "all"
    assert submit(ben, "open").status_code == 201
    assert admin_client.post("/api/v1/projects", json={"name": "new"}).is_success
    assert error(submit(ben, "new")) == NOT_MEMBER
    assert admin_client.get("/api/v1/projects/default").status_code == 404
    assert submit(ben, "default").status_code == 201
    assert admin_client.patch("/api/v1/projects/default", json={"submission": "members"}).is_success
    assert error(submit(ben, "default")) == NOT_MEMBER


def test_a_token_of_a_lower_role_is_no_administrator(connect, make_user_token, annas):
    root = connect(token=make_user_token("admin", username="root", token_role="member"))
    assert error(submit(root, "annaproj")) == NOT_MEMBER


def test_runs_from_outside_need_membership(ben, annas):
    made = ben.post(
        "/mlflow/api/2.0/mlflow/experiments/create",
        json={"name": "e", "tags": [{"key": "muster.project", "value": "annaproj"}]},
    )
    assert made.status_code == 200, made.text
    body = {"experiment_id": made.json()["experiment_id"]}
    refused = ben.post("/mlflow/api/2.0/mlflow/runs/create", json=body)
    assert refused.status_code == 403
    assert "not a member of project annaproj" in refused.text


def test_models_and_deployments_of_a_project_are_made_by_its_members(anna, ben, annas):
    model = {"name": "net", "project": "annaproj"}
    assert error(ben.post("/api/v1/models", json=model)) == NOT_MEMBER
    assert anna.post("/api/v1/models", json=model).status_code == 201
    assert ben.post("/api/v1/models", json={"name": "bens"}).status_code == 201


def test_deleting_a_project_ends_its_memberships(admin_client, anna, database):
    assert admin_client.post("/api/v1/projects", json={"name": "annaproj"}).is_success
    assert admin_client.put(f"{PROJECT}/members/users/anna", json={}).is_success
    assert admin_client.delete(PROJECT).status_code == 204
    with database.read() as session:
        assert session.scalars(select(ProjectMemberRow)).all() == []


def test_a_group_that_the_provider_fills_is_changed_there_alone(admin_client, make_user_token):
    make_user_token("member", username="ada")
    path = "/api/v1/groups/vision"
    made = admin_client.put(path, json={"provider_group": "lab-vision"}).json()
    assert made["provider_group"] == "lab-vision"
    assert admin_client.put(path).json()["provider_group"] == "lab-vision", "nothing was said of it"
    refused = admin_client.put(f"{path}/members/ada")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "groups.filled")
    other = admin_client.put("/api/v1/groups/speech", json={"provider_group": "lab-vision"})
    assert other.json()["error"]["code"] == "groups.provider_group_taken"
    assert admin_client.put(path, json={"provider_group": None}).json()["provider_group"] is None
    assert admin_client.put(f"{path}/members/ada").status_code == 204
