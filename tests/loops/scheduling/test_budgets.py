"""Spending, alerts and hard stops, through the real API and controller."""

import datetime as dt

import pytest
from sqlalchemy import func, select, update

from muster_server import clock
from muster_server.db.models import AllocationRow, EventRow, SpendingRow
from muster_server.loops.runner import Controller
from support.agent import leave, start

HOUR = 3600.0


def in_(seconds):
    return lambda: clock.now() + dt.timedelta(seconds=seconds)


@pytest.fixture
def reserved(database):
    """`reserved(2)` lets what is held now have been reserved two hours ago."""

    def shift(hours):
        with database.transaction() as session:
            session.execute(
                update(AllocationRow)
                .where(AllocationRow.observed != "CLEANED")
                .values(created_at=clock.now() - dt.timedelta(hours=hours))
            )

    return shift


@pytest.fixture
def events(database):
    def of(kind):
        with database.read() as session:
            return list(
                session.scalars(
                    select(EventRow.message).where(EventRow.type == kind).order_by(EventRow.id)
                )
            )

    return of


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


def test_slots_cost_while_they_are_held_and_are_settled_once(
    controller, agent, submit, show, admin_client, database, reserved
):
    admin_client.put("/api/v1/pools/default", json={"price_per_slot_hour": 1.5})
    node = agent(slots=2)
    experiment_id = submit(slots=2)
    controller.tick()
    admin_client.put("/api/v1/pools/default", json={"price_per_slot_hour": 99})
    allocation_id = start(controller, node)
    reserved(2)
    running = show(f"/experiments/{experiment_id}")["spending"]
    assert running["slot_hours"] == pytest.approx(4, abs=0.01)
    assert running["cost"] == pytest.approx(6, abs=0.02), "the price of when they were reserved"
    assert (running["slots_held"], running["cost_per_hour"]) == (2, 3.0)
    node.exit(allocation_id)
    for _ in range(3):
        controller.tick()
    ended = show(f"/experiments/{experiment_id}")["spending"]
    assert ended["slot_hours"] == pytest.approx(4, abs=0.05)
    assert ended["slots_held"] == 0
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(SpendingRow)) == 1
    assert show("/projects/default")["spending"]["slot_hours"] == ended["slot_hours"]


def test_alerts_come_once_also_over_a_new_controller(
    controller, agent, submit, show, database, settings, reserved, events
):
    node = agent(slots=1)
    experiment_id = submit("budget: {slot_hours: 4, alert_at: [0.5, 0.75]}", slots=1)
    controller.tick()
    start(controller, node)
    assert events("budget.alert") == []
    reserved(2.2)
    for _ in range(3):
        controller.tick()
    assert len(events("budget.alert")) == 1
    controller.resign()
    second = Controller(database, settings, monotonic=lambda: clock.now().timestamp())
    for _ in range(2):
        second.tick()
    assert len(events("budget.alert")) == 1
    reserved(3.2)
    second.tick()
    first, later = events("budget.alert")
    assert first.startswith(
        "The experiment has spent 50% of its budget of 4 slot-hours: 2.2 slot-hours"
    )
    assert later.startswith("The experiment has spent 75% of its budget")
    (limit,) = show(f"/experiments/{experiment_id}")["budget"]["limits"]
    assert limit["alerts_given"] == [0.5, 0.75]
    assert limit["exhausted_at"] is not None
    assert trial_of(show, experiment_id)["state"] == "RUNNING"


