"""Checkpoints that are on a node's disk alone: who is offered them, and when they are given up."""

import datetime as dt

import pytest

from muster.wire import CHECKPOINT_DAMAGED, CheckpointRecord, LocalCheckpoint, MessageRecord
from muster.wire import WorkFolder as Folder
from muster_server import clock
from muster_server.db.models import NodeRow, TrialRow
from support.agent import start

LOCAL = "checkpoints: {local: true}\nrestarts: {user: 3}\n"


def saved(step, *, local=False, attempt_no=0):
    return CheckpointRecord(
        step=step,
        path=f"step-{step:08d}",
        size_bytes=5,
        files={"a": str(step)},
        is_local=local,
        attempt_no=attempt_no,
    )


def copy(step, *, attempt_no=1, is_stored=False):
    return LocalCheckpoint(
        attempt_no=attempt_no,
        step=step,
        path=f"step-{step:08d}",
        files={"a": str(step)},
        is_stored=is_stored,
    )


@pytest.fixture
def run(controller, submit, show):
    """`run(node)` is (allocation id, trial id) of a trial that runs on the only node so far."""

    def make(node, document=LOCAL):
        experiment_id = submit(document, slots=1)
        controller.tick()
        allocation_id = start(controller, node)
        (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
        return allocation_id, trial["id"]

    return make


@pytest.fixture
def again(controller):
    """`again(node, allocation_id, trial_id)` fails an attempt, and places the next one."""

    def make(node, allocation_id, trial_id):
        node.exit(allocation_id, "user_error")
        controller.tick()
        with controller.database.transaction() as session:
            session.get_one(TrialRow, trial_id).not_before = clock.now()
        controller.tick()
        controller.tick()

    return make


@pytest.fixture
def states(show):
    def get(trial_id):
        found = show(f"/trials/{trial_id}/checkpoints")["items"]
        return {(c["attempt_no"], c["step"]): c["state"] for c in found}

    return get


def close(controller, name):
    with controller.database.transaction() as session:
        session.query(NodeRow).filter_by(name=name).one().scheduling = "closed"


def test_a_local_checkpoint_is_of_no_use_to_others_until_it_is_stored(
    agent, run, show, states, member_client
):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, saved(10), saved(20, local=True))
    assert states(trial_id) == {(1, 10): "complete", (1, 20): "local"}
    newest, _ = show(f"/trials/{trial_id}/checkpoints")["items"]
    assert (newest["node_name"], newest["is_latest"], newest["is_best"]) == ("node-1", False, False)
    for action in (f"checkpoints/{newest['id']}:export", f"checkpoints/{newest['id']}:pin"):
        assert member_client.post(f"/api/v1/{action}", json={}).status_code == 409, action
    document = (
        "name: fork\nentrypoint: train.py\ncode: {installed: /srv/code}\n"
        f"from: {{checkpoint: {newest['id']}}}\n"
    )
    refused = member_client.post("/api/v1/experiments", json={"document": document})
    assert refused.status_code in (409, 422), refused.text
    (listed,) = show("/checkpoints?state=local")["items"]
    assert (listed["step"], listed["node_name"]) == (20, "node-1")

    node.send(allocation_id, saved(20))
    assert states(trial_id)[1, 20] == "complete"
    node.send(allocation_id, saved(20, local=True))
    assert states(trial_id)[1, 20] == "complete", "of this step the storage has something"


def test_the_run_says_what_is_lost_with_the_node(agent, run, show):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, saved(1200), saved(1300, local=True), saved(1450, local=True))
    (notice,) = show(f"/trials/{trial_id}")["notices"]
    assert notice["text"].startswith("Steps 1,201 to 1,450 are only on node-1:")
    node.send(allocation_id, saved(1300))
    (notice,) = show(f"/trials/{trial_id}")["notices"]
    assert notice["text"].startswith("Steps 1,301 to 1,450 are only on node-1:")
    node.send(allocation_id, saved(1450))
    assert show(f"/trials/{trial_id}")["notices"] == []


