"""Joining once, coming back, being copied, and changing credentials."""

import dataclasses
import datetime as dt

import pytest
import time_machine
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import AllocationRow, EventRow, JoinTokenRow, NodeRow
from muster_server.errors import Conflict
from muster_server.security.principal import Principal
from muster_server.services.nodes import credentials
from muster_server.services.nodes.registration import RegisterCall, register
from support.agent import FakeAgent


@pytest.fixture
def single_use(database, join_token):
    with database.transaction() as session:
        session.execute(update(JoinTokenRow).values(uses_left=1))
    return join_token


@pytest.fixture
def joining(connect, join_token):
    """An agent that has not joined yet."""
    return FakeAgent(lambda secret: connect(token=secret), join_token, "node-1")


def uses_left(database):
    with database.read() as session:
        return session.scalar(select(JoinTokenRow.uses_left))


def events(database, kind):
    with database.read() as session:
        return session.scalars(select(EventRow.message).where(EventRow.type == kind)).all()


# ---- a join token works once, and its lost answer costs nothing


def test_a_joining_whose_answer_was_lost_can_be_asked_again(single_use, agent, database):
    node = agent()  # the token is used up, and say the answer did not arrive
    lost, node.credential = node.credential, None
    reply = node.register()
    assert reply.credential not in (None, lost)
    assert reply.session_epoch == 2
    assert uses_left(database) == 0
    node.beat()


def test_it_can_be_asked_again_by_the_next_process_of_that_agent(single_use, joining, database):
    joining.join_id = "kept on disk"
    joining.register()
    joining.credential, joining.instance_id = None, "the next process"
    assert joining.register().credential is not None
    assert uses_left(database) == 0
    joining.credential, joining.join_id = None, "another joining"
    joining.register(expect=401)


def test_a_used_up_token_lets_nobody_else_in(single_use, agent, joining):
    node = agent()
    for name in ("node-2", node.name):
        joining.name = name
        joining.register(expect=401)


def test_a_token_is_used_up_for_good_once_the_credential_was_used(agent, single_use):
    node = agent()
    node.beat()
    node.credential = None
    node.register(expect=401)


# ---- a join token does not take a live node over


def stranger(connect, join_token, node, **same):
    """Somebody with a join token who says to be `node`."""
    other = FakeAgent(lambda secret: connect(token=secret), join_token, node.name, slots=1)
    other.boot_id, other.join_id = node.boot_id, "a joining of its own"
    for name, value in same.items():
        setattr(other, name, value)
    return other


def test_a_join_token_does_not_take_over_a_live_node(agent, connect, join_token, database):
    node = agent()
    node.beat()
    epoch, left = node.epoch, uses_left(database)
    # Whatever the stranger knows besides: its boot, its process, the joining it once asked for.
    for known in ({}, {"instance_id": node.instance_id}, {"join_id": node.instance_id}):
        other = stranger(connect, join_token, node, **known)
        other.num_registrations = 100
        other.register(expect=409)
        assert other.refusal["code"] == "agent.name_in_use"
        assert "--name" in other.refusal["hint"]
    node.beat()  # neither its session nor its credential was replaced
    assert (node.epoch, uses_left(database)) == (epoch, left)
    with database.read() as session:
        assert session.scalar(select(NodeRow.session_epoch)) == epoch


def test_one_that_is_refused_does_not_harm_those_registered_with_it(
    agent, connect, join_token, database, settings
):
    """What it had changed by then, the uses that are left of its join token, is taken back."""
    node, lost = agent("node-1"), agent("node-2")
    other = stranger(connect, join_token, node)
    other.register(expect=409)
    with database.read() as session:
        token_id, uses_left = session.execute(select(JoinTokenRow.id, JoinTokenRow.uses_left)).one()
    joining = Principal(kind="join_token", name="t", role="join", join_token_id=token_id)
    back = Principal(kind="agent", name="node-2", role="agent", node_id=lost.node_id)
    again = dataclasses.replace(lost.last_registration, number=2)
    calls = [
        RegisterCall(principal=joining, request=other.last_registration),
        RegisterCall(principal=back, request=again),
    ]
    with database.transaction() as session:
        refused, reply = register(session, calls, settings=settings, now=clock.now())
    assert isinstance(refused, Conflict)
    assert reply.session_epoch == 2
    with database.read() as session:
        assert session.scalar(select(JoinTokenRow.uses_left)) == uses_left
        assert dict(session.execute(select(NodeRow.name, NodeRow.session_epoch)).all()) == {
            "node-1": 1,
            "node-2": 2,
        }
    node.beat()


def until_lost(other, controller):
    """Ninety seconds in which another node is heard, so that silence counts; the time then."""
    began = clock.now()
    for seconds in range(5, 91, 5):
        with time_machine.travel(began + dt.timedelta(seconds=seconds), tick=False):
            other.beat()
            controller.tick()
    return began + dt.timedelta(seconds=90)