def test_a_used_up_budget_stops_with_a_checkpoint_and_says_so(
    controller, agent, submit, show, reserved, events
):
    node = agent(slots=1)
    experiment_id = submit("budget: {slot_hours: 1}", slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    reserved(1.5)
    controller.tick()
    assignment = node.only()
    assert assignment.desired == "stop", "with time for a checkpoint"
    used_up = "The experiment has used up its budget of 1 slot-hours"
    assert f"{used_up}: 1.5 slot-hours spent" in assignment.stop_reason
    assert show(f"/experiments/{experiment_id}")["state"] == "STOPPING"
    leave(controller, node, allocation_id, step=7)
    experiment, trial = show(f"/experiments/{experiment_id}"), trial_of(show, experiment_id)
    assert (experiment["state"], experiment["termination"]) == ("CANCELED", "budget_exhausted")
    assert used_up in experiment["reason"]
    assert (trial["state"], trial["termination"]) == ("CANCELED", "budget_exhausted")
    assert len(events("budget.exhausted")) == 1


def test_a_passed_deadline_ends_what_never_ran(controller, submit, show):
    experiment_id = submit("budget: {deadline: 1h}", slots=1)
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "QUEUED"
    controller.tick(in_(2 * HOUR))
    experiment = show(f"/experiments/{experiment_id}")
    assert (experiment["state"], experiment["termination"]) == ("CANCELED", "budget_exhausted")
    assert "The budget deadline of the experiment" in experiment["reason"]


SEARCH = """
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: random, trials: 6, concurrent: 2, metric: val/loss, goal: min}
budget: {slot_hours: 1}
"""


def test_a_search_stops_and_creates_nothing_more(controller, agent, submit, show, reserved):
    node = agent(slots=1)
    experiment_id = submit(SEARCH, slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    reserved(1.5)
    controller.tick()
    leave(controller, node, allocation_id, step=1)
    for _ in range(3):
        controller.tick()
    trials = show(f"/experiments/{experiment_id}/trials")["items"]
    assert [t["state"] for t in trials] == ["CANCELED", "CANCELED"]
    assert show(f"/experiments/{experiment_id}")["state"] == "CANCELED"
    assert show(f"/experiments/{experiment_id}/search")["finished"]


def test_what_waits_in_a_used_up_project_waits_until_the_budget_is_raised(
    controller, agent, submit, show, admin_client, reserved
):
    node = agent(slots=1)
    running = submit("project: vision", slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    waiting = submit("project: vision", slots=1)
    admin_client.patch("/api/v1/projects/vision", json={"budget": {"slot_hours": 1}})
    reserved(1.5)
    controller.tick()
    leave(controller, node, allocation_id, step=1)
    for _ in range(2):
        controller.tick()
    assert show(f"/experiments/{running}")["termination"] == "budget_exhausted"
    assert trial_of(show, waiting)["state"] == "QUEUED"
    assert "Project vision has used up its budget" in trial_of(show, waiting)["pending_reason"]
    (item,) = show("/queue")["items"]
    assert "has used up its budget" in item["pending_reason"]
    project = show("/projects/vision")
    assert project["exhausted_reason"]
    (part,) = project["exhausted_parts"]
    assert part["code"] == "budget.project_used_up"
    assert part["params"]["project"] == "vision"
    told, help_ = trial_of(show, waiting)["pending_parts"]
    assert item["pending_parts"] == [told, help_]
    assert (told, help_["code"]) == (part, "help.budget")
    elsewhere = submit("project: audio", slots=1)
    controller.tick()
    assert trial_of(show, elsewhere)["state"] == "STARTING", "others are not kept waiting"
    allocation_id = start(controller, node)
    node.exit(allocation_id)
    controller.tick()
    admin_client.patch("/api/v1/projects/vision", json={"budget": {"slot_hours": 10}})
    for _ in range(2):
        controller.tick()
    assert show("/projects/vision")["exhausted_reason"] == ""
    assert show("/projects/vision")["exhausted_parts"] == []
    assert trial_of(show, waiting)["state"] == "STARTING"


def test_a_lost_node_does_not_go_on_costing(controller, agent, submit, show, database):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    start(controller, node)
    with database.transaction() as session:
        begun = clock.now() - dt.timedelta(hours=3)
        session.execute(
            update(AllocationRow).values(
                observed="LOST", created_at=begun, ended_at=begun + dt.timedelta(hours=1)
            )
        )
    spent = show(f"/experiments/{experiment_id}")["spending"]
    assert (spent["slot_hours"], spent["slots_held"]) == (pytest.approx(1), 0)
