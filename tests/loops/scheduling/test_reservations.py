"""Reservations of nodes, through the real API, with agents that only talk."""

import pytest

from muster_server import clock
from muster_server.domain.scheduling import SchedulerPolicy, schedule
from muster_server.loops.runner import Controller
from muster_server.services.core.writes import Outdated
from muster_server.services.scheduling.placement import place
from muster_server.services.scheduling.snapshot import load_scheduler_snapshot
from support.agent import leave, start


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


def events_of(show, experiment_id, kind):
    events = show(f"/trials/{trial_of(show, experiment_id)['id']}/events")["items"]
    return [event["message"] for event in events if event["type"] == kind]


@pytest.fixture
def reserve(admin_client):
    """`reserve(nodes=["node-1"], project="vision")` returns the number of a reservation."""

    def create(**body):
        wish = {"ends_at": "1h", "reason": "deadline", **body}
        reply = admin_client.post("/api/v1/reservations", json=wish)
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    return create


@pytest.fixture
def make_project(admin_client):
    """`make_project()` makes project vision, to which everybody submits."""

    def make():
        body = {"name": "vision", "submission": "all"}
        assert admin_client.post("/api/v1/projects", json=body).status_code == 201

    return make


@pytest.fixture
def cancel(admin_client):
    def post(number):
        reply = admin_client.post(f"/api/v1/reservations/{number}:cancel")
        assert reply.status_code == 200, reply.text

    return post


@pytest.fixture
def restarted(controller, database, settings):
    """A controller that has just started, in place of one that was killed."""

    def make():
        controller.resign()
        return Controller(database, settings, monotonic=lambda: clock.now().timestamp())

    return make


def test_others_leave_at_the_start_and_return_at_the_end(
    controller, restarted, agent, submit, show, reserve, time_machine, admin_client, make_project
):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    node = agent("node-1", slots=1)
    make_project()
    number = reserve(project="vision", nodes=["node-1"], starts_at="10min", ends_at="1h")
    too_long = submit(slots=1, max_duration="4h")
    controller.tick()
    assert "would reach into reservation" in trial_of(show, too_long)["pending_reason"]
    without = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    (told,) = events_of(show, without, "trial.placed")
    assert f"Reservation {number} takes node-1 from it: vision, 2026-03-01 12:10" in told

    def pass_time(seconds, by):
        time_machine.shift(seconds)
        node.beat()
        for _ in range(2):
            by.tick()

    pass_time(559, controller)
    assert node.only().desired == "start"
    # Killed just before, and not there when it is due: the next one does it.
    later = restarted()
    pass_time(20, later)
    assert (node.only().desired, node.only().stop_kind) == ("stop", "preempt")
    assert node.only().stop_reason == (
        f"reservation {number} takes node-1 (vision, 2026-03-01 12:10–13:10 UTC: deadline)"
    )
    leave(later, node, allocation_id, step=5)
    ours = submit("project: vision", slots=1)
    pass_time(30, later)
    trial = trial_of(show, without)
    assert (trial["state"], trial["num_restarts"]) == ("QUEUED", 0)
    assert f"reserved (reservation {number} for vision" in trial["pending_reason"]
    assert not trial["is_impossible"]
    assert trial_of(show, ours)["state"] == "STARTING"
    assert len(events_of(show, without, "attempt.preempted")) == 1
    again = restarted()
    pass_time(60, again)
    assert len(events_of(show, without, "attempt.preempted")) == 1

    leave(again, node, node.only().spec.allocation_id, step=5)
    admin_client.post(f"/api/v1/experiments/{ours}:kill")
    pass_time(3600, again)
    pass_time(5, again)
    assert show("/reservations")["items"] == []
    states = {trial_of(show, id_)["state"] for id_ in (too_long, without)}
    assert states == {"QUEUED", "STARTING"}


def test_an_elastic_trial_shrinks_and_the_cancellation_frees_at_once(
    controller, agent, submit, show, reserve, cancel, admin_client, make_project
):
    nodes = [agent(name, slots=1) for name in ("node-1", "node-2")]
    make_project()
    elastic = submit(slots=2, min_slots=1)
    controller.tick()
    allocations = [start(controller, node) for node in nodes]
    number = reserve(project="vision", nodes=["node-2"])
    controller.tick()
    controller.tick()
    assert {node.only().stop_kind for node in nodes} == {"resize"}
    (asked,) = events_of(show, elastic, "attempt.yield")
    assert f"continues elsewhere with 1 of its 2 slots: reservation {number} takes node-2" in asked
    for node, allocation_id in zip(nodes, allocations, strict=True):
        leave(controller, node, allocation_id, step=3)
    controller.tick()
    assert [len(node.poll()) for node in nodes] == [1, 0]
    waiting = submit(slots=1)
    controller.tick()
    assert trial_of(show, waiting)["state"] == "QUEUED"
    cancel(number)
    controller.tick()
    assert trial_of(show, waiting)["state"] == "STARTING"


def test_both_sides_are_told(
    controller, restarted, agent, submit, show, reserve, cancel, member_client, admin_client
):
    node = agent("node-1", slots=1)
    for client in (member_client, admin_client):
        rule = {"kinds": ["nodes.reserved", "trial.preempted"]}
        assert client.post("/api/v1/notifications/rules", json=rule).status_code == 201
    experiment_id = submit(slots=1)
    controller.tick()
    start(controller, node)
    name = admin_client.get("/api/v1/auth/me").json()["username"]
    number = reserve(user=name, nodes=["node-1"])
    controller.tick()
    restarted().tick()
    cancel(number)

    def inbox(client):
        items = client.get("/api/v1/notifications/inbox").json()["items"]
        return [item["message"] for item in reversed(items)]

    mine = inbox(admin_client)
    assert [text.split(". ")[0].rsplit(" ", 1)[-1] for text in mine] == [
        "deadline", "begun", "cancelled",
    ]  # fmt: skip
    theirs = inbox(member_client)
    assert len(theirs) == 2
    assert f"takes slots of {experiment_id}.1 at its start" in theirs[0]
    assert f"give up its slots: reservation {number} takes node-1" in theirs[1]


def test_a_placement_decided_before_a_reservation_is_dropped(
    database, agent, submit, reserve, show, admin_client, make_project
):
    agent("node-1", slots=1)
    make_project()
    experiment_id = submit(slots=1)
    now = clock.now()
    with database.read() as session:
        snapshot = load_scheduler_snapshot(session, now=now)
    (decision,) = schedule(snapshot, now=now, policy=SchedulerPolicy())
    number = reserve(nodes=["node-1"], project="vision")
    refused = pytest.raises(Outdated, match=f"reservation {number} has node-1")
    with refused, database.transaction() as session:
        place(session, decision, controller_epoch=1, now=clock.now())
    assert trial_of(show, experiment_id)["state"] == "QUEUED"


def test_quotas_hold_on_reserved_nodes_too(
    controller, agent, submit, show, reserve, admin_client, make_project
):
    agent("node-1", slots=2)
    make_project()
    quota = {"quotas": [{"pool": "default", "slot_type": "cpu", "slots": 1}]}
    assert admin_client.patch("/api/v1/projects/vision", json=quota).status_code == 200
    reserve(nodes=["node-1"], project="vision")
    first, second = (submit("project: vision", slots=1) for _ in range(2))
    controller.tick()
    assert trial_of(show, first)["state"] == "STARTING"
    assert (
        "the quota of project vision there is 1 slot" in (trial_of(show, second)["pending_reason"])
    )
