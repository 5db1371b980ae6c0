"""A trial that has run for as long as its document allows."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import update

from muster_server import clock
from muster_server.db.models import AttemptRow
from support.agent import leave, start


@pytest.fixture
def ran(database):
    """`ran(1, hours=2)` lets the workers of attempt 1 have run two hours longer."""

    def shift(no, *, hours):
        began = clock.now() - dt.timedelta(hours=hours)
        with database.transaction() as session:
            session.execute(update(AttemptRow).where(AttemptRow.no == no).values(started_at=began))

    return shift


def placed(controller, node):
    controller.tick()
    return start(controller, node)


def trial(show, experiment_id):
    (item,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{item['id']}")


def test_at_its_limit_a_trial_saves_and_ends_with_that_as_the_reason(
    controller, agent, submit, show, member_client, ran
):
    node = agent(slots=1)
    experiment_id = submit(slots=1, max_duration="2h")
    url = f"/api/v1/experiments/{experiment_id}"
    first = placed(controller, node)
    ran(1, hours=1.5)
    controller.tick()
    assert trial(show, experiment_id)["state"] == "RUNNING"

    member_client.post(f"{url}:pause")
    controller.tick()
    leave(controller, node, first, step=7)
    controller.tick()
    assert trial(show, experiment_id)["state"] == "PAUSED"
    member_client.post(f"{url}:resume")
    controller.tick()
    second = placed(controller, node)
    assert trial(show, experiment_id)["state"] == "RUNNING"
    ran(2, hours=0.6)
    controller.tick()
    assignment = node.only()
    assert (assignment.desired, assignment.stop_kind) == ("stop", "time_limit")
    assert assignment.stop_grace_s is None, "with all of its grace for a checkpoint"
    words = "It has run for 2h, the longest that resources.max_duration allows"
    assert words in assignment.stop_reason
    leave(controller, node, second, step=9)
    controller.tick()

    found, experiment = trial(show, experiment_id), show(f"/experiments/{experiment_id}")
    assert (found["state"], found["termination"]) == ("CANCELED", "time_limit")
    assert words in found["reason"]
    assert (experiment["state"], experiment["termination"]) == ("CANCELED", "time_limit")
    assert words in experiment["reason"]

    refused = member_client.post(f"{url}:continue", json={})
    assert refused.status_code == 422, refused.text
    (field,) = refused.json()["error"]["fields"]
    assert field["path"] == "resources.max_duration"
    assert f"trial {experiment_id}.1 has run for 2h already" in field["message"]
    more = {"overrides": ["resources.max_duration=4h"]}
    answer = member_client.post(f"{url}:continue", json=more)
    assert answer.status_code < 300, answer.text
    placed(controller, node)
    assert trial(show, experiment_id)["state"] == "RUNNING"


def test_a_trial_that_ends_by_itself_in_time_is_completed(controller, agent, submit, show, ran):
    node = agent(slots=1)
    experiment_id = submit(slots=1, max_duration="2h")
    allocation_id = placed(controller, node)
    node.exit(allocation_id)
    ran(1, hours=9)
    controller.tick()
    assert trial(show, experiment_id)["state"] == "COMPLETED"


def test_a_length_of_time_that_is_none_is_refused_with_examples(member_client):
    text = (
        "name: t\nentrypoint: t.py\ncode: {installed: /srv}\nresources: {max_duration: 4 hours}\n"
    )
    answer = member_client.post("/api/v1/experiments", json={"document": text})
    assert answer.status_code == 422
    (field,) = answer.json()["error"]["fields"]
    assert field["path"] == "resources.max_duration"
    assert "4h" in field["hint"]
