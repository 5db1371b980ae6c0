"""Silence of the control plane, on real databases: nobody is lost by it, and whoever is gone is."""

import datetime as dt

import pytest
import time_machine  # noqa: F401 - these tests have a clock of their own: see conftest.settings
from sqlalchemy import select, update

from muster.wire import RunningAllocation
from muster_server import clock
from muster_server.app import create_app
from muster_server.db.models import (
    ApiServerRow,
    AttemptRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
)
from muster_server.loops.runner import Controller
from muster_server.services.core import liveness
from support.agent import start
from support.live import serving
from support.stack import wait_for

LEASE_S, LOST_S = 15, 60
STEP_S = 5


class Cluster:
    """A controller whose clock is moved by hand, and agents that beat while they are told to."""

    def __init__(self, database, settings):
        self.database = database
        self.own_name = settings.own_name
        self.seconds = 1000.0
        self.controller = Controller(database, settings, monotonic=lambda: self.seconds)

    def passes(self, seconds, *beating, servers=()):
        """So long these agents beat and these API servers stamp, and the one that hears them does; it
        is the real one, and stamps by itself by a clock that nobody moves here."""
        if beating:
            servers = (*servers, self.own_name)
        for _ in range(int(seconds / STEP_S)):
            self.seconds += STEP_S
            for agent in beating:
                agent.beat()
            with self.database.transaction() as session:
                for name in servers:
                    now = clock.now()
                    liveness.server_hears(session, name, started_at=now, now=now)
            self.controller.tick()

    def states(self):
        with self.database.read() as session:
            return dict(session.execute(select(NodeRow.name, NodeRow.state)).all())

    def node(self, name="node-1"):
        columns = (NodeRow.state, NodeRow.state_reason, NodeRow.state_parts)
        with self.database.read() as session:
            return session.execute(select(*columns).where(NodeRow.name == name)).one()

    def heard_by(self, **servers):
        """As if these servers had heard these nodes last."""
        with self.database.transaction() as session:
            for node, server in servers.items():
                session.execute(
                    update(NodeRow)
                    .where(NodeRow.name == node.replace("_", "-"))
                    .values(heard_by=server)
                )


@pytest.fixture
def cluster(database, settings):
    cluster = Cluster(database, settings)
    assert cluster.controller.tick()
    return cluster


def run_one(cluster, node, submit):
    submit(slots=1)
    cluster.controller.tick()
    return start(cluster.controller, node)


@pytest.mark.parametrize("away_s", [30, 80, 600])
def test_nobody_is_lost_while_nobody_can_be_heard(cluster, agent, submit, show, away_s):
    nodes = [agent(f"node-{i}", slots=1) for i in (1, 2)]
    run_one(cluster, nodes[0], submit)
    cluster.passes(10, *nodes)
    cluster.passes(away_s)
    assert set(cluster.states().values()) == {"SUSPECT"}
    row = cluster.node()
    assert row.state_reason.startswith("No heartbeat from any node since ")
    assert row.state_parts[0]["code"] == "node.nobody_heard"
    cluster.passes(5, nodes[0])
    assert cluster.node().state == "ONLINE"
    assert cluster.node().state_reason == ""
    cluster.passes(45, nodes[0])  # the other one has a fresh full lease
    assert cluster.states() == {"node-1": "ONLINE", "node-2": "SUSPECT"}
    assert cluster.node("node-2").state_parts[0]["code"] == "node.not_heard"
    cluster.passes(20, nodes[0])
    assert cluster.states() == {"node-1": "ONLINE", "node-2": "LOST"}
    trial = show("/trials/1")
    assert (trial["state"], trial["num_restarts"], trial["attempt_no"]) == ("RUNNING", 0, 1)


def test_the_nodes_of_one_of_several_servers_are_not_lost_with_it(cluster, agent):
    near, far = agent("node-1"), agent("node-2")
    cluster.heard_by(node_1="a", node_2="b")
    cluster.passes(10, servers=("a", "b"))

    def others_go_on(seconds, *servers):
        for _ in range(int(seconds / STEP_S)):
            far.beat()
            cluster.heard_by(node_2="b")
            cluster.passes(STEP_S, servers=servers)

    others_go_on(80, "b")  # a stands still
    assert cluster.states() == {"node-1": "SUSPECT", "node-2": "ONLINE"}
    assert cluster.node().state_parts[0]["code"] == "node.server_away"
    others_go_on(50, "a", "b")  # it goes on: a fresh lease
    assert cluster.states() == {"node-1": "SUSPECT", "node-2": "ONLINE"}
    others_go_on(20, "a", "b")
    assert cluster.states() == {"node-1": "LOST", "node-2": "ONLINE"}
    near.register()
    cluster.passes(STEP_S, near, far)
    assert cluster.node().state == "ONLINE"


