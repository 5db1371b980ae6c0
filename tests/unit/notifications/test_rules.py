"""Which events notify whom, and when a message is sent again: pure decisions."""

from __future__ import annotations

import datetime as dt
from typing import get_args

import pytest

from muster_server.domain.notifications import schedule
from muster_server.domain.notifications.addresses import (
    is_allowed,
    is_never_allowed,
    parse_networks,
)
from muster_server.domain.notifications.kinds import RuleKind, kind_of
from muster_server.domain.notifications.matching import NotificationRule, Occurrence, recipients
from muster_server.domain.notifications.messages import (
    Notification,
    body_of,
    level_of,
    text_of,
    title_of,
)
from muster_server.domain.notifications.services import host_of, problem_of, service_of

NOW = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("event", "data", "kind"),
    [
        ("trial.state", {"after": "FAILED"}, "trial.failed"),
        ("trial.state", {"after": "COMPLETED"}, None),
        ("trial.state", {"after": "RETRY_WAIT"}, None),
        ("experiment.state", {"after": "COMPLETED"}, "experiment.ended"),
        ("experiment.state", {"after": "FAILED"}, "experiment.ended"),
        ("experiment.state", {"after": "CANCELED"}, "experiment.ended"),
        ("experiment.state", {"after": "RUNNING"}, None),
        ("node.state", {"after": "LOST"}, "node.lost"),
        ("node.state", {"after": "SUSPECT"}, None),
        ("search.finished", None, "search.finished"),
        ("experiment.new_best", None, "experiment.new_best"),
        ("trial.stuck", {}, "trial.stuck"),
        ("attempt.preempted", {"kind": "preempt"}, "trial.preempted"),
        ("attempt.yield", {"kind": "drain"}, None),
        ("budget.alert", {}, "budget.reached"),
        ("budget.exhausted", {}, "budget.reached"),
        ("checkpoint.damaged", None, "checkpoint.damaged"),
        ("maintenance.planned", None, "cluster.maintenance"),
        ("maintenance.started", None, "cluster.maintenance"),
        ("maintenance.ended", None, "cluster.maintenance"),
        ("trial.message", None, None),
        ("node.state", None, None),
    ],
)
def test_an_event_makes_a_notification_of_its_kind(event, data, kind):
    assert kind_of(event, data) == kind


def test_every_kind_that_a_rule_can_name_is_made_by_some_event():
    made = {
        kind_of("trial.state", {"after": "FAILED"}),
        kind_of("experiment.state", {"after": "FAILED"}),
        kind_of("node.state", {"after": "LOST"}),
        *(
            kind_of(event, None)
            for event in (
                "trial.stuck",
                "attempt.preempted",
                "guard.fired",
                "waste.noticed",
                "search.finished",
                "experiment.new_best",
                "checkpoint.damaged",
                "budget.alert",
                "maintenance.planned",
            )
        ),
    }
    # Neither a summary nor a schedule that starts nothing is about an event, nor is a reservation about one
    # experiment: it is told to each of those whom it concerns.
    assert made | {"summary.weekly", "schedule.failed", "nodes.reserved"} == set(get_args(RuleKind))


def rule(**given):
    options = {
        "id": 1,
        "user_id": 7,
        "owner_project_id": None,
        "is_admin": False,
        "whose": "mine",
        "project_id": None,
        "kinds": frozenset({"trial.failed"}),
        "inbox": True,
        "target_ids": (3,),
    }
    return NotificationRule(**{**options, **given})


FAILED = Occurrence(kind="trial.failed", owner_id=7, project_id=2)
OF_OTHERS = Occurrence(kind="trial.failed", owner_id=8, project_id=2)
LOST = Occurrence(kind="node.lost")
STOP = Occurrence(kind="cluster.maintenance")
BUDGET = Occurrence(kind="budget.reached", project_id=2)


