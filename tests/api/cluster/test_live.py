"""The live channel, through a real server and real WebSockets; other processes are out of play."""

import datetime as dt
import logging
import time
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from muster_server import clock
from muster_server.api import live
from muster_server.app import create_app
from muster_server.db.engine import touch
from muster_server.db.models import ApiTokenRow, ProjectRow, UserRow
from muster_server.live import hub
from muster_server.security.tokens import hash_secret
from muster_server.services.core.accounts import auth
from support.data import add_experiment, add_trial
from support.live import LiveClient, serving, until


@pytest.fixture
def degraded_poll_s():
    """Long: a server without Redis hints by a timer, which is not what most tests wait for."""
    return 3600.0


@pytest.fixture
def server_app(settings, degraded_poll_s, monkeypatch):
    monkeypatch.setattr(hub, "DEGRADED_POLL_S", degraded_poll_s)
    return create_app(settings)


@pytest.fixture
def port(server_app):
    with serving(server_app) as port:
        yield port


@pytest.fixture
def token(make_user_token):
    return make_user_token("viewer", username="ada")


@pytest.fixture
def open_live(port):
    """`open_live(token=…)` opens the channel, and has read the greeting."""
    clients = []

    def make(**kwargs):
        client = LiveClient(port, **kwargs)
        clients.append(client)
        client.hello = client.receive()["hello"]
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def commit(server_app, port):
    """`commit("trial:1")` commits something in the server's own process."""

    def make(*topics):
        with server_app.state.database.transaction() as session:
            touch(session, *topics)

    return make


@pytest.fixture
def cookie(database, token):
    """The cookie of a browser in which ada is signed in."""
    now = clock.now()
    with database.transaction() as session:
        user = auth.find_user(session, "ada")
        return auth.start_session(session, user_id=user.id, lifetime=dt.timedelta(hours=1), now=now)


@pytest.fixture
def make_ticket(port, token):
    import httpx

    def make():
        reply = httpx.post(
            f"http://127.0.0.1:{port}/api/v1/live/tickets",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )
        assert reply.status_code == 200, reply.text
        return reply.json()["ticket"]

    return make


def status_of(**kwargs):
    with pytest.raises(InvalidStatus) as refused:
        LiveClient(**kwargs)
    return refused.value.response.status_code


def code_of(client, timeout_s=5.0):
    """The code with which the server closes."""
    with pytest.raises(ConnectionClosed) as closed:
        client.expect("nothing", timeout_s=timeout_s)
    return closed.value.rcvd.code


def test_a_commit_is_hinted_without_a_timer(open_live, token, commit):
    client = open_live(token=token)
    client.subscribe("trial:7", "cluster")
    commit("trial:7", "loops")
    assert client.receive()["topic"] == "trial:7"


def test_a_subscription_is_confirmed_by_a_hint(open_live, token):
    client = open_live(token=token)
    client.send({"subscribe": ["node:n1"]})
    first = client.receive()
    assert first["topic"] == "node:n1"
    client.send({"unsubscribe": ["node:n1"]})
    client.send({"subscribe": ["node:n1"]})
    assert client.receive()["seq"] > first["seq"]


def test_a_subscription_says_how_long_nothing_has_changed(
    server_app, open_live, token, commit, monkeypatch
):
    monkeypatch.setattr(server_app.state.hub, "is_connected", True)
    client = open_live(token=token)
    commit("trial:7")
    time.sleep(0.2)
    client.send({"subscribe": ["trial:7"]})
    # The hub hears of a commit a moment after it, and answers in whole milliseconds.
    assert 0.15 <= client.expect("topic", "trial:7")["quiet_s"] <= 60
    commit("trial:7")
    assert "quiet_s" not in client.expect("topic", "trial:7")  # of a change


def test_the_hub_remembers_so_many_topics_and_never_says_too_long(monkeypatch):
    now = 100.0
    monkeypatch.setattr(hub.time, "monotonic", lambda: now)
    monkeypatch.setattr(hub, "HEARD_TOPICS_MAX", 2)
    one = hub.Hub(None)
    assert one.quiet_s("a") == 0  # other processes are not heard
    one.is_connected = True
    for topic in ("a", "b", "c"):
        now += 10
        one._deliver(frozenset({topic}))
    now += 1
    assert [one.quiet_s(topic) for topic in ("a", "b", "c", "d")] == [21, 11, 1, 21]
    one._deliver(frozenset({hub.ANYTHING}))
    assert one.quiet_s("d") == 0


def test_unsubscribed_topics_are_silent(open_live, token, commit):
    client = open_live(token=token)
    client.subscribe("trial:7", "trial:8")
    client.send({"unsubscribe": ["trial:7", "trial:99"]})
    client.send({"subscribe": ["cluster"]})
    client.expect("topic", "cluster")  # messages are obeyed in order
    commit("trial:7", "trial:8")
    assert [m["topic"] for m in client.collect(0.8)] == ["trial:8"]


