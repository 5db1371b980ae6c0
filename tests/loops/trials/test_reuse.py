"""Trials that have been run before: what is said of them, and how their results are taken."""

import pytest
from sqlalchemy import select, update

from muster.wire import (
    CheckpointRecord,
    DataRead,
    JobEnvironment,
    MetricsRecord,
    SeriesPoints,
    StateRecord,
)
from muster_server.db.models import ProjectRow, TrialRow
from support.agent import start

DOCUMENT = """
name: digits
trainer: {model: mlp, data: digits, epochs: 2}
search: {metric: val/loss, goal: min}
"""
GRID = """
name: grid
trainer: {model: mlp, data: digits, epochs: 2}
hyperparameters: {lr: {choice: [0.1, 0.2]}}
search: {method: grid, metric: val/loss, goal: min, concurrent: 1}
"""


@pytest.fixture
def post(member_client):
    def send(document=DOCUMENT, *overrides, client=member_client, operation="", status=201, **more):
        body = {"document": document, "overrides": list(overrides), **more}
        reply = client.post(f"/api/v1/experiments{operation}", json=body)
        assert reply.status_code == status, reply.text
        return reply.json()

    return send


@pytest.fixture
def node(agent):
    return agent(slots=1)


@pytest.fixture
def run(controller, node):
    """Run the trial that is next to its end, with a curve and a checkpoint."""

    def run(value=0.21):
        controller.tick()
        points = SeriesPoints(
            name="val/loss", steps=[10, 20], times_ms=[1010, 1020], values=[0.9, value]
        )
        allocation_id = start(
            controller, node, MetricsRecord(local_rank=0, rank=0, series=[points], step=20)
        )
        node.send(
            allocation_id,
            CheckpointRecord(step=20, path="s20", size_bytes=1, files={"a": "0"}),
        )
        node.exit(allocation_id, "success")
        for _ in range(3):
            controller.tick()

    return run


@pytest.fixture
def only(show):
    return lambda experiment_id: show(f"/experiments/{experiment_id}/trials")["items"][0]


def test_a_finished_trial_is_offered_and_taken_with_its_curves_and_checkpoints(
    post, run, controller, show, only, member_client
):
    first = post()["id"]
    run()
    again = post(operation=":preview", status=200)
    said = (
        f"Same code, data, environment, parameters and seed as trial {first}.1, which completed with "
        "val/loss 0.21. `reuse: true` (`--reuse`) takes its result."
    )
    assert [notice["text"] for notice in again["notices"]] == [said]
    taken = post(DOCUMENT, "reuse=true", operation=":preview", status=200)["notices"]
    assert [n["text"] for n in taken] == [
        f"Takes the result of trial {first}.1, which had the same inputs."
    ]
    # Name, budget and the like change nothing; it is COMPLETED at once.
    second = post(DOCUMENT, "reuse=true", "name=again", "restarts.user=3")["id"]
    trial = only(second)
    source = only(first)
    assert (trial["state"], trial["metric"], trial["step"]) == ("COMPLETED", 0.21, 20)
    assert trial["is_reused"]
    assert trial["reused_from"] == {"id": source["id"], "experiment_id": first, "no": 1}
    controller.tick()
    controller.tick()
    done = show(f"/experiments/{second}")
    assert (done["state"], done["best_metric"]) == ("COMPLETED", 0.21)
    events = [e["message"] for e in show(f"/experiments/{second}/events")["items"]]
    assert (
        f"Trial 1 is COMPLETED: it took the result of trial {first}.1, which had the same inputs."
        in events
    )
    id = trial["id"]
    (curve,) = show(f"/trials/{id}/series?name=val/loss")["series"]
    assert curve["last"] == [0.9, 0.21]
    (both,) = show(f"/series?trial={id}&name=val/loss")["items"]
    assert both["trial_id"] == id
    assert [m["name"] for m in show(f"/trials/{id}/metrics")["items"]] == ["val/loss"]
    (checkpoint,) = show(f"/trials/{id}/checkpoints")["items"]
    assert checkpoint == show(f"/trials/{source['id']}/checkpoints")["items"][0]
    fork = post(DOCUMENT, f"from={{trial: '{second}'}}")["id"]
    assert show(f"/experiments/{fork}")["config"]["from"]["trial"] == f"{first}.1"
    # The source goes after what shows its curves.
    refused = member_client.delete(f"/api/v1/experiments/{first}")
    assert refused.json()["error"]["code"] == "experiments.reused"
    assert member_client.delete(f"/api/v1/experiments/{second}").status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        "search.seed=1",
        "trainer.epochs=3",
        "resources.slots=2",
        "environment.variables.A=b",
        "hyperparameters.lr=0.5",
    ],
)
def test_other_inputs_are_not_the_same(post, run, only, change):
    post()
    run()
    assert post(DOCUMENT, change, operation=":preview", status=200)["notices"] == []
    assert only(post(DOCUMENT, change, "reuse=true")["id"])["state"] == "QUEUED"


