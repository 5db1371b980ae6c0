"""Maintenance windows, through the real API, with agents that only talk."""

import pytest

from muster_server import clock
from muster_server.domain.scheduling import SchedulerPolicy, schedule
from muster_server.loops.runner import Controller
from muster_server.services.core.writes import Outdated
from muster_server.services.scheduling.placement import place
from muster_server.services.scheduling.snapshot import load_scheduler_snapshot
from support.agent import FakeAgent, leave, start


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


@pytest.fixture
def window(admin_client):
    """`window(ends_at="1h")` opens a maintenance window and returns its id."""

    def create(**body):
        reply = admin_client.post("/api/v1/maintenance", json={"reason": "new switch", **body})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    return create


@pytest.fixture
def end(admin_client):
    def post(window_id):
        reply = admin_client.post(f"/api/v1/maintenance/{window_id}:end")
        assert reply.status_code == 200, reply.text

    return post


@pytest.fixture
def restarted(controller, database, settings):
    """A controller that has just started, in place of one that was killed."""

    def make():
        controller.resign()
        return Controller(database, settings, monotonic=lambda: clock.now().timestamp())

    return make


def times_asked(show, experiment_id):
    events = show(f"/trials/{trial_of(show, experiment_id)['id']}/events")["items"]
    return sum(event["type"] == "attempt.yield" for event in events)


def test_running_trials_are_asked_once_wait_and_continue_after_the_end(
    controller, restarted, agent, submit, show, window, end
):
    node = agent("node-1", slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)

    window_id = window(running="checkpoint")
    controller.tick()
    told = node.only()
    assert (told.desired, told.stop_kind) == ("stop", "drain")
    assert told.stop_reason.startswith("maintenance (20")
    assert told.stop_reason.endswith("UTC –: new switch)")
    other = restarted()
    for _ in range(3):
        other.tick()
    assert times_asked(show, experiment_id) == 1
    leave(other, node, allocation_id, step=40)
    other.tick()

    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)
    assert [a["termination"] for a in trial["attempts"]] == ["drained"]
    assert "1 on 1 node in maintenance (20" in trial["pending_reason"]
    assert show("/nodes/node-1")["unavailable"] == "maintenance"
    assert show("/nodes/node-1")["scheduling"] == "open"
    assert show("/cluster")["num_slots_free"] == 0
    (waiting,) = show("/queue")["items"]
    assert waiting["pending_reason"] == trial["pending_reason"]

    end(window_id)
    other.tick()
    spec = node.only().spec
    assert (spec.attempt_no, spec.resume_step) == (2, 40)
    assert show("/maintenance")["items"] == []


def test_keep_lets_what_runs_go_on_and_starts_nothing(controller, agent, submit, show, window):
    node = agent("node-1", slots=2)
    running = submit(slots=1)
    controller.tick()
    start(controller, node)
    window(running="keep", nodes=["node-1"])
    waiting = submit(slots=1)
    for _ in range(2):
        controller.tick()
    assert node.only().desired == "start"
    assert trial_of(show, running)["state"] == "RUNNING"
    assert trial_of(show, waiting)["state"] == "QUEUED"
    assert "in maintenance (node-1, " in trial_of(show, waiting)["pending_reason"]


def test_a_planned_window_begins_and_ends_by_the_clock(
    controller, restarted, agent, submit, show, window, time_machine, admin_client, connect
):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    node = agent("node-1", slots=1)
    token = admin_client.post("/api/v1/join-tokens", json={"pool": "other"}).json()["secret"]
    other_pool = FakeAgent(lambda t: connect(token=t), token, "node-2", slots=1, pool="other")
    other_pool.register()
    window(starts_at="10min", ends_at="1h", pools=["default"])
    too_long = submit(slots=1, max_duration="4h")
    controller.tick()
    assert (
        "its time limit of 4 h would reach into a maintenance (default, "
        in (trial_of(show, too_long)["pending_reason"])
    )
    without = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    elsewhere = submit(slots=1, pool="other", max_duration="4h")
    controller.tick()
    start(controller, other_pool)

    def pass_time(seconds, by):
        time_machine.shift(seconds)
        for each in (node, other_pool):
            each.beat()
        for _ in range(2):
            by.tick()

    pass_time(599, controller)
    assert node.only().desired == "start"
    # Killed just before the start, and not there at the start: the next one does what is due.
    later = restarted()
    pass_time(30, later)
    assert (node.only().desired, node.only().stop_kind) == ("stop", "drain")
    assert other_pool.only().desired == "start"
    leave(later, node, allocation_id, step=5)
    pass_time(600, later)
    assert trial_of(show, without)["state"] == "QUEUED"
    assert [item["is_active"] for item in show("/maintenance")["items"]] == [True]
    assert times_asked(show, without) == 1
    assert times_asked(show, elsewhere) == 0

    pass_time(3600, later)
    assert show("/maintenance")["items"] == []
    started = [trial_of(show, id_)["state"] for id_ in (too_long, without)]
    assert sorted(started) == ["QUEUED", "STARTING"]


def test_a_cordoned_node_stays_cordoned(controller, agent, submit, show, admin_client, window, end):
    node = agent("node-1", slots=1)
    window_id = window()
    admin_client.patch(f"/api/v1/nodes/{node.node_id}", json={"scheduling": "cordoned"})
    submit(slots=1)
    controller.tick()
    end(window_id)
    controller.tick()
    assert node.poll() == {}
    assert show("/nodes/node-1")["unavailable"] == "cordoned"


def test_everybody_with_a_rule_is_told_once_of_each_turn(
    controller, restarted, member_client, window, end
):
    rule = {"kinds": ["cluster.maintenance"]}
    reply = member_client.post("/api/v1/notifications/rules", json=rule)
    assert reply.status_code == 201, reply.text
    planned = window(starts_at="2h", ends_at="1h", running="keep")
    end(planned)
    now = window()
    controller.tick()
    other = restarted()
    other.tick()
    end(now)
    inbox = member_client.get("/api/v1/notifications/inbox").json()["items"]
    told = [item["message"].split(" (")[0] for item in reversed(inbox)]
    assert told == [
        "Maintenance is planned",
        "Planned maintenance was called off",
        "Maintenance has started",
        "Maintenance has ended",
    ]


def test_a_placement_decided_before_a_window_was_opened_is_dropped(
    database, agent, submit, window, show
):
    agent("node-1", slots=1)
    experiment_id = submit(slots=1)
    now = clock.now()
    with database.read() as session:
        snapshot = load_scheduler_snapshot(session, now=now)
    (decision,) = schedule(snapshot, now=now, policy=SchedulerPolicy())
    window(nodes=["node-1"])
    refused = pytest.raises(Outdated, match="node-1 is in maintenance")
    with refused, database.transaction() as session:
        place(session, decision, controller_epoch=1, now=clock.now())
    assert trial_of(show, experiment_id)["state"] == "QUEUED"
    assert show("/nodes/node-1")["num_slots_used"] == 0
