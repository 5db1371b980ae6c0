"""What really happens on a cluster notifies: a failure, a lost node, a damaged checkpoint."""

import pytest

from muster.wire import CHECKPOINT_DAMAGED, MessageRecord
from support.agent import start

API = "/api/v1/notifications"


@pytest.fixture
def tell(member_client, admin_client):
    """`tell(*kinds)` makes a rule of the owner, or of an administrator; `read()` its inbox."""

    def make(*kinds, by=member_client):
        answer = by.post(f"{API}/rules", json={"kinds": kinds})
        assert answer.status_code == 201, answer.text

        def read():
            items = by.get(f"{API}/inbox").json()["items"]
            return [(entry["kind"], entry["message"]) for entry in reversed(items)]

        return read

    return make


@pytest.fixture
def running(controller, agent, submit):
    """A trial that runs on one node: (node, allocation id)."""
    node = agent(slots=1)
    submit("restarts: {user: 0}\n", slots=1)
    controller.tick()
    return node, start(controller, node)


def test_a_trial_that_fails_for_good_and_its_experiment(controller, running, tell):
    read = tell("trial.failed", "experiment.ended")
    node, allocation_id = running
    node.exit(allocation_id, "user_error")
    controller.tick()
    assert [kind for kind, _ in read()] == ["trial.failed", "experiment.ended"]
    assert read()[0][1].startswith("Trial 1 is FAILED: ")
    controller.tick()
    assert len(read()) == 2


def test_a_checkpoint_that_a_worker_finds_damaged(running, tell, show):
    read = tell("checkpoint.damaged")
    node, allocation_id = running
    text = "checkpoint passed over: step-3: model.bin is damaged"
    node.send(
        allocation_id,
        MessageRecord(level="warning", text="something else"),
        MessageRecord(level="warning", text=text, event=CHECKPOINT_DAMAGED),
        MessageRecord(level="info", text="of a newer agent", event="experiment.deleted"),
    )
    assert read() == [("checkpoint.damaged", text)]
    types = [e["type"] for e in show("/experiments/1/events")["items"]][:3]
    assert types == ["trial.message", "checkpoint.damaged", "trial.message"]


def test_a_node_that_is_lost(controller, agent, tell, admin_client, time_machine):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    read = tell("node.lost", by=admin_client)
    agent("silent")
    controller.tick()
    other = agent("node-2")
    for _ in range(12):
        time_machine.shift(10)
        other.beat()
        controller.tick()
    ((kind, message),) = read()
    assert kind == "node.lost"
    assert message.startswith("silent is LOST.")
