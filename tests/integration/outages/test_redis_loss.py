"""Losing Redis, in each way it can be lost, loses nothing: pages and long polls go on."""

import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from muster_server.app import create_app
from muster_server.db.engine import Database, touch
from muster_server.live import hub, publisher, waker
from muster_server.live.publisher import Publisher
from muster_server.live.waker import HintWaker
from support.live import LiveClient, serving, until
from support.valkey import private_valkey

COMMIT = """
import sys, time
from muster_server.db.engine import Database, touch
from muster_server.live.publisher import Publisher
publisher = Publisher(sys.argv[2])
database = Database(sys.argv[1], on_commit=publisher)
with database.transaction() as session:
    touch(session, *sys.argv[3:])
print(time.time(), flush=True)
publisher.close()
database.dispose()
"""


@pytest.fixture
def valkey():
    with private_valkey() as valkey:
        yield valkey


@pytest.fixture
def settings(settings, valkey):
    from pydantic import SecretStr

    return settings.model_copy(update={"redis_url": SecretStr(valkey.url)})


@pytest.fixture
def server_app(settings, monkeypatch):
    monkeypatch.setattr(hub, "SILENCE_S", 0.5)
    monkeypatch.setattr(hub, "DEGRADED_POLL_S", 0.7)
    monkeypatch.setattr(hub, "RETRY_MAX_S", 0.3)
    monkeypatch.setattr(publisher, "RETRY_MAX_S", 0.3)
    return create_app(settings)


@pytest.fixture
def port(server_app):
    with serving(server_app) as port:
        yield port


@pytest.fixture
def token(make_user_token):
    return make_user_token("viewer")


@pytest.fixture
def page(port, token):
    """A dashboard's live channel, subscribed to trial:7 and told that all is well."""
    client = LiveClient(port, token=token)
    assert client.receive()["hello"]["degraded"] is False
    client.subscribe("trial:7")
    yield client
    client.close()


@pytest.fixture
def elsewhere(port, database_url, valkey):
    """Another process's database, as far as the server can tell."""
    publish = Publisher(valkey.url)
    database = Database(database_url, on_commit=publish)
    yield database
    publish.close()
    database.dispose()


@pytest.fixture
def ask(port, token):
    """Status of a GET, which must not take long."""
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=3,
    ) as client:
        yield lambda path: client.get(path).status_code


def commit(database, *topics):
    with database.transaction() as session:
        touch(session, *topics)


def quiet(client, duration_s=0.65):
    """What is told besides pings; the hint that confirmed the subscription is over."""
    return [m for m in client.collect(duration_s) if "ping" not in m]


