"""Clocks that are wrong, or set while things run: nobody is lost by them, and nobody waits for them."""

import datetime as dt

import time_machine
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import ControllerLeaseRow, NodeRow
from muster_server.loops.runner import Controller


class Monotonic:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


PASSING = (
    (14, "ONLINE"),
    (2, "SUSPECT"),
    (14, "SUSPECT"),
    (14, "SUSPECT"),
    (14, "SUSPECT"),
    (3, "LOST"),
)
"""(seconds later, the state of a node that says nothing while another one does)"""


def hours(number):
    return lambda: clock.now() + dt.timedelta(hours=number)


def state(database, name="node-1"):
    with database.read() as session:
        return session.scalar(select(NodeRow.state).where(NodeRow.name == name))


def test_a_jump_of_the_controllers_clock_loses_no_node(database, settings, agent):
    agent()
    monotonic = Monotonic()
    controller = Controller(database, settings, monotonic=monotonic)
    assert controller.tick()
    for jump in (1, -1, 2000):
        monotonic.seconds += 1
        controller.tick(hours(jump))
        controller.tick(hours(jump))
        assert state(database) == "ONLINE"


def test_api_servers_whose_clocks_differ_lose_no_node(database, settings, agent):
    node = agent()
    monotonic = Monotonic()
    controller = Controller(database, settings, monotonic=monotonic)
    for skew_h in (0, -3, 5, -3):
        with time_machine.travel(hours(skew_h)(), tick=True):
            node.beat()
        monotonic.seconds += 10
        controller.tick()
        assert state(database) == "ONLINE"


def test_silence_is_silence_though_the_wall_clock_stands_still(database, settings, agent):
    agent()
    other = agent("node-2")
    monotonic, now = Monotonic(), clock.now()
    controller = Controller(database, settings, monotonic=monotonic)
    for seconds, expected in ((0, "ONLINE"), *PASSING):
        monotonic.seconds += seconds
        other.beat()
        controller.tick(lambda: now)
        assert state(database) == expected


def test_a_leader_whose_clock_is_ahead_is_replaced_when_it_is_silent(database, settings):
    settings = settings.model_copy(update={"controller_lease_s": 5.0})
    monotonic = Monotonic()
    ahead = Controller(database, settings, monotonic=monotonic)
    follower = Controller(database, settings, monotonic=monotonic)
    assert ahead.tick(hours(1))
    for _ in range(4):  # it leads, and is seen to
        monotonic.seconds += 4
        assert ahead.tick(hours(1))
        assert not follower.tick()
    monotonic.seconds += 4.9
    assert not follower.tick()
    monotonic.seconds += 0.2
    assert follower.tick()
    assert follower.lease.epoch == 2
    assert not ahead.tick(hours(1)) or ahead.lease.epoch == 3  # never as the leader it was


def test_nodes_have_fresh_leases_after_a_take_over(database, settings, agent):
    settings = settings.model_copy(update={"takeover_grace_s": 30.0, "controller_lease_s": 5.0})
    agent()
    other = agent("node-2")
    with database.transaction() as session:
        long_ago = clock.now() - dt.timedelta(hours=1)
        session.execute(update(NodeRow).values(last_seen_at=long_ago, lease_expires_at=long_ago))
    monotonic, start = Monotonic(), clock.now()
    controller = Controller(database, settings, monotonic=monotonic)
    elapsed = 0
    for seconds, expected in ((0, "ONLINE"), *PASSING):
        elapsed += seconds
        monotonic.seconds += seconds
        other.beat()
        # It keeps its lease, as it would with a pass each second.
        with database.transaction() as session:
            far = start + dt.timedelta(hours=1)
            session.execute(update(ControllerLeaseRow).values(expires_at=far))
        now = start + dt.timedelta(seconds=elapsed)
        controller.tick(lambda now=now: now)
        assert state(database) == expected
