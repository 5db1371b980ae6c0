"""Signing in with a password and a code."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import re
import struct
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine

from muster_server import clock
from muster_server.db.models import SecondFactorRow, UserRow
from muster_server.security.encryption import key_ring
from muster_server.security.passwords import hash_password
from muster_server.security.stack_secrets import new_key
from muster_server.services.secrets import store

pytestmark = pytest.mark.either_database

PASSWORD = "a tolerable passphrase"
PATH = "/api/v1/auth/second-factor"
KEY = "A" * 43 + "="


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    path.write_text(KEY)
    return path


@pytest.fixture
def settings(settings, key_file):
    return settings.model_copy(
        update={
            "secrets_key": None,
            "secrets_key_file": key_file,
            "sign_in_attempts_per_minute": 1000,
        }
    )


@pytest.fixture
def ada(connect, database):
    """Somebody who is signed in with a password, as an administrator."""
    with database.transaction() as session:
        password_hash = hash_password(PASSWORD)
        session.add(
            UserRow(
                username="ada", role="admin", password_hash=password_hash, created_at=clock.now()
            )
        )
    client = connect()
    assert sign_in(client).status_code == 200
    return client


def sign_in(client, code=None):
    body = {"username": "ada", "password": PASSWORD}
    return client.post("/api/v1/auth/login", json=body | ({"code": code} if code else {}))


def code_at(secret, moment):
    """What an app shows: RFC 6238, written down once more."""
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.digest(key, struct.pack(">Q", int(moment.timestamp()) // 30), "sha1")
    at = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 1_000_000:06}"


def switch_on(client, moment):
    """The secret and the recovery codes."""
    begun = client.post(PATH, json={"password": PASSWORD}).json()
    secret = begun["secret"]
    assert parse_qs(urlsplit(begun["address"]).query)["secret"] == [secret]
    reply = client.post(f"{PATH}:confirm", json={"code": code_at(secret, moment)})
    assert reply.status_code == 200, reply.text
    return secret, reply.json()["codes"]


def problem(reply):
    return reply.json()["error"]["code"]


@pytest.fixture
def now():
    """A moment at the beginning of a step, at which the time stands."""
    moment = dt.datetime.fromtimestamp(int(clock.now().timestamp()) // 30 * 30, dt.UTC)
    with time_machine.travel(moment, tick=False):
        yield moment


def later(moment, steps):
    return moment + dt.timedelta(seconds=30 * steps)


def test_the_code_of_the_app_is_asked_for_beside_the_password(ada, connect, now):
    secret, _ = switch_on(ada, now)
    assert ada.get("/api/v1/auth/me").json()["has_second_factor"] is True
    with time_machine.travel(later(now, 1), tick=False):
        client = connect()
        assert problem(sign_in(client)) == "auth.code_needed"
        assert problem(sign_in(client, "000000")) == "auth.wrong_code"
        code = code_at(secret, later(now, 1))
        assert sign_in(client, f"{code[:3]} {code[3:]}").status_code == 200


def test_a_code_works_once(ada, connect, now):
    secret, _ = switch_on(ada, now)
    assert problem(sign_in(connect(), code_at(secret, now))) == "auth.wrong_code", "it confirmed"
    with time_machine.travel(later(now, 1), tick=False):
        code = code_at(secret, later(now, 1))
        assert sign_in(connect(), code).status_code == 200
        assert problem(sign_in(connect(), code)) == "auth.wrong_code"


@pytest.mark.parametrize(
    ("steps", "works"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)]
)
def test_the_clock_of_a_phone_may_be_half_a_minute_off(ada, connect, now, steps, works):
    secret, _ = switch_on(ada, now)
    with time_machine.travel(later(now, 5), tick=False):
        reply = sign_in(connect(), code_at(secret, later(now, 5 + steps)))
        assert (reply.status_code == 200) == works


def test_a_recovery_code_works_once_without_the_app(ada, connect, now):
    _, codes = switch_on(ada, now)
    assert len(set(codes)) == 10
    assert all(re.fullmatch(r"[a-z2-7]{5}-[a-z2-7]{5}", code) for code in codes)
    assert sign_in(connect(), codes[3].upper()).status_code == 200
    assert problem(sign_in(connect(), codes[3])) == "auth.wrong_code"
    assert sign_in(connect(), codes[4]).status_code == 200


def test_it_counts_only_once_a_code_was_confirmed(ada, connect, now):
    ada.post(PATH, json={"password": PASSWORD})
    assert sign_in(connect()).status_code == 200
    assert problem(ada.post(f"{PATH}:confirm", json={"code": "123456"})) == "auth.wrong_code"
    assert sign_in(connect()).status_code == 200


def test_an_open_browser_alone_changes_nothing(ada, now):
    assert problem(ada.post(PATH, json={"password": "not it"})) == "auth.wrong_password"
    switch_on(ada, now)
    off = ada.post(f"{PATH}:switch-off", json={"password": "not it"})
    assert problem(off) == "auth.wrong_password"
    assert problem(ada.post(PATH, json={"password": PASSWORD})) == "auth.second_factor_on"
    assert ada.post(f"{PATH}:switch-off", json={"password": PASSWORD}).status_code == 204
    assert ada.get("/api/v1/auth/me").json()["has_second_factor"] is False


def test_a_token_changes_no_way_of_signing_in(ada, connect, make_user_token):
    client = connect(token=make_user_token("admin", username="ada"))
    assert problem(client.post(PATH, json={"password": PASSWORD})) == "auth.session_needed"


def test_an_administrator_switches_it_off_for_who_lost_the_phone(ada, connect, now):
    switch_on(ada, now)
    path = f"/api/v1/users/{ada.get('/api/v1/auth/me').json()['id']}/second-factor"
    assert ada.delete(path).status_code == 204
    assert sign_in(connect()).status_code == 200
    assert problem(ada.delete(path)) == "auth.no_second_factor"


def test_wrong_codes_are_audited_and_counted_like_wrong_passwords(ada, connect, now):
    switch_on(ada, now)
    client = connect()
    replies = [sign_in(client, "000000") for _ in range(6)]
    assert [reply.status_code for reply in replies] == [401] * 5 + [429]
    found = ada.get("/api/v1/audit", params={"q": "login_failed"}).json()["items"]
    assert [entry["detail"]["reason"] for entry in found] == ["wrong code"] * 5


def test_without_a_key_for_secrets_it_cannot_be_set_up(ada, app, settings):
    app.state.settings = settings.model_copy(update={"secrets_key_file": None})
    assert problem(ada.post(PATH, json={"password": PASSWORD})) == "secrets.off"


def test_the_app_goes_on_to_work_when_the_key_is_replaced(
    ada, connect, now, settings, database, key_file
):
    secret, _ = switch_on(ada, now)
    key_file.write_text(f"{new_key()}\n{KEY}")
    both = key_ring(settings)
    with database.transaction() as session:
        done = store.rotate_batch(session, both, of=SecondFactorRow, after_id=None, now=now)
    assert (done.num_rotated, done.unreadable) == (1, ())
    key_file.write_text(key_file.read_text().splitlines()[0])
    with time_machine.travel(later(now, 1), tick=False):
        assert sign_in(connect(), code_at(secret, later(now, 1))).status_code == 200
