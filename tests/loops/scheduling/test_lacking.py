"""What a document names and a node does not have: one attempt where no node has it, else another node."""

import datetime as dt

import pytest
from sqlalchemy import func, select

from muster.wire import StateRecord
from muster_server import clock
from muster_server.db.models import AttemptRow

WORDS = "the interpreter /opt/python does not exist on this node"


def fail(controller, node, *, blames, message=WORDS):
    (allocation_id,) = [i for i, a in node.poll().items() if a.desired == "prepare"]
    node.send(
        allocation_id,
        StateRecord(observed="PREPARING"),
        StateRecord(observed="PREPARE_FAILED", message=message, blames=blames),
    )
    controller.tick()


def trial(show):
    (item,) = show("/experiments/1/trials")["items"]
    return item


def holder(nodes):
    """The one of the nodes that is to prepare something."""
    (found,) = [node for node in nodes if any(a.desired == "prepare" for a in node.poll().values())]
    return found


def num_attempts(database):
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(AttemptRow))


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_what_no_node_could_do_takes_one_attempt(
    controller, agent, submit, show, database, num_nodes
):
    nodes = [agent(f"node-{no}", slots=1) for no in range(num_nodes)]
    submit()
    controller.tick()
    fail(controller, holder(nodes), blames="document", message="the entry point is empty")
    found = trial(show)
    assert (found["state"], found["termination"]) == ("FAILED", "cannot_run")
    assert found["reason"].endswith(
        " could not prepare: the entry point is empty; not restarted: "
        "it would end the same way again"
    )
    assert found["num_restarts"] == 0
    assert num_attempts(database) == 1


def test_what_the_only_node_lacks_takes_one_attempt(controller, agent, submit, show, database):
    node = agent(slots=1)
    submit()
    controller.tick()
    fail(controller, node, blames="placement")
    found = trial(show)
    assert (found["state"], found["termination"]) == ("FAILED", "cannot_run")
    assert found["reason"] == (
        f"node-1 could not prepare: {WORDS}; no other node that is there could hold it; "
        "not restarted: it would end the same way again"
    )
    assert num_attempts(database) == 1


def test_another_node_may_have_it_and_costs_no_restart(
    controller, agent, submit, show, database, time_machine
):
    time_machine.move_to(clock.now(), tick=False)  # the wait before a restart is short
    nodes = [agent("node-1", slots=1), agent("node-2", slots=1)]
    submit("restarts: {infra: 1}")
    controller.tick()
    first = holder(nodes)
    fail(controller, first, blames="placement")
    found = trial(show)
    assert found["state"] == "RETRY_WAIT"
    assert f"restart without {first.name}, not charged" in found["reason"]
    time_machine.move_to(clock.now() + dt.timedelta(seconds=2))
    for node in nodes:
        node.beat()
    controller.tick()
    controller.tick()
    second = holder(nodes)
    assert second is not first
    fail(controller, second, blames="placement")
    found = trial(show)
    assert (found["state"], found["termination"]) == ("FAILED", "cannot_run")
    assert "no other node that is there could hold it" in found["reason"]
    assert num_attempts(database) == 2


@pytest.mark.parametrize(("slots", "state"), [(2, "FAILED"), (4, "RETRY_WAIT")])
def test_only_nodes_that_could_hold_it_count(controller, agent, submit, show, slots, state):
    nodes = [agent("node-1", slots=4), agent("node-2", slots=slots, pool="default")]
    submit(slots=4, allow_nodes="[node-1, node-2]")
    controller.tick()
    fail(controller, holder(nodes), blames="placement")
    assert trial(show)["state"] == state


@pytest.mark.parametrize("blames", ["", "request"])
def test_anything_else_is_tried_again_as_ever(controller, agent, submit, show, blames):
    """ "request" is what agents said before they told these apart."""
    node = agent(slots=1)
    submit()
    controller.tick()
    fail(controller, node, blames=blames)
    found = trial(show)
    assert found["state"] == "RETRY_WAIT"
    assert "infra restart (1 of 3 used)" in found["reason"]