def test_a_lost_credential_is_replaced_once_the_node_is_lost(
    agent, connect, join_token, controller
):
    node, other = agent(), agent("other")
    node.beat()
    controller.tick()  # it leads from here on: what it did not see is not held against a node
    again = stranger(connect, join_token, node)
    again.register(expect=409)
    with time_machine.travel(clock.now() + dt.timedelta(seconds=20)):
        again.register(expect=409)  # its lease has ended, which a short silence explains
        assert again.refusal["code"] == "agent.name_in_use"
    with time_machine.travel(until_lost(other, controller)):
        assert again.register().credential not in (None, node.credential)
        assert again.node_id == node.node_id  # its history stays
        again.beat()
        node.beat(expect=401)


def test_a_machine_installed_anew_comes_back_under_its_name(agent, connect, join_token, controller):
    node, other = agent(), agent("other")
    node.beat()
    controller.tick()
    anew = stranger(connect, join_token, node, boot_id="boot-2")
    anew.register(expect=409)
    with time_machine.travel(until_lost(other, controller)):
        anew.register()
    assert anew.node_id == node.node_id


def test_an_agent_with_its_credential_comes_back_at_once(agent):
    node = agent()
    node.beat()
    node.instance_id, node.num_registrations = "the next process", 0
    assert node.register().credential is None
    node.beat()


# ---- late and repeated requests


def test_a_registration_that_arrives_late_changes_nothing(agent, submit, controller, database):
    node = agent()
    before_it_ran = node.last_registration
    submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    credential = node.credential
    node.register_late(before_it_ran, expect=410)
    node.credential = credential
    node.beat()  # neither the session nor the credential was replaced
    node.register(running=[node.running(allocation_id, "READY")])
    between = node.last_registration
    node.register(running=[node.running(allocation_id, "READY")])
    node.register_late(between, expect=410)
    node.beat()
    with database.read() as session:
        assert session.scalar(select(AllocationRow.observed)) == "READY"


def test_the_numbers_of_the_next_process_begin_anew(agent):
    node = agent()
    node.register()
    node.instance_id, node.num_registrations = "the next process", 0
    node.register()
    node.beat()


# ---- copies


def test_an_agent_that_was_replaced_may_not_replace_its_successor(agent, connect, database):
    node = agent()
    first = node.instance_id
    node.instance_id = "later"  # a restart, or a copy of the disk: nobody can tell yet
    node.register()
    later_epoch = node.epoch
    node.instance_id = first
    node.register(expect=409)  # both are alive, so it was a copy
    node.register(expect=409)
    assert len(events(database, "node.cloned")) == 1
    node.instance_id, node.epoch = "later", later_epoch
    node.beat()  # the later one was not disturbed


def test_a_replaced_agent_may_come_back_when_its_successor_is_gone(agent, database):
    node = agent()
    first, node.instance_id = node.instance_id, "later"
    node.register()
    with time_machine.travel(clock.now() + dt.timedelta(seconds=60)):
        node.instance_id = first
        node.register()
    with database.read() as session:
        assert session.scalar(select(NodeRow.old_instances)) == ["later"]


# ---- credentials are replaced while they are in use


def old_credential(database):
    with database.transaction() as session:
        session.execute(update(NodeRow).values(credential_at=clock.now() - dt.timedelta(days=2)))


def test_an_old_credential_is_replaced_and_void_once_the_new_one_is_used(agent, database):
    node = agent()
    assert node.beat(accepts_credential=True).credential is None
    old_credential(database)
    assert node.beat().credential is None  # an agent that would not take it up
    old = node.credential
    new = node.beat(accepts_credential=True).credential
    assert new not in (old, None)
    node.beat()  # until the new one is used the old one works
    node.use_credential(new)
    assert node.beat(accepts_credential=True).credential is None
    node.beat()
    node.use_credential(old)
    node.beat(expect=401)
    node.use_credential(new)
    node.register()


def test_a_late_copy_of_a_heartbeat_leaves_the_credential_that_its_answer_gave(agent, database):
    node = agent()
    old_credential(database)
    new = node.beat(accepts_credential=True).credential
    assert node.beat(accepts_credential=True).credential is None  # the copy, with the old one
    node.use_credential(new)
    node.beat()


def test_a_credential_whose_answer_was_lost_is_replaced_by_another_one_later(agent, database):
    node = agent()
    old_credential(database)
    old = node.credential
    lost = node.beat(accepts_credential=True).credential
    with time_machine.travel(clock.now() + dt.timedelta(seconds=credentials.DELIVERY_S + 1)):
        node.register()  # its lease expired
        new = node.beat(accepts_credential=True).credential
        assert len({old, lost, new, None}) == 4
        node.use_credential(new)
        node.beat()
        for void in (old, lost):
            node.use_credential(void)
            node.beat(expect=401)


def test_a_new_credential_is_also_taken_into_use_by_registering(agent, database):
    node = agent()
    old_credential(database)
    old = node.credential
    node.use_credential(node.beat(accepts_credential=True).credential)
    node.register()
    node.use_credential(old)
    node.beat(expect=401)
