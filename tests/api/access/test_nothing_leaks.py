"""What happens in a hidden project changes nothing for whoever must not see it.

Three projects, one of them hidden; five people, two groups and a service account. Whatever the members of
the hidden project do, each answer that the others get stays the same, byte by byte: its status, counts, ids,
times, messages and order.
"""

import random
import re

import pytest
from pydantic import SecretStr
from sqlalchemy import delete, select

from muster_server import clock
from muster_server.db.models import (
    AllocationRow,
    DeploymentRow,
    ExperimentRow,
    ModelAliasRow,
    ModelRow,
    ModelUseRow,
    ModelVersionRow,
    TrialRow,
)
from muster_server.security.stack_secrets import new_key
from muster_server.services.core.events import add_event
from support.client import plain_app
from support.data import NOW, add_trial

WORD = "zqword"
"""Part of what is said in the hidden project."""
LISTS = [
    operation.path
    for operation in plain_app().state.operations
    if "GET" in operation.methods and "{" not in operation.path and operation.path.startswith("/api")
    and operation.permission in ("view", "self") and operation.id != "get_cluster_utilization"
]  # fmt: skip
QUERIES = {
    "/api/v1/experiments": ["sort=-id", "sort=name", "sort=-created_at", "archived=true", "limit=1", f"q={WORD}"],
    "/api/v1/experiments:count": ["", "state=RUNNING", "archived=true", f"q={WORD}", "project=hidden"],
    "/api/v1/experiments:groups": [f"by={by}" for by in ("project", "state", "owner", "label:of")],
    "/api/v1/checkpoints": ["project=hidden", "order=largest", "order=oldest", "experiment=1"],
    "/api/v1/panels": ["project=hidden", "project=open", "experiment=1"],
    "/api/v1/views": ["page=experiments", "page=models"],
    "/api/v1/series": ["trial=1&name=loss", "trial=2&name=loss"],
    "/api/v1/models:leaderboards": ["data=x"],
    "/api/v1/queue": ["project=hidden", "project=open"],
    "/api/v1/models": ["project=hidden", f"q={WORD}"],
    "/api/v1/experiments:columns": ["project=hidden", "project=open"],
}  # fmt: skip
OF_OPEN = [
    "experiments/{experiment_id}", "experiments/{experiment_id}/events", "experiments/{experiment_id}/trials",
    "experiments/{experiment_id}/children", "experiments/{experiment_id}/model-versions",
    "trials/{trial_id}", "trials/{trial_id}/events", "trials/{trial_id}/checkpoints", "models/{name}",
    "models/{name}/versions/1", "models/{name}/versions/1/lineage", "models/{name}/versions/1/uses",
    "models/{name}/history", "deployments/{name}", "projects/open", "projects/open/events",
    "projects/open/members", "groups/lab/members", "groups/guests/members", "projects/hidden",
    "projects/hidden/members",
]  # fmt: skip


@pytest.fixture
def database_url(any_database_url):
    return any_database_url


@pytest.fixture
def settings(settings, tmp_path):
    update = {"secrets_key": SecretStr(new_key()), "router_dir": tmp_path / "router"}
    return settings.model_copy(update=update)


@pytest.fixture
def world(database, connect, make_user_token, add_one_of_each, monkeypatch):
    """The clock stands: what an answer says is not to change with the time that has passed."""
    at = clock.now()
    monkeypatch.setattr(clock, "now", lambda: at)
    return World(database, connect, make_user_token, add_one_of_each)