def test_hints_are_coalesced_and_the_last_is_never_left_out(open_live, token, commit):
    client = open_live(token=token)
    client.subscribe("trial:7")
    time.sleep(live.HINT_EVERY_S)
    for _ in range(30):
        commit("trial:7")
        time.sleep(0.01)
    commit("trial:7")
    hints = client.collect(1.8)
    assert 2 <= len(hints) <= 4  # at once, and every half second while it went on, and the last
    seqs = [hint["seq"] for hint in hints]
    assert seqs == sorted(set(seqs))
    commit("trial:7")
    assert client.receive()["seq"] == seqs[-1] + 1


def test_a_busy_topic_does_not_delay_another(open_live, token, commit):
    client = open_live(token=token)
    client.subscribe("trial:7", "cluster")
    time.sleep(live.HINT_EVERY_S)
    commit("trial:7")
    client.expect("topic", "trial:7")
    commit("trial:7")  # its next hint has to wait
    commit("cluster")
    assert [client.receive()["topic"] for _ in range(2)] == ["cluster", "trial:7"]


class TestWithoutRedis:
    @pytest.fixture
    def degraded_poll_s(self):
        return 0.6

    def test_everything_is_hinted_at_by_a_timer(self, open_live, token):
        client = open_live(token=token)
        assert client.hello["degraded"] is True
        client.subscribe("trial:7")
        assert client.receive(5.0)["topic"] == "trial:7"
        assert client.receive(5.0)["topic"] == "trial:7"


def test_nobody_gets_in_without_credentials(port):
    assert status_of(port=port) == 401
    assert status_of(port=port, token="mst_usr_wrong") == 401
    assert status_of(port=port, cookie="wrong", origin=f"http://127.0.0.1:{port}") == 401
    assert status_of(port=port, ticket="mst_once_wrong") == 401
    assert status_of(port=port, ticket="&".join(f"a{i}=" for i in range(20))) == 401


def test_an_agents_credential_does_not_open_it(port, join_token):
    assert status_of(port=port, token=join_token) == 403


def test_a_cookie_works_from_our_own_pages_only(port, cookie, open_live):
    client = open_live(cookie=cookie, origin=f"http://127.0.0.1:{port}")
    client.subscribe("cluster")
    assert status_of(port=port, cookie=cookie, origin="https://evil.example") == 403
    assert status_of(port=port, cookie=cookie, origin="http://127.0.0.1:1") == 403
    assert status_of(port=port, cookie=cookie, origin="null") == 403
    assert status_of(port=port, cookie=cookie) == 403  # browsers always say


def test_a_ticket_works_once_and_is_not_logged(port, make_ticket, open_live, caplog):
    caplog.set_level(logging.INFO)
    ticket = make_ticket()
    client = open_live(ticket=ticket)
    client.subscribe("cluster")
    assert status_of(port=port, ticket=ticket) == 401
    assert "/api/v1/live" in caplog.text
    served = [r.getMessage() for r in caplog.records if not r.name.startswith("websockets")]
    assert not any(ticket in line for line in served)


def test_a_ticket_expires(port, make_ticket, database):
    from sqlalchemy import update

    from muster_server.db.models import OneTimeTokenRow

    ticket = make_ticket()
    with database.transaction() as session:
        session.execute(update(OneTimeTokenRow).values(expires_at=clock.now()))
    assert status_of(port=port, ticket=ticket) == 401


def test_a_tickets_socket_ends_after_a_while(make_ticket, open_live, monkeypatch):
    monkeypatch.setattr(live, "PING_EVERY_S", 0.1)
    monkeypatch.setattr(live, "TICKET_LIFETIME_S", 0.2)
    assert code_of(open_live(ticket=make_ticket())) == 4401


def test_pings_are_numbered_and_now_and_then_everything_is_hinted_at(open_live, token, monkeypatch):
    monkeypatch.setattr(live, "PING_EVERY_S", 0.3)
    client = open_live(token=token)
    client.subscribe("cluster")
    assert [client.expect("ping")["ping"] for _ in range(2)] == [1, 2]
    client.expect("topic", "cluster", timeout_s=1.0)


@pytest.mark.parametrize("end", ["signed out", "deactivated", "refused", "revoked"])
def test_the_channel_closes_within_two_seconds_of_what_opened_it(
    settings, port, cookie, token, make_ticket, open_live, database, end
):
    """At every API server, here two without Redis, wherever it was ended."""
    bystander = open_live(token=token) if end == "signed out" else None
    with serving(create_app(settings)) as second:
        clients = {
            "signed out": lambda: [
                open_live(cookie=cookie, origin=f"http://127.0.0.1:{port}"),
                LiveClient(second, cookie=cookie, origin=f"http://127.0.0.1:{second}"),
            ],
        }.get(
            end,
            lambda: [
                open_live(token=token),
                LiveClient(second, token=token),
                open_live(ticket=make_ticket()),
            ],
        )()
        with database.transaction() as session:
            if end == "signed out":
                auth.end_session(session, hash_secret(cookie))
            elif end == "deactivated":
                session.query(UserRow).update({"is_active": False})
            elif end == "refused":
                session.query(UserRow).update({"provider_refused_at": clock.now()})
            else:
                session.query(ApiTokenRow).update({"revoked_at": clock.now()})
        ended_at = time.monotonic()
        for client in clients:
            assert code_of(client) == 4401
        assert time.monotonic() - ended_at < 2.0  # as docs/guides/operations.md says
        for client in clients:
            client.close()
    if bystander is not None:  # the token of the same user
        bystander.subscribe("cluster")  # which is answered


