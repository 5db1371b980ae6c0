"""Continuing, forking and deleting, through the real API, a controller and agents that only talk."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select, update

from muster.wire import CheckpointRecord, DeletionResult, MetricsRecord, SeriesPoints
from muster_server.db.models import (
    BlobRow,
    CheckpointRow,
    EventRow,
    ExperimentRow,
    FileDeletionRow,
    MetricBatchRow,
    SpendingRow,
    TrialRow,
)
from muster_server.services.experiments import deletion
from support.agent import start

API = "/api/v1"
SEARCH = """
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: random, trials: 3, concurrent: 1, metric: val/loss, goal: min}
"""
TWO = "array: {i: 0-1}"
"""Two trials at once."""


def train(controller, node, *, steps, cause="success", save=True, stop=None):
    """One attempt from its placement to its end: points 1..steps, a checkpoint at the last.

    stop: called while it runs, to ask for its end.
    """
    allocation_id = start(controller, node)
    if stop is not None:
        stop()
        controller.tick()
        node.state(allocation_id, "STOPPING")
    spec = node.specs[allocation_id].spec
    begun = spec.resume_step
    numbers = list(range(begun + 1, steps + 1))
    series = SeriesPoints(
        name="val/loss", steps=numbers, times_ms=numbers, values=[1 / n for n in numbers]
    )
    if numbers:
        node.send(allocation_id, MetricsRecord(local_rank=0, rank=0, series=[series], step=steps))
    if save:
        node.send(
            allocation_id,
            CheckpointRecord(
                step=steps, path=f"s{steps}", size_bytes=10 * steps, files={"a": "0"},
                metrics={"val/loss": 1 / steps},
            ),
        )  # fmt: skip
    node.exit(allocation_id, cause, message="boom" if cause == "user_error" else "")
    controller.tick()
    return spec


def post(client, path, *, status=None, code=None, key=None, **body):
    headers = {"Idempotency-Key": key} if key else {}
    reply = client.post(f"{API}{path}", json=body, headers=headers)
    if code is not None:
        assert reply.json()["error"]["code"] == code, reply.text
        return reply.json()["error"]
    assert reply.status_code == status, reply.text
    return reply.json()


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


# ---------------------------------------------------------------- continue


@pytest.mark.parametrize("end", ["failed", "canceled", "completed"])
def test_an_ended_experiment_goes_on_from_its_checkpoint_with_its_curve(
    controller, agent, submit, show, member_client, end
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    cause = {"failed": "user_error", "canceled": "stopped", "completed": "success"}[end]
    path = f"{API}/experiments/{experiment_id}:stop"
    stop = (lambda: member_client.post(path)) if end == "canceled" else None
    train(controller, node, steps=4, cause=cause, stop=stop)
    before = show(f"/experiments/{experiment_id}")
    assert before["state"] == end.upper()
    post(member_client, f"/experiments/{experiment_id}:continue", status=202)
    controller.tick()
    spec = train(controller, node, steps=8)
    assert spec.resume_step == 4
    after, trial = show(f"/experiments/{experiment_id}"), trial_of(show, experiment_id)
    assert (after["state"], after["num_continued"], after["termination"]) == ("COMPLETED", 1, None)
    assert trial["state"] == "COMPLETED"
    series = show(f"/trials/{trial['id']}/series?name=val/loss&rank=0")["series"][0]
    assert series["step"] == list(range(1, 9)), "one curve over both"


def test_continuing_twice_with_one_key_counts_once(controller, agent, submit, show, member_client):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    train(controller, node, steps=4, cause="user_error")
    path = f"/experiments/{experiment_id}:continue"
    for _ in range(2):
        post(member_client, path, status=202, key="abc")
    assert show(f"/experiments/{experiment_id}")["num_continued"] == 1
    post(member_client, path, code="experiments.not_ended", key="other")


def test_more_length_is_given_to_the_built_in_trainer(
    controller, agent, show, member_client, database
):
    document = "name: x\ntrainer: {model: mlp, epochs: 3}\n"
    made = member_client.post(f"{API}/experiments", json={"document": document}).json()
    path = f"/experiments/{made['id']}"
    node = agent(slots=1)
    controller.tick()
    train(controller, node, steps=3)
    post(member_client, f"{path}:continue", code="experiments.nothing_to_continue")
    post(member_client, f"{path}:continue", code="experiments.cannot_continue",
         length={"epochs": 2})  # fmt: skip
    post(member_client, f"{path}:continue", code="experiments.cannot_continue",
         length={"steps": 9})  # fmt: skip
    error = post(member_client, f"{path}:continue", code="experiments.invalid_document",
                 overrides=["hyperparameters.lr=0.5"])  # fmt: skip
    assert error["fields"][0]["path"] == "hyperparameters.lr"
    assert show(path)["state"] == "COMPLETED", "what is refused changes nothing"
    detail = post(member_client, f"{path}:continue", status=202, length={"epochs": 6})
    assert detail["config"]["trainer"]["epochs"] == 6
    assert detail["overrides"] == ["trainer.epochs=6"]
    controller.tick()
    spec = train(controller, node, steps=6)
    assert (spec.resume_step, spec.config["trainer"]["epochs"]) == (3, 6)
    assert show(path)["state"] == "COMPLETED"


def test_a_stopped_search_goes_on_with_what_it_had_not_done(
    controller, agent, submit, show, member_client
):
    node = agent(slots=1)
    experiment_id = submit(SEARCH, slots=1)
    controller.tick()
    train(controller, node, steps=4)
    allocation_id = start(controller, node)
    member_client.post(f"{API}/experiments/{experiment_id}:stop")
    controller.tick()
    node.exit(allocation_id, "stopped")
    controller.tick()
    states = [t["state"] for t in show(f"/experiments/{experiment_id}/trials")["items"]]
    assert states == ["COMPLETED", "CANCELED"]
    post(member_client, f"/experiments/{experiment_id}:continue", status=202)
    controller.tick()
    for _ in range(2):
        train(controller, node, steps=4)
    controller.tick()
    trials = show(f"/experiments/{experiment_id}/trials")["items"]
    assert [t["state"] for t in trials] == ["COMPLETED"] * 3
    assert [t["attempt_no"] for t in trials] == [1, 2, 1]
    assert show(f"/experiments/{experiment_id}")["state"] == "COMPLETED"


def test_an_exhausted_budget_must_be_raised_first(
    controller, agent, submit, show, member_client, database
):
    node = agent(slots=1)
    experiment_id = submit("budget: {slot_hours: 1}", slots=1)
    controller.tick()
    train(controller, node, steps=4, cause="user_error")
    with database.transaction() as session:
        session.execute(update(SpendingRow).values(slot_s=7200.0))
    path = f"/experiments/{experiment_id}:continue"
    error = post(member_client, path, code="budgets.exhausted")
    assert "2 slot-hours spent" in error["message"]
    detail = post(member_client, path, status=202, overrides=["budget.slot_hours=5"])
    assert detail["budget"]["limits"][0]["limit"] == 5


# ---------------------------------------------------------------- fork


def test_a_fork_repeats_the_document_with_changes_and_both_know_of_it(
    controller, agent, submit, show, member_client, connect, make_user_token
):
    source = submit("labels: {team: a}", slots=1)
    eve = connect(token=make_user_token("member", username="eve"))
    body = {"overrides": ["name=again", "resources.slots=2"]}
    made = post(eve, f"/experiments/{source}:fork", status=201, key="k", **body)
    assert (made["name"], made["owner"], made["slots_per_trial"]) == ("again", "eve", 2)
    assert made["labels"] == {"team": "a"}
    assert (made["parent"]["experiment_id"], made["parent"]["exists"]) == (source, True)
    assert made["parent"]["checkpoint_id"] is None
    assert post(eve, f"/experiments/{source}:fork", status=201, key="k", **body)["id"] == made["id"]
    assert show(f"/experiments/{source}")["num_children"] == 1
    (child,) = show(f"/experiments/{source}/children")["items"]
    assert (child["id"], child["owner"]) == (made["id"], "eve")
    second = post(eve, f"/experiments/{made['id']}:fork", status=201)
    assert second["slots_per_trial"] == 2, "changes of the source are kept"


@pytest.mark.parametrize("load", ["all", "weights"])
def test_a_fork_starts_from_a_checkpoint_of_its_source(
    controller, agent, submit, show, member_client, load
):
    node = agent(slots=1)
    source = submit(slots=1)
    controller.tick()
    train(controller, node, steps=4)
    made = post(
        member_client, f"/experiments/{source}:fork", status=201, **{"from": {"load": load}}
    )
    assert (made["parent"]["step"], made["parent"]["load"]) == (4, load)
    controller.tick()
    spec = node.only().spec
    path = f"experiment-{source}/trial-1/s4"
    if load == "all":
        assert (spec.resume_from, spec.resume_step, spec.weights_from) == (path, 4, None)
    else:
        assert (spec.resume_from, spec.resume_step, spec.weights_from) == (None, 0, path)
    train(controller, node, steps=6, cause="user_error")
    post(member_client, f"/experiments/{made['id']}:continue", status=202)
    controller.tick()
    spec = node.only().spec
    own = f"experiment-{made['id']}/trial-1/s6"
    assert (spec.resume_from, spec.weights_from) == (own, None), "from now on its own"


def test_a_document_names_its_checkpoint_by_trial_experiment_or_id(
    controller, agent, submit, show, member_client
):
    node = agent(slots=1)
    source = submit("search: {metric: val/loss, goal: min}", slots=1)
    controller.tick()
    train(controller, node, steps=4)
    trial = f"{source}.1"
    (checkpoint,) = show(f"/trials/{trial_of(show, source)['id']}/checkpoints")["items"]
    for section in (
        f"checkpoint: {checkpoint['id']}", f"trial: {trial}", f"trial: {source}",
        f'trial: "{trial}", pick: best', f"experiment: {source}", f'"trial": {source}',
    ):  # fmt: skip
        made = show(f"/experiments/{submit(f'from: {{{section}}}', slots=1)}")
        assert made["parent"]["checkpoint_id"] == checkpoint["id"], section
        assert made["config"]["from"]["trial"] == trial


def test_the_tenth_trial_of_a_search_is_not_taken_for_the_first(
    controller, agent, submit, show, member_client, database
):
    node = agent(slots=1)
    source = submit("search: {metric: val/loss, goal: min}", slots=1)
    controller.tick()
    train(controller, node, steps=4)
    with database.transaction() as session:
        session.execute(update(TrialRow).where(TrialRow.experiment_id == source).values(no=10))
    for override in (f"from.trial={source}.10", f"from={{trial: {source}.10}}"):
        body = {"document": "name: x\ntrainer: {}\n", "overrides": [override]}
        made = post(member_client, "/experiments", status=201, **body)
        assert made["config"]["from"]["trial"] == f"{source}.10"
    written = '{"name": "x", "trainer": {}, "from": {"trial": 1.10}}'
    reply = member_client.post(f"{API}/experiments", json={"document": written})
    (field,) = reply.json()["error"]["fields"]
    assert (field["path"], field["hint"]) == ("from.trial", "put it in quotes")


def test_several_trials_are_told_apart_by_their_numbers(controller, agent, submit, member_client):
    agent(slots=2)
    source = submit(TWO, slots=1)
    controller.tick()
    document = f"name: x\ntrainer: {{}}\nfrom: {{trial: {source}}}\n"
    reply = member_client.post(f"{API}/experiments", json={"document": document})
    (field,) = reply.json()["error"]["fields"]
    assert "has several trials" in field["message"]
    assert f"{source}.1" in field["hint"]


@pytest.mark.parametrize("is_override", [False, True])
def test_a_stored_document_that_names_a_trial_by_its_id_keeps_its_meaning(
    controller, agent, submit, show, member_client, database, is_override
):
    node = agent(slots=2)
    two = submit(TWO, slots=1)
    assert len(show(f"/experiments/{two}/trials")["items"]) == 2
    post(member_client, f"/experiments/{two}:stop", status=202)
    source = submit("search: {metric: val/loss, goal: min}", slots=1)
    controller.tick()
    train(controller, node, steps=4)
    old = submit(f"from: {{trial: {source}.1}}", slots=1)
    trial_id = trial_of(show, source)["id"]
    assert trial_id != source
    with database.transaction() as session:
        row = session.get_one(ExperimentRow, old)
        row.config = replace(row.config, from_=replace(row.config.from_, trial=trial_id))
        row.document = row.document.replace(f"{source}.1", "1" if is_override else str(trial_id))
        row.overrides = [f'from={{"trial": {trial_id}}}'] if is_override else []
    made = post(member_client, f"/experiments/{old}:fork", status=201)
    assert made["config"]["from"]["trial"] == f"{source}.1"
    assert made["config"]["from"]["experiment"] == source
    again = post(member_client, f"/experiments/{made['id']}:fork", status=201)
    assert again["config"]["from"] == made["config"]["from"]


@pytest.mark.parametrize(
    ("section", "path", "words"),
    [
        ("{}", "from", "names nothing"),
        ("{trial: 1, experiment: 1}", "from", "names trial and experiment"),
        ("{checkpoint: 99}", "from.checkpoint", "names checkpoint 99, which does not exist"),
        ("{trial: 99}", "from.trial", "names trial 99, which does not exist"),
        ("{trial: 1.99}", "from.trial", "names trial 1.99, which does not exist"),
        ("{trial: 1.2.3}", "from.trial", "36.2"),
        ("{trial: -1}", "from.trial", "36.2"),
        ("{experiment: 99}", "from.experiment", "names experiment 99, which does not exist"),
        ("{experiment: 1}", "from.experiment", "has no checkpoint"),
        ("{experiment: 1, pick: worst}", "from.pick", "one of latest, best"),
    ],
)
def test_a_source_that_is_not_there_is_refused_by_path(submit, member_client, section, path, words):
    submit(slots=1)
    document = f"name: x\ntrainer: {{}}\nfrom: {section}\n"
    reply = member_client.post(f"{API}/experiments", json={"document": document})
    (field,) = reply.json()["error"]["fields"]
    assert field["path"] == path
    assert words in field["message"]


# ---------------------------------------------------------------- delete


def test_deleting_takes_rows_series_bundle_and_files(
    controller, agent, submit, show, member_client, database
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    kept = submit(slots=1)
    controller.tick()
    train(controller, node, steps=4)
    plan = show(f"/experiments/{experiment_id}/deletion")
    assert plan["possible"]
    assert (plan["freed"]["num_checkpoints"], plan["freed"]["checkpoint_bytes"]) == (1, 40)
    assert plan["freed"]["metric_bytes"] > 0
    (storage,) = plan["freed"]["storages"]
    assert (storage["storage_id"], storage["is_reachable"]) == ("storage-node-1", True)
    assert show(f"/experiments/{experiment_id}")["state"] == "COMPLETED", "a look changes nothing"
    reply = member_client.delete(f"{API}/experiments/{experiment_id}")
    assert reply.status_code == 200, reply.text
    assert reply.json()["complete"]
    assert member_client.get(f"{API}/experiments/{experiment_id}").status_code == 404
    with database.read() as session:
        assert session.scalars(select(ExperimentRow.id)).all() == [kept]
        assert session.scalar(select(func.count()).select_from(CheckpointRow)) == 0
        assert session.scalar(select(func.count()).select_from(MetricBatchRow)) == 0
    (wanted,) = node.deletions()
    assert wanted.path == f"experiment-{experiment_id}"
    assert node.deletions() == [wanted], "until it is reported"
    (listed,) = show("/deletions")["items"]
    assert (listed["state"], listed["waits_for"]) == ("pending", "node-1")
    failed = DeletionResult(id=wanted.id, outcome="failed", message="busy")
    assert node.report_deletions(failed) == 1
    assert node.deletions() == [wanted]
    done = DeletionResult(id=wanted.id, outcome="done", freed_bytes=40)
    assert node.report_deletions(done) == 1
    assert node.report_deletions(done) == 0, "said twice, it counts once"
    assert node.deletions() == []
    (listed,) = show("/deletions")["items"]
    assert (listed["state"], listed["freed_bytes"]) == ("done", 40)
    new = submit(slots=1)
    assert new > kept, "the number of a deleted one is never given out again"


def test_the_number_of_the_last_one_is_not_given_out_again(
    controller, submit, member_client, database
):
    first = submit(slots=1)
    member_client.post(f"{API}/experiments/{first}:stop")
    controller.tick()
    assert member_client.delete(f"{API}/experiments/{first}").status_code == 200
    assert submit(slots=1) > first


def test_one_of_the_nodes_that_share_a_storage_is_asked(
    controller, agent, submit, show, member_client, database
):
    first, second = (agent(name, slots=1, storage_id="shared") for name in ("node-1", "node-2"))
    other = agent("node-3", slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    owner = next(n for n in (first, second, other) if n.poll())
    train(controller, owner, steps=2)
    member_client.delete(f"{API}/experiments/{experiment_id}")
    if owner is other:
        assert [len(n.deletions()) for n in (first, second, other)] == [0, 0, 1]
    else:
        assert [len(n.deletions()) for n in (first, second, other)] == [1, 0, 0]
        stranger = DeletionResult(id=first.deletions()[0].id, outcome="done")
        assert other.report_deletions(stranger) == 0, "it does not have that storage"


def test_files_can_be_kept(controller, agent, submit, member_client, database):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    train(controller, node, steps=2)
    member_client.delete(f"{API}/experiments/{experiment_id}", params={"keep_files": True})
    assert node.deletions() == []
    with database.read() as session:
        assert session.scalars(select(FileDeletionRow)).all() == []


def test_what_runs_or_is_needed_is_not_deleted(controller, agent, submit, show, member_client):
    node = agent(slots=1)
    source = submit(slots=1)
    path = f"{API}/experiments/{source}"
    assert member_client.delete(path).json()["error"]["code"] == "experiments.not_ended"
    controller.tick()
    train(controller, node, steps=4)
    fork = post(member_client, f"/experiments/{source}:fork", status=201, **{"from": {}})
    assert member_client.delete(path).json()["error"]["code"] == "experiments.in_use"
    plan = show(f"/experiments/{source}/deletion")
    assert (plan["possible"], plan["code"]) == (False, "experiments.in_use")
    controller.tick()
    train(controller, node, steps=6)
    assert member_client.delete(path).status_code == 200
    assert show(f"/experiments/{fork['id']}")["parent"]["exists"] is False


def test_one_that_may_run_on_a_lost_node_is_not_deleted(
    controller, agent, submit, member_client, database
):
    from muster_server.db.models import AllocationRow

    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    train(controller, node, steps=2)
    with database.transaction() as session:
        session.execute(update(AllocationRow).values(observed="LOST"))
    error = member_client.delete(f"{API}/experiments/{experiment_id}").json()["error"]
    assert error["code"] == "experiments.still_held"


def test_a_shared_bundle_stays_until_its_last_experiment_goes(
    controller, submit, member_client, database
):
    digest = "ab" * 32
    first, second = submit(slots=1), submit(slots=1)
    with database.transaction() as session:
        from muster_server import clock

        session.add(BlobRow(sha256=digest, size_bytes=7, created_at=clock.now()))
        session.execute(update(ExperimentRow).values(blob_sha256=digest))
    for experiment_id in (first, second):
        member_client.post(f"{API}/experiments/{experiment_id}:stop")
    controller.tick()
    member_client.delete(f"{API}/experiments/{first}")
    with database.read() as session:
        assert session.get(BlobRow, digest) is not None
    member_client.delete(f"{API}/experiments/{second}")
    controller.tick()  # does what the request had no time for
    with database.read() as session:
        assert session.get(BlobRow, digest) is None


def test_a_large_one_is_gone_at_once_and_cleared_away_by_the_controller(
    controller, submit, show, member_client, database, monkeypatch
):
    monkeypatch.setattr(deletion, "TRIALS_PER_PIECE", 1)
    monkeypatch.setattr(deletion.clear, "__kwdefaults__", {"only": None, "for_s": -1.0})
    experiment_id = submit(SEARCH.replace("concurrent: 1", "concurrent: 3"), slots=1)
    member_client.post(f"{API}/experiments/{experiment_id}:stop")
    controller.tick()
    trial_id = show(f"/experiments/{experiment_id}/trials")["items"][-1]["id"]
    reply = member_client.delete(f"{API}/experiments/{experiment_id}").json()
    assert not reply["complete"]
    for path in (f"/experiments/{experiment_id}", f"/trials/{trial_id}"):
        assert member_client.get(f"{API}{path}").status_code == 404
    assert show("/experiments?archived=include")["items"] == []
    for _ in range(5):  # a piece at least in each
        controller.tick()
    with database.read() as session:
        for row in (ExperimentRow, TrialRow, EventRow):
            assert session.scalar(select(func.count()).select_from(row)) == 0, row.__tablename__
