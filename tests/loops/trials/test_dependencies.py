"""Experiments that start after others, through the real API, a controller and agents."""

import pytest
from sqlalchemy import update

from muster_server import clock
from muster_server.db.models import UserRow
from support.agent import start


@pytest.fixture
def submitted(member_client):
    """`submitted("after: [1]")` submits a training of one slot; its number."""

    def submit(more="", *, expect=201):
        document = f"name: t\nentrypoint: /opt/train.py\nlauncher: direct\n{more}\n"
        answer = member_client.post("/api/v1/experiments", json={"document": document})
        assert answer.status_code == expect, answer.text
        return answer.json()["id"] if expect == 201 else answer.json()["error"]

    return submit


@pytest.fixture
def trial_of(show):
    def of(experiment_id):
        (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
        return trial

    return of


def end(controller, node, cause="success"):
    node.exit(start(controller, node), cause, message="" if cause == "success" else "it broke")
    for _ in range(3):
        controller.tick()


def test_one_starts_when_the_other_has_completed(
    controller, agent, submitted, show, trial_of, viewer_client
):
    node = agent(slots=2)
    first = submitted()
    second = submitted(f"after: {first}")
    assert show(f"/experiments/{second}")["config"]["after"] == [
        {"experiment": first, "when": "success"}
    ]
    shown = show(f"/experiments/{second}")
    assert shown["after"] == [{"id": first, "name": "t", "state": "QUEUED", "when": "success"}]
    awaited = show(f"/experiments/{first}")
    assert (awaited["num_before"], awaited["before"][0]["id"]) == (1, second)
    controller.tick()
    assert len(node.poll()) == 1, "there is a free slot, but it waits"
    start(controller, node)
    waiting = trial_of(second)
    said = f"experiment {first} must be COMPLETED (it is RUNNING)"
    assert (waiting["state"], said in waiting["pending_reason"]) == ("QUEUED", True)
    assert [p["code"] for p in waiting["pending_parts"]] == [
        "pending.after", "pending.after_success", "help.by_itself",
    ]  # fmt: skip
    (item,) = viewer_client.get("/api/v1/queue").json()["items"]
    assert (item["trial_id"], said in item["pending_reason"]) == (waiting["id"], True)
    node.exit(node.only().spec.allocation_id, "success")
    for _ in range(3):
        controller.tick()
    assert show(f"/experiments/{first}")["state"] == "COMPLETED"
    assert trial_of(second)["state"] == "STARTING"
    end(controller, node)
    assert show(f"/experiments/{second}")["state"] == "COMPLETED"
    (event,) = (
        e
        for e in show(f"/experiments/{second}/events")["items"]
        if e["type"] == "experiment.dependency"
    )
    assert event["message"] == f"It may start: what it waited for has ended: experiment {first}."


def test_a_failure_cancels_what_waits_for_success_and_starts_the_rest(
    controller, agent, submitted, show, trial_of
):
    node = agent(slots=1)
    first = submitted()
    strict = submitted(f"after: [{first}]")
    behind = submitted(f"after: [{strict}]")
    lenient = submitted(f"after: [{{experiment: {first}, when: any}}]")
    controller.tick()
    end(controller, node, "user_error")
    for _ in range(3):
        controller.tick()
    assert show(f"/experiments/{first}")["state"] == "FAILED"
    canceled = show(f"/experiments/{strict}")
    why = f"experiment {first}, which must be COMPLETED first (`after`), is FAILED"
    assert (canceled["state"], canceled["reason"]) == ("CANCELED", why)
    assert (trial_of(strict)["state"], trial_of(strict)["reason"]) == ("CANCELED", why)
    assert show(f"/experiments/{behind}")["reason"] == (
        f"experiment {strict}, which must be COMPLETED first (`after`), is CANCELED"
    )
    assert trial_of(lenient)["state"] == "STARTING"


def test_a_canceled_one_runs_when_it_is_continued(
    controller, agent, submitted, show, trial_of, member_client
):
    node = agent(slots=1)
    first = submitted()
    second = submitted(f"after: [{first}]")
    controller.tick()
    end(controller, node, "user_error")
    controller.tick()
    assert show(f"/experiments/{second}")["state"] == "CANCELED"
    member_client.post(f"/api/v1/experiments/{second}:continue", json={}).raise_for_status()
    controller.tick()
    assert trial_of(second)["state"] == "STARTING"


def test_it_can_be_stopped_while_it_waits(controller, agent, submitted, show, member_client):
    agent(slots=1)
    second = submitted(f"after: [{submitted()}]")
    controller.tick()
    member_client.post(f"/api/v1/experiments/{second}:stop").raise_for_status()
    for _ in range(2):
        controller.tick()
    found = show(f"/experiments/{second}")
    assert (found["state"], found["reason"]) == (
        "CANCELED",
        "stopped; nothing of it runs any more",
    )


def test_what_cannot_be_waited_for_is_refused(controller, agent, submitted, show):
    node = agent(slots=1)
    failed = submitted()
    controller.tick()
    end(controller, node, "user_error")
    error = submitted(f"after: [99, {failed}]", expect=422)
    fields = {f["path"]: f["message"] for f in error["fields"]}
    assert fields["after[0].experiment"] == "names experiment 99, which does not exist"
    assert fields["after[1].experiment"].endswith("is FAILED")
    assert "after[0]" in str(submitted("after: [x]", expect=422)["fields"])
    submitted(f"after: [{{experiment: {failed}, when: any}}]")


def test_what_somebody_has_queued_waits_while_their_account_is_deactivated(
    controller, agent, submitted, trial_of, admin_client, viewer_client
):
    node = agent(slots=2)
    users = {
        user["username"]: user["id"] for user in admin_client.get("/api/v1/users").json()["items"]
    }
    account = f"/api/v1/users/{users['member']}"
    running = submitted()
    controller.tick()
    start(controller, node)
    queued = submitted()
    assert admin_client.patch(account, json={"is_active": False}).status_code == 200
    for _ in range(2):
        controller.tick()
    assert len(node.poll()) == 1, "what runs goes on, and there is a free slot"
    waiting = trial_of(queued)
    assert waiting["state"] == "QUEUED"
    assert (
        "The account of its owner member is deactivated or refused by its provider"
        in waiting["pending_reason"]
    )
    assert [p["code"] for p in waiting["pending_parts"]] == [
        "pending.owner_deactivated", "help.owner_deactivated",
    ]  # fmt: skip
    (item,) = viewer_client.get("/api/v1/queue").json()["items"]
    assert item["pending_reason"] == waiting["pending_reason"]
    assert admin_client.patch(account, json={"is_active": True}).status_code == 200
    controller.tick()
    assert len(node.poll()) == 2
    assert trial_of(running)["state"] == "RUNNING"


def test_what_somebody_has_queued_waits_while_their_provider_refuses_them(
    controller, agent, submitted, trial_of, database
):
    node = agent(slots=2)
    queued = submitted()

    def refuse(at):
        with database.transaction() as session:
            session.execute(
                update(UserRow).where(UserRow.username == "member").values(provider_refused_at=at)
            )

    refuse(clock.now())
    for _ in range(2):
        controller.tick()
    assert node.poll() == {}
    reason = trial_of(queued)["pending_reason"]
    assert "The account of its owner member is deactivated or refused by its provider" in reason
    refuse(None)
    controller.tick()
    assert len(node.poll()) == 1
