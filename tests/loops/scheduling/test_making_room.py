"""The scheduler's decisions to make room, carried out against what is true by then."""

import dataclasses
import datetime as dt

import pytest
from sqlalchemy import select, update

from muster.wire import CheckpointRecord, MetricsRecord, SeriesPoints
from muster_server import clock
from muster_server.db.models import AttemptRow, ExperimentRow, NodeSlotRow, ProjectRow, TrialRow
from muster_server.domain.messages import Message
from muster_server.domain.scheduling import Preempt, Resize
from muster_server.loops.scheduler import SchedulerLoop
from muster_server.services.core.writes import Outdated
from muster_server.services.scheduling.placement import preempt, resize
from muster_server.services.scheduling.snapshot import load_scheduler_snapshot
from support.agent import leave, start


@pytest.fixture
def running(controller, agent, submit):
    """(agent, experiment, allocation) of a trial that runs on one of two slots."""
    node = agent(slots=2)
    experiment_id = submit(slots=1)
    controller.tick()
    return node, experiment_id, start(controller, node)


def snapshot(database, *, in_s=0):
    now = clock.now() + dt.timedelta(seconds=in_s)
    with database.read() as session:
        return load_scheduler_snapshot(session, now=now)


def attempts(database):
    with database.read() as session:
        return session.execute(
            select(
                AttemptRow.state,
                AttemptRow.yield_kind,
                AttemptRow.yield_reason,
                AttemptRow.yield_slots,
            ).order_by(AttemptRow.id)
        ).all()


def carry_out(database, decision):
    with database.transaction() as session:
        if isinstance(decision, Preempt):
            preempt(session, decision, now=clock.now())
        else:
            resize(session, decision, now=clock.now())


PREEMPT = Preempt(trial_id=1, attempt_no=1, for_trial_id=2, reason=Message("help.wait"))
RESIZE = Resize(trial_id=1, attempt_no=1, slots=2, reason=Message("help.rest"))


@pytest.mark.parametrize("decision", [PREEMPT, RESIZE])
def test_the_attempt_is_asked_once(database, submit, running, decision):
    submit(slots=4)  # waits
    before = clock.now()
    carry_out(database, decision)
    after = clock.now()
    (attempt,) = attempts(database)
    kind = "preempt" if decision is PREEMPT else "resize"
    assert (attempt.yield_kind, attempt.yield_reason) == (kind, decision.reason.english)
    assert attempt.yield_slots == (None if decision is PREEMPT else 2)
    with pytest.raises(Outdated, match="any more"):
        carry_out(database, decision)
    (asked,) = snapshot(database).running
    assert asked.yielding
    # By then it has left, or has been killed.
    grace = dt.timedelta(seconds=40)
    assert before <= asked.expected_end_at - grace <= after


@pytest.mark.parametrize("decision", [PREEMPT, RESIZE])
def test_only_this_very_attempt_is_asked(database, submit, running, decision):
    submit(slots=4)
    with pytest.raises(Outdated):
        carry_out(database, dataclasses.replace(decision, attempt_no=2))
    with database.transaction() as session:
        session.execute(update(TrialRow).where(TrialRow.id == 1).values(attempt_no=2))
    with pytest.raises(Outdated):
        carry_out(database, decision)
    assert attempts(database)[0].yield_kind is None


@pytest.mark.parametrize("state", ["WINDING_DOWN", "SUCCEEDED", "FAILED"])
def test_one_that_ends_by_itself_is_not_asked(database, submit, running, state):
    submit(slots=4)
    with database.transaction() as session:
        session.execute(update(AttemptRow).values(state=state))
    with pytest.raises(Outdated):
        carry_out(database, PREEMPT)


