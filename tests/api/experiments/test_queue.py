"""The queue over REST: its order, why and until when trials wait, and moving them."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlalchemy import select, update

from muster_server import clock
from muster_server.db.models import AuditRow, EventRow, ExperimentRow, TrialRow
from muster_server.loops.runner import Controller
from muster_server.schemas.cluster import QueueItem, QueueMoved
from support.agent import FakeAgent

pytestmark = pytest.mark.either_database

API = "/api/v1"
SEARCH = """
hyperparameters: {lr: {choice: [1, 2, 3]}}
search: {method: grid, concurrent: 3}
"""


@pytest.fixture
def submit(member_client):
    """`submit(slots=2)` makes an experiment with one waiting trial; its id."""

    def make(extra="", **resources):
        document = f"name: test\nentrypoint: train.py\ncode: {{installed: /srv}}\n{extra}"
        document += f"\nresources: {{{', '.join(f'{k}: {v}' for k, v in resources.items())}}}\n"
        reply = member_client.post(f"{API}/experiments", json={"document": document})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    return make


@pytest.fixture
def order(viewer_client):
    """Experiment ids in the order of the queue; trials of a search by (experiment, number)."""

    def read(*, with_numbers=False):
        items = viewer_client.get(f"{API}/queue").json()["items"]
        for item in items:
            QueueItem.model_validate_json(json.dumps(item))
        return [(i["experiment_id"], i["trial_no"]) if with_numbers else i["experiment_id"]
                for i in items]  # fmt: skip

    return read


@pytest.fixture
def move(member_client):
    def send(status=200, **wish):
        reply = member_client.post(f"{API}/queue:move", json=wish)
        assert reply.status_code == status, reply.text
        return QueueMoved.model_validate(reply.json()) if status == 200 else reply.json()

    return send


def test_an_item_says_what_it_waits_for_and_since_when(submit, viewer_client):
    submit(slots=4, min_slots=2, priority=60, preemptible="false")
    (item,) = viewer_client.get(f"{API}/queue").json()["items"]
    assert (item["position"], item["num_slots"], item["min_slots"]) == (1, 4, 2)
    assert (item["project"], item["priority"], item["preemptible"]) == ("default", 60, False)
    assert item["pending_reason"].startswith("Needs 2 to 4 cpu slots in pool default")
    assert item["pending_parts"][0] == {
        "code": "wish.elastic_slots",
        "params": {"least": 2, "slots": 4, "slot_type": "cpu", "pool": "default"},
    }
    assert item["estimated_start_at"] is None
    assert item["waiting_since"] == item["queued_at"]


def test_one_project_alone_keeps_its_positions(submit, viewer_client):
    first, other = submit(slots=1), submit("project: other", slots=1)
    third = submit(slots=1)

    def shown(**params):
        items = viewer_client.get(f"{API}/queue", params=params).json()["items"]
        return {i["experiment_id"]: i["position"] for i in items}

    everyone = shown()
    assert set(everyone) == {first, other, third}
    assert shown(project="other") == {other: everyone[other]}
    assert shown(project="default") == {first: everyone[first], third: everyone[third]}
    assert shown(project="nobody") == {}


def test_priority_goes_first_and_may_be_changed_while_it_waits(submit, order, member_client):
    a, b, c = (submit(slots=1) for _ in range(3))
    assert order() == [a, b, c]
    reply = member_client.patch(f"{API}/experiments/{c}", json={"priority": 60})
    assert reply.json()["priority"] == 60
    assert order() == [c, a, b]
    member_client.patch(f"{API}/experiments/{c}", json={"priority": 40})
    assert order() == [a, b, c]


def test_moving_to_the_ends_and_between(submit, order, move):
    a, b, c, d = (submit(slots=1) for _ in range(4))
    moved = move(experiment_id=c, to="front")
    assert (moved.num_trials, moved.first.experiment_id, moved.first.position) == (1, c, 1)
    assert order() == [c, a, b, d]
    move(experiment_id=a, to="back")
    assert order() == [c, b, d, a]
    move(experiment_id=a, before={"experiment_id": d})
    assert order() == [c, b, a, d]
    move(experiment_id=c, after={"experiment_id": b})
    assert order() == [b, c, a, d]
    e = submit(slots=1)
    assert order() == [b, c, a, d, e]  # who comes later stands behind


def test_the_order_survives_whoever_reads_it(submit, order, move, database, settings):
    a, b = submit(slots=1), submit(slots=1)
    move(experiment_id=b, to="front")
    Controller(database, settings).tick()
    assert order() == [b, a]
    with database.read() as session:
        numbers = dict(session.execute(select(TrialRow.experiment_id, TrialRow.queue_no)).all())
    assert numbers[b] < numbers[a]


def test_trials_of_a_search_move_one_by_one_or_together(submit, order, move, viewer_client):
    other = submit(slots=1)
    search = submit(SEARCH, slots=1)
    assert order(with_numbers=True) == [(other, 1), (search, 1), (search, 2), (search, 3)]
    items = viewer_client.get(f"{API}/queue").json()["items"]
    third, first = items[3]["trial_id"], items[1]["trial_id"]
    move(trial_id=third, before={"trial_id": first})  # created at the same moment
    assert order(with_numbers=True) == [(other, 1), (search, 3), (search, 1), (search, 2)]
    assert move(experiment_id=search, to="front").num_trials == 3
    assert order(with_numbers=True) == [(search, 3), (search, 1), (search, 2), (other, 1)]
    move(experiment_id=other, after={"experiment_id": search})
    move(experiment_id=other, before={"experiment_id": search})
    assert order() == [other, search, search, search]


@pytest.mark.both_databases
def test_a_move_between_others_that_came_at_once_numbers_them_anew(submit, order, move, database):
    a, b, c, d = (submit(slots=1) for _ in range(4))
    with database.transaction() as session:
        session.execute(update(TrialRow).values(queue_no=1000.0))
    assert order() == [a, b, c, d]
    move(experiment_id=d, after={"experiment_id": a})
    assert order() == [a, d, b, c]


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        ({"slots": 1, "priority": 60}, "has priority 60, this one 50"),
        ({"slots": 1, "pool": "other"}, "waits for cpu slots in pool other"),
        ({"slots": 1, "slot_type": "cuda"}, "waits for cuda slots in pool default"),
    ],
)
def test_only_equals_have_an_order_among_themselves(submit, order, move, resources, why):
    a, b = submit(slots=1), submit(**resources)
    before = order()
    problem = move(409, experiment_id=a, before={"experiment_id": b})["error"]
    assert problem["code"] == "queue.no_equals"
    assert why in problem["message"]
    assert order() == before


def test_projects_stand_by_their_share(submit, move):
    a = submit(slots=1)
    b = submit("project: vision\n", slots=1)
    problem = move(409, experiment_id=a, before={"experiment_id": b})["error"]
    assert "another project" in problem["message"]


def test_what_does_not_wait_has_no_place(submit, move, member_client, database, settings):
    a, b = submit(slots=1), submit(slots=1)
    member_client.post(f"{API}/experiments/{a}:stop")
    Controller(database, settings).tick()
    for wish in (
        {"experiment_id": a, "to": "front"},
        {"experiment_id": b, "before": {"experiment_id": a}},
        {"trial_id": 1, "to": "front"},
    ):
        assert move(409, **wish)["error"]["code"] == "queue.not_waiting"
    assert move(404, experiment_id=99, to="front")["error"]["code"] == "experiments.not_found"
    assert move(404, trial_id=99, to="front")["error"]["code"] == "trials.not_found"
    problem = move(409, experiment_id=b, before={"experiment_id": b})["error"]
    assert problem["code"] == "queue.same"


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"to": "front"}, "trial_id or experiment_id"),
        ({"trial_id": 1, "experiment_id": 1, "to": "front"}, "one of the two"),
        ({"trial_id": 1}, "to, before or after"),
        ({"trial_id": 1, "to": "front", "before": {"trial_id": 2}}, "one of the three"),
        ({"trial_id": 1, "before": {}}, "trial_id or experiment_id"),
        ({"trial_id": 1, "to": "top"}, "one of front, back"),
        ({"trial_id": 0, "to": "front"}, "must be at least 1"),
        ({"trial_id": 1, "to": "front", "by": 3}, "does not exist"),
    ],
)
def test_a_wish_that_says_too_little_or_too_much_is_refused(move, wish, message):
    problem = move(422, **wish)["error"]
    assert message in str(problem["fields"])


def test_viewers_may_look_but_not_move(submit, viewer_client):
    a = submit(slots=1)
    reply = viewer_client.post(f"{API}/queue:move", json={"experiment_id": a, "to": "front"})
    assert reply.status_code == 403


def test_only_its_owner_and_administrators_move_it(submit, connect, make_user_token, admin_client):
    a = submit(slots=1)
    other = connect(token=make_user_token("member", username="bo"))
    wish = {"experiment_id": a, "to": "front"}
    reply = other.post(f"{API}/queue:move", json=wish)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "experiments.not_yours")
    assert admin_client.post(f"{API}/queue:move", json=wish).status_code == 200


def test_moves_and_priorities_are_told_and_audited(submit, move, member_client, database):
    a, b = submit(slots=1), submit(slots=1)
    move(experiment_id=b, before={"experiment_id": a})
    member_client.patch(f"{API}/experiments/{b}", json={"priority": 80})
    with database.read() as session:
        told = session.scalars(select(EventRow.message).where(EventRow.type == "queue.moved")).all()
        audited = session.execute(select(AuditRow.action, AuditRow.subject, AuditRow.detail)).all()
    assert told == [f"Trial 1 moved before experiment {a} by member."]
    assert tuple(audited[-2]) == (
        "queue.moved",
        f"experiment:{b}",
        {"experiment_id": b, "before": {"experiment_id": a}},
    )
    assert audited[-1].detail == {"fields": ["priority"], "priority": 80}


# ---- with machines


@pytest.fixture
def node(connect, join_token):
    fake = FakeAgent(lambda token: connect(token=token), join_token, "node-1", slots=2)
    fake.register()
    return fake


def test_waiting_trials_restart_at_the_end_of_the_list(submit, order, database, viewer_client):
    a, b = submit(slots=1), submit(slots=1)
    later = clock.now() + dt.timedelta(minutes=5)
    with database.transaction() as session:
        session.execute(
            update(TrialRow)
            .where(TrialRow.experiment_id == a)
            .values(state="RETRY_WAIT", not_before=later, reason="it crashed")
        )
    assert order() == [b, a]
    last = viewer_client.get(f"{API}/queue").json()["items"][-1]
    assert last["position"] is None
    assert last["pending_reason"].startswith(f"Restarts at {later:%H:%M:%S} UTC: it crashed. ")


@pytest.mark.both_databases
def test_pages_follow_the_order(submit, viewer_client):
    ids = [submit(slots=1) for _ in range(5)]
    found, cursor = [], None
    while True:
        page = viewer_client.get(f"{API}/queue", params={"limit": 2, "cursor": cursor} if cursor
                                 else {"limit": 2}).json()  # fmt: skip
        found += [(i["experiment_id"], i["position"]) for i in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == list(zip(ids, range(1, 6), strict=True))


def test_a_preview_foresees_what_the_scheduler_does(
    submit, member_client, node, database, settings
):
    def preview(**resources):
        text = f"name: p\nentrypoint: t.py\ncode: {{installed: /srv}}\nresources: {resources}\n"
        reply = member_client.post(f"{API}/experiments:preview", json={"document": text})
        assert reply.status_code == 200, reply.text
        return reply.json()

    fits = preview(slots=2)
    assert (fits["fits_now"], fits["position"], fits["estimated_start_at"]) == (True, None, None)
    assert [n["num_slots"] for n in fits["plan"]] == [2]
    waiting = preview(slots=3)
    assert (waiting["fits_now"], waiting["position"], waiting["plan"]) == (False, 1, [])
    assert "3 cpu slots" in waiting["fit_reason"]

    submit(slots=2)
    Controller(database, settings).tick()
    behind = preview(slots=1)
    assert (behind["fits_now"], behind["position"]) == (False, 1)
    with database.read() as session:  # nothing was stored
        assert len(session.scalars(select(ExperimentRow.id)).all()) == 1
