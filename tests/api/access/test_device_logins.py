"""A command line that is let in with a browser."""

from __future__ import annotations

import datetime as dt

import pytest
import time_machine

from muster_server import clock
from muster_server.services.core.accounts import device_logins

pytestmark = pytest.mark.either_database

PATH = "/api/v1/auth/device"


@pytest.fixture
def browser(connect, database):
    """Somebody who is signed in with a browser: ada, a member."""
    from muster_server.db.models import UserRow
    from muster_server.services.core.accounts import auth

    with database.transaction() as session:
        user = UserRow(username="ada", role="member", created_at=clock.now())
        session.add(user)
        session.flush()
        lifetime = dt.timedelta(days=1)
        secret = auth.start_session(session, user_id=user.id, lifetime=lifetime, now=clock.now())
    client = connect()
    client.cookies.set("muster_sid", secret)
    return client


def begin(client):
    reply = client.post(PATH, json={"client": "muster on desk"})
    assert reply.status_code == 201, reply.text
    return reply.json()


def ask(client, begun):
    return client.post(f"{PATH}/token", json={"device_code": begun["device_code"]})


def code(reply):
    return reply.json()["error"]["code"]


def test_who_confirms_the_code_lets_the_command_line_in_once(client, browser, connect):
    begun = begin(client)
    assert begun["url"].endswith(f"/device?code={begun['user_code']}")
    assert code(ask(client, begun)) == "auth.device_pending"
    shown = browser.get(f"{PATH}/{begun['user_code']}").json()
    assert (shown["client"], shown["remote_addr"]) == ("muster on desk", "127.0.0.1")
    assert browser.post(f"{PATH}/{begun['user_code']}:approve").status_code == 204
    made = ask(client, begun).json()
    me = connect(token=made["secret"]).get("/api/v1/auth/me").json()
    assert (me["username"], me["role"], made["role"]) == ("ada", "member", "member")
    assert made["name"] == "muster on desk"
    assert code(ask(client, begun)) == "auth.device_expired"
    assert code(browser.get(f"{PATH}/{begun['user_code']}")) == "auth.no_device_login"


@pytest.mark.parametrize("typed", [str.lower, lambda c: c.replace("-", ""), lambda c: f" {c} "])
def test_a_code_may_be_typed_in_any_way(client, browser, typed):
    begun = begin(client)
    assert browser.get(f"{PATH}/{typed(begun['user_code'])}").status_code == 200


def test_a_refused_command_line_hears_it(client, browser):
    begun = begin(client)
    assert browser.post(f"{PATH}/{begun['user_code']}:deny").status_code == 204
    assert code(ask(client, begun)) == "auth.device_denied"
    assert code(browser.post(f"{PATH}/{begun['user_code']}:approve")) == "auth.no_device_login"


def test_a_token_lets_nobody_in(client, connect, make_user_token):
    begun = begin(client)
    reply = connect(token=make_user_token("admin")).post(f"{PATH}/{begun['user_code']}:approve")
    assert code(reply) == "auth.session_needed"
    assert client.post(f"{PATH}/{begun['user_code']}:approve").status_code == 401


def test_it_ends_after_ten_minutes(client, browser):
    begun = begin(client)
    with time_machine.travel(clock.now() + dt.timedelta(minutes=10, seconds=1)):
        assert code(ask(client, begun)) == "auth.device_expired"
        assert code(browser.post(f"{PATH}/{begun['user_code']}:approve")) == "auth.no_device_login"


def test_somebody_deactivated_meanwhile_lets_nobody_in(client, browser, connect, make_user_token):
    begun = begin(client)
    browser.post(f"{PATH}/{begun['user_code']}:approve")
    user_id = browser.get("/api/v1/auth/me").json()["id"]
    admin = connect(token=make_user_token("admin"))
    admin.patch(f"/api/v1/users/{user_id}", json={"is_active": False})
    assert code(ask(client, begun)) == "auth.device_expired"


def test_what_waits_is_bounded(client, browser, monkeypatch):
    monkeypatch.setattr(device_logins, "WAITING_MAX", 2)
    begin(client)
    begin(client)
    reply = client.post(PATH, json={"client": "muster on desk"})
    assert (reply.status_code, code(reply)) == (429, "auth.busy")


def test_a_made_up_secret_gets_nothing(client):
    begun = begin(client)
    assert code(ask(client, {"device_code": begun["device_code"][:-1]})) == "auth.device_expired"