class World:
    """Who there is: `members` of the hidden project, and `others`; and what the members may do."""

    def __init__(self, database, connect, make_user_token, add_one_of_each):
        self.database, self._add = database, add_one_of_each
        self._num = 0
        boss = connect(token=make_user_token("admin", username="boss"))
        roles = {"mia": "member", "vic": "member", "eve": "member", "pat": "viewer"}
        people = {
            name: connect(token=make_user_token(role, username=name))
            for name, role in roles.items()
        }
        self.ids = add_one_of_each("eve", "open", "open-net")
        done = [
            boss.post("/api/v1/projects", json={"name": "closed"}),
            boss.post("/api/v1/projects", json={"name": "hidden"}),
            boss.patch("/api/v1/projects/hidden", json={"visibility": "members"}),
            boss.put("/api/v1/groups/lab", json={}),
            boss.put("/api/v1/groups/guests", json={}),
            boss.put("/api/v1/groups/lab/members/mia"),
            boss.put("/api/v1/groups/guests/members/eve"),
            boss.put("/api/v1/projects/hidden/members/groups/lab", json={"role": "maintainer"}),
            boss.put("/api/v1/projects/hidden/members/users/vic", json={"role": "member"}),
            boss.put("/api/v1/projects/closed/members/groups/guests", json={"role": "member"}),
            boss.post(
                "/api/v1/users",
                json={"username": "ci", "role": "member", "kind": "service", "description": "builds"},
            ),
        ]  # fmt: skip
        assert all(reply.is_success for reply in done), [reply.text for reply in done]
        add_one_of_each("mia", "hidden", "first-net")
        rule = {"whose": "all", "kinds": ["trial.failed", "experiment.ended"], "inbox": True}
        for name in ("eve", "pat"):
            reply = people[name].post("/api/v1/notifications/rules", json=rule)
            assert reply.is_success, reply.text
        self.members = {"boss": boss, "mia": people["mia"], "vic": people["vic"]}
        self.others = {
            "eve": people["eve"],
            "pat": people["pat"],
            "ci": connect(token=make_user_token("member", username="ci", projects=["open"])),
            "boss's token": connect(
                token=make_user_token("admin", username="boss", projects=["open", "closed"])
            ),
        }

    def read(self, paths=None):
        """All that the others are answered, or that of these paths, without the time of the answer itself."""
        if paths is None:
            paths = [f"{path}?{query}" for path in LISTS for query in QUERIES.get(path, [""])]
            paths += ["/api/v1/" + path.format_map(self.ids) for path in OF_OPEN]
        told = {}
        for who, client in self.others.items():
            for path in paths:
                reply = client.get(path)
                assert reply.status_code < 500, (path, reply.text)
                assert WORD not in reply.text.replace(f"q={WORD}", ""), (who, path)
                text = re.sub(
                    r'"(request_id|now|server_time|last_used_at|last_seen_at)":("[^"]*"|[0-9.]+)',
                    "",
                    reply.text,
                )
                told[who, path] = reply.status_code, text
        return told

    def submit(self, who, lines=""):
        self._num += 1
        document = f"name: {WORD}-{self._num}\nproject: hidden\nentrypoint: -m x\n{lines}"
        reply = self.members[who].post("/api/v1/experiments", json={"document": document})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    def do(self, action, who):
        client = self.members[who]
        match action:
            case "submit":
                self.submit(who, "labels: {of: zqword}\n")
            case "search":
                self.submit(
                    who,
                    "hyperparameters: {lr: {log: [0.1, 1]}}\n"
                    "search: {method: random, trials: 3, metric: loss, goal: min}\n",
                )
            case "fork" | "kill" | "archive" | "pause" | "delete":
                id = self.submit(who)
                if action in ("archive", "delete"):
                    assert client.post(f"/api/v1/experiments/{id}:kill").is_success
                path = f"/api/v1/experiments/{id}"
                reply = (
                    client.delete(path)
                    if action == "delete"
                    else client.post(f"{path}:{action}", json={} if action == "fork" else None)
                )
                assert reply.is_success or reply.status_code == 409, reply.text
            case "rename":
                path = f"/api/v1/experiments/{self.submit(who)}"
                change = {"name": f"{WORD} again", "labels": {"of": WORD}, "notes": WORD}
                assert client.patch(path, json=change).is_success
            case "view" | "panel":
                kind, body = {
                    "view": ("views", {"name": f"{WORD}-{self._num}", "page": "experiments", "query": ""}),
                    "panel": ("panels", {"title": WORD, "kind": "markdown", "text": WORD}),
                }[action]  # fmt: skip
                self._num += 1
                reply = client.post(f"/api/v1/{kind}", json=body | {"project": "hidden"})
                assert reply.is_success, reply.text
            case "secret":
                value = {"value": "long-enough-value"}
                reply = client.put("/api/v1/projects/hidden/secrets/ZQWORD", json=value)
                assert reply.is_success or who == "vic", reply.text
            case "member":
                path = "/api/v1/projects/hidden/members/groups/lab"
                reply = client.put(path, json={"role": "maintainer"})
                assert reply.is_success or who == "vic", reply.text
            case "have":
                self._num += 1
                self._add(who, "hidden", f"{WORD}-net-{self._num}")
            case "fail":
                id = self.submit(who)
                with self.database.transaction() as session:
                    trial = session.scalars(
                        select(TrialRow).where(TrialRow.experiment_id == id)
                    ).first()
                    add_event(
                        session, "trial.failed", f"{WORD} failed.", level="error", now=clock.now(),
                        experiment_id=id, trial_id=trial.id if trial else None,
                    )  # fmt: skip
            case "mlflow":
                runs = "/mlflow/api/2.0/mlflow"
                self._num += 1
                made = client.post(
                    f"{runs}/experiments/create",
                    json={
                        "name": f"{WORD}-{self._num}",
                        "tags": [{"key": "muster.project", "value": "hidden"}],
                    },
                )
                if made.is_success:
                    made = client.post(
                        f"{runs}/runs/create", json={"experiment_id": made.json()["experiment_id"]}
                    )
                assert made.is_success, made.text