def test_a_restart_on_the_same_node_is_offered_what_only_its_disk_has(
    agent, run, again, show, states
):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, saved(10), saved(20, local=True), saved(30, local=True))
    again(node, allocation_id, trial_id)
    spec = node.only().spec
    assert spec.local_checkpoints == [copy(30), copy(20), copy(10, is_stored=True)]
    assert (spec.resume_step, spec.resume_from.rpartition("/")[2]) == (10, "step-00000010")
    attempt = show(f"/trials/{trial_id}")["attempts"][0]
    assert (attempt["no"], attempt["resume_step"]) == (2, 30)
    events = [e["message"] for e in show(f"/trials/{trial_id}/events")["items"]]
    assert any("checkpoint of step 30 on the disk of node-1." in text for text in events)

    node.send(spec.allocation_id, saved(20, attempt_no=1), saved(30, attempt_no=1), saved(40))
    assert set(states(trial_id).items()) == {
        ((1, 10), "complete"),
        ((1, 20), "complete"),
        ((1, 30), "complete"),
        ((2, 40), "complete"),
    }


def test_before_anything_is_stored_too(agent, run, again, show):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, saved(7, local=True))
    again(node, allocation_id, trial_id)
    spec = node.only().spec
    assert (spec.local_checkpoints, spec.resume_from, spec.resume_step) == ([copy(7)], None, 0)
    assert show(f"/trials/{trial_id}")["attempts"][0]["resume_step"] == 7


def test_another_node_starts_from_the_storage_and_makes_the_copy_worthless(
    controller, agent, run, again, show, states
):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, saved(10), saved(20, local=True))
    other = agent("node-2", slots=1)
    close(controller, "node-1")
    again(node, allocation_id, trial_id)
    spec = other.only().spec
    assert spec.local_checkpoints == [copy(10, is_stored=True)]
    assert show(f"/trials/{trial_id}")["attempts"][0]["resume_step"] == 10
    (notice,) = show(f"/trials/{trial_id}")["notices"]
    assert notice["text"].startswith("Steps 11 to 20 are only on node-1:")
    other.send(spec.allocation_id, saved(15))
    assert states(trial_id)[1, 20] == "local"
    other.send(spec.allocation_id, saved(25))
    assert states(trial_id)[1, 20] == "deleted"
    assert show(f"/trials/{trial_id}")["notices"] == []


@pytest.mark.parametrize(("begins", "left"), [(10, {(1, 10): "complete"}), (0, {})])
def test_a_node_that_passes_over_damaged_copies_says_where_it_begins(
    agent, run, again, show, states, begins, left
):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, *([saved(10)] if begins else []), saved(20, local=True))
    again(node, allocation_id, trial_id)
    second = node.only().spec.allocation_id
    node.send(
        second,
        MessageRecord(
            level="warning", text="20 is damaged", event=CHECKPOINT_DAMAGED, resume_step=begins
        ),
    )
    attempt = show(f"/trials/{trial_id}")["attempts"][0]
    assert (attempt["no"], attempt["resume_step"]) == (2, begins)
    assert states(trial_id) == {(1, 20): "deleted", **left}
    events = show(f"/trials/{trial_id}/events")["items"]
    assert [e["level"] for e in events if e["type"] == CHECKPOINT_DAMAGED] == ["warning"]


def test_copies_go_with_their_work_folder(controller, agent, run, show, states):
    node = agent(slots=1)
    allocation_id, trial_id = run(node)
    node.send(allocation_id, saved(20, local=True))
    node.exit(allocation_id)
    controller.tick()
    assert states(trial_id) == {(1, 20): "local"}
    folder = Folder(
        experiment_id=1, trial_id=trial_id, attempt_no=1, is_collected=True, size_bytes=1
    )
    with controller.database.transaction() as session:
        session.get_one(TrialRow, trial_id).ended_at = clock.now() - dt.timedelta(days=99)
    assert node.report_work_folders(folder) == [trial_id]
    assert states(trial_id) == {(1, 20): "deleted"}


def test_documents_that_do_not_ask_for_it_have_none(agent, run, again):
    node = agent(slots=1)
    allocation_id, trial_id = run(node, "restarts: {user: 3}\n")
    node.send(allocation_id, saved(10))
    again(node, allocation_id, trial_id)
    assert node.only().spec.local_checkpoints == []


# ---------------------------------------------------------------- several nodes

TRAINER = "name: digits\ntrainer: {model: mlp}\n" + LOCAL
SCRIPT = "name: own\nentrypoint: train.py\ncode: {installed: /srv/code}\n" + LOCAL