def test_what_has_not_completed_or_was_continued_is_not_taken(post, run, only, database):
    first = post()["id"]
    assert only(post(DOCUMENT, "reuse=true")["id"])["state"] == "QUEUED"
    with database.transaction() as session:
        session.execute(update(TrialRow).values(state="FAILED"))
    assert only(post(DOCUMENT, "reuse=true")["id"])["state"] == "QUEUED"
    assert first


def test_a_search_takes_known_values_as_its_own_observations(
    post, run, controller, show, only, node
):
    post(GRID)
    run(0.5)
    run(0.3)
    wide = "hyperparameters.lr={choice: [0.1, 0.2, 0.3]}"
    said = post(GRID, wide, operation=":preview", status=200)["notices"]
    assert said[0]["text"].startswith("2 of the first 3 trials have been run before")
    search = post(GRID, wide, "reuse=true")["id"]
    for _ in range(4):
        controller.tick()
    trials = show(f"/experiments/{search}/trials?sort=no")["items"]
    assert [(t["state"], t["metric"], t["is_reused"]) for t in trials[:2]] == [
        ("COMPLETED", 0.5, True),
        ("COMPLETED", 0.3, True),
    ]
    assert len(trials) == 3
    run(0.4)
    done = show(f"/experiments/{search}")
    assert (done["state"], done["best_metric"]) == ("COMPLETED", 0.3)
    assert show(f"/experiments/{search}/search")["finished"]


def test_a_project_that_somebody_does_not_see_is_neither_used_nor_named(
    post, run, only, database, connect, make_user_token, show, controller
):
    first = post(DOCUMENT, "project=secret")["id"]
    run()
    eve = connect(token=make_user_token("member", username="eve"))
    # Taken by whoever sees both, and shown to somebody who sees one of them.
    shared = only(post(DOCUMENT, "reuse=true", "project=open")["id"])
    assert shared["reused_from"]["experiment_id"] == first
    with database.transaction() as session:
        session.execute(
            update(ProjectRow).where(ProjectRow.name == "secret").values(visibility="members")
        )
    seen = eve.get(f"/api/v1/trials/{shared['id']}").json()
    assert (seen["is_reused"], seen["reused_from"]) == (True, None)
    assert f"{first}.1" not in eve.get(f"/api/v1/trials/{shared['id']}").text
    assert eve.get(f"/api/v1/trials/{shared['id']}/checkpoints").json()["items"] == []
    assert eve.get(f"/api/v1/trials/{shared['id']}/series?name=val/loss").json()["series"] == []
    events = eve.get(f"/api/v1/experiments/{shared['experiment_id']}/events").text
    assert f"trial {first}.1" not in events
    # She runs it herself, whether the first trial of it is made by her request or by the controller.
    assert post(client=eve, operation=":preview", status=200)["notices"] == []
    own = post(DOCUMENT, "reuse=true", "project=hers", client=eve)["id"]
    assert eve.get(f"/api/v1/experiments/{own}/trials").json()["items"][0]["state"] == "QUEUED"
    # Whoever is a member takes it.
    assert only(post(DOCUMENT, "reuse=true", "project=mine")["id"])["state"] == "COMPLETED"