def test_unknown_topics_are_refused_and_the_others_kept(open_live, token, commit):
    client = open_live(token=token)
    client.send(
        {"subscribe": ["loops", "assignments:n1", "state", "trial:x", "trial:7\n", 7, "trial:7"]}
    )
    assert client.expect("error")["error"]["code"] == "live.no_such_topic"
    client.expect("topic", "trial:7")
    commit("loops", "assignments:n1", "state")
    assert client.collect(0.7) == []


def test_there_is_a_most_number_of_topics(open_live, token):
    client = open_live(token=token)
    topics = [f"trial:{i}" for i in range(1, live.TOPICS_MAX + 2)]
    client.send({"subscribe": topics})
    assert client.expect("error")["error"]["code"] == "live.too_many_topics"
    client.send({"unsubscribe": topics[:1]})
    client.subscribe(topics[-1])


def test_what_is_not_this_protocol_closes_the_channel(open_live, token):
    for message, code in [
        ("{", 1008),
        ("[]", 1008),
        ('{"subscribe": "cluster"}', 1008),
        ('{"subscribe": [], "unsubscribe": []}', 1008),
        ('{"publish": ["cluster"]}', 1008),
        ("[" * 60_000, 1008),
        (b"\x00", 1003),
        ('{"subscribe": ["' + "x" * 70_000 + '"]}', 1009),
    ]:
        client = open_live(token=token)
        client.connection.send(message)
        assert code_of(client) == code, message[:50]


def test_a_flood_of_messages_closes_the_channel(open_live, token):
    client = open_live(token=token)
    with suppress(ConnectionClosed):  # the server may be quicker than the last of them
        for _ in range(live.MESSAGES_PER_S + 5):
            client.send({"pong": 1})
    assert code_of(client) == 1008


class TestLimits:
    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"live_sockets_per_user": 2})

    def test_a_user_has_a_most_number_of_sockets(self, port, open_live, token, make_user_token):
        first, _ = open_live(token=token), open_live(token=token)
        assert code_of(LiveClient(port, token=token)) == 1013
        open_live(token=make_user_token("viewer", username="bob"))
        first.close()
        until(lambda: _opens(port, token))


def _opens(port, token):
    client = LiveClient(port, token=token)
    try:
        return "hello" in client.receive()
    except ConnectionClosed:
        return False
    finally:
        client.close()


def test_a_client_that_does_not_read_is_closed(server_app, token, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(live, "HINT_EVERY_S", 0.001)
    monkeypatch.setattr(live, "SEND_TIMEOUT_S", 0.5)
    topics = [f"trial:{10**17 + i}" for i in range(live.TOPICS_MAX)]
    with serving(server_app, send_buffer_bytes=4096) as port:
        client = LiveClient(port, token=token)
        client.send({"subscribe": topics})
        # The client's library reads ahead until its own buffer is full; then the network's fill.
        deadline = time.monotonic() + 20
        while "live_client_refused" not in caplog.text:
            assert time.monotonic() < deadline
            server_app.state.hub.on_commit(frozenset(topics))
            time.sleep(0.005)
        assert "too slow" in caplog.text
        assert code_of(client) == 1013  # it reads on, and learns why
        until(lambda: not server_app.state.live_sockets)
        client.close()


def test_nothing_is_left_of_a_client_that_went(server_app, open_live, token):
    client = open_live(token=token)
    client.subscribe("trial:7")
    client.connection.socket.close()
    until(lambda: not server_app.state.live_sockets)
    assert not server_app.state.hub._listeners


def test_a_channel_hears_of_a_hidden_project_what_it_hears_of_nothing(
    open_live, token, make_user_token, commit, database
):
    with database.transaction() as session:
        experiment = add_experiment(session)
        trial_id = add_trial(session, experiment).id
        session.get_one(ProjectRow, experiment.project_id).visibility = "members"
    topics = [f"trial:{trial_id}:logs", f"experiment:{experiment.id}"]
    nothing = ["trial:987:logs", "experiment:987", "model:nothing"]
    client, admin = open_live(token=token), open_live(token=make_user_token("admin"))
    client.send({"subscribe": [*topics, "cluster"]})
    told = client.expect("error")
    client.expect("topic", "cluster")
    client.send({"subscribe": nothing})
    assert client.expect("error") == told
    for topic in topics:
        admin.subscribe(topic)
    commit(*topics)
    assert {admin.expect("topic")["topic"] for _ in topics} == set(topics)
    assert client.collect(0.7) == []
    with database.transaction() as session:
        session.get_one(ProjectRow, experiment.project_id).visibility = "all"
    assert code_of(client) == 4401, "it may see more: it connects again"
