"""Reservations of nodes: who may make them, what is refused, and what the commands say."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import AuditRow, NodeReservationRow, NodeRow, NodeSlotRow
from muster_server.services.core import retention
from muster_server.services.nodes import reservations

API = "/api/v1/reservations"


@pytest.fixture
def nodes(database):
    """Nodes gpu-1, gpu-2 and gpu-3 with 2 slots each, and cpu-1 with 1."""
    with database.transaction() as session:
        now = clock.now()
        for name, pool, slots in (
            ("gpu-1", "gpu", 2),
            ("gpu-2", "gpu", 2),
            ("gpu-3", "gpu", 2),
            ("cpu-1", "cpu", 1),
        ):
            session.add(
                NodeRow(
                    id=f"id-{name}",
                    name=name,
                    pool=pool,
                    state="ONLINE",
                    credential_hash=name,
                    registered_at=now,
                    last_seen_at=now,
                    lease_expires_at=now + dt.timedelta(hours=1),
                )
            )
            session.flush()
            session.add_all(
                NodeSlotRow(node_id=f"id-{name}", idx=i, slot_type="cpu") for i in range(slots)
            )


@pytest.fixture
def project(admin_client):
    assert admin_client.post("/api/v1/projects", json={"name": "vision"}).status_code == 201


def create(client, **body):
    return client.post(API, json={"ends_at": "1h", "project": "vision", **body})


def test_administrators_reserve_and_cancel_and_everybody_sees(
    nodes, project, admin_client, member_client, viewer_client, database
):
    planned = create(admin_client, nodes=["gpu-1"], starts_at="2h", ends_at="90min", reason="demo")
    assert planned.status_code == 201, planned.text
    made = planned.json()
    assert (made["is_active"], made["project"], made["user"]) == (False, "vision", None)
    length = dt.datetime.fromisoformat(made["ends_at"]) - dt.datetime.fromisoformat(
        made["starts_at"]
    )
    assert length == dt.timedelta(minutes=90)
    active = create(admin_client, nodes=["cpu-1"], project=None, user="member").json()
    assert (active["is_active"], active["user"], active["num_taken_from"]) == (True, "member", 0)

    for client in (viewer_client, member_client):
        assert [one["id"] for one in client.get(API).json()["items"]] == [active["id"], made["id"]]
        assert client.get(f"{API}/{made['id']}").json() == made
        assert create(client, nodes=["gpu-2"]).status_code == 403
        assert client.post(f"{API}/{active['id']}:cancel").status_code == 403
    ended = admin_client.post(f"{API}/{active['id']}:cancel").json()
    assert (ended["is_active"], ended["ended_by"]) == (False, active["created_by"])
    again = admin_client.post(f"{API}/{active['id']}:cancel")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "reservations.ended")
    assert [one["id"] for one in viewer_client.get(API).json()["items"]] == [made["id"]]
    assert viewer_client.get(f"{API}/{active['id']}").json()["ended_by"] == active["created_by"]
    assert admin_client.get(f"{API}/99").json()["error"]["code"] == "reservations.not_found"
    assert admin_client.post(f"{API}/99:cancel").status_code == 404
    with database.read() as session:
        query = select(AuditRow.action, AuditRow.subject).where(
            AuditRow.action.startswith("reservation.")
        )
        assert [tuple(row) for row in session.execute(query.order_by(AuditRow.id))] == [
            ("reservation.create", f"reservation:{made['id']}"),
            ("reservation.create", f"reservation:{active['id']}"),
            ("reservation.cancel", f"reservation:{active['id']}"),
        ]


WRONG = {
    "nobody": ({"project": None, "nodes": ["cpu-1"]}, "user", "names no beneficiary", "either a user or"),
    "two": ({"user": "member", "nodes": ["cpu-1"]}, "project", "beside a user", "either a user or"),
    "an unknown project": (
        {"project": "visoin", "nodes": ["cpu-1"]}, "project", "no project 'visoin'", "mean 'vision'?",
    ),
    "an unknown user": (
        {"project": None, "user": "membre", "nodes": ["cpu-1"]}, "user", "no user 'membre'", "'member'?",
    ),
    "no nodes": ({}, "nodes", "names no node", "a pool and how many"),
    "an unknown node": ({"nodes": ["gpu-1", "gpu-9"]}, "nodes[1]", "no node 'gpu-9'", "did you mean"),
    "nodes and a pool": ({"nodes": ["gpu-1"], "pool": "gpu"}, "pool", "beside nodes", "either"),
    "a number without a pool": ({"num_nodes": 2}, "num_nodes", "2 without a pool", "name the pool"),
    "a pool alone": ({"pool": "gpu"}, "pool", "not how many", "num_nodes or num_slots"),
    "two numbers": (
        {"pool": "gpu", "num_nodes": 1, "num_slots": 1}, "pool", "counts nodes and slots", "either",
    ),
    "an unknown pool": ({"pool": "gpus", "num_nodes": 1}, "pool", "no pool 'gpus'", "'gpu'?"),
    "too many nodes": (
        {"pool": "gpu", "num_nodes": 4}, "num_nodes", "is 4, and pool gpu has 3 nodes with 6 slots", "fewer",
    ),
    "too many slots": ({"pool": "gpu", "num_slots": 7}, "num_slots", "is 7, and pool gpu has", "fewer"),
    "no slots": ({"pool": "gpu", "num_slots": 0}, "num_slots", "1", None),
    "a start in the past": (
        {"starts_at": "2020-01-01T00:00Z", "nodes": ["cpu-1"]}, "starts_at", "is in the past", "leave it out",
    ),
    "an end before the start": (
        {"starts_at": "2h", "ends_at": "2020-01-01T00:00Z", "nodes": ["cpu-1"]}, "ends_at",
        "must be after the start, 20", "such as 2h",
    ),
    "no time": ({"ends_at": "soon", "nodes": ["cpu-1"]}, "ends_at", "neither a length of time nor", "6h"),
    "two lines": ({"reason": "a\nb", "nodes": ["cpu-1"]}, "reason", "must be one line", None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "path", "message", "hint"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused_by_field(
    nodes, project, admin_client, member_client, body, path, message, hint
):
    reply = create(admin_client, **body)
    assert reply.status_code == 422, reply.text
    (field,) = reply.json()["error"]["fields"]
    assert field["path"] == path
    assert message in field["message"].replace('"', "'")
    assert (hint or "") in (field["hint"] or "")
    assert admin_client.get(API).json()["items"] == []


def test_an_end_is_required(nodes, project, admin_client):
    reply = admin_client.post(API, json={"project": "vision", "nodes": ["cpu-1"]})
    assert [field["path"] for field in reply.json()["error"]["fields"]] == ["ends_at"]


def test_a_node_is_reserved_once_at_a_time(nodes, project, admin_client):
    first = create(admin_client, nodes=["gpu-1"], starts_at="2h").json()["id"]
    reply = create(admin_client, nodes=["gpu-2", "gpu-1"], starts_at="2h30min")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "reservations.overlap")
    assert (
        f"Node gpu-1 is reserved then: reservation {first} for vision, "
        in reply.json()["error"]["message"]
    )
    assert create(admin_client, nodes=["gpu-1"], ends_at="1h").status_code == 201
    assert create(admin_client, nodes=["gpu-1"], starts_at="179min").status_code == 409
    chosen = create(admin_client, pool="gpu", num_slots=3, starts_at="2h30min").json()
    assert chosen["nodes"] == ["gpu-2", "gpu-3"]
    admin_client.post(f"{API}/{first}:cancel")
    assert create(admin_client, nodes=["gpu-1"], starts_at="2h").status_code == 201


def change(client, number, **body):
    return client.patch(f"{API}/{number}", json=body)


def length_of(one):
    return dt.datetime.fromisoformat(one["ends_at"]) - dt.datetime.fromisoformat(one["starts_at"])


def test_a_reservation_is_extended_shortened_and_given_other_nodes(
    nodes, project, admin_client, member_client, database
):
    made = create(admin_client, nodes=["gpu-1"], ends_at="2h").json()
    number = made["id"]
    assert change(member_client, number, ends_at="3h").status_code == 403
    extended = change(admin_client, number, ends_at="3h").json()
    assert (extended["starts_at"], length_of(extended)) == (
        made["starts_at"],
        dt.timedelta(hours=3),
    )
    shorter = change(admin_client, number, ends_at="30min", reason="it went faster").json()
    assert (length_of(shorter), shorter["reason"]) == (dt.timedelta(minutes=30), "it went faster")
    moved = change(admin_client, number, nodes=["gpu-2", "gpu-3"]).json()
    assert (moved["nodes"], moved["ends_at"]) == (["gpu-2", "gpu-3"], shorter["ends_at"])
    assert create(admin_client, nodes=["gpu-1"]).status_code == 201
    planned = create(admin_client, nodes=["cpu-1"], starts_at="2h", ends_at="1h").json()
    sooner = change(admin_client, planned["id"], starts_at="1h").json()
    assert sooner["starts_at"] < planned["starts_at"]
    assert sooner["ends_at"] == planned["ends_at"]
    with database.read() as session:
        audited = select(AuditRow.detail).where(AuditRow.action == "reservation.change")
        assert [*session.scalars(audited.order_by(AuditRow.id))] == [
            {"ends_at": "3h"},
            {"ends_at": "30min", "reason": "it went faster"},
            {"nodes": ["gpu-2", "gpu-3"]},
            {"starts_at": "1h"},
        ]


@pytest.mark.parametrize(
    ("body", "path", "message", "hint"),
    [
        ({}, "ends_at", "nothing is to change", "name what"),
        ({"starts_at": "1h"}, "starts_at", "it began at 20", "leave it out"),
        ({"ends_at": "2020-01-01T00:00Z"}, "ends_at", "must be after the start", "later moment"),
        ({"ends_at": "soon"}, "ends_at", "neither a length of time nor", "6h"),
        ({"nodes": ["gpu-9"]}, "nodes[0]", "there is no node 'gpu-9'", "did you mean"),
        ({"nodes": []}, "nodes", "1", ""),
    ],
)
def test_a_change_that_cannot_work_is_refused_by_field(
    nodes, project, admin_client, body, path, message, hint
):
    made = create(admin_client, nodes=["gpu-1"]).json()
    reply = change(admin_client, made["id"], **body)
    assert reply.status_code == 422, reply.text
    (field,) = reply.json()["error"]["fields"]
    assert field["path"] == path
    assert message in field["message"].replace('"', "'")
    assert hint in (field["hint"] or "")
    assert admin_client.get(f"{API}/{made['id']}").json() == made


def test_a_change_neither_takes_nodes_of_another_one_nor_revives(
    nodes, project, admin_client, database
):
    first = create(admin_client, nodes=["gpu-1"], ends_at="1h").json()["id"]
    later = create(admin_client, nodes=["gpu-1"], starts_at="2h").json()["id"]
    taken = change(admin_client, first, ends_at="150min")
    assert taken.json()["error"]["code"] == "reservations.overlap"
    assert f"reservation {later} for vision" in taken.json()["error"]["message"]
    assert change(admin_client, first, ends_at="119min").status_code == 200
    early = clock.now() - dt.timedelta(hours=1)
    with database.transaction() as session:
        row = session.get(NodeReservationRow, later)
        row.starts_at = early
    past = change(admin_client, later, ends_at="30min").json()["error"]["fields"][0]
    assert "is in the past" in past["message"]
    assert "muster reservation cancel" in past["hint"]
    admin_client.post(f"{API}/{first}:cancel")
    assert change(admin_client, first, ends_at="3h").json()["error"]["code"] == "reservations.ended"
    assert change(admin_client, 99, ends_at="3h").status_code == 404


def test_there_are_at_most_so_many(nodes, project, admin_client, monkeypatch):
    monkeypatch.setattr(reservations, "MAX_OPEN", 1)
    assert create(admin_client, nodes=["gpu-1"]).status_code == 201
    reply = create(admin_client, nodes=["gpu-2"])
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "reservations.too_many")


def test_one_whose_time_is_over_is_not_listed_and_forgotten_after_a_year(
    nodes, project, admin_client, database
):
    number = create(admin_client, nodes=["gpu-1"]).json()["id"]
    early = clock.now() - dt.timedelta(hours=1)
    with database.transaction() as session:
        times = {"starts_at": early, "ends_at": clock.now() - dt.timedelta(seconds=1)}
        session.execute(update(NodeReservationRow).values(times))
    assert admin_client.get(API).json()["items"] == []
    assert create(admin_client, nodes=["gpu-1"]).status_code == 201
    assert (
        admin_client.post(f"{API}/{number}:cancel").json()["error"]["code"] == "reservations.ended"
    )
    with database.transaction() as session:
        session.execute(update(NodeReservationRow).values(ended_at=clock.now()))
    for days, left in ((364, 2), (366, 0)):
        with database.transaction() as session:
            retention.delete_expired(session, clock.now() + dt.timedelta(days=days))
            assert session.query(NodeReservationRow).count() == left


def test_what_belongs_to_a_hidden_project_is_not_named(nodes, project, admin_client, viewer_client):
    hidden = admin_client.patch("/api/v1/projects/vision", json={"visibility": "members"})
    assert hidden.status_code == 200, hidden.text
    number = create(admin_client, nodes=["gpu-1"]).json()["id"]
    assert viewer_client.get(API).json()["items"] == []
    assert viewer_client.get(f"{API}/{number}").status_code == 404
    events = admin_client.get("/api/v1/audit").json()["items"]
    assert any(event["action"] == "reservation.create" for event in events)


def test_a_preview_knows_who_asks(nodes, project, admin_client, member_client):
    create(admin_client, nodes=["cpu-1"], project=None, user="member")
    document = "name: a\nentrypoint: train.py\ncode: {installed: /srv}\nresources: {pool: cpu}\n"

    def preview(client):
        reply = client.post("/api/v1/experiments:preview", json={"document": document})
        assert reply.status_code == 200, reply.text
        return reply.json()

    assert preview(member_client)["fits_now"]
    theirs = preview(admin_client)
    assert not theirs["fits_now"]
    assert not theirs["is_impossible"]
    assert "1 on 1 node reserved (reservation " in theirs["fit_reason"]


def test_reserved_slots_are_free_only_for_who_may_use_them(
    nodes, project, admin_client, member_client, muster
):
    def free(client):
        listed = {n["name"]: n for n in client.get("/api/v1/nodes").json()["items"]}
        node = listed["cpu-1"]
        assert client.get("/api/v1/nodes/cpu-1").json()["unavailable"] == node["unavailable"]
        pools = {p["pool"]: p for p in client.get("/api/v1/cluster").json()["pools"]}
        total = client.get("/api/v1/cluster").json()["num_slots_free"]
        assert total == sum(pool["num_slots_free"] for pool in pools.values())
        return node["num_slots_free"], node["unavailable"], pools["cpu"]["num_slots_free"], total

    everything = (1, None, 1, 7)
    planned = create(admin_client, nodes=["cpu-1"], starts_at="2h").json()["id"]
    assert free(member_client) == everything, "it has not begun"
    admin_client.post(f"{API}/{planned}:cancel")
    active = create(admin_client, nodes=["cpu-1"], project=None, user="member").json()["id"]
    assert free(member_client) == everything
    assert free(admin_client) == (0, "reserved", 0, 6)
    admin_client.post(f"{API}/{active}:cancel")
    create(admin_client, nodes=["cpu-1"])
    assert free(member_client) == (0, "reserved", 0, 6), "vision has no members"
    assert free(admin_client) == everything
    (row,) = [
        r for r in json.loads(muster("node", "list", "--json").stdout) if r["name"] == "cpu-1"
    ]
    assert row["num_slots_free"] == 0


def test_a_search_counts_on_no_slots_that_are_reserved_for_others(
    nodes, project, admin_client, member_client
):
    create(admin_client, nodes=["gpu-1", "gpu-2"], project=None, user="member")
    document = (
        "name: a\nentrypoint: train.py\ncode: {installed: /srv}\nresources: {pool: gpu}\n"
        "hyperparameters: {lr: {uniform: [0, 1]}}\n"
        "search: {method: random, metric: loss, goal: min, trials: 50}\n"
    )

    def concurrent(client):
        preview = client.post("/api/v1/experiments:preview", json={"document": document}).json()
        assert preview["valid"], preview["errors"]
        return preview["concurrent"]

    assert concurrent(member_client) == 6
    assert concurrent(admin_client) == 2


def test_commands_create_list_show_and_cancel(nodes, project, muster):
    done = muster(
        "reservation", "create", "--node", "gpu-1", "--node", "gpu-2", "--for", "project:vision",
        "--from", "2999-12-01T18:00+01:00", "--until", "2h", "--reason", "paper deadline", as_="admin",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert (
        "(planned): gpu-1, gpu-2 for project vision, 2999-12-01 17:00 UTC to 2999-12-01 19:00 UTC: "
        "paper deadline."
    ) in done.output
    (item,) = json.loads(muster("reservation", "list", "--json").stdout)
    number = str(item["id"])
    assert "paper deadline" in muster("reservation", "list").output
    shown = muster("reservation", "show", number)
    assert f"Reservation {number} (planned): gpu-1, gpu-2 for project vision" in shown.output
    changed = muster(
        "reservation", "change", number, "--until", "3h", "--node", "gpu-3", as_="admin"
    )
    assert (
        "(planned): gpu-3 for project vision, 2999-12-01 17:00 UTC to 2999-12-01 20:00"
        in changed.output
    )
    chosen = muster(
        "reservation", "create", "--pool", "gpu", "--nodes", "1", "--for", "user:member",
        "--until", "8h", as_="admin",
    )  # fmt: skip
    assert "(active): gpu-1 for user member" in chosen.output
    cancelled = muster("reservation", "cancel", number, as_="admin")
    assert "gpu-3: open to everybody." in cancelled.output
    assert "(cancelled)" in muster("reservation", "show", number).output


def test_commands_say_what_is_wrong(nodes, project, muster):
    create_ = ("reservation", "create", "--node", "gpu-1")
    wrong = muster(*create_, "--for", "vision", "--until", "2h")
    assert wrong.exception.exit_code == 2
    assert "--for 'vision' names neither a user nor a project" in str(wrong.exception)
    wrong = muster(*create_, "--for", "project:vision", "--until", "tomorrow")
    assert "--until 'tomorrow' is no moment" in str(wrong.exception)
    wrong = muster(*create_, "--for", "project:visoin", "--until", "2h", as_="admin")
    assert "project there is no project 'visoin'" in str(wrong.exception.fields) or wrong.exit_code
    wrong = muster("reservation", "change", "1")
    assert "give --until, --from, --node or --reason" in str(wrong.exception.hint)
    refused = muster(*create_, "--for", "project:vision", "--until", "2h")
    assert refused.exit_code != 0