@pytest.mark.parametrize(
    "change",
    [
        update(TrialRow).where(TrialRow.id == 2).values(desired="stop"),
        update(TrialRow).where(TrialRow.id == 2).values(state="STARTING"),
        update(ExperimentRow).where(ExperimentRow.id == 2).values(desired="pause"),
    ],
)
def test_nobody_is_preempted_for_one_that_does_not_wait_any_more(database, submit, running, change):
    submit(slots=4)
    with database.transaction() as session:
        session.execute(change)
    with pytest.raises(Outdated, match="does not wait"):
        carry_out(database, PREEMPT)
    assert attempts(database)[0].yield_kind is None


def test_a_preempted_trial_keeps_its_place_and_nobody_is_charged(
    controller, database, submit, running, show
):
    node, experiment_id, allocation_id = running
    submit(slots=4)
    before = snapshot(database).running[0].queue_no
    carry_out(database, PREEMPT)
    controller.tick()
    assert (node.only().desired, node.only().stop_kind) == ("stop", "preempt")
    node.state(allocation_id, "STOPPING")
    node.send(allocation_id, CheckpointRecord(step=9, path="s9", size_bytes=1, files={"a": "0"}))
    node.exit(allocation_id, "stopped")
    controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    detail = show(f"/trials/{trial['id']}")
    assert detail["attempts"][1]["state"] == "PREEMPTED"
    assert detail["attempts"][1]["termination"] == "preempted"
    assert (detail["attempt_no"], node.only().spec.resume_step) == (2, 9)
    with database.read() as session:
        row = session.get_one(TrialRow, trial["id"])
        assert row.queue_no == before
        assert (row.failures_user, row.failures_infra) == (0, 0)
        assert row.waiting_since > row.queued_at


def test_a_resized_trial_comes_back_for_the_size_it_left_for(
    controller, database, submit, running, monkeypatch
):
    node, _, allocation_id = running
    with database.transaction() as session:
        config = session.scalars(select(ExperimentRow)).one().config
        elastic = dataclasses.replace(config.resources, slots=2, min_slots=1)
        changed = dataclasses.replace(config, resources=elastic)
        session.execute(update(ExperimentRow).values(config=changed))
    carry_out(database, RESIZE)
    controller.tick()
    assert node.only().stop_kind == "resize"
    node.exit(allocation_id, "stopped")
    node.beat()
    # One pass of the lifecycle alone: the trial waits.
    monkeypatch.setattr(SchedulerLoop, "run", lambda *_, **__: 0)
    controller.tick()
    (waiting,) = snapshot(database).queue
    assert (waiting.resize_slots, waiting.request.least_slots) == (2, 1)
    assert attempts(database)[0].state == "RESIZED"


# ---- what the scheduler gets to see


def report(node, allocation_id, step, *, planned=100):
    node.send(
        allocation_id,
        MetricsRecord(
            local_rank=0,
            rank=0,
            series=[SeriesPoints(name="train/loss", steps=[step], times_ms=[0], values=[1.0])],
            step=step,
            num_steps_planned=planned,
        ),
    )


def test_the_end_of_a_running_trial_follows_from_what_it_reports(database, running):
    node, _, allocation_id = running
    (trial,) = snapshot(database).running
    assert (trial.expected_end_at, trial.yielding, trial.slots) == (None, False, 1)
    with database.transaction() as session:
        session.execute(
            update(AttemptRow).values(started_at=clock.now() - dt.timedelta(seconds=100))
        )
    report(node, allocation_id, 50)
    (trial,) = snapshot(database).running
    assert (trial.expected_end_at - clock.now()).total_seconds() == pytest.approx(100, abs=10)
    (silent,) = snapshot(database, in_s=61).running
    assert silent.expected_end_at is None


