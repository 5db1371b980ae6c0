"""Whoever locks several rows does so in one order: allocations, slots, accounts, then nodes.

On PostgreSQL alone: on SQLite whoever writes is alone.
"""

from __future__ import annotations

import dataclasses
import threading

import pytest
from sqlalchemy import select, text, update

from muster.wire import RunningAllocation
from muster_server import clock
from muster_server.db.models import AllocationRow, JoinTokenRow, SpendingRow
from muster_server.security.principal import Principal
from muster_server.services.core.assignments import bump_assignments
from muster_server.services.nodes import registration
from support.live import until

WAITS_S = 60.0


def principal_of(node) -> Principal:
    return Principal(kind="agent", name=node.name, role="agent", node_id=node.node_id)


@pytest.fixture
def database_url(postgres_url):
    return postgres_url


def num_waiting(database) -> int:
    with database.read() as session:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return session.scalar(text(query + " AND datname = current_database()"))


@pytest.mark.parametrize("call", ["beat", "register"])
def test_an_agent_that_frees_something_and_the_loops_do_not_wait_for_each_other(
    controller, agent, submit, database, call
):
    """One cleans another allocation of the same experiment on the same node in the same moment."""
    node = agent(slots=1)
    submit(slots=1)
    controller.tick()
    (allocation_id,) = node.poll()
    with database.transaction() as session:
        session.execute(update(AllocationRow).values(observed="LOST"))
    calling = threading.Thread(target=getattr(node, call), kwargs={"running": []})
    with database.transaction() as session:
        assert session.execute(update(SpendingRow).values(cost=1.0)).rowcount == 1
        calling.start()
        until(lambda: num_waiting(database) == 1, timeout_s=WAITS_S)
        bump_assignments(session, [node.node_id])
    calling.join(WAITS_S)
    with database.read() as session:
        assert session.get_one(AllocationRow, allocation_id).observed == "CLEANED"


def test_those_who_register_at_once_are_told_what_is_theirs(
    controller, agent, submit, database, settings
):
    """A node that runs what it should, one that lost it, one that gave it up, and a new one."""
    nodes = [agent(f"n{number}", slots=1) for number in range(3)]
    submit(slots=3, nodes=3)
    controller.tick()
    held = [next(iter(node.poll())) for node in nodes]
    with database.transaction() as session:
        session.execute(update(AllocationRow).values(observed="RUNNING"))
        session.get_one(AllocationRow, held[2]).observed = "LOST"
        join_token_id = session.scalar(select(JoinTokenRow.id))
    running = RunningAllocation(
        allocation_id=held[0], attempt_no=1, num_records=0, observed="RUNNING"
    )
    asked = []
    for node, has in zip(nodes, ([running], [], []), strict=True):
        request = dataclasses.replace(node.last_registration, number=2, running=has)
        asked.append(registration.RegisterCall(principal=principal_of(node), request=request))
    new = dataclasses.replace(request, name="a new one", boot_id="b", instance_id="new", number=1)
    joining = Principal(kind="join_token", name="t", role="join", join_token_id=join_token_id)
    asked.insert(1, registration.RegisterCall(principal=joining, request=new))
    with database.transaction() as session:
        first, added, second, third = registration.register(
            session, asked, settings=settings, now=clock.now()
        )
    assert [one.session_epoch for one in (first, added, second, third)] == [2, 1, 2, 2]
    assert [state.allocation_id for state in first.adopt] == [held[0]]
    assert added.credential is not None
    assert second.adopt == third.adopt == []
    with database.read() as session:
        observed = [session.get_one(AllocationRow, which).observed for which in held]
    assert observed == ["RUNNING", "EXITED", "CLEANED"]
