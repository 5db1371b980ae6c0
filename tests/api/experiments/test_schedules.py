"""Schedules over REST and as commands: what is refused, and what people are told."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select

from muster_server.db.models import AuditRow, ExperimentRow

API = "/api/v1/schedules"
DOCUMENT = "name: nightly\nentrypoint: -m train\ncode: {installed: /srv}\n"


def create(client, **body):
    body = {"cron": "0 2 * * *", "experiment": {"document": DOCUMENT}, **body}
    return client.post(API, json=body)


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({"cron": "0 2 * *"}, "cron", "has 4 fields"),
        ({"cron": "0 25 * * *"}, "cron", "cannot be read: bad hour"),
        ({"timezone": "Berlin"}, "timezone", "there is no time zone 'Berlin'"),
        ({"overlap": "queue"}, "overlap", "must be one of skip, allow, replace"),
        ({"experiment": {"document": "name: x\nentrypoin: y\n"}}, "experiment.entrypoin", ""),
    ],
)
def test_what_cannot_work_is_named(member_client, body, path, message):
    refused = create(member_client, **body)
    assert refused.status_code == 422, refused.text
    fields = refused.json()["error"]["fields"]
    assert path in [f["path"] for f in fields], fields
    assert any(message in f["message"] for f in fields), fields
    assert member_client.get(API).json()["items"] == []


def test_a_change_that_cannot_work_changes_nothing(member_client):
    made = create(member_client, timezone="Europe/Berlin").json()
    path = f"{API}/{made['id']}"
    assert member_client.patch(path, json={"cron": "x"}).status_code == 422
    assert member_client.get(API).json()["items"] == [made]
    changed = member_client.patch(path, json={"cron": "15 * * * *", "overlap": "allow"}).json()
    assert (changed["cron"], changed["timezone"]) == ("15 * * * *", "Europe/Berlin")
    assert changed["upcoming"] != made["upcoming"]


def test_everybody_sees_it_and_viewers_create_none(member_client, viewer_client, database):
    assert create(viewer_client).status_code == 403
    made = create(member_client).json()
    assert viewer_client.get(API).json()["items"] == [made]
    for call in (viewer_client.delete, viewer_client.patch):
        assert (
            call(
                f"{API}/{made['id']}", **({"json": {}} if call == viewer_client.patch else {})
            ).status_code
            == 403
        )
    member_client.post(f"{API}/{made['id']}:run")
    assert member_client.delete(f"{API}/{made['id']}").status_code == 204
    with database.read() as session:
        query = select(AuditRow.action).where(AuditRow.action.startswith("schedules."))
        assert list(session.scalars(query.order_by(AuditRow.id))) == [
            "schedules.create", "schedules.run", "schedules.delete",
        ]  # fmt: skip
        assert session.scalars(select(ExperimentRow.name)).all() == ["nightly"]


def test_commands_add_change_run_and_delete(muster, tmp_path):
    document = tmp_path / "nightly.yaml"
    document.write_text(DOCUMENT)
    done = muster(
        "schedule", "add", str(document), "--cron", "30 2 * * 1-5", "--set", "name=tested"
    )
    assert done.exit_code == 0, done.output
    assert "Schedule 1 (tested). At 02:30 on Monday through Friday (UTC); next: 2" in done.output
    assert "paused" in muster("schedule", "pause", "1").output
    assert "next: 2" in muster("schedule", "resume", "1").output
    changed = muster("schedule", "change", "1", "--timezone", "Asia/Kolkata", "--overlap", "allow")
    assert "(Asia/Kolkata)" in changed.output
    assert "started experiment 1" in muster("schedule", "run", "1").output
    (one,) = json.loads(muster("schedule", "list", "--json").stdout)
    assert (one["overlap"], one["last_experiment_id"]) == ("allow", 1)
    listed = muster("schedule", "list").output
    assert "tested" in listed
    assert "Started by" in listed
    wrong = muster("schedule", "add", str(document), "--cron", "0 2 * *")
    assert "cron" in str(wrong.exception)
    assert "there are five: minute, hour" in str(wrong.exception)
    assert "is deleted" in muster("schedule", "delete", "1").output
    assert "There are no schedules." in muster("schedule", "list").output