def test_what_projects_may_hold_and_how_long_slots_are_free(database, controller, running):
    node, _, allocation_id = running
    with database.transaction() as session:
        session.execute(
            update(ProjectRow).values(
                weight=2.5, quotas=[{"pool": "default", "slot_type": "cpu", "slots": 3}]
            )
        )
        free = session.execute(select(NodeSlotRow.idx, NodeSlotRow.free_since)).all()
    assert {idx: since is None for idx, since in free} == {0: True, 1: False}
    node.exit(allocation_id)
    controller.tick()
    seen = snapshot(database)
    assert seen.projects[0].weight == 2.5
    assert seen.projects[0].quotas == {("default", "cpu"): 3}
    assert all(slot.free_since is not None for slot in seen.nodes[0].slots)
    assert seen.running == ()


def test_an_attempt_is_not_preempted_before_it_has_run_as_long_as_it_asked_for(
    controller, agent, submit, show, database
):
    node = agent(slots=1)
    submit(slots=1, min_runtime="30m", priority=20)
    controller.tick()
    start(controller, node)
    submit(slots=1, priority=80)
    controller.tick()
    (first,) = snapshot(database, in_s=29 * 60).running
    assert not first.preemptible
    assert [a.yield_kind for a in attempts(database)] == [None]
    (first,) = snapshot(database, in_s=31 * 60).running
    assert first.preemptible
    with database.transaction() as session:
        earlier = clock.now() - dt.timedelta(minutes=31)
        session.execute(update(AttemptRow).values(started_at=earlier))
    controller.tick()
    assert [a.yield_kind for a in attempts(database)] == ["preempt"]
    (event,) = show("/trials/1/events?type=attempt.preempted")["items"]
    assert "trial 1 of experiment 2 has priority 80" in event["message"]


ROLES = """
name: gang
code: {{installed: /srv/code}}
resources: {{priority: {priority}}}
roles:
  learner: {{entrypoint: train.py, resources: {{slots: 1}}}}
  rollout: {{entrypoint: train.py, count: 2, on_failure: restart}}
"""


def start_all(controller, node):
    """Drive every allocation of the node to RUNNING; their ids."""
    ids = [assignment.spec.allocation_id for assignment in node.poll().values()]
    for id_ in ids:
        node.get_ready(id_)
    controller.tick()
    for id_ in ids:
        node.run(id_)
    controller.tick()
    return ids


def test_a_gang_of_roles_gives_way_whole_to_another_one_and_comes_back(
    controller, agent, member_client, show, database
):
    def submit(priority):
        document = ROLES.format(priority=priority)
        return member_client.post("/api/v1/experiments", json={"document": document}).json()["id"]

    node = agent(slots=3)
    first = submit(20)
    controller.tick()
    members = start_all(controller, node)
    assert len(members) == 3
    second = submit(80)
    controller.tick()
    told = node.poll()
    assert {a.spec.allocation_id: (a.desired, a.stop_kind) for a in told.values()} == dict.fromkeys(
        members, ("stop", "preempt")
    )
    (event,) = show("/trials/1/events?type=attempt.preempted")["items"]
    assert f"trial 1 of experiment {second} has priority 80" in event["message"]

    for id_ in members[:-1]:
        leave(controller, node, id_, step=7)
    # No slot is given away while one member may still run.
    assert show(f"/experiments/{second}/trials")["items"][0]["state"] == "QUEUED"
    leave(controller, node, members[-1], step=7)
    node.beat()
    controller.tick()
    assert show(f"/experiments/{first}/trials")["items"][0]["state"] == "QUEUED"
    others = start_all(controller, node)
    assert show(f"/experiments/{second}/trials")["items"][0]["state"] == "RUNNING"
    assert set(others).isdisjoint(members)

    for id_ in others:
        node.exit(id_)
    controller.tick()
    node.beat()
    controller.tick()
    assert len(start_all(controller, node)) == 3
    (trial,) = show(f"/experiments/{first}/trials")["items"]
    assert (trial["state"], show(f"/trials/{trial['id']}")["attempt_no"]) == ("RUNNING", 2)
    with database.read() as session:
        row = session.get_one(TrialRow, trial["id"])
        assert (row.failures_user, row.failures_infra) == (0, 0)
