"""Pilots leave the cluster, through the real API: tidily, at their end, and without a word."""

import datetime as dt

import pytest
from sqlalchemy import select

from muster.wire import ExitInfo, PilotFacts, StateRecord
from muster_server import clock
from muster_server.db.models import AllocationRow, NodeRow
from support.agent import leave, start

EPOCH = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def pilot(agent):
    def make(name="slurm-17", *, ends_in_s=None, **kwargs):
        ends_at_ms = None
        if ends_in_s is not None:
            ends_at_ms = round((clock.now().timestamp() + ends_in_s) * 1000)
        facts = PilotFacts(ends_at_ms=ends_at_ms, provider_ref="slurm:lab:17")
        return agent(name, pilot=facts, **kwargs)

    return make


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


def test_a_pilot_shows_its_end_and_what_its_batch_system_calls_it(pilot, show):
    pilot(ends_in_s=3600)
    node = show("/nodes/slurm-17")
    assert node["is_pilot"]
    assert node["provider_ref"] == "slurm:lab:17"
    ends_at = dt.datetime.fromisoformat(node["ends_at"])
    assert abs((ends_at - clock.now()).total_seconds() - 3600) < 60


def test_a_closed_pilot_takes_nothing_and_leaves_with_its_history(
    controller, pilot, submit, show, database
):
    node = pilot(slots=1)
    first = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    assert node.leave("closing", "it was started for one allocation") == 1
    second = submit(slots=1)
    node.exit(allocation_id)
    controller.tick()
    assert node.leave("closing") == 0
    assert node.leave("gone") == 0

    assert [n["name"] for n in show("/nodes")["items"]] == []
    for _ in range(3):
        controller.tick()
    assert trial_of(show, first)["state"] == "COMPLETED"
    assert trial_of(show, second)["state"] == "QUEUED"
    told = [event["message"] for event in show(f"/nodes/{node.node_id}/events")["items"]]
    assert told[0] == "slurm-17 has left the cluster: told to end."
    history = show(f"/nodes/{node.node_id}/allocations")["items"]
    assert [part["state"] for part in history] == ["CLEANED"]
    with database.transaction() as session:
        assert session.scalars(select(NodeRow)).all() == []
        assert {row.observed for row in session.scalars(select(AllocationRow))} == {"CLEANED"}
    node.beat(expect=401)


def test_a_pilot_that_is_told_to_end_costs_its_trial_no_restart(
    controller, pilot, agent, submit, show
):
    node = pilot(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    agent("stays", slots=1)
    assert node.leave("draining", "its job was canceled") == 1
    # It does not wait for the controller: what it reports arrives before the next pass.
    told = node.only()
    assert (told.desired, told.stop_kind) == ("stop", "drain")
    leave(controller, node, allocation_id, step=40)
    assert node.leave("gone") == 0
    for _ in range(3):
        controller.tick()
    trial = trial_of(show, experiment_id)
    attempts = [(a["state"], a["termination"]) for a in trial["attempts"]]
    assert ("PREEMPTED", "drained") in attempts
    assert trial["num_restarts"] == 0
    assert trial["attempts"][-1]["no"] == 2 or trial["attempts"][0]["no"] == 2
    assert [n["name"] for n in show("/nodes")["items"]] == ["stays"]


def test_a_machine_whose_agent_ends_with_all_that_it_runs_costs_no_restart_and_is_back_with_it(
    controller, agent, submit, show
):
    node = agent("stays", slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    assert node.leave("draining", "the node's agent was told to end") == 1
    leave(controller, node, allocation_id, step=40)
    for _ in range(3):
        controller.tick()
    trial = trial_of(show, experiment_id)
    assert [(a["state"], a["termination"]) for a in trial["attempts"]] == [("PREEMPTED", "drained")]
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)
    (row,) = show("/nodes")["items"]
    assert row["scheduling"] == "open"
    node.beat(problems=[])  # its next agent has none
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "STARTING"


def test_a_pilot_that_is_gone_before_it_reported_the_end_still_costs_nothing(
    controller, pilot, submit, show
):
    node = pilot(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    start(controller, node)
    node.leave("draining", "its job was canceled")
    node.leave("gone")
    for _ in range(3):
        controller.tick()
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)


def test_a_gang_over_pilots_ends_together_when_one_leaves(controller, pilot, submit, show):
    nodes = [pilot(f"slurm-{n}", slots=1) for n in (1, 2)]
    experiment_id = submit(slots=2, nodes=2)
    controller.tick()
    for node in nodes:
        node.get_ready(node.only().spec.allocation_id, port=1234)
    controller.tick()
    for node in nodes:
        node.run(node.only().spec.allocation_id)
    controller.tick()
    nodes[0].leave("draining", "its job was canceled")
    controller.tick()
    assert [node.only().desired for node in nodes] == ["stop", "stop"]
    for node in nodes:
        node.exit(node.only().spec.allocation_id, "stopped")
    nodes[0].leave("gone")
    for _ in range(3):
        controller.tick()
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)


def test_a_machine_that_stays_cannot_leave(agent):
    node = agent()
    node.leave("gone", expect=409)
    assert node.refusal["code"] == "agent.not_a_pilot"


def test_an_older_session_does_not_take_the_node_away(pilot, show):
    node = pilot()
    old = node.epoch
    node.register()
    node.epoch, new = old, node.epoch
    node.leave("gone", expect=410)
    node.epoch = new
    assert [n["name"] for n in show("/nodes")["items"]] == ["slurm-17"]


def test_a_trial_longer_than_a_pilot_waits_and_is_told_why(controller, pilot, submit, show):
    pilot(slots=1, ends_in_s=3600)
    long = submit(slots=1, max_duration="2h")
    short = submit(slots=1, max_duration="30min")
    controller.tick()
    waiting = trial_of(show, long)
    assert waiting["state"] == "QUEUED"
    assert "for its time limit of 120 min" in waiting["pending_reason"]
    assert trial_of(show, short)["state"] == "STARTING"


def test_before_its_end_a_pilot_is_drained_and_at_last_forgotten(
    controller, pilot, submit, show, time_machine
):
    time_machine.move_to(EPOCH, tick=False)
    node = pilot(slots=1, ends_in_s=400)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    time_machine.shift(320)
    node.beat()
    controller.tick()
    controller.tick()
    assert show("/nodes/slurm-17")["scheduling"] == "draining"
    assert (node.only().desired, node.only().stop_kind) == ("stop", "drain")
    leave(controller, node, allocation_id, step=7)
    # It is killed then, and says nothing any more: the only node there is.
    for _ in range(8):
        time_machine.shift(30)
        controller.tick()
    assert show("/nodes")["items"] == []
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)


def test_what_a_site_has_ended_while_the_server_was_away_goes_on_at_nobodys_expense(
    controller, pilot, submit, show
):
    node = pilot(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    words = "ended with its node (the node's agent was told to end)"
    info = ExitInfo(cause="stopped", message=words, site_stop_at_ms=1)
    node.send(allocation_id, StateRecord(observed="EXITED", exit=info))
    assert node.leave("gone") == 0
    for _ in range(2):
        controller.tick()
    trial = trial_of(show, experiment_id)
    (taken,) = trial["attempts"]
    assert (taken["state"], taken["termination"]) == ("PREEMPTED", "drained")
    assert taken["reason"] == "slurm-17 was told to end by its site, and could not tell the server"
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)