@pytest.mark.parametrize(
    ("one", "occurrence", "is_told"),
    [
        (rule(), FAILED, True),
        (rule(), OF_OTHERS, False),
        (rule(whose="all"), OF_OTHERS, True),
        (rule(project_id=2), FAILED, True),
        (rule(project_id=5), FAILED, False),
        (rule(whose="all", project_id=5), OF_OTHERS, False),
        (rule(kinds=frozenset({"trial.stuck"})), FAILED, False),
        (rule(kinds=frozenset({"node.lost"})), LOST, False),
        (rule(kinds=frozenset({"node.lost"}), is_admin=True), LOST, True),
        (rule(kinds=frozenset({"node.lost"}), is_admin=True, project_id=5), LOST, True),
        (rule(kinds=frozenset({"cluster.maintenance"})), STOP, True),
        (rule(kinds=frozenset({"cluster.maintenance"}), project_id=5), STOP, True),
        (rule(kinds=frozenset({"cluster.maintenance"}), user_id=None), STOP, False),
        (rule(kinds=frozenset({"budget.reached"})), BUDGET, False),
        (rule(kinds=frozenset({"budget.reached"}), whose="all"), BUDGET, True),
        (rule(user_id=None, owner_project_id=2, whose="all"), OF_OTHERS, True),
        (rule(user_id=None, owner_project_id=5, whose="all"), OF_OTHERS, False),
    ],
)
def test_a_rule_is_about_its_owner_its_project_and_its_kinds(one, occurrence, is_told):
    assert bool(recipients([one], occurrence).target_ids) is is_told


def test_two_rules_that_name_one_target_send_to_it_once():
    found = recipients(
        [rule(), rule(id=2, target_ids=(3, 4), inbox=False), rule(id=3, user_id=9, whose="all")],
        FAILED,
    )
    assert (found.user_ids, found.target_ids) == ((7, 9), (3, 4))


def test_many_waiting_notifications_become_one_digest():
    assert [schedule.batch_size(n) for n in (0, 1, 9)] == [0, 1, 1]
    assert schedule.batch_size(10) == 10
    assert schedule.batch_size(5000) == schedule.DIGEST_MAX


def test_pauses_grow_to_hours_and_last_for_days():
    pauses = [schedule.retry_pause(n).total_seconds() for n in range(1, 40)]
    assert pauses[:4] == [10, 20, 40, 80]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 3 * 3600
    assert schedule.retry_pause(1, asked=dt.timedelta(minutes=5)) == dt.timedelta(minutes=5)
    assert schedule.retry_pause(1, asked=dt.timedelta(days=9)) == schedule.RETRY_AFTER_MAX
    assert schedule.retry_pause(9, asked=dt.timedelta(0)) == schedule.retry_pause(9)
    assert not schedule.is_given_up(NOW, NOW + dt.timedelta(days=2, hours=23))
    assert schedule.is_given_up(NOW, NOW + dt.timedelta(days=3))


@pytest.mark.parametrize(
    ("address", "is_fine"),
    [
        ("93.184.215.14", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("::ffff:8.8.8.8", True),
        ("::127.0.0.1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b::808:808", True),
        ("2002:7f00:1::", False),
        ("2001:0:7f00:1::1", False),
        ("localhost", False),
        ("example.com", False),
        ("", False),
        ("0x7f000001", False),
        ("2130706433", False),
    ],
)
def test_only_public_addresses_are_connected_to(address, is_fine):
    assert is_allowed(address, ()) is is_fine


def test_a_network_can_be_allowed_and_only_that_one():
    networks = parse_networks(["10.20.0.0/16", "fd00::/8"])
    assert is_allowed("10.20.3.4", networks)
    assert is_allowed("::ffff:10.20.3.4", networks)
    assert is_allowed("fd12::1", networks)
    assert not is_allowed("10.21.0.1", networks)
    assert not is_allowed("127.0.0.1", networks)
    with pytest.raises(ValueError, match="has host bits set"):
        parse_networks(["10.20.3.4/16"])


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("slack://T/B/x/#general", "Slack"),
        ("NTFYS://ntfy.example/muster", "ntfy"),
        ("workflows://host/a/b", "Microsoft Teams"),
        ("syslog://", None),
        ("file:///etc/passwd", None),
        ("json://127.0.0.1/", None),
        ("slack://", None),
        ("slack", None),
    ],
)
def test_only_services_of_the_list_are_reached(url, service):
    assert service_of(url) == service
    assert (problem_of(url) is None) is (service is not None)


@pytest.mark.parametrize("key", ["template", "Template", "tem%70late", "+template", ":template"])
def test_no_file_of_the_server_is_sent_as_a_template(key):
    assert "template" in (problem_of(f"discord://id/token?{key}=/etc/passwd") or "")


