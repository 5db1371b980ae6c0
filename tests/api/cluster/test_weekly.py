"""Weekly summaries: sent once, to who wants them, of their own runs."""

import datetime as dt

import pytest
from sqlalchemy import select

from muster_server.db.models import AttemptRow, LedgerDayRow, TrialRow, UserRow
from muster_server.services.goodput import weekly
from muster_server.services.goodput.weekly import send_due

MONDAY = dt.datetime(2026, 3, 9, 6, 0, tzinfo=dt.UTC)
RULE = {"kinds": ["summary.weekly"], "inbox": True}


@pytest.fixture
def add_day(database, member_client):
    """`add_day(date, productive=7200)` is a day of a run of the member's."""
    document = "name: t\nentrypoint: train.py\ncode: {installed: /srv/code}\n"
    reply = member_client.post("/api/v1/experiments", json={"document": document})
    experiment_id = reply.json()["id"]
    with database.transaction() as session:
        trial = session.scalar(select(TrialRow).where(TrialRow.experiment_id == experiment_id))
        attempt = AttemptRow(
            trial_id=trial.id, no=1, state="SUCCEEDED", world_size=1, num_nodes=1,
            controller_epoch=1, created_at=MONDAY,
        )  # fmt: skip
        session.add(attempt)
        session.flush()
        attempt_id = attempt.id
    username = member_client.get("/api/v1/auth/me").json()["username"]

    def add(day, **classes):
        with database.transaction() as session:
            owner_id = session.scalar(select(UserRow.id).where(UserRow.username == username))
            session.add(
                LedgerDayRow(
                    attempt_id=attempt_id, day=day, project_id=1, owner_id=owner_id, pool="default",
                    price_per_slot_hour=0.0, **classes,
                )
            )  # fmt: skip

    return add


def sent(client):
    found = client.get("/api/v1/notifications/inbox").json()["items"]
    return [n["message"] for n in found if n["kind"] == "summary.weekly"]


def make_rule(client, time_machine, at, **more):
    time_machine.move_to(at, tick=False)
    reply = client.post("/api/v1/notifications/rules", json=RULE | more)
    assert reply.status_code == 201, reply.text


def test_a_week_is_summed_up_once_for_who_wants_it(
    database, add_day, member_client, admin_client, time_machine, monkeypatch
):
    make_rule(member_client, time_machine, MONDAY - dt.timedelta(days=3))
    make_rule(admin_client, time_machine, MONDAY - dt.timedelta(days=3), whose="all")
    add_day(dt.date(2026, 3, 1), productive=36000.0)
    add_day(dt.date(2026, 3, 2), productive=7200.0, repeated=1800.0)
    add_day(dt.date(2026, 3, 8), starting=900.0, idle=600.0, saving=300.0)
    add_day(dt.date(2026, 3, 9), productive=36000.0)
    send_due(database, MONDAY - dt.timedelta(minutes=1))
    assert sent(member_client) == []

    with monkeypatch.context() as patch:
        patch.setattr(weekly, "weekly_text", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            send_due(database, MONDAY)
    for hours in (0, 0, 1, 100):
        send_due(database, MONDAY + dt.timedelta(hours=hours))
    assert sent(member_client) == [
        "From 2026-03-02 to 2026-03-08, your runs held 3 slot-hours, 67% of them productive. "
        "Largest losses: repeated 17%, starting 8.3%, idle 5.6%."
    ]
    assert sent(admin_client) == [], "it is about the runs of the person who gets it"
    send_due(database, MONDAY + dt.timedelta(days=7))
    assert len(sent(member_client)) == 2


def test_a_rule_begins_with_its_own_week_and_is_none_of_a_project(
    database, add_day, member_client, admin_client, time_machine
):
    make_rule(member_client, time_machine, MONDAY + dt.timedelta(hours=1))
    add_day(dt.date(2026, 3, 8), productive=3600.0)
    send_due(database, MONDAY + dt.timedelta(hours=2))
    assert sent(member_client) == []
    reply = admin_client.post(
        "/api/v1/notifications/rules", json=RULE | {"owner_project": "default"}
    )
    assert (reply.status_code, reply.json()["error"]["code"]) == (
        422,
        "notifications.personal_kind",
    )
