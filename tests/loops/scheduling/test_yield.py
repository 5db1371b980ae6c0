"""Giving up slots and going on later, through the real API, with agents that only talk."""

import pytest
from sqlalchemy import update

from muster_server import clock
from muster_server.db.models import ExperimentRow
from muster_server.domain.states import YieldKind
from muster_server.services.core.writes import Outdated
from muster_server.services.scheduling.preemption import ask_to_yield
from support.agent import leave, start


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


@pytest.fixture
def want(database):
    """`want(experiment_id, "pause")` is what the routes write."""

    def write(experiment_id, desired):
        with database.transaction() as session:
            session.execute(
                update(ExperimentRow)
                .where(ExperimentRow.id == experiment_id)
                .values(desired=desired)
            )

    return write


def test_a_paused_experiment_checkpoints_waits_and_goes_on_when_resumed(
    controller, agent, submit, show, want
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)

    want(experiment_id, "pause")
    controller.tick()
    told = node.only()
    assert (told.desired, told.stop_kind, told.stop_reason) == ("stop", "pause", "paused by a user")
    assert show(f"/experiments/{experiment_id}")["state"] == "RUNNING"  # it still runs
    leave(controller, node, allocation_id, step=40)

    trial = trial_of(show, experiment_id)
    assert trial["state"] == "PAUSED"
    assert [(a["state"], a["termination"]) for a in trial["attempts"]] == [("PREEMPTED", "paused")]
    assert show(f"/experiments/{experiment_id}")["state"] == "PAUSED"
    assert show("/cluster")["num_slots_used"] == 0
    assert show("/queue")["items"] == []

    want(experiment_id, "run")
    controller.tick()
    assert show(f"/experiments/{experiment_id}")["state"] in ("QUEUED", "RUNNING")
    spec = node.only().spec
    assert (spec.attempt_no, spec.resume_step) == (2, 40)
    node.exit(start(controller, node))
    controller.tick()
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["termination"]) == ("COMPLETED", "success")
    told = [event["message"] for event in show(f"/trials/{trial['id']}/events")["items"]]
    assert (
        "Attempt 1 was asked to save a checkpoint and give up its slots: paused by a user." in told
    )


def test_what_waits_is_paused_at_once(controller, submit, show, want):
    experiment_id = submit(slots=1)
    controller.tick()
    want(experiment_id, "pause")
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "PAUSED"
    assert show(f"/experiments/{experiment_id}")["state"] == "PAUSED"
    want(experiment_id, "stop")
    controller.tick()
    assert show(f"/experiments/{experiment_id}")["state"] == "CANCELED"


def test_a_kill_reaches_the_agents_as_a_kill(controller, agent, submit, show, want):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    want(experiment_id, "stop")
    controller.tick()
    assert node.only().desired == "stop"
    want(experiment_id, "kill")
    controller.tick()
    assert node.only().desired == "kill"
    node.exit(allocation_id, "killed")
    controller.tick()
    assert show(f"/experiments/{experiment_id}")["state"] == "CANCELED"


def test_a_drained_node_is_left_for_another(controller, agent, submit, show, admin_client):
    first, second = agent("node-1", slots=1), agent("node-2", slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, first)
    reply = admin_client.patch(f"/api/v1/nodes/{first.node_id}", json={"scheduling": "draining"})
    assert reply.status_code == 200
    controller.tick()
    assert (first.only().stop_kind, first.only().stop_reason) == (
        "drain",
        "node-1 is being drained",
    )
    leave(controller, first, allocation_id, step=7)
    spec = second.only().spec
    assert (spec.attempt_no, spec.resume_step) == (2, 7)
    trial = trial_of(show, experiment_id)
    assert trial["attempts"][1]["termination"] == "drained"
    assert first.poll() == {}


def test_a_used_up_budget_ends_with_its_sentence(controller, agent, submit, show, database):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    sentence = "the budget of 2 slot-hours of experiment 1 is used up"
    with database.transaction() as session:
        session.execute(update(ExperimentRow).values(exhausted_reason=sentence))
    controller.tick()
    assert (node.only().desired, node.only().stop_kind) == ("stop", "budget")
    leave(controller, node, allocation_id, step=7)
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["termination"], trial["reason"]) == (
        "CANCELED",
        "budget_exhausted",
        sentence,
    )


def test_asking_twice_or_too_late_changes_nothing(controller, agent, submit, show, database):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)

    def ask():
        with database.transaction() as session:
            ask_to_yield(
                session, 1, kind=YieldKind.PREEMPT, reason="others need it", now=clock.now()
            )

    ask()
    with pytest.raises(Outdated):
        ask()
    controller.tick()
    leave(controller, node, allocation_id, step=3)
    with pytest.raises(Outdated):
        ask()
    assert trial_of(show, experiment_id)["attempt_no"] == 2
    assert node.only().spec.resume_step == 3
