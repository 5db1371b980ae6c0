"""Tunnels through a real server: who may open one, and that both ends meet and part properly."""

from __future__ import annotations

import json
from contextlib import ExitStack

import httpx
import pytest
from sqlalchemy import select
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as dial

from muster.wire import WRONG_SERVER
from muster_server.api import tunnels as api
from muster_server.app import create_app
from muster_server.db.models import AllocationRow, AuditRow, TrialRow, TunnelRow, UserRow
from muster_server.services.runtime import tunnels
from support.agent import FakeAgent
from support.data import add_attempt, add_experiment, add_trial
from support.live import serving, until


@pytest.fixture
def port(settings):
    with serving(create_app(settings)) as port:
        yield port


@pytest.fixture
def join(port, join_token):
    """`join(name)` is an agent that has joined over the network."""
    with ExitStack() as clients:

        def connect(token):
            headers = {"Authorization": f"Bearer {token}"}
            client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers)
            return clients.enter_context(client)

        def make(name):
            agent = FakeAgent(connect, join_token, name)
            agent.register()
            return agent

        yield make


@pytest.fixture
def agent(join):
    return join("n1")


@pytest.fixture
def trial(database, agent, make_user_token):
    """The id of ada's running trial on the agent's node."""
    make_user_token("member", username="ada")
    with database.transaction() as session:
        experiment = add_experiment(session)
        experiment.owner_id = session.scalar(select(UserRow.id).where(UserRow.username == "ada"))
        row = add_trial(session, experiment)
        (allocation,) = add_attempt(session, row)
        allocation.node_id, allocation.node_name = agent.node_id, agent.name
    return row.id


@pytest.fixture
def opened(port, trial):
    """`opened(token, **request)` is a user's socket that has sent its request."""
    with ExitStack() as sockets:

        def make(token, **request):
            url = f"ws://127.0.0.1:{port}/api/v1/trials/{trial}/tunnels"
            headers = {"Authorization": f"Bearer {token}"}
            socket = sockets.enter_context(dial(url, additional_headers=headers))
            socket.send(json.dumps({"kind": "exec", "argv": ["ls"], **request}))
            return socket

        yield make


@pytest.fixture
def answered(port, agent):
    """`answered(id)` is an agent's socket for a tunnel."""
    with ExitStack() as sockets:

        def make(tunnel_id, credential=None):
            url = f"ws://127.0.0.1:{port}/agent/v1/tunnels/{tunnel_id}"
            headers = {"Authorization": f"Bearer {credential or agent.credential}"}
            return sockets.enter_context(dial(url, additional_headers=headers))

        yield make


def refused(socket) -> str:
    return json.loads(socket.recv(timeout=30))["error"]["code"]


def wanted(database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(TunnelRow.id)))


def test_both_ends_meet_and_what_one_sends_the_other_receives(
    database, opened, answered, make_user_token
):
    user = opened(make_user_token("member", username="ada"), argv=["echo", "hi"])
    until(lambda: wanted(database))
    (tunnel_id,) = wanted(database)
    node = answered(tunnel_id)
    assert json.loads(node.recv(timeout=30)) == {"open": tunnel_id}
    assert json.loads(user.recv(timeout=30)) == {"open": tunnel_id}
    assert wanted(database) == [], "it is open, so no agent is asked for it any more"
    for source, target, data in ((user, node, b"\x00in" * 10_000), (node, user, b"\x01out")):
        source.send(data)
        assert target.recv(timeout=30) == data
    with database.read() as session:
        (line,) = session.scalars(select(AuditRow).where(AuditRow.action == "trials.exec"))
        assert line.detail["command"] == ["echo", "hi"]
    node.close()
    with pytest.raises(ConnectionClosed):
        user.recv(timeout=30)


@pytest.mark.parametrize(
    ("role", "name", "code"),
    [("member", "bob", "experiments.not_yours"), ("admin", "eve", None), ("member", "ada", None)],
)
def test_only_who_may_stop_a_trial_may_enter_it(
    database, opened, make_user_token, role, name, code
):
    socket = opened(make_user_token(role, username=name))
    if code is None:
        until(lambda: wanted(database))
    else:
        assert refused(socket) == code
        assert wanted(database) == []


def test_a_viewer_and_nobody_are_not_let_in_at_all(port, trial, make_user_token):
    url = f"ws://127.0.0.1:{port}/api/v1/trials/{trial}/tunnels"
    for token, status in ((make_user_token("viewer"), 403), ("nonsense", 401)):
        with pytest.raises(InvalidStatus) as caught:
            dial(url, additional_headers={"Authorization": f"Bearer {token}"}).close()
        assert caught.value.response.status_code == status


@pytest.mark.parametrize(
    "request_",
    [{"kind": "exec", "argv": []}, {"kind": "port"}, {"port": 6006}, {"rank": -1}, {"more": 1}],
)
def test_an_unusable_request_is_refused(opened, make_user_token, request_):
    assert refused(opened(make_user_token("admin"), **request_)) == "tunnels.unusable"


def test_nothing_opens_where_nothing_runs(database, trial, opened, make_user_token):
    admin = make_user_token("admin")
    assert refused(opened(admin, rank=7)) == "tunnels.no_such_rank"
    with database.transaction() as session:
        for allocation in session.scalars(select(AllocationRow)):
            allocation.observed = "EXITED"
        session.get_one(TrialRow, trial).state = "COMPLETED"
    assert refused(opened(admin)) == "tunnels.not_running"


def test_a_node_that_does_not_answer_is_named_and_not_asked_for_ever(
    database, opened, make_user_token, monkeypatch
):
    monkeypatch.setattr(tunnels, "AGENT_WAIT_S", 0.2)
    assert refused(opened(make_user_token("admin"))) == "tunnels.no_answer"
    assert wanted(database) == []


def test_an_agent_is_turned_away_from_what_is_not_its_own(
    database, opened, answered, join, make_user_token
):
    other = join("n2")
    opened(make_user_token("admin"))
    until(lambda: wanted(database))
    (tunnel_id,) = wanted(database)
    for stranger, code in ((answered(tunnel_id, other.credential), 1008), (answered("x"), 4404)):
        with pytest.raises(ConnectionClosed) as caught:
            stranger.recv(timeout=30)
        assert caught.value.rcvd.code == code
    assert code == WRONG_SERVER
    assert wanted(database) == [tunnel_id], "its own agent may still answer"


def test_a_trial_has_only_so_many_at_once(database, opened, make_user_token, monkeypatch):
    monkeypatch.setattr(api, "TERMINALS_PER_TRIAL", 2)
    admin = make_user_token("admin")
    for number in (1, 2):
        opened(admin)
        until(lambda number=number: len(wanted(database)) == number)
    assert refused(opened(admin)) == "tunnels.too_many"
