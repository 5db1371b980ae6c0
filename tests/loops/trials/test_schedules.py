"""Schedules under the controller: started in time and once, whoever owns them, whatever fails."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import delete, select, update

from muster_server import clock
from muster_server.db.models import BlobRow, CronScheduleRow, ProjectMemberRow, UserRow
from muster_server.domain.experiments.schedules import decide
from muster_server.services.core import blobs
from muster_server.services.core.writes import Outdated
from muster_server.services.experiments import schedules

API = "/api/v1/schedules"
DOCUMENT = "name: nightly\nproject: vision\nentrypoint: [sleep, '60']\nlauncher: plain\n"


@pytest.fixture
def scheduled(member_client, time_machine):
    """`scheduled(**body)`: a schedule for 02:00 every day, created at noon on 1 March 2026."""

    def make(client=member_client, **body):
        time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
        body = {"cron": "0 2 * * *", "experiment": {"document": DOCUMENT}, **body}
        made = client.post(API, json=body)
        assert made.status_code == 201, made.text
        return made.json()

    return make


@pytest.fixture
def shown(admin_client):
    def get():
        (one,) = admin_client.get(API).json()["items"]
        return one

    return get


@pytest.fixture
def started(admin_client):
    def get():
        found = admin_client.get("/api/v1/experiments", params={"sort": "id"}).json()["items"]
        return sorted((e["id"], e["owner"], e["state"]) for e in found)

    return get


def test_it_starts_at_its_times_in_its_owners_name(
    scheduled, shown, started, controller, time_machine, admin_client
):
    made = scheduled(timezone="Europe/Berlin", overlap="allow")
    assert made["cron_in_words"] == "At 02:00 every day"
    assert made["upcoming"] == [f"2026-03-0{day}T01:00:00Z" for day in (2, 3, 4)]
    controller.tick()
    assert (started(), shown()["last_at"]) == ([], None)
    for day in (2, 3):
        time_machine.move_to(f"2026-03-0{day}T01:00:01Z", tick=False)
        controller.tick()
        controller.tick()
    (first, owner, state), (second, _, _) = started()
    assert (owner, state) == (made["owner"], "QUEUED")
    assert second == first + 1
    one = shown()
    assert (one["last_experiment_id"], one["last_reason"]) == (second, "Started at its time.")
    assert one["last_reason_parts"] == [{"code": "schedule.started", "params": {}}]
    assert one["upcoming"][0] == "2026-03-04T01:00:00Z"
    events = admin_client.get(f"/api/v1/experiments/{second}/events").json()["items"]
    assert "Started by schedule 1 (0 2 * * *, Europe/Berlin)." in [e["message"] for e in events]


def test_what_still_runs_is_not_doubled_and_times_without_a_controller_are_made_up_once(
    scheduled, shown, started, controller, time_machine
):
    scheduled()
    time_machine.move_to("2026-03-05T09:00:00Z", tick=False)
    controller.tick()
    assert len(started()) == 1
    assert shown()["last_reason"] == "Started once for several times at which no controller ran."
    time_machine.move_to("2026-03-06T02:00:00Z", tick=False)
    controller.tick()
    ((id_, _, _),) = started()
    assert shown()["last_reason"] == (
        f"Not started: experiment {id_} of the time before has not ended."
    )


def test_the_old_one_is_stopped_where_that_is_wanted(
    scheduled, shown, started, controller, time_machine
):
    scheduled(overlap="replace")
    for day in (2, 3):
        time_machine.move_to(f"2026-03-0{day}T02:00:00Z", tick=False)
        controller.tick()
    controller.tick()
    (first, _, old), (_, _, new) = started()
    assert (old, new) == ("CANCELED", "QUEUED")
    assert shown()["last_reason"] == (
        f"Started, after experiment {first} of the time before was told to stop."
    )


def test_a_paused_one_starts_nothing_and_makes_up_for_nothing(
    scheduled, shown, started, controller, time_machine, member_client
):
    path = f"{API}/{scheduled()['id']}"
    assert member_client.patch(path, json={"is_paused": True}).json()["upcoming"] == []
    time_machine.move_to("2026-03-04T12:00:00Z", tick=False)
    controller.tick()
    member_client.patch(path, json={"is_paused": False})
    controller.tick()
    assert (started(), shown()["upcoming"][0]) == ([], "2026-03-05T02:00:00Z")
    ran = member_client.post(f"{path}:run").json()
    assert [id_ for id_, _, _ in started()] == [ran["last_experiment_id"]]
    assert ran["last_reason"] == f"Started by {ran['owner']} beside its times."


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("leaves", "member is not a member of project vision"),
        ("deactivated", "Not started: the account"),
        ("removed", "Not started: its owner has no account any more."),
        ("bundle", "blob_sha256"),
    ],
)
def test_what_cannot_start_says_why_once_and_goes_on_later(
    broken, said, scheduled, shown, started, controller, time_machine, admin_client, database
):
    """Nobody watches at two in the morning: who asked to be told is told, once for each cause."""
    rule = {"kinds": ["schedule.failed"], "inbox": True, "whose": "all"}
    assert admin_client.post("/api/v1/notifications/rules", json=rule).status_code == 201
    made = scheduled()
    with database.transaction() as session:
        owner = select(CronScheduleRow.owner_id).scalar_subquery()
        if broken == "leaves":
            session.execute(delete(ProjectMemberRow))
        elif broken == "deactivated":
            session.execute(update(UserRow).where(UserRow.id == owner).values(is_active=False))
        elif broken == "removed":
            session.execute(update(CronScheduleRow).values(owner_id=None))
        else:
            row = session.scalars(select(CronScheduleRow)).one()
            row.submission = {**row.submission, "blob_sha256": "0" * 64}
    for day in (2, 3):
        time_machine.move_to(f"2026-03-0{day}T02:00:00Z", tick=False)
        controller.tick()
    one = shown()
    assert (started(), one["upcoming"][0]) == ([], "2026-03-04T02:00:00Z")
    assert one["last_reason"].startswith("Not started: ")
    assert said in one["last_reason"]
    inbox = admin_client.get("/api/v1/notifications/inbox").json()["items"]
    assert [n["message"] for n in inbox] == [
        f"Schedule {made['id']} (nightly): {one['last_reason']}"
    ]


def test_two_controllers_start_one(scheduled, started, database, time_machine):
    scheduled()
    time_machine.move_to("2026-03-02T02:00:00Z", tick=False)
    now = clock.now()
    with database.read() as session:
        (turn,) = decide(schedules.load_due(session, now), now=now)
    with database.transaction() as session:
        schedules.apply_turn(session, turn, now=now)
    with pytest.raises(Outdated), database.transaction() as session:
        schedules.apply_turn(session, turn, now=now)
    assert len(started()) == 1


def test_its_code_is_kept_until_it_is_deleted(scheduled, member_client, database, time_machine):
    made = scheduled()
    digest = "a" * 64
    with database.transaction() as session:
        session.add(BlobRow(sha256=digest, size_bytes=1, created_at=clock.now()))
        session.execute(update(CronScheduleRow).values(blob_sha256=digest))
    time_machine.shift(dt.timedelta(days=30))
    for num in (0, 1):
        with database.transaction() as session:
            assert blobs.delete_unused(session, clock.now()) == num
        assert member_client.delete(f"{API}/{made['id']}").status_code == (204 if num == 0 else 404)