@pytest.fixture
def gang(controller, agent, member_client, show):
    """`gang(document)` is (nodes, their allocation ids, trial id) of a trial that runs on two nodes."""

    def make(document):
        nodes = [agent("node-1", slots=1), agent("node-2", slots=1)]
        text = document + "resources: {slots: 2, nodes: 2}\n"
        reply = member_client.post("/api/v1/experiments", json={"document": text})
        assert reply.status_code == 201, reply.text
        controller.tick()
        (trial,) = show(f"/experiments/{reply.json()['id']}/trials")["items"]
        return nodes, run_all(controller, nodes), trial["id"]

    return make


def run_all(controller, nodes):
    ids = [node.only().spec.allocation_id for node in nodes]
    by_rank = sorted(zip(nodes, ids, strict=True), key=lambda n: n[0].only().spec.node_rank)
    for rank, (node, allocation_id) in enumerate(by_rank):
        node.get_ready(allocation_id, port=1234 if rank == 0 else None)
    controller.tick()
    for node, allocation_id in by_rank:
        node.run(allocation_id)
    controller.tick()
    return ids


def place_again(controller, nodes, ids, trial_id):
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.exit(allocation_id, "user_error")
    controller.tick()
    with controller.database.transaction() as session:
        session.get_one(TrialRow, trial_id).not_before = clock.now()
    controller.tick()
    controller.tick()


def test_nodes_are_offered_what_they_have_together(gang, controller, show, states):
    nodes, ids, trial_id = gang(TRAINER)
    nodes[0].send(ids[0], saved(10), saved(20, local=True), saved(30, local=True))
    (notice,) = show(f"/trials/{trial_id}")["notices"]
    assert notice["text"] == (
        "Steps 11 to 30 are only on the disks of node-1, node-2: they are lost if one of these fails before "
        "they are stored."
    )
    place_again(controller, nodes, ids, trial_id)
    for node in nodes:
        spec = node.only().spec
        assert spec.local_checkpoints == [copy(30), copy(20), copy(10, is_stored=True)]
        assert spec.resume_step == 10
    assert show(f"/trials/{trial_id}")["attempts"][0]["resume_step"] == 30
    events = [e["message"] for e in show(f"/trials/{trial_id}/events")["items"]]
    assert any("checkpoint of step 30 on the disks of its nodes." in text for text in events)

    # The workers find that a file of it is missing.
    damaged = MessageRecord(
        level="warning", text="not whole", event=CHECKPOINT_DAMAGED, resume_step=20
    )
    ids = run_all(controller, nodes)
    nodes[0].send(ids[0], damaged)
    assert show(f"/trials/{trial_id}")["attempts"][0]["resume_step"] == 20
    assert states(trial_id) == {(1, 10): "complete", (1, 20): "local", (1, 30): "deleted"}


def test_with_one_node_lost_what_it_had_a_part_of_is_lost(gang, agent, controller, show, states):
    nodes, ids, trial_id = gang(TRAINER)
    nodes[0].send(ids[0], saved(10), saved(20, local=True))
    other = agent("node-3", slots=1)
    close(controller, "node-2")
    place_again(controller, nodes, ids, trial_id)
    for node in (nodes[0], other):
        assert node.only().spec.local_checkpoints == [copy(10, is_stored=True)]
    assert show(f"/trials/{trial_id}")["attempts"][0]["resume_step"] == 10
    assert states(trial_id) == {(1, 10): "complete", (1, 20): "deleted"}


def test_copies_in_parts_go_with_the_work_folder_of_any_node(gang, controller, states):
    nodes, ids, trial_id = gang(TRAINER)
    nodes[0].send(ids[0], saved(20, local=True))
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.exit(allocation_id)
    controller.tick()
    folder = Folder(
        experiment_id=1, trial_id=trial_id, attempt_no=1, is_collected=True, size_bytes=1
    )
    with controller.database.transaction() as session:
        session.get_one(TrialRow, trial_id).ended_at = clock.now() - dt.timedelta(days=99)
    assert nodes[1].report_work_folders(folder) == [trial_id]
    assert states(trial_id) == {(1, 20): "deleted"}


def test_a_script_on_several_nodes_is_offered_nothing(gang, controller):
    nodes, ids, trial_id = gang(SCRIPT)
    nodes[0].send(ids[0], saved(10))
    place_again(controller, nodes, ids, trial_id)
    assert [node.only().spec.local_checkpoints for node in nodes] == [[], []]
