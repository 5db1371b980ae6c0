"""Notifications over the REST API, and sending them to real receivers on loopback."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import SecretStr
from sqlalchemy import func, select

from muster_server.db.models import (
    DeliveryRow,
    InboxRow,
    NotificationRow,
    NotificationTargetRow,
    OutboxRow,
    UserRow,
)
from muster_server.domain.notifications.messages import Notification
from muster_server.security.encryption import key_ring
from muster_server.security.stack_secrets import new_key
from muster_server.services.core.events import add_event
from muster_server.services.notifications import channels, retention, sending
from muster_server.services.notifications.channels import SendFailed
from muster_server.services.secrets import store
from support.data import add_experiment, add_trial
from support.receivers import mail_receiver, webhook_receiver

API = "/api/v1/notifications"
NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
LOOPBACK = ["127.0.0.0/8"]
NOTIFICATION = Notification(id=1, at=NOW, kind="test", level="info", message="x")


@pytest.fixture
def settings(settings):
    return settings.model_copy(
        update={
            "secrets_key": SecretStr(new_key()),
            "notify_allowed_networks": LOOPBACK,
            "public_url": "https://muster.example",
        }
    )


@pytest.fixture
def hook():
    with webhook_receiver() as receiver:
        yield receiver


@pytest.fixture
def experiment_id(database, member_client):
    with database.transaction() as session:
        owner = session.scalar(select(UserRow).where(UserRow.username == "member"))
        experiment = add_experiment(session)
        experiment.owner_id = owner.id
        add_trial(session, experiment)
        return experiment.id


@pytest.fixture
def happen(database, experiment_id):
    """`happen(3)` lets so many trials fail, each in a transaction of its own."""

    def make(num=1, *, type="trial.state", data=None, text="out of memory"):
        for number in range(num):
            with database.transaction() as session:
                add_event(
                    session,
                    type,
                    f"Trial is FAILED: {text} {number}.",
                    now=NOW,
                    level="error",
                    experiment_id=experiment_id,
                    data=data or {"after": "FAILED"},
                )

    return make


class Sender:
    """Sends what is due, at a time of its own."""

    def __init__(self, database, settings):
        self.database, self.settings, self.now = database, settings, NOW

    def __call__(self, after_s=0.0, **options):
        self.now += dt.timedelta(seconds=after_s)
        with self.database.read() as session:
            due = sending.due_targets(session, self.now)
        return sum(
            sending.send_waiting(
                self.database, id_, self.settings, clock_now=lambda: self.now, **options
            )
            for id_ in due
        )


@pytest.fixture
def deliver(database, settings):
    return Sender(database, settings)


def make_target(client, config, name="hook", **more):
    answer = client.post(f"{API}/targets", json={"name": name, "config": config, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def make_rule(client, *target_ids, kinds=("trial.failed",), **more):
    answer = client.post(
        f"{API}/rules", json={"kinds": list(kinds), "target_ids": list(target_ids), **more}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def history(client, target_id):
    return client.get(f"{API}/targets/{target_id}/deliveries").json()["items"]


def targets(client, **query):
    return client.get(f"{API}/targets", params=query).json()["items"]


@pytest.fixture
def hooked(member_client, hook):
    """A webhook of the member that gets failed trials; (id, secret)."""
    made = make_target(member_client, {"kind": "webhook", "url": hook.url})
    make_rule(member_client, made["target"]["id"])
    return made["target"]["id"], made["secret"]


def test_a_webhook_gets_what_happened_signed(hooked, hook, happen, deliver, member_client):
    target_id, secret = hooked
    happen()
    assert deliver() == 1
    (got,) = hook.received
    assert got.is_signed_with(secret)
    assert not got.is_signed_with("whsec_" + "A" * 43 + "=")
    assert got.headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    assert got.body["type"] == "trial.failed"
    assert got.body["data"]["message"] == "Trial is FAILED: out of memory 0."
    assert got.body["data"]["url"].startswith("https://muster.example/experiments/")
    (sent,) = history(member_client, target_id)
    assert (sent["state"], sent["num_tries"], sent["message_id"]) == ("sent", 1, got.id)
    assert deliver(60) == 0, "nothing is sent twice"


def test_an_away_receiver_loses_nothing_and_gets_everything_in_order_under_one_id(
    hooked, hook, happen, deliver, member_client
):
    target_id, _ = hooked
    hook.status = 503
    for number in range(3):
        happen(text=f"cause {number}")
    for _ in range(360):
        deliver(10)
    (sent,) = history(member_client, target_id)
    assert sent["state"] == "sending"
    assert 5 <= sent["num_tries"] <= 15, "pauses grow"
    assert "503" in sent["error"]
    (shown,) = targets(member_client)
    assert (shown["num_waiting"], shown["num_failures"]) == (3, sent["num_tries"])
    assert len({got.id for got in hook.refused}) == 1
    assert len({got.raw for got in hook.refused}) == 1

    hook.status = 200
    while deliver(600) == 0:
        pass
    causes = [got.body["data"]["message"].split(": ")[1] for got in hook.received]
    assert causes == ["cause 0 0.", "cause 1 0.", "cause 2 0."]
    assert hook.received[0].id == hook.refused[0].id
    assert len({got.id for got in hook.received}) == 3


def test_what_is_sent_after_a_crash_bears_the_same_id(hooked, hook, happen, deliver):
    happen()

    class Killed(BaseException):
        pass

    def send_and_die(config, message, settings):
        channels.send(config, message, settings)
        raise Killed

    with pytest.raises(Killed):
        deliver(send_one=send_and_die)
    assert deliver(1) == 0, "the one that died holds the target"
    assert deliver(sending.CLAIM.total_seconds()) == 1
    assert [got.id for got in hook.received] == [hook.received[0].id] * 2


def test_two_senders_never_send_for_one_target_at_once(hooked, hook, happen, deliver):
    happen(2)
    seen = []

    def send_while_another_tries(config, message, settings):
        if not seen:
            seen.append(deliver())
        channels.send(config, message, settings)

    assert deliver(send_one=send_while_another_tries) == 2
    assert seen == [0]
    assert len(hook.received) == 2


def test_a_thousand_at_once_become_a_digest(hooked, hook, happen, deliver, member_client, database):
    happen(1000)
    assert deliver() == 1
    (got,) = hook.received
    assert got.body["type"] == "digest"
    assert got.body["data"]["count"] == 1000
    assert got.body["data"]["counts"] == {"trial.failed": 1000}
    (sent,) = history(member_client, hooked[0])
    assert sent["title"] == "1,000 notifications: 1,000 × Trial failed"
    happen(2)
    assert deliver(30) == 0, "what goes on happening is collected for a minute"
    assert deliver(31) == 2
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(OutboxRow)) == 0


def test_a_message_is_given_up_after_days_and_the_next_is_tried(
    hooked, hook, happen, deliver, member_client
):
    hook.status = 500
    happen(text="first")
    deliver()
    happen(text="second")
    for _ in range(80):
        deliver(3600)
    states = [(one["state"], one["num_tries"] > 20) for one in history(member_client, hooked[0])]
    assert states == [("sending", False), ("failed", True)]
    hook.status = 200
    while deliver(3600) == 0:
        pass
    assert [got.body["data"]["message"] for got in hook.received] == ["Trial is FAILED: second 0."]


def test_a_receiver_that_is_gone_is_not_asked_again(hooked, hook, happen, deliver, member_client):
    hook.status = 410
    happen()
    deliver()
    (target,) = targets(member_client)
    assert (target["is_enabled"], target["num_waiting"]) == (False, 0)
    assert "410" in target["disabled_reason"]
    happen()
    assert deliver(86_400) == 0
    assert len(hook.refused) == 1
    hook.status = 200
    made = member_client.patch(f"{API}/targets/{hooked[0]}", json={"is_enabled": True}).json()
    assert made["target"]["disabled_reason"] == ""
    happen()
    assert deliver() == 1


def test_a_receiver_can_ask_for_a_pause(hooked, hook, happen, deliver):
    hook.status, hook.headers = 429, {"Retry-After": "120"}
    happen()
    deliver()
    hook.status = 200
    assert [deliver(110), deliver(10)] == [0, 1]


def test_a_redirect_is_not_followed(hooked, hook, happen, deliver, member_client):
    with webhook_receiver() as elsewhere:
        hook.status, hook.headers = 307, {"Location": elsewhere.url}
        happen()
        assert deliver() == 0
        assert elsewhere.received == []
    (sent,) = history(member_client, hooked[0])
    assert "redirects are not followed" in sent["error"]


def test_an_answer_that_never_ends_is_cut_off(
    hooked, hook, happen, deliver, member_client, monkeypatch
):
    monkeypatch.setattr(channels, "SEND_TIMEOUT_S", 0.5)
    hook.drips = True
    happen()
    assert deliver() == 0
    (sent,) = history(member_client, hooked[0])
    assert sent["error"] == "the receiver did not finish within 0.5 s."


def test_no_more_of_an_answer_is_read_than_needed(hooked, hook, happen, deliver):
    hook.body = b"x" * 20_000_000
    hook.status = 200
    happen()
    assert deliver() == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1", "0.0.0.0"]
)
def test_no_connection_is_made_to_an_address_that_is_not_public(
    host, member_client, hook, happen, database, settings
):
    """Names are judged by what they resolve to when the connection is made."""
    closed = settings.model_copy(update={"notify_allowed_networks": []})
    deliver = Sender(database, closed)
    made = make_target(member_client, {"kind": "webhook", "url": hook.url})
    make_rule(member_client, made["target"]["id"])
    with database.transaction() as session:
        row = session.get_one(NotificationTargetRow, made["target"]["id"])
        value = store.open_row(row, key_ring(settings))
        moved = value.replace("127.0.0.1", host)
        store.seal_row(row, moved, key_ring(settings))
    happen()
    assert deliver() == 0
    assert hook.received == []
    (sent,) = history(member_client, made["target"]["id"])
    assert "is not a public address" in sent["error"]
    assert "MUSTER_NOTIFY_ALLOWED_NETWORKS" in sent["error"]


def test_a_name_that_resolves_to_something_else_a_moment_later_gains_nothing(
    member_client, hook, happen, database, settings, monkeypatch
):
    import socket

    answers = iter(["93.184.215.14", *["127.0.0.1"] * 10])
    resolve = socket.getaddrinfo

    def rebinding(host, port, *rest, **more):
        if host == "rebind.example":
            return resolve(next(answers), port, *rest, **more)
        return resolve(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    next(answers)  # what a check beforehand would have seen
    url = f"http://rebind.example:{hook.port}/hook"
    made = make_target(member_client, {"kind": "webhook", "url": url})
    make_rule(member_client, made["target"]["id"])
    happen()
    closed = settings.model_copy(update={"notify_allowed_networks": []})
    assert Sender(database, closed)() == 0
    assert hook.received == []


def test_connections_of_other_threads_and_times_are_not_guarded(hook):
    import http.client

    from muster_server.services.notifications.guard import AddressRefused, guarded

    def connect():
        connection = http.client.HTTPConnection("127.0.0.1", hook.port, timeout=5)
        connection.connect()
        connection.close()

    with pytest.raises(AddressRefused), guarded((), timeout_s=5):
        connect()
    connect()


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's
def test_apprise_sends_and_obeys_the_same_guard(member_client, hook, happen, database, settings):
    hook.status = 200
    url = f"ntfy://secretuser:secretpassword@127.0.0.1:{hook.port}/muster"
    made = make_target(member_client, {"kind": "apprise", "url": url}, name="phone")
    assert made["target"]["summary"] == "ntfy"
    make_rule(member_client, made["target"]["id"])
    happen()
    closed = settings.model_copy(update={"notify_allowed_networks": []})
    assert Sender(database, closed)() == 0
    assert hook.received == []
    (sent,) = history(member_client, made["target"]["id"])
    assert "not a public address" in sent["error"]
    assert (sent["state"], sent["num_tries"]) == ("failed", 1), (
        "what is refused for good is not tried again"
    )
    hook.status, hook.headers = 302, {"Location": "/elsewhere"}
    deliver = Sender(database, settings)
    assert deliver(60) == 0
    assert len(history(member_client, made["target"]["id"])) == 1

    happen()
    assert deliver(60) == 0
    sent, _ = history(member_client, made["target"]["id"])
    assert "secretpassword" not in sent["error"]
    assert sent["error"]
    assert len(hook.refused) == 1, "the redirect was not followed"

    hook.status, hook.headers = 200, {}
    assert deliver(600) == 1
    (got,) = hook.received
    assert "out of memory" in got.raw.decode()


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # as a test may
def test_mail_is_sent_by_the_mail_server_of_the_installation(
    app, member_client, happen, database, settings
):
    with mail_receiver(login=("muster", "mail-password")) as mail:
        with_mail = settings.model_copy(
            update={
                "smtp_host": "127.0.0.1",
                "smtp_port": mail.port,
                "smtp_security": "none",
                "smtp_username": "muster",
                "smtp_password": SecretStr("mail-password"),
                "smtp_sender": "muster@example.com",
                "notify_allowed_networks": [],
            }
        )
        app.state.settings = with_mail
        config = {"kind": "email", "to": ["ada@example.com", "bob@example.com"]}
        made = make_target(member_client, config, name="mail")
        make_rule(member_client, made["target"]["id"])
        happen()
        mail.refusal = "451 try later"
        deliver = Sender(database, with_mail)
        assert deliver() == 0
        assert "451 try later" in history(member_client, made["target"]["id"])[0]["error"]
        mail.refusal = None
        assert deliver(60) == 1
        (got,) = mail.mails
        assert mail.recipients == [["ada@example.com", "bob@example.com"]]
        assert got["Subject"].startswith("[Muster] Trial failed: ")
        assert got["From"] == "muster@example.com"
        assert "out of memory" in got.get_content()
        sent = history(member_client, made["target"]["id"])[0]
        assert got["Message-ID"] == f"<{sent['message_id']}@example.com>"


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # as a test may
def test_a_mail_server_of_the_target_is_guarded_and_its_password_encrypted(
    member_client, happen, database, settings
):
    with mail_receiver(login=("me", "canary-password")) as mail:
        server = {
            "host": "127.0.0.1",
            "port": mail.port,
            "security": "none",
            "username": "me",
            "password": "canary-password",
            "sender": "me@example.com",
        }
        config = {"kind": "email", "to": ["me@example.com"], "server": server}
        made = make_target(member_client, config)
        make_rule(member_client, made["target"]["id"])
        happen()
        closed = settings.model_copy(update={"notify_allowed_networks": []})
        assert Sender(database, closed)() == 0
        assert mail.mails == []
        happen()
        assert Sender(database, settings)(60) == 1
        assert len(mail.mails) == 1
    with database.read() as session:
        row = session.get_one(NotificationTargetRow, made["target"]["id"])
        assert b"canary" not in row.ciphertext
        assert "canary-password" in store.open_row(row, key_ring(settings))


def test_addresses_and_secrets_are_shown_once_or_never(member_client, admin_client, hook):
    secret_url = hook.url + "/canary-path"
    made = make_target(member_client, {"kind": "webhook", "url": secret_url})
    assert made["secret"].startswith("whsec_")
    target_id = made["target"]["id"]
    shown = [
        member_client.get(f"{API}/targets").text,
        member_client.patch(f"{API}/targets/{target_id}", json={"name": "other"}).text,
        admin_client.get("/api/v1/audit").text,
        str(made["target"]),
    ]
    for text in shown:
        assert "canary" not in text
        assert made["secret"] not in text
    given = "whsec_" + "QUJD" * 8
    config = {"kind": "webhook", "url": hook.url, "secret": given}
    again = member_client.patch(f"{API}/targets/{target_id}", json={"config": config}).json()
    assert again["secret"] is None, "the one who gave it knows it"


def test_rotating_the_key_encrypts_targets_anew(member_client, hook, database, settings):
    made = make_target(member_client, {"kind": "webhook", "url": hook.url})
    both = key_ring(
        settings.model_copy(
            update={
                "secrets_key": SecretStr(f"{new_key()} {settings.secrets_key.get_secret_value()}")
            }
        )
    )
    with database.transaction() as session:
        done = store.rotate_batch(session, both, of=NotificationTargetRow, after_id=None, now=NOW)
    assert (done.num_rotated, done.unreadable) == (1, ())
    with database.read() as session:
        row = session.get_one(NotificationTargetRow, made["target"]["id"])
        assert row.key_id == both.current_id
        assert hook.url in store.open_row(row, both)


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"kind": "webhook", "url": "ftp://example.com"}, "config.url"),
        ({"kind": "webhook", "url": "https://"}, "config.url"),
        ({"kind": "webhook", "url": "https://a:b@example.com"}, "config.url"),
        ({"kind": "webhook", "url": "http://10.0.0.1/"}, "config.url"),
        ({"kind": "webhook", "url": "https://example.com", "secret": "whsec_x"}, "config.secret"),
        ({"kind": "apprise", "url": "syslog://localhost"}, "config.url"),
        ({"kind": "apprise", "url": "discord://a/b?template=/etc/passwd"}, "config.url"),
        ({"kind": "apprise", "url": "ntfy://host/t?attach=file:///etc/passwd"}, "config.url"),
        ({"kind": "webhook", "url": "http://0xa000001/"}, "config.url"),
        ({"kind": "apprise", "url": "gotify://10.1/token"}, "config.url"),
        (
            {
                "kind": "email",
                "to": ["a@example.com"],
                "server": {"host": "10.1", "sender": "a@example.com"},
            },
            "config.server.host",
        ),
        ({"kind": "email", "to": ["a@example.com"]}, "config.server"),
    ],
)
def test_a_target_that_cannot_work_is_refused_with_its_field(member_client, config, path):
    answer = member_client.post(f"{API}/targets", json={"name": "x", "config": config})
    assert error(answer) == (422, "notifications.bad_target")
    (field,) = answer.json()["error"]["fields"]
    assert field["path"] == path
    assert "/etc/passwd" not in answer.text


@pytest.mark.parametrize("to", ["a", "a@b\r\nBcc: c@d.example", "a b@example.com", "@example.com"])
def test_an_address_that_is_none_is_refused(member_client, to):
    body = {"name": "x", "config": {"kind": "email", "to": [to]}}
    assert member_client.post(f"{API}/targets", json=body).status_code == 422


def test_without_a_key_for_secrets_there_are_inboxes_and_no_targets(
    app, member_client, settings, hook
):
    app.state.settings = settings.model_copy(update={"secrets_key": None})
    body = {"name": "x", "config": {"kind": "webhook", "url": hook.url}}
    assert error(member_client.post(f"{API}/targets", json=body)) == (409, "secrets.off")
    assert member_client.get(f"{API}/options").json()["is_encrypted"] is False
    make_rule(member_client)


def test_the_test_button_sends_at_once_and_says_what_went_wrong(
    hooked, hook, deliver, member_client
):
    target_id, secret = hooked
    hook.status = 500
    assert member_client.post(f"{API}/targets/{target_id}/test").status_code == 204
    deliver()
    assert history(member_client, target_id)[0]["error"].startswith("127.0.0.1 answered 500")
    hook.status = 200
    assert member_client.post(f"{API}/targets/{target_id}/test").status_code == 204
    assert deliver() == 1, "it does not wait for the pause to pass"
    (got,) = hook.received
    assert got.is_signed_with(secret)
    assert got.body["type"] == "test"


def test_the_inbox_counts_lists_and_is_read(member_client, viewer_client, happen, experiment_id):
    make_rule(member_client)
    happen(3)
    assert member_client.get(f"{API}/inbox/count").json() == {"num_unread": 3}
    assert viewer_client.get(f"{API}/inbox/count").json() == {"num_unread": 0}
    page = member_client.get(f"{API}/inbox", params={"limit": 2}).json()
    assert [one["message"][-2:] for one in page["items"]] == ["2.", "1."]
    assert page["items"][0]["path"] == f"/experiments/{experiment_id}"
    assert page["items"][0]["title"].startswith("Trial failed: ")
    ids = [page["items"][0]["id"]]
    assert viewer_client.post(f"{API}/inbox/read", json={"ids": ids}).status_code == 200
    assert member_client.post(f"{API}/inbox/read", json={"ids": ids}).json() == {"num_unread": 2}
    left = member_client.get(f"{API}/inbox", params={"unread": True}).json()["items"]
    assert [one["is_read"] for one in left] == [False, False]
    assert member_client.post(f"{API}/inbox/read", json={}).json() == {"num_unread": 0}


def test_rules_are_everybodys_own_and_those_of_projects_are_the_administrators(
    member_client, viewer_client, admin_client, connect, make_user_token, hook
):
    eve = connect(token=make_user_token("member", username="eve"))
    rule = make_rule(member_client)
    target = make_target(member_client, {"kind": "webhook", "url": hook.url})["target"]
    path, target_path = f"{API}/rules/{rule['id']}", f"{API}/targets/{target['id']}"
    for other in (eve, admin_client):
        assert error(other.patch(path, json={"inbox": True})) == (404, "notifications.no_rule")
        assert error(other.delete(path)) == (404, "notifications.no_rule")
        assert error(other.delete(target_path)) == (404, "notifications.no_target")
        assert error(other.post(f"{target_path}/test")) == (404, "notifications.no_target")
        assert error(other.get(f"{target_path}/deliveries"))[0] == 404
        body = {"kinds": ["trial.failed"], "target_ids": [target["id"]]}
        assert error(other.post(f"{API}/rules", json=body)) == (422, "notifications.unknown_target")
    assert make_rule(viewer_client)["inbox"] is True
    body = {"name": "x", "config": {"kind": "webhook", "url": hook.url}}
    assert viewer_client.post(f"{API}/targets", json=body).status_code == 403

    assert admin_client.post("/api/v1/projects", json={"name": "vision"}).status_code == 201
    body["project"] = "vision"
    refused = member_client.post(f"{API}/targets", json=body)
    assert error(refused) == (403, "notifications.admins_only")
    shared = make_target(admin_client, body["config"], project="vision")["target"]
    of_project = make_rule(admin_client, shared["id"], owner_project="vision")
    assert (of_project["whose"], of_project["inbox"]) == ("all", False)
    shown = member_client.get(f"{API}/rules", params={"project": "vision"}).json()["items"]
    assert [one["id"] for one in shown] == [of_project["id"]]
    assert targets(member_client, project="vision")[0]["summary"] == "http://127.0.0.1"
    refused = member_client.delete(f"{API}/rules/{of_project['id']}")
    assert error(refused) == (403, "notifications.admins_only")
    assert admin_client.delete(f"{API}/rules/{of_project['id']}").status_code == 204


def test_only_administrators_hear_of_lost_nodes(member_client, admin_client, database):
    answer = member_client.post(f"{API}/rules", json={"kinds": ["node.lost"]})
    assert error(answer) == (403, "notifications.admin_kind")
    make_rule(admin_client, kinds=["node.lost"])
    make_rule(member_client)

    def lose():
        with database.transaction() as session:
            add_event(session, "node.state", "n1 is LOST.", now=NOW, data={"after": "LOST"})

    def count():
        return admin_client.get(f"{API}/inbox/count").json()["num_unread"]

    def change_admin(**values):
        with database.transaction() as session:
            user = session.scalar(select(UserRow).where(UserRow.username == "admin"))
            for name, value in values.items():
                setattr(user, name, value)

    lose()
    assert count() == 1
    change_admin(role="member")
    lose()
    change_admin(role="admin", is_active=False)
    lose()
    change_admin(is_active=True)
    assert count() == 1


def test_a_rule_that_would_notify_nobody_is_refused(member_client, hook):
    answer = member_client.post(f"{API}/rules", json={"kinds": ["trial.failed"], "inbox": False})
    assert error(answer) == (422, "notifications.no_recipient")
    rule = make_rule(member_client)
    answer = member_client.patch(f"{API}/rules/{rule['id']}", json={"inbox": False})
    assert error(answer) == (422, "notifications.no_recipient")
    made = make_target(member_client, {"kind": "webhook", "url": hook.url})
    changes = {"inbox": False, "target_ids": [made["target"]["id"]], "kinds": ["trial.stuck"]}
    changed = member_client.patch(f"{API}/rules/{rule['id']}", json=changes).json()
    assert (changed["kinds"], changed["inbox"]) == (["trial.stuck"], False)


def test_rules_that_are_off_or_of_deactivated_users_do_nothing(
    member_client, happen, database, hooked, deliver
):
    rule = make_rule(member_client)
    path = f"{API}/rules/{rule['id']}"
    assert member_client.patch(path, json={"is_enabled": False}).status_code == 200
    happen()
    with database.transaction() as session:
        user = session.scalar(select(UserRow).where(UserRow.username == "member"))
        user.is_active = False
    happen()
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(InboxRow)) == 1, "the hook's rule"
    assert deliver() == 0, "nothing leaves for somebody who was deactivated"


def test_what_is_rolled_back_notifies_nobody(member_client, hooked, database, experiment_id):
    def fail():
        with database.transaction() as session:
            add_event(
                session,
                "trial.state",
                "x",
                now=NOW,
                experiment_id=experiment_id,
                data={"after": "FAILED"},
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(NotificationRow)) == 0


def test_everything_is_bounded(member_client, hooked, happen, database, monkeypatch):
    monkeypatch.setattr(retention, "INBOX_MAX", 2)
    monkeypatch.setattr(retention, "OUTBOX_MAX", 3)
    happen(6)

    def clean(now):
        while True:
            with database.transaction() as session:
                if retention.delete_old(session, now) == 0:
                    return

    clean(NOW)
    assert member_client.get(f"{API}/inbox/count").json() == {"num_unread": 2}
    (shown,) = targets(member_client)
    assert (shown["num_waiting"], shown["num_dropped"]) == (3, 3)
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(NotificationRow)) == 3
    with database.transaction() as session:
        session.add(
            DeliveryRow(
                target_id=hooked[0],
                message_id="msg_old",
                state="sent",
                title="old",
                num_notifications=1,
                created_at=NOW,
                ended_at=NOW,
            )
        )
    clean(NOW + dt.timedelta(days=91))
    assert history(member_client, hooked[0]) == []
    assert member_client.get(f"{API}/inbox/count").json() == {"num_unread": 0}
    assert targets(member_client)[0]["num_waiting"] == 3, "what was not sent is kept"


def test_a_fault_of_a_library_is_a_failed_attempt(hooked, happen, deliver, member_client):
    def broken(config, message, settings):
        raise ZeroDivisionError

    happen()
    assert deliver(send_one=broken) == 0
    assert history(member_client, hooked[0])[0]["error"] == "ZeroDivisionError while it was sent."
    assert deliver(60) == 1


def test_a_failure_is_told_without_the_address(hooked, hook, happen, deliver, member_client):
    hook.is_closing.set()
    with pytest.raises(SendFailed) as failed:
        channels.send(
            channels.WebhookIn(
                kind="webhook", url="http://127.0.0.1:1/canary", secret="whsec_" + "QUJD" * 8
            ),
            channels.OutgoingMessage(id="msg_1", notifications=[NOTIFICATION], at=NOW),
            deliver.settings,
        )
    assert "canary" not in str(failed.value)


def test_inbox_hints_reach_their_owner_alone(member_client, database, happen):
    make_rule(member_client)
    heard = []
    database.on_commit = heard.append
    happen()
    with database.read() as session:
        user_id = session.scalar(select(UserRow.id).where(UserRow.username == "member"))
    assert f"inbox:{user_id}" in heard[-1]


def test_commands_create_try_list_and_delete(muster, hook, deliver, happen, monkeypatch):
    from muster.cli.commands import notifications as commands

    added = muster("notify", "add", "hook", "webhook", input=hook.url + "\n")
    assert added.exit_code == 0, added.output
    secret = next(line for line in added.output.splitlines() if line.startswith("whsec_"))
    assert muster("notify", "on", "trial.failed", "trial.stuck", "--to", "hook").exit_code == 0
    wrong = muster("notify", "on", "trial.failed", "--to", "hok")
    assert "you have hook" in str(wrong.exception.hint)
    rules = muster("notify", "rules").output
    assert "trial.failed, trial.stuck" in rules
    assert "inbox, hook" in rules

    monkeypatch.setattr(commands, "POLL_S", 0.01)
    monkeypatch.setattr(commands.time, "sleep", lambda _: deliver())
    hook.status = 500
    failed = muster("notify", "test", "hook")
    assert "answered 500" in str(failed.exception)
    hook.status = 200
    assert muster("notify", "test", "hook").exit_code == 0
    assert hook.received[0].is_signed_with(secret)
    assert "answered 500" not in muster("notify", "targets").output
    happen()
    assert "Trial failed" in muster("notify", "inbox", "--read").output
    assert "Nothing is unread" in muster("notify", "inbox").output
    assert "Test notification" in muster("notify", "history", "hook").output
    assert muster("notify", "off", "1").exit_code == 0
    assert muster("notify", "remove", "hook", "--yes").exit_code == 0
    assert "no targets yet" in muster("notify", "targets").output


@pytest.mark.parametrize(
    "arguments", [("x", "email"), ("x", "pigeon"), ("x", "apprise", "--from-file", "/no/such")]
)
def test_a_command_says_what_is_missing(muster, arguments):
    assert type(muster("notify", "add", *arguments).exception).__name__ == "CommandFailure"


def test_the_secret_goes_to_a_new_file_that_only_its_owner_reads(muster, hook, tmp_path):
    path = tmp_path / "secret.txt"
    add = ("notify", "add", "hook", "webhook", "--secret-to", str(path))
    made = muster(*add, input=hook.url)
    assert made.exit_code == 0, made.output
    assert path.read_text().startswith("whsec_")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "whsec_" not in made.output
    assert "cannot be created" in str(muster(*add, input=hook.url).exception)
    other = tmp_path / "other.txt"
    again = muster("notify", "add", "hook", "webhook", "--secret-to", str(other), input=hook.url)
    assert "already a target" in str(again.exception)
    assert not other.exists()