def test_the_controller_takes_nothing_from_a_project_that_the_owner_does_not_see(
    post, run, database, connect, make_user_token, controller
):
    post(GRID, "project=secret")
    run(0.5)
    run(0.3)
    eve = connect(token=make_user_token("member", username="eve"))
    with database.transaction() as session:
        session.scalars(select(ProjectRow)).one().visibility = "members"
    search = post(GRID, "reuse=true", "project=hers", client=eve)["id"]
    run(0.6)
    run(0.7)
    trials = eve.get(f"/api/v1/experiments/{search}/trials?sort=no").json()["items"]
    assert [(t["state"], t["is_reused"], t["metric"]) for t in trials] == [
        ("COMPLETED", False, 0.6),
        ("COMPLETED", False, 0.7),
    ]


@pytest.mark.parametrize(
    ("overrides", "path", "problem"),
    [
        (["data={train: /srv/digits}"], "data.train", "has no digest"),
        (
            [
                "search={method: asha, metric: val/loss, goal: min, trials: 4, max_length: {epochs: 2}}",
                "hyperparameters={lr: {log: [1e-3, 1]}}",
            ],
            "reuse",
            "asha stops some before",
        ),
        (
            ["trainer=null", "entrypoint=train.py", "code={installed: /srv/code}"],
            "reuse",
            "needs code that was uploaded",
        ),
    ],
)
def test_where_inputs_cannot_be_known_reuse_is_refused(post, overrides, path, problem):
    shown = post(DOCUMENT, "reuse=true", *overrides, operation=":preview", status=200)
    assert any(e["path"] == path and problem in e["message"] for e in shown["errors"]), shown


def test_a_trial_that_is_continued_runs_by_itself(post, run, only, controller, member_client):
    post()
    run()
    second = post(DOCUMENT, "reuse=true")["id"]
    for _ in range(3):
        controller.tick()
    longer = {"length": {"epochs": 4}}
    reply = member_client.post(f"/api/v1/experiments/{second}:continue", json=longer)
    assert reply.status_code == 202, reply.text
    trial = only(second)
    assert (trial["state"], trial["is_reused"], trial["summary"]) == ("QUEUED", False, {})
    run(0.1)
    assert only(second)["metric"] == 0.1
    # Its result is that of four epochs, which the document of two does not ask for.
    (notice,) = post(operation=":preview", status=200)["notices"]
    assert "val/loss 0.21" in notice["text"]


def test_what_a_trial_has_read_is_shown_and_taken_by_who_asks_for_the_same(
    post, controller, node, show, only
):
    def train(document, digest, *overrides):
        experiment_id = post(document, *overrides)["id"]
        controller.tick()
        allocation_id = node.only().spec.allocation_id
        read = DataRead(path="/srv/digits", version="2", digest=digest, num_files=3, size_bytes=9)
        environment = JobEnvironment(
            python="/usr/bin/python3", python_version="3.11.7", data={"train": read}
        )
        node.send(
            allocation_id,
            StateRecord(observed="PREPARING"),
            StateRecord(observed="READY", environment=environment),
        )
        controller.tick()
        node.run(allocation_id)
        points = SeriesPoints(name="val/loss", steps=[20], times_ms=[1020], values=[0.21])
        node.send(allocation_id, MetricsRecord(local_rank=0, rank=0, series=[points], step=20))
        node.exit(allocation_id, "success")
        for _ in range(3):
            controller.tick()
        return experiment_id

    digest, other = (f"sha256:{letter * 64}" for letter in "ab")
    first = train(DOCUMENT, digest, "data.train={folder: /srv/digits, version: '2'}")
    shown = show(f"/trials/{only(first)['id']}/reproduction")["environment"]["data"]
    assert shown["train"]["digest"] == digest
    # Where the document says nothing of the files, nobody knows what they are now.
    assert (
        post(DOCUMENT, "data.train={folder: /srv/digits}", operation=":preview", status=200)[
            "notices"
        ]
        == []
    )
    same = f"data.train={{folder: /mnt/digits, digest: '{digest}'}}"
    assert only(post(DOCUMENT, same, "reuse=true")["id"])["state"] == "COMPLETED"
    changed = f"data.train={{folder: /srv/digits, digest: '{other}'}}"
    assert only(post(DOCUMENT, changed, "reuse=true")["id"])["state"] == "QUEUED"
