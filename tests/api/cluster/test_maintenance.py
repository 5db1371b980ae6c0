"""Maintenance windows: who may plan them, what is refused, and what the commands say."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import AuditRow, MaintenanceWindowRow, NodeRow, NodeSlotRow
from muster_server.services.core import retention
from muster_server.services.nodes import maintenance

API = "/api/v1/maintenance"


@pytest.fixture
def nodes(database):
    with database.transaction() as session:
        for pool in ("gpu", "cpu"):
            now = clock.now()
            session.add(
                NodeRow(
                    id=f"id-{pool}",
                    name=f"{pool}-node-1",
                    pool=pool,
                    state="ONLINE",
                    credential_hash=pool,
                    registered_at=now,
                    last_seen_at=now,
                    lease_expires_at=now + dt.timedelta(hours=1),
                )
            )
            session.flush()
            session.add(NodeSlotRow(node_id=f"id-{pool}", idx=0, slot_type="cpu"))


def create(client, **body):
    return client.post(API, json={"reason": "new switch", **body})


def actions(database):
    with database.read() as session:
        query = select(AuditRow.action).where(AuditRow.action.startswith("maintenance."))
        return list(session.scalars(query.order_by(AuditRow.id)))


def test_administrators_plan_start_and_end_and_everybody_sees(
    nodes, admin_client, member_client, viewer_client, database
):
    planned = create(admin_client, starts_at="2h", ends_at="90min", pools=["gpu"], running="keep")
    assert planned.status_code == 201, planned.text
    window = planned.json()
    assert window["is_active"] is False
    length = dt.datetime.fromisoformat(window["ends_at"]) - dt.datetime.fromisoformat(
        window["starts_at"]
    )
    assert length == dt.timedelta(minutes=90)
    active = create(admin_client, nodes=["cpu-node-1"]).json()
    assert (active["is_active"], active["ends_at"], active["running"]) == (True, None, "checkpoint")

    for client in (viewer_client, member_client):
        assert [w["id"] for w in client.get(API).json()["items"]] == [active["id"], window["id"]]
        assert create(client).status_code == 403
        assert client.post(f"{API}/{active['id']}:end").status_code == 403
    ended = admin_client.post(f"{API}/{active['id']}:end").json()
    assert (ended["is_active"], ended["ended_by"]) == (False, active["created_by"])
    again = admin_client.post(f"{API}/{active['id']}:end")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "maintenance.ended")
    assert admin_client.post(f"{API}/{window['id']}:end").status_code == 200
    assert viewer_client.get(API).json()["items"] == []
    assert admin_client.post(f"{API}/99:end").json()["error"]["code"] == "maintenance.not_found"
    assert actions(database) == [
        "maintenance.plan", "maintenance.start", "maintenance.end", "maintenance.end",
    ]  # fmt: skip


WRONG = {
    "a start in the past": (
        {"starts_at": "2020-01-01T00:00Z"}, "starts_at", "is in the past", "leave it out",
    ),
    "an end before the start": (
        {"starts_at": "2h", "ends_at": "2020-01-01T00:00Z"}, "ends_at", "must be after the start, 20",
        "a length of time such as 2h",
    ),
    "no time zone": (
        {"starts_at": "2999-01-01 18:00"}, "starts_at", "has no time zone", "2026-03-01T18:00Z",
    ),
    "no time at all": (
        {"ends_at": "soon"}, "ends_at", "is neither a length of time nor a moment", "6h",
    ),
    "an unknown pool": (
        {"pools": ["cpu", "gpus"]}, "pools[1]", "there is no pool 'gpus'", "did you mean 'gpu'?",
    ),
    "an unknown node": (
        {"nodes": ["gpu-node-2"]}, "nodes[0]", "there is no node 'gpu-node-2'",
        "did you mean 'gpu-node-1'?",
    ),
    "too long a reason": ({"reason": "x" * 501}, "reason", "500", None),
    "no reason": ({"reason": ""}, "reason", "", None),
    "two lines": ({"reason": "a\nb"}, "reason", "must be one line", None),
    "too many nodes": ({"nodes": ["n"] * 51}, "nodes", "50", None),
    "an unknown way": ({"running": "kill"}, "running", "must be one of keep, checkpoint", None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "path", "message", "hint"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused_by_field(nodes, admin_client, body, path, message, hint):
    reply = create(admin_client, **body)
    assert reply.status_code == 422, reply.text
    (field,) = reply.json()["error"]["fields"]
    assert field["path"] == path
    assert message in field["message"].replace('"', "'")
    assert (hint or "") in (field["hint"] or "")
    assert admin_client.get(API).json()["items"] == []


def test_there_are_at_most_so_many(admin_client, monkeypatch):
    monkeypatch.setattr(maintenance, "MAX_OPEN", 2)
    for _ in range(2):
        assert create(admin_client, starts_at="1h").status_code == 201
    reply = create(admin_client)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "maintenance.too_many")


def test_a_window_whose_time_is_over_is_not_listed_whoever_leads(admin_client, database):
    window_id = create(admin_client, ends_at="1h").json()["id"]
    early = clock.now() - dt.timedelta(hours=1)
    with database.transaction() as session:
        times = {"starts_at": early, "ends_at": clock.now() - dt.timedelta(seconds=1)}
        session.execute(update(MaintenanceWindowRow).values(times))
    assert admin_client.get(API).json()["items"] == []
    reply = admin_client.post(f"{API}/{window_id}:end")
    assert reply.json()["error"]["code"] == "maintenance.ended"


def test_old_ones_are_forgotten(admin_client, database):
    window_id = create(admin_client).json()["id"]
    admin_client.post(f"{API}/{window_id}:end")
    for days, left in ((364, 1), (366, 0)):
        later = clock.now() + dt.timedelta(days=days)
        with database.transaction() as session:
            retention.delete_expired(session, later)
            assert session.query(MaintenanceWindowRow).count() == left


def test_a_node_and_the_counts_of_slots_say_so(nodes, admin_client, viewer_client):
    create(admin_client, pools=["gpu"])
    found = {n["name"]: n for n in viewer_client.get("/api/v1/nodes").json()["items"]}
    assert found["gpu-node-1"]["unavailable"] == "maintenance"
    assert found["gpu-node-1"]["num_slots_free"] == 0
    assert found["cpu-node-1"]["unavailable"] is None
    free = found["cpu-node-1"]["num_slots_free"]
    assert viewer_client.get("/api/v1/cluster").json()["num_slots_free"] == free


def test_commands_plan_list_and_end(nodes, muster, monkeypatch):
    done = muster(
        "maintenance", "plan", "--from", "2999-12-01T18:00+01:00", "--for", "2h",
        "--pool", "gpu", "--reason", "new switch", as_="admin",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert (
        "of pool gpu starts at 2999-12-01 17:00 UTC, until 2999-12-01 19:00 UTC. Running trials save"
    ) in done.output
    started = muster("maintenance", "start", "--reason", "disks", "--running", "keep", as_="admin")
    assert "of the cluster has started, until ended with `muster maintenance end" in started.output
    listed = muster("maintenance", "list", as_="admin")
    assert "new switch" in listed.output
    items = json.loads(muster("maintenance", "list", "--json", as_="admin").stdout)
    assert [w["reason"] for w in items] == ["disks", "new switch"]
    ended = muster("maintenance", "end", str(items[0]["id"]), as_="admin")
    assert "What waited there starts again." in ended.output
    wrong = muster("maintenance", "plan", "--from", "tomorrow", "--reason", "x")
    assert wrong.exception.exit_code == 2
    assert "--from 'tomorrow' is no moment" in str(wrong.exception)


def test_a_submission_hears_of_the_maintenance_of_its_pool(nodes, muster, tmp_path):
    document = tmp_path / "run.yaml"
    document.write_text(
        "name: a\nentrypoint: train.py\ncode: {installed: /srv}\nresources: {pool: gpu}\n"
    )

    def submit():
        done = muster("submit", str(document))
        assert done.exit_code == 0, done.output
        return done.stderr

    muster("maintenance", "start", "--reason", "disks", "--pool", "cpu", as_="admin")
    muster("maintenance", "plan", "--from", "2999-12-01T18:00Z", "--reason", "power")
    assert "aintenance" not in submit()
    muster(
        "maintenance",
        "start",
        "--reason",
        "new switch",
        "--pool",
        "gpu",
        "--for",
        "1h",
        as_="admin",
    )
    (line,) = [text for text in submit().splitlines() if "aintenance" in text]
    assert line.startswith("Maintenance of pool gpu, until 20")
    assert line.endswith(": new switch. Nothing new starts there before it ends.")
