"""What a user dismisses from the overview stays dismissed, for that user."""

from __future__ import annotations

import datetime as dt

from muster_server import clock
from muster_server.db.models import DismissalRow
from muster_server.services.core import dismissals, retention

API = "/api/v1/dismissals"


def keys(client):
    reply = client.get(API)
    assert reply.status_code == 200, reply.text
    return [item["key"] for item in reply.json()["items"]]


def test_dismissals_belong_to_one_user_and_can_be_taken_back(member_client, viewer_client):
    for _ in range(2):
        assert member_client.put(f"{API}/failed:12:1764064000000").status_code == 204
    assert keys(member_client) == ["failed:12:1764064000000"]
    assert keys(viewer_client) == []
    assert viewer_client.put(f"{API}/queue:1").status_code == 204
    for _ in range(2):
        assert member_client.delete(f"{API}/failed:12:1764064000000").status_code == 204
    assert keys(member_client) == []
    assert keys(viewer_client) == ["queue:1"]


def test_a_key_has_a_form(member_client):
    for key in ("a b", "x" * 121, ":x", "ä"):
        reply = member_client.put(f"{API}/{key}")
        assert reply.status_code == 422, reply.text
        assert reply.json()["error"]["code"] == "request.invalid"


def test_a_new_one_replaces_the_oldest_of_too_many(member_client, database, monkeypatch):
    monkeypatch.setattr(dismissals, "MAX_DISMISSALS", 3)
    for name in "abcde":
        member_client.put(f"{API}/{name}")
    assert keys(member_client) == ["e", "d", "c"]
    with database.read() as session:
        assert session.query(DismissalRow).count() == 3


def test_they_are_forgotten_after_a_time(member_client, database):
    member_client.put(f"{API}/old")
    with database.transaction() as session:
        later = clock.now() + dt.timedelta(days=retention.DISMISSAL_DAYS, minutes=1)
        assert retention.delete_expired(session, later) >= 1
    assert keys(member_client) == []


def test_without_signing_in_there_is_nothing(connect):
    assert connect().get(API).status_code == 401
