"""Checkpoints that the policy does not keep: chosen by nobody at once, their files deleted by an agent."""

import datetime as dt

import pytest
from sqlalchemy import select, update

from muster.wire import CheckpointRecord, DeletionResult
from muster_server import clock
from muster_server.db.models import (
    AuditRow,
    CheckpointRow,
    ClusterIdentityRow,
    EventRow,
    FileDeletionRow,
    NodeRow,
)
from muster_server.loops.cleaning import EVERY

from .test_lineage import post, start

KEEP = "search: {metric: val/loss, goal: min}\ncheckpoints: {keep: {last: 1, best: 1}}\n"


def save(node, allocation_id, step, loss):
    node.send(
        allocation_id,
        CheckpointRecord(
            step=step,
            path=f"step-{step:08d}",
            size_bytes=step,
            files={},
            metrics={"val/loss": loss},
        ),
    )


def states(database):
    with database.read() as session:
        return dict(session.execute(select(CheckpointRow.step, CheckpointRow.state)).all())


def wanted(database):
    with database.read() as session:
        rows = session.scalars(select(FileDeletionRow).order_by(FileDeletionRow.id))
        return [(row.path, row.state) for row in rows]


@pytest.fixture
def later(time_machine):
    time_machine.move_to(clock.now(), tick=True)

    def move(node):
        time_machine.shift(EVERY + dt.timedelta(seconds=1))
        node.beat()

    return move