def test_a_commit_of_another_process_is_hinted_at_within_a_second(page, database_url, valkey):
    assert quiet(page) == []  # so that what comes is the other process's
    with subprocess.Popen(
        [sys.executable, "-c", COMMIT, database_url, valkey.url, "trial:7", "cluster"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as child:
        page.expect("topic", "trial:7", timeout_s=30)
        heard_at = time.time()
        committed_at = float(child.stdout.read())
    assert heard_at - committed_at < 1.0


def test_a_burst_of_commits_elsewhere_becomes_few_messages(page, elsewhere, valkey):
    assert quiet(page) == []
    for _ in range(200):
        elsewhere.on_commit(frozenset({"trial:7", "loops"}))
    assert 1 <= len(quiet(page, 1.3)) <= 3


def test_pages_and_the_api_go_on_when_redis_is_killed_and_recover(
    page, elsewhere, valkey, ask, server_app
):
    valkey.kill()
    page.expect("state", "degraded")
    for _ in range(2):
        page.expect("topic", "trial:7")  # by the timer
    assert ask("/api/v1/experiments") == 200
    assert ask("/readyz") == 200
    started_at = time.monotonic()
    for _ in range(20):
        commit(server_app.state.database, "trial:7", "loops")
    assert time.monotonic() - started_at < 1.0
    commit(elsewhere, "trial:8")  # nobody hears it now

    valkey.start()
    page.expect("state", "ok")
    page.expect("topic", "trial:7")  # something may have been missed
    page.subscribe("trial:8")
    quiet(page)
    commit(elsewhere, "trial:8")
    page.expect("topic", "trial:8", timeout_s=1.0)


def test_what_was_committed_while_only_the_sender_was_cut_off_is_hinted_at_later(
    page, valkey, database_url, monkeypatch
):
    monkeypatch.setattr(publisher, "RETRY_MAX_S", 0.2)
    relay = socket.socket()
    relay.bind(("127.0.0.1", 0))
    address = relay.getsockname()
    relay.close()  # nobody listens there yet
    publish = Publisher(f"redis://{address[0]}:{address[1]}/0")
    quiet(page)
    publish(frozenset({"trial:7"}))
    assert quiet(page) == []
    # From now on somebody does: the same Redis, under that address too.
    valkey.call("CONFIG", "SET", "port", str(address[1]))
    page.expect("topic", "trial:7", timeout_s=3.0)
    publish.close()


def test_flushall_goes_unnoticed(page, elsewhere, valkey, ask):
    quiet(page)
    valkey.call("FLUSHALL")
    assert quiet(page) == []
    commit(elsewhere, "trial:7")
    page.expect("topic", "trial:7", timeout_s=1.0)
    assert ask("/api/v1/experiments") == 200


def test_a_redis_that_hangs_is_noticed_and_costs_commits_nothing(
    page, valkey, server_app, elsewhere, ask
):
    valkey.freeze()
    page.expect("state", "degraded", timeout_s=5.0)
    page.expect("topic", "trial:7")
    started_at = time.monotonic()
    for _ in range(2_000):
        elsewhere.on_commit(frozenset({"trial:7"}))
        server_app.state.database.on_commit(frozenset({"trial:9"}))
    # A commit that waited for Redis even 10 ms would bring these 4,000 to 40 s.
    assert time.monotonic() - started_at < 20.0
    assert ask("/api/v1/experiments") == 200
    valkey.thaw()
    page.expect("state", "ok")
    page.expect("topic", "trial:7")


def test_a_dropped_connection_is_a_gap_that_pages_are_told_of(page, valkey):
    quiet(page)
    valkey.call("CLIENT", "KILL", "TYPE", "pubsub")
    page.expect("topic", "trial:7")
    # Unless it was back before anybody could be told, both states were.
    assert [m["state"] for m in quiet(page) if "state" in m][-1:] in ([], ["ok"])


def test_garbage_on_the_channel_is_ignored(page, elsewhere, valkey):
    quiet(page)
    for text in ("", "{", "[]", '{"from": 1, "topics": []}', '{"from": "x", "topics": [7]}'):
        valkey.call("PUBLISH", "muster:hints", text)
    valkey.call("PUBLISH", "muster:hints", '{"from": "x", "topics": ["state"]}')
    assert quiet(page) == []
    commit(elsewhere, "trial:7")
    page.expect("topic", "trial:7", timeout_s=1.0)


def test_a_server_starts_without_its_redis(settings, valkey, token, monkeypatch):
    monkeypatch.setattr(hub, "RETRY_MAX_S", 0.3)
    valkey.kill()
    with serving(create_app(settings)) as port:
        client = LiveClient(port, token=token)
        assert client.receive()["hello"]["degraded"] is True
        client.subscribe("trial:7")
        valkey.start()
        client.expect("state", "ok")
        client.close()


def test_a_long_poll_is_woken_by_another_process_and_by_the_loss(server_app, elsewhere, valkey):
    import asyncio

    def wait(timeout_s):
        app_hub = server_app.state.hub
        return asyncio.run_coroutine_threadsafe(
            app_hub.wait_for("assignments:n1", timeout_s), app_hub._loop
        )

    heard = wait(10)
    until(lambda: "assignments:n1" in server_app.state.hub._listeners)
    commit(elsewhere, "assignments:n1")
    assert heard.result(timeout=1.0) is True
    assert wait(0.1).result(timeout=1.0) is False
    heard = wait(10)
    valkey.kill()
    assert heard.result(timeout=3.0) is True


def test_the_controller_is_woken_again_after_an_outage(valkey, elsewhere, monkeypatch):
    monkeypatch.setattr(waker, "RETRY_MAX_S", 0.2)
    hints = HintWaker(valkey.url, "loops")
    num_woken = 0
    stop = threading.Event()

    def wait():
        nonlocal num_woken
        while not stop.is_set():
            hints.wait(60)
            num_woken += 1

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        until(lambda: valkey.call("PUBSUB", "NUMSUB", "muster:hints")[1] >= 2)
        commit(elsewhere, "loops")
        until(lambda: num_woken == 1, timeout_s=1.0)
        commit(elsewhere, "cluster")
        valkey.kill()
        valkey.start()
        until(lambda: num_woken >= 2)  # something may have been missed
        before = num_woken
        commit(elsewhere, "loops")
        until(lambda: num_woken > before, timeout_s=3.0)
        before, started_at = num_woken, time.monotonic()
        for _ in range(100):
            hints.wake()
            time.sleep(0.005)
        spent_s = time.monotonic() - started_at
        assert num_woken - before <= spent_s / waker.LEAST_WAIT_S + 2
    finally:
        stop.set()
        hints.close()
        thread.join()


def test_more_topics_than_are_kept_become_one_that_means_anything(valkey, page, monkeypatch):
    monkeypatch.setattr(publisher, "PENDING_MAX", 5)
    publish = Publisher(valkey.url)
    quiet(page)
    publish(frozenset(f"trial:{i}" for i in range(100, 120)))
    page.expect("topic", "trial:7", timeout_s=1.0)
    publish.close()
