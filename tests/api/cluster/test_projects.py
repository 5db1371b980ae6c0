"""Projects with quotas and budgets, and pools with prices."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import EventRow, NodeRow, NodeSlotRow, SpendingRow
from muster_server.schemas.budgets import PoolOut, ProjectOut
from muster_server.services.quota.projects import load_projects

pytestmark = pytest.mark.either_database

API = "/api/v1"
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
QUOTA = {"pool": "a100", "slot_type": "cuda", "slots": 8}


def project(client, name="vision"):
    answer = client.get(f"{API}/projects/{name}")
    assert answer.status_code == 200, answer.text
    return ProjectOut.model_validate(answer.json())


def submit(client, name="vision"):
    document = f"name: x\ntrainer: {{}}\nproject: {name}\n"
    answer = client.post(f"{API}/experiments", json={"document": document})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def add_node(database, name, *, pool="default", slots=2, state="ONLINE", inventory=None):
    with database.transaction() as session:
        session.add(
            NodeRow(
                id=name, name=name, pool=pool, state=state, credential_hash=name,
                registered_at=NOW, last_seen_at=NOW, lease_expires_at=clock.now(),
                inventory=inventory or {},
            )
        )  # fmt: skip
        session.flush()
        session.add_all(NodeSlotRow(node_id=name, idx=i, slot_type="cpu") for i in range(slots))


def test_a_project_is_made_changed_and_removed(admin_client, viewer_client, database):
    body = {"name": "vision", "weight": 2, "quotas": [QUOTA], "budget": {"slot_hours": 100}}
    answer = admin_client.post(f"{API}/projects", json=body)
    assert answer.status_code == 201, answer.text
    made = project(viewer_client)
    assert (made.weight, made.num_experiments) == (2, 0)
    assert made.quotas[0].model_dump() == {**QUOTA, "slots_held": 0}
    assert made.budget.limits[0].limit == 100
    with database.read() as session:
        (view,) = load_projects(session)
    assert (view.weight, dict(view.quotas)) == (2, {("a100", "cuda"): 8})
    answer = admin_client.patch(f"{API}/projects/vision", json={"weight": 1})
    assert answer.json()["budget"] is not None, "what is left out stays"
    answer = admin_client.patch(f"{API}/projects/vision", json={"budget": None, "quotas": []})
    assert (answer.json()["budget"], answer.json()["quotas"]) == (None, [])
    again = admin_client.post(f"{API}/projects", json={"name": "vision"})
    assert again.json()["error"]["code"] == "projects.name_taken"
    assert admin_client.delete(f"{API}/projects/vision").status_code == 204
    assert viewer_client.get(f"{API}/projects/vision").status_code == 404


GUARDS = """
- {metric: train/loss, not_finite: true, action: rollback, set: {lr: x0.5, momentum: 0.5}}
- {no_step_for_min: 30, action: notify}
"""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", ["train/loss rollback", "None notify"]),
        ("guards: []\n", []),
        (
            "guards: [{metric: train/loss, not_finite: true, action: stop}]\n",
            ["train/loss stop", "None notify"],
        ),
        (
            "guards: [{metric: train/loss, above: 9, action: stop}]\n",
            ["train/loss stop", "train/loss rollback", "None notify"],
        ),
    ],
)
def test_a_project_gives_guards_to_what_is_submitted_to_it(
    admin_client, member_client, written, expected
):
    admin_client.post(f"{API}/projects", json={"name": "default", "submission": "all"})
    answer = admin_client.patch(f"{API}/projects/default", json={"guards": GUARDS})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["guards_explained"]) == 2
    document = f"name: x\nentrypoint: a.py\ncode: {{installed: /a}}\nhyperparameters: {{lr: 1.0}}\n{written}"
    preview = member_client.post(f"{API}/experiments:preview", json={"document": document})
    assert len(preview.json()["guards"]) == len(expected), preview.text
    submitted = member_client.post(f"{API}/experiments", json={"document": document})
    shown = member_client.get(f"{API}/experiments/{submitted.json()['id']}").json()
    guards = shown["config"]["guards"]
    assert [f"{g['metric']} {g['action']}" for g in guards] == expected
    assert [g["set"] for g in guards if g["action"] == "rollback"] in ([], [{"lr": "x0.5"}])

    admin_client.patch(f"{API}/projects/default", json={"guards": None})
    assert member_client.get(f"{API}/projects/default").json()["guards"] == ""


def test_guards_of_a_project_that_cannot_work_are_refused(admin_client):
    admin_client.post(f"{API}/projects", json={"name": "vision"})
    answer = admin_client.patch(
        f"{API}/projects/vision", json={"guards": "[{metric: a, action: stop}]"}
    )
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"][0]["path"] == "guards[0]"


def test_members_may_look_but_not_change(member_client):
    submit(member_client)
    assert project(member_client).num_experiments_active == 1
    for answer in (
        member_client.post(f"{API}/projects", json={"name": "x"}),
        member_client.patch(f"{API}/projects/vision", json={"weight": 9}),
        member_client.delete(f"{API}/projects/vision"),
        member_client.put(f"{API}/pools/default", json={"price_per_slot_hour": 0}),
        member_client.delete(f"{API}/pools/default"),
    ):
        assert answer.status_code == 403


def test_a_project_with_experiments_is_not_removed(admin_client, member_client):
    submit(member_client)
    answer = admin_client.delete(f"{API}/projects/vision")
    assert answer.json()["error"]["code"] == "projects.in_use"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"quotas": [QUOTA, QUOTA]}, "projects.quota_twice"),
        ({"budget": {"deadline": "6h"}}, "projects.invalid_budget"),
        ({"budget": {"deadline": "2020-01-01T00:00Z"}}, "projects.invalid_budget"),
        ({"weight": 0}, "request.invalid"),
        ({"quotas": [{**QUOTA, "slots": -1}]}, "request.invalid"),
        ({"wait": 1}, "request.invalid"),
    ],
)
def test_what_cannot_work_is_refused(admin_client, body, code):
    admin_client.post(f"{API}/projects", json={"name": "vision"})
    answer = admin_client.patch(f"{API}/projects/vision", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)


@pytest.mark.both_databases
def test_spending_is_summed_and_its_count_begins_anew(admin_client, member_client, database):
    submit(member_client)
    submit(member_client)
    with database.transaction() as session:
        session.execute(update(SpendingRow).values(slot_s=3600.0, cost=2.0))
    before = project(member_client)
    assert (before.spending.slot_hours, before.spending.cost) == (2, 4)
    admin_client.patch(f"{API}/projects/vision", json={"restart_count": True})
    after = project(member_client)
    assert (after.spending.slot_hours, after.spending.cost) == (0, 0)
    assert after.counted_since > before.counted_since
    with database.transaction() as session:
        session.execute(update(SpendingRow).values(slot_s=5400.0))
    assert project(member_client).spending.slot_hours == 1


def test_changes_are_among_the_events_of_the_project(admin_client, viewer_client, database):
    admin_client.post(f"{API}/projects", json={"name": "vision"})
    admin_client.patch(f"{API}/projects/vision", json={"quotas": [QUOTA]})
    admin_client.patch(f"{API}/projects/vision", json={"quotas": [QUOTA]})
    items = viewer_client.get(f"{API}/projects/vision/events").json()["items"]
    assert [e["type"] for e in items] == ["project.changed", "project.created"]
    assert "8 cuda slots in pool a100" in items[0]["message"]
    with database.read() as session:
        assert len(session.scalars(select(EventRow)).all()) == 2, "the same again is no change"


@pytest.mark.both_databases
def test_projects_are_paged_by_name(admin_client, viewer_client):
    for name in ("c", "a", "b"):
        admin_client.post(f"{API}/projects", json={"name": name})
    first = viewer_client.get(f"{API}/projects", params={"limit": 2}).json()
    rest = viewer_client.get(f"{API}/projects", params={"cursor": first["next"]}).json()
    assert [p["name"] for p in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["next"] is None


def test_pools_have_a_price_and_say_what_is_in_them(admin_client, viewer_client, database):
    add_node(database, "n1")
    add_node(database, "n2", pool="a100", slots=4, state="LOST")
    for price in (2.5, 3.0):
        answer = admin_client.put(f"{API}/pools/a100", json={"price_per_slot_hour": price})
        assert answer.status_code == 200, answer.text
    admin_client.put(f"{API}/pools/soon", json={"price_per_slot_hour": 1})
    found = [PoolOut.model_validate(p) for p in viewer_client.get(f"{API}/pools").json()["items"]]
    assert [(p.name, p.price_per_slot_hour, p.num_nodes_online) for p in found] == [
        ("a100", 3.0, 0), ("default", 0.0, 1), ("soon", 1.0, 0),
    ]  # fmt: skip
    assert (found[0].num_slots, found[0].currency) == ({"cpu": 4}, "USD")
    in_use = admin_client.delete(f"{API}/pools/a100").json()["error"]
    assert in_use["code"] == "pools.in_use"
    assert admin_client.delete(f"{API}/pools/soon").status_code == 204
    assert admin_client.delete(f"{API}/pools/soon").json()["error"]["code"] == "pools.not_found"


def test_a_pool_requires_a_level_of_isolation(admin_client, member_client, database):
    add_node(database, "n1")
    url = f"{API}/pools/default"
    admin_client.put(url, json={"price_per_slot_hour": 2})
    answer = admin_client.put(url, json={"min_isolation": "sandbox"})
    found = PoolOut.model_validate(answer.json())
    assert (found.min_isolation, found.price_per_slot_hour) == ("sandbox", 2.0)
    assert (found.num_nodes, found.num_nodes_too_weak) == (1, 1)
    assert member_client.put(url, json={"min_isolation": "none"}).status_code == 403
    assert admin_client.put(url, json={"min_isolation": "vault"}).status_code == 422

    def preview():
        body = {"document": "name: x\ntrainer: {}\n"}
        return member_client.post(f"{API}/experiments:preview", json=body).json()

    waits = preview()
    assert "which the pool requires" in waits["fit_reason"]
    assert (waits["fits_now"], waits["is_impossible"]) == (False, True)
    admin_client.put(url, json={"min_isolation": "none"})
    assert preview()["fits_now"]


def test_a_pool_requires_containers_of_allowed_images(admin_client, member_client, database):
    add_node(database, "n1", inventory={"container_runtime": "podman"})
    url = f"{API}/pools/default"
    rules = {"requires_containers": True, "allowed_images": ["ghcr.io/acme", "docker.io/library"]}
    found = PoolOut.model_validate(admin_client.put(url, json=rules).json())
    assert (found.requires_containers, found.allowed_images) == tuple(rules.values())
    assert member_client.put(url, json={"requires_containers": False}).status_code == 403
    for wrong in ("ghcr.io/acme/", "https://ghcr.io", "ghcr.io/x@sha256:1", ""):
        refused = admin_client.put(url, json={"allowed_images": [wrong]})
        assert refused.status_code == 422, wrong

    def fit(image):
        document = "name: x\ntrainer: {}\n" + (
            f"environment: {{image: {image}}}\n" if image else ""
        )
        body = {"document": document}
        answer = member_client.post(f"{API}/experiments:preview", json=body).json()
        return answer["fits_now"], answer["is_impossible"], answer["fit_reason"]

    assert fit("python:3.12")[:2] == (True, False)
    is_now, is_impossible, reason = fit("")
    assert (is_now, is_impossible) == (False, True)
    assert "jobs there must run in containers" in reason
    is_now, is_impossible, reason = fit("quay.io/x/y")
    assert (is_now, is_impossible) == (False, True)
    assert "the image quay.io/x/y is not among those that the pool allows" in reason
    changed = admin_client.put(url, json={"requires_containers": False, "allowed_images": []})
    assert changed.json()["allowed_images"] == []
    assert fit("")[0]


@pytest.mark.parametrize("price", [-1, "NaN", "", 1e12])
def test_a_price_is_a_number_that_makes_sense(admin_client, price):
    answer = admin_client.put(f"{API}/pools/x", json={"price_per_slot_hour": price})
    assert answer.status_code == 422