def test_while_it_trains_and_when_it_has_ended(controller, agent, submit, show, database, later):
    node = agent(slots=1)
    experiment_id = submit(KEEP, slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    for step, loss in ((1, 0.9), (2, 0.1), (3, 0.5), (4, 0.4), (5, 0.3)):
        save(node, allocation_id, step, loss)
    later(node)
    controller.tick()
    # The newest two of a trial that may go on, and the best one.
    expected = {1: "deleting", 2: "complete", 3: "deleting", 4: "complete", 5: "complete"}
    assert states(database) == expected

    plan = show(f"/experiments/{experiment_id}/checkpoints:plan?last=1")
    assert [(c["step"], c["is_kept"]) for c in plan["checkpoints"]] == [
        (2, False), (4, True), (5, True),
    ]  # fmt: skip
    assert (plan["num_dropped"], plan["freed_bytes"]) == (1, 2)
    assert states(database) == expected

    node.exit(allocation_id, "success")
    controller.tick()
    later(node)
    controller.tick()
    assert states(database) == {**expected, 4: "deleting"}

    folder = f"experiment-{experiment_id}/trial-1/step-0000000"
    deletions = node.deletions()
    assert [d.path for d in deletions] == [f"{folder}{n}" for n in (1, 3, 4)]
    node.report_deletions(
        *(DeletionResult(id=d.id, outcome="done", freed_bytes=1) for d in deletions)
    )
    assert states(database) == {
        1: "deleted",
        2: "complete",
        3: "deleted",
        4: "deleted",
        5: "complete",
    }
    assert node.deletions() == []


def test_a_step_that_is_saved_again_keeps_its_files(controller, agent, submit, database, later):
    node = agent(slots=1)
    submit(KEEP + "restarts: {user: 1}\n", slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    for step, loss in ((1, 0.9), (2, 0.1), (3, 0.5), (4, 0.4)):
        save(node, allocation_id, step, loss)
    later(node)
    controller.tick()
    assert [state for _, state in wanted(database)] == ["pending"]
    node.exit(allocation_id, "user_error", message="boom")
    for _ in range(3):
        later(node)
        controller.tick()
    again = start(controller, node)
    save(node, again, 1, 0.8)  # both newer ones were damaged
    assert [state for _, state in wanted(database)] == ["dismissed"]
    assert node.deletions() == []


def test_cleaning_up_by_hand(controller, agent, submit, member_client, database):
    node = agent(slots=1)
    experiment_id = submit("search: {metric: val/loss, goal: min}\n", slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    for step, loss in ((1, 0.9), (2, 0.1), (3, 0.5), (4, 0.4)):
        save(node, allocation_id, step, loss)
    node.exit(allocation_id, "success")
    controller.tick()
    assert set(states(database).values()) == {"complete"}  # without a policy
    done = post(
        member_client, f"/experiments/{experiment_id}/checkpoints:clean", status=202,
        last=0, best=1,
    )  # fmt: skip
    assert done["num_deleted"] == 3
    assert [step for step, state in states(database).items() if state == "complete"] == [2]
    refused = post(
        member_client, f"/experiments/{experiment_id}/checkpoints:clean", code="request.invalid",
        last=-1,
    )  # fmt: skip
    assert "last" in str(refused)


def test_in_an_object_store(controller, agent, submit, member_client, database, later):
    """Where it lies goes to the agents; the one that wrote it deletes it, or any other."""
    node, other = agent("b", slots=1), agent("a", slots=0)
    experiment_id = submit(
        "search: {metric: val/loss, goal: min}\n"
        "checkpoints: {keep: {last: 1, best: 0}, storage: 's3://bucket/team/'}\n"
        "restarts: {user: 1}\n",
        slots=1,
    )
    controller.tick()
    allocation_id = start(controller, node)
    spec = node.specs[allocation_id].spec
    with database.read() as session:
        cluster = session.scalars(select(ClusterIdentityRow.id)).one()
    folder = f"experiment-{experiment_id}/trial-1"
    root = f"s3://bucket/team/muster-{cluster}"
    assert (spec.checkpoint_url, spec.resume_from) == (f"{root}/{folder}", None)
    for step in (1, 2, 3):
        save(node, allocation_id, step, 0.5)
    node.exit(allocation_id, "user_error", message="boom")
    for _ in range(3):
        later(node)
        other.beat()
        controller.tick()
    again = start(controller, node)
    assert node.specs[again].spec.resume_from == f"{root}/{folder}/step-00000003"
    (deletion,) = node.deletions()
    assert (deletion.storage_url, deletion.path) == ("s3://bucket/team", f"{folder}/step-00000001")
    assert other.deletions() == []
    with database.transaction() as session:
        session.execute(update(NodeRow).where(NodeRow.name == "b").values(state="LOST"))
    assert other.deletions() == [deletion]
    other.report_deletions(DeletionResult(id=deletion.id, outcome="done", freed_bytes=1))
    assert states(database) == {1: "deleted", 2: "complete", 3: "complete"}


def test_what_is_pinned_stays_until_it_is_not(
    controller, agent, submit, member_client, viewer_client, database, later
):
    node = agent(slots=1)
    experiment_id = submit(KEEP, slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    for step, loss in ((1, 0.9), (2, 0.8), (3, 0.1)):
        save(node, allocation_id, step, loss)
    with database.read() as session:
        first = session.scalar(select(CheckpointRow.id).where(CheckpointRow.step == 1))
    assert viewer_client.post(f"/api/v1/checkpoints/{first}:pin").status_code == 403
    for _ in range(2):  # a repetition changes nothing
        assert post(member_client, f"/checkpoints/{first}:pin", status=200)["pinned_at"] is not None
    node.exit(allocation_id, "success")
    controller.tick()
    later(node)
    controller.tick()
    assert states(database) == {1: "complete", 2: "deleting", 3: "complete"}
    second = first + 1
    assert "deleting" in str(
        post(member_client, f"/checkpoints/{second}:pin", code="checkpoints.gone")
    )
    post(member_client, "/checkpoints/999:pin", code="checkpoints.not_found")
    plan = member_client.get(f"/api/v1/experiments/{experiment_id}/deletion").json()
    assert (plan["possible"], plan["code"]) == (False, "experiments.pinned")
    refused = member_client.delete(f"/api/v1/experiments/{experiment_id}")
    assert refused.status_code == 409
    # Unpinned, the policy takes it with its next look, though nothing was saved since.
    assert post(member_client, f"/checkpoints/{first}:unpin", status=200)["pinned_at"] is None
    later(node)
    controller.tick()
    assert states(database)[1] == "deleting"
    with database.read() as session:
        actions = session.scalars(select(AuditRow.action).order_by(AuditRow.id)).all()
        events = session.scalars(select(EventRow.type).order_by(EventRow.id)).all()
    assert [a for a in actions if "pinned" in a] == ["checkpoints.pinned", "checkpoints.unpinned"]
    assert [e for e in events if "pinned" in e] == ["checkpoints.pinned", "checkpoints.unpinned"]
