"""Trials that hold slots and do nothing: noticed once, stopped where a rule says so, kept by a click."""

import datetime as dt
from contextlib import suppress

import pytest
from sqlalchemy import event

from muster.wire import (
    MetricsRecord,
    ProgressRecord,
    SeriesPoints,
    WorkerProgress,
    WorkerRecord,
)
from muster_server import clock
from muster_server.domain.runtime.waste import decide
from muster_server.services.core.writes import Outdated
from muster_server.services.runtime import waste
from support.agent import leave, start

START = "2026-03-01T12:00:00Z"
STOPS = (
    "waste: {no_step_for_min: 10, grace_min: 0, action: checkpoint_and_stop, act_after_min: 5}\n"
)
WORKER = WorkerRecord(
    local_rank=0, rank=0, world_size=1, node_rank=0, pid=1, host="h", master_addr="", master_port=1
)


def stepped(step):
    points = SeriesPoints(name="train/loss", steps=[step], times_ms=[1000 * step], values=[1.0])
    return MetricsRecord(local_rank=0, rank=0, series=[points], step=step)


def in_phase(phase, step=1):
    worker = WorkerProgress(local_rank=0, rank=0, reports=True, step=step, phase=phase)
    return ProgressRecord(workers=[worker])


@pytest.fixture
def running(controller, agent, submit, show, time_machine):
    """`running(document)` is (agent, allocation id, trial id) of a trial that has made a step."""

    def make(document="", slot_type="cpu"):
        time_machine.move_to(START, tick=False)
        node = agent(slots=1, slot_type=slot_type)
        experiment_id = submit(document, slots=1, slot_type=slot_type)
        controller.tick()
        allocation_id = start(controller, node, WORKER)
        node.send(allocation_id, stepped(1))
        (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
        return node, allocation_id, trial["id"]

    return make


@pytest.fixture
def elapse(controller, time_machine):
    """`elapse(node, minutes)`: the node beats meanwhile, and the controller looks."""

    def move(node, minutes, **beat):
        for _ in range(round(minutes * 4)):
            time_machine.shift(15)
            node.beat(**beat)
            controller.tick()

    return move


@pytest.fixture
def said(show):
    def get(trial_id):
        found = show(f"/trials/{trial_id}/events")["items"]
        return [e for e in found[::-1] if e["type"].startswith("waste.")]

    return get


def test_a_trial_without_a_step_is_noticed_once_and_nothing_else_happens(
    running, elapse, show, said
):
    node, allocation_id, trial_id = running()
    elapse(node, 59)
    assert (said(trial_id), show(f"/trials/{trial_id}")["waste"]) == ([], None)
    elapse(node, 2)
    (event,) = said(trial_id)
    assert (event["type"], event["level"]) == ("waste.noticed", "warning")
    assert event["message"] == "No step for 60 min, while its slots are held."
    shown = show(f"/trials/{trial_id}")["waste"]
    assert (shown["text"], shown["action"], shown["acts_at"]) == (event["message"], "notice", None)
    assert shown["parts"] == [{"code": "waste.no_step", "params": {"minutes": "60"}}]

    elapse(node, 120)
    assert (len(said(trial_id)), node.only().desired) == (1, "start")
    # It goes on, and that silence is over; the next one is another.
    node.send(allocation_id, stepped(2))
    elapse(node, 1)
    assert show(f"/trials/{trial_id}")["waste"] is None
    elapse(node, 61)
    assert len(said(trial_id)) == 2


def test_a_trial_is_stopped_with_time_for_a_checkpoint_and_can_be_resumed(
    running, elapse, show, said, controller, admin_client
):
    node, allocation_id, trial_id = running(STOPS)
    elapse(node, 10.5)
    assert show(f"/trials/{trial_id}")["waste"]["action"] == "checkpoint_and_stop"
    elapse(node, 4)
    assert node.only().desired == "start"
    elapse(node, 1)
    _, ended = said(trial_id)
    assert (ended["type"], ended["data"]["action"]) == ("waste.ended", "checkpoint_and_stop")
    assert ended["message"].endswith("The trial is stopped after a last checkpoint.")
    assert node.only().desired == "stop"

    leave(controller, node, allocation_id, step=1)
    controller.tick()
    trial = show(f"/trials/{trial_id}")
    assert trial["state"] == "CANCELED"
    assert trial["reason"].startswith("waste: no step for 15 min")
    reply = admin_client.post(f"/api/v1/experiments/{trial['experiment_id']}:continue", json={})
    assert reply.status_code in (200, 202), reply.text
    controller.tick()
    controller.tick()
    spec = node.only().spec
    assert (spec.attempt_no, spec.resume_step) == (2, 1)


def test_its_owner_keeps_a_trial_running(running, elapse, show, said, muster, admin_client):
    node, _, trial_id = running(STOPS)
    elapse(node, 11)
    experiment_id = show(f"/trials/{trial_id}")["experiment_id"]
    shown = muster("keep", str(experiment_id), "--hours", "1")
    assert shown.exit_code == 0, shown.output
    trial = show(f"/trials/{trial_id}")
    assert trial["waste"] is None
    until = clock.now() + dt.timedelta(hours=1)
    assert dt.datetime.fromisoformat(trial["keep_until"]) == until
    elapse(node, 59)
    assert [e["type"] for e in said(trial_id)] == ["waste.noticed", "waste.kept"]
    # Then it is noticed anew, and has its time again.
    elapse(node, 4)
    assert said(trial_id)[-1]["type"] == "waste.noticed"
    assert node.only().desired == "start"
    elapse(node, 3)
    assert said(trial_id)[-1]["type"] == "waste.ended"

    reply = admin_client.post(f"/api/v1/trials/{trial_id}:keep", json={"hours": 8})
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "trials.not_running")
    reply = admin_client.post(f"/api/v1/trials/{trial_id}:keep", json={"hours": 500})
    assert reply.status_code == 422
    assert reply.json()["error"]["fields"][0]["path"] == "hours"


