"""What is stored, how fast it grows and when the disk is full, over both databases."""

from __future__ import annotations

import datetime as dt

import pytest

from muster_server import clock
from muster_server.db.models import AuditRow, EventRow

pytestmark = pytest.mark.both_databases
DAY = dt.timedelta(days=1)


@pytest.fixture
def write(database):
    """Events of 1,000 letters, so many days ago."""

    def add(*ages):
        with database.transaction() as session:
            for age in ages:
                at = clock.now() - age * DAY
                session.add(EventRow(at=at, type="test", level="info", message="x" * 1000, data={}))

    return add


def forecast(client):
    reply = client.get("/api/v1/retention/forecast")
    assert reply.status_code == 200, reply.text
    found = reply.json()
    return found, {item["kind"]: item for item in found["items"]}


def test_a_new_server_says_that_it_does_not_know(admin_client):
    found, items = forecast(admin_client)
    assert (found["days_left"], found["reason"]) == (None, "not_enough_history")
    assert {item["bytes_per_day"] for item in items.values()} == {None}
    assert items["checkpoints"]["place"] == "storage"


def test_growth_is_what_the_last_seven_days_have_left(admin_client, write, database):
    write(20, 20, 6, 5, 4, 3, 2, 1, 0)
    found, items = forecast(admin_client)
    events = items["events"]
    assert events["size_bytes"] >= 9_000
    assert 1_000 <= events["bytes_per_day"] < 1_300, "seven in seven days, and not the first two"
    assert events["history_days"] == 20.0
    if database.is_sqlite:
        assert found["reason"] == ""
        assert 0 < found["days_left"] <= found["free_bytes"] // 1_000
    else:
        assert (found["free_bytes"], found["reason"]) == (None, "unknown_disk")


class TestAudit:
    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"audit_retention_days": 30})

    def test_what_would_go_is_said_before_it_does(self, admin_client, database):
        with database.transaction() as session:
            for no, age in ((1, 40), (2, 0)):
                row = AuditRow(
                    at=clock.now() - age * DAY, actor="system", action="test", subject="y" * 100,
                    detail={}, seal_no=no, digest=str(no),
                )  # fmt: skip
                session.add(row)
        _, items = forecast(admin_client)
        assert 100 <= items["audit"]["freed_bytes"] < 200


def test_only_administrators_see_it(member_client):
    assert member_client.get("/api/v1/retention/forecast").status_code == 403