ACTIONS = [
    "submit", "search", "fork", "kill", "archive", "pause", "delete", "rename", "view", "panel", "secret",
    "member", "have", "fail", "mlflow",
]  # fmt: skip


def test_what_members_do_changes_no_answer_that_others_get(world, database):
    told = world.read()
    refused = {path for (_, path), reply in told.items() if reply[0] == 404}
    assert refused == {"/api/v1/projects/hidden", "/api/v1/projects/hidden/members"}
    chosen = random.Random(database.engine.dialect.name)
    steps = [(action, chosen.choice(list(world.members))) for action in ACTIONS * 2]
    chosen.shuffle(steps)
    for few in (steps[i : i + 15] for i in range(0, len(steps), 15)):
        for step in few:
            world.do(*step)
        now = world.read()
        changed = {key: (told[key], now[key]) for key in now if now[key] != told[key]}
        assert changed == {}, few


def test_what_others_do_is_read_by_all(world):
    """The answers are not the same because nothing ever changes."""
    told = world.read(["/api/v1/experiments"])
    document = {"document": "name: x\nproject: open\nentrypoint: -m x\n"}
    assert world.others["eve"].post("/api/v1/experiments", json=document).is_success
    now = world.read(["/api/v1/experiments"])
    assert {who for who, path in now if now[who, path] != told[who, path]} == set(world.others)


def use_version(session, ids, experiment, model):
    session.add(
        ModelUseRow(
            version_id=ids["version_id"], experiment_id=experiment.id, kind="input", name="net", created_at=NOW
        )
    )  # fmt: skip


def keep_files(session, ids, experiment, model):
    session.add(
        ModelVersionRow(
            model_id=model.id, number=2, state="ready", source="checkpoint", checkpoint_id=ids["checkpoint_id"],
            trial_id=ids["trial_id"], lineage={}, metrics={}, created_at=NOW, created_by="user:mia",
            updated_at=NOW,
        )
    )  # fmt: skip


def start_from(session, ids, experiment, model):
    add_trial(session, experiment, no=2).source_checkpoint_id = ids["checkpoint_id"]


@pytest.mark.parametrize(
    ("use", "method", "path", "code"),
    [
        (use_version, "DELETE", "models/{name}/versions/1?force=true", "models.used"),
        (use_version, "DELETE", "models/{name}?force=true", "models.used"),
        (keep_files, "DELETE", "experiments/{experiment_id}", "experiments.used_by_model"),
        (start_from, "DELETE", "experiments/{experiment_id}", "experiments.in_use"),
        (keep_files, "GET", "experiments/{experiment_id}/checkpoints:plan?last=0&best=0", None),
        (start_from, "GET", "experiments/{experiment_id}/checkpoints:plan?last=0&best=0", None),
    ],
)
def test_what_the_hidden_project_uses_is_not_deleted_by_others(
    world, database, use, method, path, code
):
    with database.transaction() as session:
        owner = session.get_one(ExperimentRow, world.ids["experiment_id"])
        owner.state = "COMPLETED"
        session.get_one(TrialRow, world.ids["trial_id"]).state = "COMPLETED"
        for allocation in session.scalars(select(AllocationRow)):
            allocation.observed = "CLEANED"
        version = session.scalars(select(ModelVersionRow).order_by(ModelVersionRow.id)).first()
        experiment = session.scalars(
            select(ExperimentRow).order_by(ExperimentRow.id.desc())
        ).first()
        model = session.scalars(select(ModelRow).order_by(ModelRow.id.desc())).first()
        experiment.name = model.name = WORD
        use(session, world.ids | {"version_id": version.id}, experiment, model)
        if use is not use_version:
            session.execute(delete(ModelAliasRow).where(ModelAliasRow.version_id == version.id))
            session.delete(version)
    reply = world.others["eve"].request(method, "/api/v1/" + path.format_map(world.ids))
    assert WORD not in reply.text
    if code is not None:
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, code)
        assert "you do not see" in reply.json()["error"]["message"]
    else:
        assert (reply.json()["num_kept"], reply.json()["num_dropped"]) == (1, 0), reply.text


def test_others_deploy_beside_the_hidden_project(world, database):
    """Each deployment has a number that no other has, seen or not."""
    with database.transaction() as session:
        for number, row in enumerate(
            session.scalars(select(DeploymentRow).order_by(DeploymentRow.id)), 1
        ):
            row.backend = 3 - number
    reply = world.others["eve"].post(
        "/api/v1/deployments", json={"model": "open-net:1", "name": "beside", "project": "open"}
    )
    assert reply.status_code == 202, reply.text