@pytest.mark.parametrize("phase", ["no_grad", "checkpoint"])
def test_a_trial_that_evaluates_or_saves_wastes_nothing(running, elapse, said, phase):
    node, allocation_id, trial_id = running(STOPS)
    node.send(allocation_id, in_phase(phase))
    elapse(node, 60)
    assert said(trial_id) == []
    node.send(allocation_id, in_phase("other"))
    elapse(node, 11)
    assert [e["type"] for e in said(trial_id)] == ["waste.noticed"]


def test_a_trial_that_has_made_no_step_yet_is_left_alone(
    elapse, said, controller, submit, agent, show, time_machine
):
    time_machine.move_to(START, tick=False)
    node = agent(slots=1)
    experiment_id = submit(STOPS, slots=1)
    controller.tick()
    start(controller, node, WORKER)
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    elapse(node, 60)
    assert said(trial["id"]) == []


@pytest.mark.parametrize("pool_action", ["notice", "stop"])
def test_idle_gpus_are_noticed_by_the_rule_of_their_pool(
    running, elapse, show, said, muster, pool_action
):
    changed = muster(
        "pool", "waste", "default", "--idle-for", "5", "--grace", "1", "--no-step", "0",
        "--action", pool_action, "--act-after", "2", as_="admin",
    )  # fmt: skip
    assert changed.exit_code == 0, changed.output
    assert "all GPUs below 5% for 5 min, from 1 min after the start on: a notice" in (
        changed.output.replace("\n", " ")
    )
    usage = {
        "cpu_pct": 1.0, "memory_used_bytes": 1, "memory_total_bytes": 2, "disk_free_bytes": 1,
        "gpus": [
            {"index": 0, "name": "g", "use_pct": 90.0, "memory_used_bytes": 1,
             "memory_total_bytes": 2, "power_w": None, "temperature_c": None}
        ],
    }  # fmt: skip
    node, _, trial_id = running(slot_type="cuda")
    elapse(node, 8, usage=usage)
    assert said(trial_id) == []
    usage["gpus"][0]["use_pct"] = 1.0
    elapse(node, 4.5, usage=usage)
    assert said(trial_id) == []
    elapse(node, 1, usage=usage)
    (event,) = said(trial_id)
    assert event["message"].startswith("No GPU used by 5% or more for 5 min")
    elapse(node, 2.5, usage=usage)
    if pool_action == "stop":
        assert (node.only().desired, len(said(trial_id))) == ("kill", 2)
    else:
        assert (node.only().desired, len(said(trial_id))) == ("start", 1)


def test_a_controller_that_dies_in_between_says_nothing_twice(
    running, elapse, said, controller, database, time_machine, admin_client
):
    node, _, trial_id = running(STOPS)
    elapse(node, 9)
    time_machine.shift(120)
    node.beat()
    now = clock.now()

    def look():
        with database.read() as session:
            facts = waste.load_facts(session, listening_since=now - dt.timedelta(days=1), now=now)
        return [found for one in facts if (found := decide(one, now=now))]

    def die(*_):
        raise KeyboardInterrupt

    (decision,) = look()
    event.listen(database.engine, "commit", die)
    try:
        with suppress(KeyboardInterrupt), database.transaction() as session:
            waste.carry_out(session, decision, now=now)
    finally:
        event.remove(database.engine, "commit", die)
    assert said(trial_id) == []

    (decision,) = look()
    with database.transaction() as session:
        waste.carry_out(session, decision, now=now)
    with pytest.raises(Outdated), database.transaction() as session:
        waste.carry_out(session, decision, now=now)
    assert [e["type"] for e in said(trial_id)] == ["waste.noticed"]
    assert look() == []

    # A decision to stop it does not survive an extension.
    now += dt.timedelta(minutes=10)
    time_machine.move_to(now, tick=False)
    (decision,) = look()
    assert decision.kind == "end"
    assert admin_client.post(f"/api/v1/trials/{trial_id}:keep", json={}).status_code == 200
    with pytest.raises(Outdated), database.transaction() as session:
        waste.carry_out(session, decision, now=now)
    assert node.only().desired == "start"


def test_the_owner_is_notified(running, elapse, admin_client, show):
    reply = admin_client.post(
        "/api/v1/notifications/rules",
        json={"kinds": ["waste.noticed"], "inbox": True, "whose": "all"},
    )
    assert reply.status_code == 201, reply.text
    node, _, _ = running(STOPS)
    elapse(node, 17)
    found = admin_client.get("/api/v1/notifications/inbox").json()["items"]
    assert [n["kind"] for n in found] == [
        "waste.noticed", "waste.noticed",
    ]  # fmt: skip