@pytest.mark.parametrize("key", ["attach", "Attach", "at%74ach", "filename", ":attach", " attach"])
def test_nothing_is_read_or_fetched_for_a_message(key):
    for written in (f"?{key}=file:///etc/passwd", f"?format=text;{key}=http://10.0.0.1/"):
        assert "must not have the parameter" in (problem_of(f"ntfy://host/topic{written}") or "")


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST.", "a.localhost", "localhost.localdomain", "ip6-localhost", ""),
        *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7F.1", "0177.0.0.1", "127.0.1"),
        *("017700000001", "0", "127.0.0.1.", "%31%32%37.0.0.1", "１２７.0.0.1", "①②⑦.1"),
        *("[::1]", "::1", "[::ffff:127.0.0.1]", "::ffff:7f00:1", "[fe80::1%25eth0]", "64:ff9b::7f00:1"),
        *("10.1", "169.254.169.254", "0xa9fea9fe", "2852039166", "192.168.1", "100.64.0.1"),
    ],
)  # fmt: skip
def test_what_can_never_be_reached_is_known_in_any_spelling(host):
    assert is_never_allowed(host, ())


@pytest.mark.parametrize(
    "host",
    [
        *("example.com", "8.8.8.8", "134744072", "0x08080808", "[2606:4700::1111]", "mailserver"),
        *("127.0.0.1.example.com", "0x7f.example", "1.2.3.4.5", "256.1.1.1", "08.8.8.8", "notlocalhost"),
    ],
)  # fmt: skip
def test_what_only_the_connection_decides_is_not_refused_before(host):
    assert not is_never_allowed(host, ())


def test_an_allowed_network_is_allowed_in_any_spelling():
    networks = parse_networks(["127.0.0.0/8"])
    assert not any(
        is_never_allowed(host, networks) for host in ("localhost", "127.1", "2130706433")
    )
    assert is_never_allowed("10.1", networks)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("ntfy://secret@127.0.0.1:8080/topic", "127.0.0.1"),
        ("GOTIFYS://localhost/token", "localhost"),
        ("matrix://user:pa@ss@[::1]:8008/#room", "[::1]"),
        ("mmost://127.1/token", "127.1"),
        ("rocket://web/hook@localhost/#room", "localhost"),
        ("rocket://user:pass@example.com/@localhost", "example.com"),
        ("tgram://2130706433:token/chat", None),
        ("slack://T/B/x/#general", None),
    ],
)
def test_the_host_of_a_server_of_one_s_own(url, host):
    assert host_of(url) == host


def one(number=1, **given):
    options = {
        "id": number,
        "at": NOW,
        "kind": "trial.failed",
        "level": "error",
        "message": "Trial 3 is FAILED: out of memory.",
        "project": "vision",
        "experiment_id": 12,
        "experiment_name": "digits",
        "trial_id": 40,
        "trial_no": 3,
    }
    return Notification(**{**options, **given})


def test_a_message_says_what_happened_and_where_to_look():
    assert title_of([one()]) == "Trial failed: trial 3 of digits (#12)"
    text = text_of([one()], base_url="https://muster.example")
    assert "out of memory" in text
    assert "https://muster.example/trials/40" in text
    body = body_of([one()], base_url="https://muster.example")
    assert (body["type"], body["timestamp"]) == ("trial.failed", "2026-03-01T12:00:00.000Z")
    assert body["data"]["experiment"] == {"id": 12, "name": "digits"}
    assert body["data"]["url"] == "https://muster.example/trials/40"


def test_a_name_with_line_breaks_makes_a_title_of_one_line():
    assert "\n" not in title_of([one(experiment_name="a\nBcc: eve@example.com")])
    assert len(title_of([one(experiment_name="x" * 5000)])) <= 200


def test_a_digest_counts_all_and_shows_the_first():
    many = [one(n) for n in range(1, 990)] + [one(990, kind="node.lost", level="warning")]
    assert title_of(many) == "990 notifications: 989 × Trial failed, 1 × Node lost"
    body = body_of(many, base_url="")["data"]
    assert body["counts"] == {"trial.failed": 989, "node.lost": 1}
    assert (body["count"], len(body["notifications"])) == (990, schedule.DIGEST_SHOWN)
    assert "970 more" in text_of(many, base_url="")
    assert level_of(many) == "error"
