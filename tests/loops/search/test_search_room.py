"""Searches that go by the room there is, while nodes join and leave: with agents that only talk."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pytest
from sqlalchemy import func, select, update

from muster_server import clock
from muster_server.db.models import ExperimentRow, NodeRow, SearchEventRow
from muster_server.loops.search import RoomLoop

DOCUMENT = """
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: random, metric: val/loss, goal: min, trials: 20}
"""


def look(database, controller):
    """What the controller does every few seconds; how many searches were told."""
    num = RoomLoop(database, lambda: 0.0).run(clock.now())
    controller.tick()
    return num


def test_trials_follow_nodes_that_join_and_leave(controller, agent, submit, show, database):
    experiment_id = submit(DOCUMENT, slots=2)

    def states():
        items = show(f"/experiments/{experiment_id}/trials")["items"]
        return [trial["state"] for trial in items]

    assert states() == ["QUEUED"] * 2, "one, though nothing fits, and one more"
    agent("n1", slots=4)
    agent("n2", slots=3)
    assert look(database, controller) == 1
    assert len(states()) == 4, "three fit, and one more"
    assert look(database, controller) == 0, "what it holds is room of its own"
    agent("n3", slots=4)
    assert look(database, controller) == 1
    assert len(states()) == 6
    with database.transaction() as session:
        session.execute(update(NodeRow).where(NodeRow.name != "n3").values(scheduling="draining"))
    assert look(database, controller) == 1
    assert len(states()) == 6, "nobody is ended"
    with database.read() as session:
        told = select(func.count()).where(SearchEventRow.key.like("room%"))
        assert session.scalar(told) == 4


def test_a_restless_pool_is_told_of_now_and_then(controller, agent, submit, database):
    agent("n1", slots=4)
    agent("n2", slots=4)
    submit(DOCUMENT, slots=1)
    begin = clock.now() + dt.timedelta(hours=1)
    told = []
    for i in range(48):  # four minutes, in which a node comes and goes at every look
        with database.transaction() as session:
            scheduling = ("draining", "open")[i % 2]
            one = update(NodeRow).where(NodeRow.name == "n1").values(scheduling=scheduling)
            session.execute(one)
        now = begin + dt.timedelta(seconds=5 * i)
        told += [i] * RoomLoop(database, lambda: 0.0).run(now)
    assert 12 <= len(told) <= 18
    assert max(b - a for a, b in pairwise(told)) <= 25, "within the window it hears again"
    # When it calms down, the last word is true.
    RoomLoop(database, lambda: 0.0).run(begin + dt.timedelta(seconds=480))
    assert RoomLoop(database, lambda: 0.0).run(begin + dt.timedelta(seconds=485)) == 0
    with database.read() as session:
        assert session.scalar(select(ExperimentRow.search_room)) == 8


def test_a_search_leaves_slots_out_that_others_hold_and_a_number_is_left_alone(
    controller, agent, submit, show, database
):
    agent("n1", slots=4)
    fixed = submit(DOCUMENT.replace("trials: 20", "trials: 20, concurrent: 3"), slots=1)
    controller.tick()
    following = submit(DOCUMENT, slots=1)
    assert show(f"/experiments/{following}")["num_trials"] == 2
    agent("n2", slots=4)
    assert look(database, controller) == 1
    assert show(f"/experiments/{fixed}")["num_trials"] == 3
    assert show(f"/experiments/{following}")["num_trials"] == 6


def test_limits_set_a_number_and_give_it_up_again(controller, agent, submit, member_client, show):
    agent("n1", slots=4)
    experiment_id = submit(DOCUMENT, slots=1)
    path = f"/api/v1/experiments/{experiment_id}/search/limits"
    assert show(f"/experiments/{experiment_id}")["num_trials"] == 5
    for concurrent, num in ((7, 7), ("auto", 7), (9, 9)):
        reply = member_client.put(path, json={"concurrent": concurrent})
        assert reply.status_code == 202, reply.text
        controller.tick()
        assert show(f"/experiments/{experiment_id}")["num_trials"] == num
        config = show(f"/experiments/{experiment_id}")["config"]["search"]["concurrent"]
        assert config == (None if concurrent == "auto" else concurrent)
    wrong = member_client.put(path, json={"concurrent": "many"})
    assert {f["path"] for f in wrong.json()["error"]["fields"]} == {"concurrent"}


def test_the_preview_counts_with_the_room_there_is(agent, member_client):
    agent("n1", slots=4)
    text = f"name: x\nentrypoint: train.py\ncode: {{installed: /srv}}\n{DOCUMENT}"
    for override, found in (
        ([], (4, "room for 4 trials of 1 cpu slot in pool default now")),
        (["resources.slots=4"], (1, "room for 1 trial of 4 cpu slots in pool default now")),
        (["search.concurrent=7"], (7, "search.concurrent")),
    ):
        body = {"document": text, "overrides": override}
        shown = member_client.post("/api/v1/experiments:preview", json=body).json()
        assert (shown["concurrent"], shown["concurrent_from"]) == found


@pytest.mark.parametrize(
    ("exclusive", "slots", "expected"), [(False, 2, 6), (False, 4, 3), (True, 2, 3), (True, 8, 1)]
)
def test_pilots_that_a_provider_would_submit_are_room(
    admin_client, member_client, exclusive, slots, expected
):
    body = {
        "kind": "slurm",
        "slots": 4,
        "max_pilots": 3,
        "walltime_s": 7200,
        "exclusive": exclusive,
        "options": {"server_url": "http://10.0.0.5", "folder": "/shared", "agent": "/opt/agent"},
    }
    assert admin_client.put("/api/v1/pools/gpu/provider", json=body).status_code == 200
    text = f"name: x\nentrypoint: train.py\ncode: {{installed: /srv}}\n{DOCUMENT}"
    overrides = ["resources.pool=gpu", f"resources.slots={slots}"]
    shown = member_client.post(
        "/api/v1/experiments:preview", json={"document": text, "overrides": overrides}
    ).json()
    assert shown["concurrent"] == expected


def test_a_search_that_is_continued_goes_by_the_room_of_then(
    controller, agent, submit, member_client, show
):
    experiment_id = submit(DOCUMENT, slots=1)
    path = f"/api/v1/experiments/{experiment_id}"
    assert member_client.post(f"{path}:kill").status_code == 202
    controller.tick()
    assert show(f"/experiments/{experiment_id}")["state"] == "CANCELED"
    agent("n1", slots=6)
    assert member_client.post(f"{path}:continue", json={}).status_code in (200, 202)
    controller.tick()
    assert show(f"/experiments/{experiment_id}")["num_trials"] == 7