def test_a_node_that_is_gone_is_lost_in_the_usual_time_while_servers_restart(cluster, agent):
    """Behind a proxy: when one stops, its agents go to the other one."""
    gone, *others = (agent(f"node-{i}") for i in (1, 2, 3))
    del gone
    cluster.heard_by(node_1="a", node_2="a", node_3="b")
    cluster.passes(10, servers=("a", "b"))

    def served_by(seconds, *servers):
        for _ in range(int(seconds / STEP_S)):
            for other in others:
                other.beat()
            cluster.heard_by(node_2=servers[0], node_3=servers[-1])
            cluster.passes(STEP_S, servers=servers)

    def stop(name):
        with cluster.database.transaction() as session:
            row = session.get_one(ApiServerRow, name)
            liveness.server_stops(session, name, started_at=row.started_at)

    stop("a")
    served_by(25, "b")
    stop("b")
    served_by(25, "a2")
    assert cluster.node().state == "SUSPECT"
    served_by(15, "a2", "b2")
    assert cluster.states() == {"node-1": "LOST", "node-2": "ONLINE", "node-3": "ONLINE"}


def test_both_ways_of_a_heartbeat_say_which_server_heard_it(agent, database, settings):
    node = agent()

    def heard_by():
        with database.read() as session:
            return session.scalar(select(NodeRow.heard_by))

    def forget():
        with database.transaction() as session:
            session.execute(update(NodeRow).values(heard_by=""))

    assert heard_by() == settings.own_name  # of the registration
    forget()
    node.beat()  # one of many that say nothing new
    assert heard_by() == settings.own_name
    forget()
    with database.transaction() as session:
        session.execute(update(NodeRow).values(state="SUSPECT", state_reason="Not heard"))
    node.beat()  # alone: it was silent
    assert heard_by() == settings.own_name
    with database.read() as session:
        columns = (NodeRow.state, NodeRow.state_reason, NodeRow.state_parts)
        assert session.execute(select(*columns)).one() == ("ONLINE", "", None)


# ---- a node that is silent for good, and the only one


def slots_of(database):
    with database.read() as session:
        rows = session.execute(select(NodeSlotRow.idx, NodeSlotRow.allocation_id))
        return dict(rows.all())


def test_a_kill_ends_a_trial_whose_only_node_is_gone(
    cluster, agent, submit, show, member_client, database
):
    node = agent(slots=1)
    allocation_id = run_one(cluster, node, submit)
    cluster.passes(80)
    assert show("/trials/1")["state"] == "RUNNING"
    assert member_client.post("/api/v1/trials/1:kill").status_code == 202
    cluster.controller.tick()
    trial = show("/trials/1")
    assert (trial["state"], trial["num_restarts"]) == ("CANCELED", 0)
    assert slots_of(database) == {0: allocation_id}, "what runs there may still have it"

    node.beat(expect=410)  # what it runs must be compared
    running = RunningAllocation(
        allocation_id=allocation_id, attempt_no=1, observed="RUNNING", num_records=99
    )
    assert node.register(running=[running]).forget == [allocation_id]
    node.beat(running=[allocation_id])
    cluster.controller.tick()
    assert slots_of(database) == {0: allocation_id}
    node.beat(running=[])
    assert slots_of(database) == {0: None}


def test_a_node_that_is_silent_for_long_can_be_removed(
    cluster, agent, submit, admin_client, database
):
    node = agent(slots=1)
    run_one(cluster, node, submit)
    cluster.passes(80)
    reply = admin_client.delete("/api/v1/nodes/node-1")
    assert reply.status_code == 409
    assert "for a minute" in reply.json()["error"]["hint"]
    with database.transaction() as session:
        row = session.scalars(select(NodeRow)).one()
        row.lease_expires_at = row.last_seen_at = clock.now().replace(year=2020)
    assert admin_client.delete("/api/v1/nodes/node-1").status_code in (200, 204)
    cluster.passes(10)
    with database.read() as session:
        assert session.scalar(select(AttemptRow.state)) == "LOST"
        assert session.scalar(select(TrialRow.state)) == "QUEUED"


# ---- while nobody judges


def test_without_a_controller_nobody_is_online_who_is_not_heard(cluster, agent, show, database):
    agent()
    assert show("/nodes/node-1")["state"] == "ONLINE"
    with database.transaction() as session:
        past = clock.now() - dt.timedelta(minutes=6)
        session.execute(
            update(NodeRow).values(
                last_seen_at=past, lease_expires_at=past + dt.timedelta(seconds=LEASE_S)
            )
        )
    assert show("/nodes/node-1")["state"] == "ONLINE", (
        "one leads, whose clocks may differ from ours"
    )
    cluster.controller.resign()
    node = show("/nodes/node-1")
    assert node["state"] == "SUSPECT"
    assert "no controller is running" in node["state_reason"]
    assert node["state_parts"][0]["code"] == "node.no_controller"
    assert show("/nodes")["items"] == [node]
    assert show("/cluster")["num_nodes_online"] == 0


def test_a_server_stamps_while_it_serves_and_leaves_nothing_when_it_stops(database, settings):
    def stamps():
        with database.read() as session:
            return session.execute(select(ApiServerRow.name, ApiServerRow.stamped_at)).all()

    quick = settings.model_copy(update={"heartbeat_s": 0.05})
    with serving(create_app(quick)):
        wait_for("a stamp", lambda: len(stamps()) == 1)
        ((name, first),) = stamps()
        assert name == quick.own_name
        wait_for("another stamp", lambda: stamps()[0].stamped_at > first)
    assert stamps() == []
