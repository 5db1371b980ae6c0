"""Guards of running trials: what they do, once, whatever dies meanwhile."""

import dataclasses
import json
import os
import signal

import pytest
from sqlalchemy import select

from muster.wire import (
    CheckpointRecord,
    MetricsRecord,
    SampleSpan,
    SamplesRecord,
    SeriesPoints,
    WorkerRecord,
)
from muster_server import clock
from muster_server.db.models import TrialRow
from muster_server.domain.guards.deciding import decide
from muster_server.loops.guards import GuardLoop
from muster_server.services.core.writes import Outdated
from muster_server.services.runtime import guards
from support import preloaded
from support.agent import leave, start

ROLLBACK = """
hyperparameters: {lr: 0.1, optimizer: {name: sgd}}
guards:
  - {metric: train/loss, not_finite: true, action: rollback, set: {lr: x0.5}}
"""
WORKER = WorkerRecord(
    local_rank=0, rank=0, world_size=1, node_rank=0, pid=1, host="h", master_addr="", master_port=1
)


def values(*given, first=1, name="train/loss"):
    steps = list(range(first, first + len(given)))
    points = SeriesPoints(
        name=name, steps=steps, times_ms=[1000 * s for s in steps], values=list(given)
    )
    return MetricsRecord(local_rank=0, rank=0, series=[points], step=steps[-1])


def saved(step):
    return CheckpointRecord(step=step, path=f"step-{step}", size_bytes=1, files={"a": "0"})


@pytest.fixture
def running(controller, agent, submit, show):
    """`running(document)` is (agent, allocation id, trial id) of a trial that runs."""

    def make(document, **node_options):
        node = agent(slots=1, **node_options)
        experiment_id = submit(document, slots=1)
        controller.tick()
        allocation_id = start(controller, node, WORKER)
        (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
        return node, allocation_id, trial["id"]

    return make


@pytest.fixture
def fired(show):
    def get(trial_id):
        return show(f"/trials/{trial_id}/events?type=guard.fired")["items"]

    return get


def end_attempt(controller, node, allocation_id):
    node.exit(allocation_id, "stopped")
    controller.tick()
    controller.tick()


def test_a_loss_that_is_not_finite_takes_the_trial_back(controller, running, show, fired):
    node, allocation_id, trial_id = running(ROLLBACK)
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(2), saved(3))
    controller.tick()
    assert fired(trial_id) == []

    node.send(allocation_id, values("NaN", "NaN", first=4))
    controller.tick()

    (event,) = fired(trial_id)
    # The checkpoint of step 3 may hold what the loss of step 4 showed.
    assert event["message"] == (
        "Guard 1 acted at step 4: train/loss is NaN. It goes back to the checkpoint of step 2. lr is 0.05 "
        "instead of 0.1."
    )
    assert [part["code"] for part in event["data"].pop("parts")] == [
        "guard.fired", "guard.nan", "guard.goes_back", "guard.changed",
    ]  # fmt: skip
    assert event["data"] == {
        "guard": 1, "step": 4, "value": "NaN", "limit": None, "action": "rollback",
        "checkpoint_step": 2, "changed": {"lr": [0.1, 0.05]},
    }  # fmt: skip
    assert node.only().desired == "stop"
    assert node.only().stop_kind == "guard"

    leave(controller, node, allocation_id, step=5)  # which is what nothing must start from
    controller.tick()
    spec = node.only().spec
    assert (spec.attempt_no, spec.resume_step, spec.hparams["lr"]) == (2, 2, 0.05)
    assert spec.resume_from.endswith("step-2")
    trial = show(f"/trials/{trial_id}")
    assert trial["hparams"] == {"lr": 0.05, "optimizer": {"name": "sgd"}}
    assert trial["hparams_before"] == {"lr": 0.1, "optimizer": {"name": "sgd"}}
    assert trial["num_restarts"] == 0
    assert trial["attempts"][1]["termination"] == "guard"

    second = start(controller, node, WORKER)
    node.send(second, values("NaN", first=3))
    controller.tick()
    assert len(fired(trial_id)) == 1  # max_times is 1


def samples(position, *saves):
    span = SampleSpan(
        first_epoch=0,
        first=0,
        last_epoch=0,
        last=position,
        num_samples=1000,
        num_ranks=1,
        order="o",
    )
    return SamplesRecord(
        local_rank=0, rank=0, spans=[span], saves=[[step, 0, at, 0, 0, 1] for step, at in saves]
    )


def test_a_training_skips_the_samples_of_the_steps_it_went_back(controller, running, fired, show):
    skips = (
        ROLLBACK.replace("x0.5}", "x0.5}, skip_samples: true, max_times: 3")
        + "restarts: {user: 3}\n"
    )
    node, allocation_id, trial_id = running(skips)

    def place_again():
        controller.tick()
        with controller.database.transaction() as session:
            session.get_one(TrialRow, trial_id).not_before = clock.now()
        controller.tick()
        controller.tick()

    told = samples(40, (2, 16))
    node.send(allocation_id, told, values(1.0, 0.9, 0.8, "NaN"), saved(2))
    controller.tick()
    (event,) = fired(trial_id)
    assert event["data"]["num_skipped"] == 16
    assert event["message"].endswith(
        "It goes on 16 samples later, behind those of the steps since."
    )
    leave(controller, node, allocation_id, step=4)
    controller.tick()
    spec = node.only().spec
    assert (spec.resume_step, spec.skip_samples) == (2, 16)
    # It dies before it has saved anything, and skips the same samples again.
    node.exit(start(controller, node, WORKER), "user_error")
    place_again()
    assert (node.only().spec.resume_step, node.only().spec.skip_samples) == (2, 16)
    # Trouble again: what was skipped stays so.
    second = start(controller, node, WORKER)
    node.send(second, values(0.8, "NaN", first=3))
    controller.tick()
    assert fired(trial_id)[0]["data"]["num_skipped"] == 16
    leave(controller, node, second, step=4)
    controller.tick()
    assert (node.only().spec.resume_step, node.only().spec.skip_samples) == (2, 32)
    # A checkpoint that was saved since has its place behind them.
    third = start(controller, node, WORKER)
    node.send(third, values(0.5, first=3), saved(3))
    node.exit(third, "user_error")
    place_again()
    assert (node.only().spec.resume_step, node.only().spec.skip_samples) == (3, 0)


def test_without_a_word_of_samples_none_are_skipped(controller, running, fired):
    skips = ROLLBACK.replace("{lr: x0.5}", "{lr: x0.5}, skip_samples: true")
    node, allocation_id, trial_id = running(skips)
    node.send(allocation_id, values(1.0, 0.9, 0.8, "NaN"), saved(2))
    controller.tick()
    (event,) = fired(trial_id)
    assert event["data"]["num_skipped"] == 0
    assert "It skips no samples" in event["message"]
    leave(controller, node, allocation_id, step=4)
    controller.tick()
    assert (node.only().spec.resume_step, node.only().spec.skip_samples) == (2, 0)


def test_later_attempts_do_not_start_from_what_a_guard_went_back_from(controller, running, show):
    node, allocation_id, trial_id = running(ROLLBACK + "restarts: {user: 3}\n")
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(2), saved(4), values("NaN", first=5))
    controller.tick()
    leave(controller, node, allocation_id, step=6)
    controller.tick()
    node.exit(start(controller, node, WORKER), "user_error")
    controller.tick()
    checkpoints = show(f"/trials/{trial_id}/checkpoints")["items"]
    assert {c["step"] for c in checkpoints} == {2, 4, 6}, "nothing is deleted"
    assert [c["step"] for c in checkpoints if c["is_latest"]] == [2]
    with controller.database.transaction() as session:
        session.get_one(TrialRow, trial_id).not_before = clock.now()
    controller.tick()
    controller.tick()
    third = node.only().spec
    assert (third.attempt_no, third.resume_step) == (3, 2)

    # What the new attempts save counts.
    third_id = start(controller, node, WORKER)
    node.send(third_id, saved(3))
    leave(controller, node, third_id, step=3)
    assert [
        c["attempt_no"] for c in show(f"/trials/{trial_id}/checkpoints")["items"] if c["is_latest"]
    ] == [3]


def test_without_a_checkpoint_from_before_it_says_so(controller, running, show, fired):
    document = ROLLBACK.replace("action:", "otherwise: stop, action:")
    node, allocation_id, trial_id = running(document)
    node.send(allocation_id, values(1.0, "NaN"), saved(2))
    controller.tick()
    (event,) = fired(trial_id)
    assert event["message"].endswith(
        "train/loss is NaN. No checkpoint from before the trouble exists. The trial is stopped."
    )
    assert node.only().desired == "kill"
    end_attempt(controller, node, allocation_id)
    trial = show(f"/trials/{trial_id}")
    assert (trial["state"], trial["reason"]) == ("CANCELED", "guard 1: train/loss is NaN")
    assert trial["hparams_before"] is None


@pytest.mark.parametrize(("action", "desired"), [("stop", "kill"), ("checkpoint_and_stop", "stop")])
def test_stopping(controller, running, show, action, desired):
    document = f"guards: [{{metric: train/loss, above: 10, action: {action}}}]\n"
    node, allocation_id, trial_id = running(document)
    node.send(allocation_id, values(1.0, 11.0))
    controller.tick()
    assert node.only().desired == desired
    end_attempt(controller, node, allocation_id)
    trial = show(f"/trials/{trial_id}")
    assert (trial["state"], trial["reason"]) == (
        "CANCELED", "guard 1: train/loss 11 is above 10",
    )  # fmt: skip


def test_a_notice_changes_nothing_and_is_sent(
    controller, running, fired, show, member_client, viewer_client
):
    member_client.post(
        "/api/v1/notifications/rules", json={"kinds": ["guard.fired"], "inbox": True}
    )
    node, allocation_id, trial_id = running(
        "guards: [{metric: train/loss, above: 10, action: notify}]\n"
    )
    node.send(allocation_id, values(1.0, 11.0))
    controller.tick()
    assert len(fired(trial_id)) == 1
    assert node.only().desired == "start"
    sent = member_client.get("/api/v1/notifications/inbox").json()["items"]
    assert [n["kind"] for n in sent] == ["guard.fired"]


def test_a_script_that_fails_right_after_the_value_goes_on_all_the_same(controller, running, show):
    node, allocation_id, trial_id = running(ROLLBACK)
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(1), values("NaN", first=4))
    node.exit(allocation_id, "user_error", message="AssertionError: the loss is not finite")
    controller.tick()
    controller.tick()
    assert show(f"/trials/{trial_id}")["state"] in ("QUEUED", "STARTING")
    assert node.only().spec.resume_step == 1


def test_the_last_values_of_an_attempt_count_also_when_it_has_ended(
    controller, running, fired, show, monkeypatch
):
    node, allocation_id, trial_id = running(ROLLBACK + "restarts: {user: 1}\n")
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(1), saved(4), values("NaN", first=5))
    node.exit(allocation_id, "user_error")
    with monkeypatch.context() as patch:
        # They came between the pass of the guards and that of the lifecycle.
        patch.setattr(GuardLoop, "run", lambda *_, **__: 0)
        controller.tick()
    assert (show(f"/trials/{trial_id}")["state"], fired(trial_id)) == ("RETRY_WAIT", [])
    controller.tick()
    assert len(fired(trial_id)) == 1
    with controller.database.transaction() as session:
        session.get_one(TrialRow, trial_id).not_before = clock.now()
    controller.tick()
    spec = node.only().spec
    assert (spec.resume_step, spec.hparams["lr"]) == (1, 0.05)


def test_restarting_elsewhere(controller, running, agent, fired, show):
    document = (
        "guards: [{metric: throughput/samples_per_s, below: 10, action: restart_elsewhere,"
        " otherwise: stop}]\n"
    )
    node, allocation_id, trial_id = running(document)
    other = agent("node-2", slots=1)
    node.send(allocation_id, values(50.0, 5.0, name="throughput/samples_per_s"), saved(2))
    controller.tick()
    (event,) = fired(trial_id)
    assert event["message"].endswith("is below 10. It restarts without node-1.")
    end_attempt(controller, node, allocation_id)
    assert other.only().spec.resume_step == 2


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("metric: throughput/samples_per_s, below: 10", "throughput/samples_per_s 5 is below 10"),
        (
            "straggler: {share: 0.3, minutes: 0.1}",
            "rank 1 has held up the others for 59% of the step over 0.1 min",
        ),
    ],
)
def test_only_the_node_that_holds_up_the_others_is_left(
    controller, agent, submit, fired, show, condition, why, member_client
):
    nodes = [agent(f"node-{no}", slots=1) for no in (1, 2, 3)]
    guard = f"{{{condition}, action: restart_elsewhere}}"
    experiment_id = submit(f"guards: [{guard}]\n", slots=2, nodes=2)
    controller.tick()
    members = [node for node in nodes if node.poll()]
    ids = [node.only().spec.allocation_id for node in members]
    for rank, (node, allocation_id) in enumerate(zip(members, ids, strict=True)):
        node.get_ready(allocation_id, port=1234 if rank == 0 else None)
    controller.tick()
    for rank, (node, allocation_id) in enumerate(zip(members, ids, strict=True)):
        node.run(allocation_id)
        worker = dataclasses.replace(WORKER, rank=rank, node_rank=rank, world_size=2)
        node.send(allocation_id, worker)
    controller.tick()
    for rank, (node, allocation_id) in enumerate(zip(members, ids, strict=True)):
        for name, value in (("time/step_ms", 100.0), ("comm/exposed_ms", 1.0 if rank else 60.0)):
            record = values(*[value] * 15, name=name)
            node.send(allocation_id, dataclasses.replace(record, rank=rank))
        if not rank and "straggler" in condition:
            # What the other rank measures has not come yet.
            controller.tick()
            assert fired(show(f"/experiments/{experiment_id}/trials")["items"][0]["id"]) == []
    members[0].send(ids[0], values(50.0, 5.0, name="throughput/samples_per_s"), saved(2))
    controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    (event,) = fired(trial["id"])
    late = members[1].name
    assert event["data"]["nodes"] == [late]
    assert event["message"].endswith(
        f"{why}. It restarts without {late}, where rank 1 held up the others."
    )
    reply = member_client.post(f"/api/v1/trials/{trial['id']}/guards:try", json={})
    (tried,) = reply.json()["items"]
    assert tried["text"].startswith(f"Would have acted at step {event['data']['step']:,}: {why}.")


def test_what_one_worker_waits_for_is_not_guessed(controller, running, fired, member_client):
    guard = "guards: [{straggler: {minutes: 0}, action: stop}]\n"
    node, allocation_id, trial_id = running(guard)
    for name in ("time/step_ms", "comm/exposed_ms"):
        node.send(allocation_id, values(*[90.0] * 20, name=name))
    controller.tick()
    assert fired(trial_id) == []
    reply = member_client.post(f"/api/v1/trials/{trial_id}/guards:try", json={})
    assert reply.json()["items"][0]["text"] == (
        "Cannot be judged: the trial has one worker, and nobody waits for it."
    )


def test_restarting_elsewhere_where_there_is_no_other_node(controller, running, fired):
    document = "guards: [{metric: train/loss, above: 10, action: restart_elsewhere}]\n"
    node, allocation_id, trial_id = running(document)
    node.send(allocation_id, values(1.0, 11.0))
    controller.tick()
    (event,) = fired(trial_id)
    assert event["message"].endswith("is above 10. No other node can run it.")
    assert node.only().desired == "start"


def test_no_step_for_a_while(controller, running, fired, time_machine):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    node, allocation_id, trial_id = running("guards: [{no_step_for_min: 5, action: notify}]\n")
    node.send(allocation_id, values(1.0, 0.9))
    controller.tick()
    for seconds in range(5, 400, 5):
        time_machine.shift(5)
        node.beat()
        controller.tick()
        assert len(fired(trial_id)) == (seconds >= 300), seconds
    assert fired(trial_id)[0]["message"] == (
        "Guard 1 acted at step 2: there has been no step for 5 min."
    )


def test_a_start_that_takes_long_is_no_standstill(controller, running, fired, time_machine):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    node, _, trial_id = running("guards: [{no_step_for_min: 5, action: notify}]\n")
    for seconds in range(5, 700, 5):
        time_machine.shift(5)
        node.beat()
        controller.tick()
        assert len(fired(trial_id)) == (seconds >= 600), seconds


def test_what_a_user_has_stopped_is_left_alone(controller, running, fired, member_client, show):
    node, allocation_id, trial_id = running(ROLLBACK)
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(1), values("NaN", first=4))
    assert member_client.post(f"/api/v1/trials/{trial_id}:stop").status_code == 202
    controller.tick()
    assert [
        e["message"].endswith("is already being stopped or paused.") for e in fired(trial_id)
    ] == [True]
    end_attempt(controller, node, allocation_id)
    assert show(f"/trials/{trial_id}")["state"] == "CANCELED"


# ---------------------------------------------------------------- crashes


@pytest.fixture
def tick_and_die(settings):
    """`tick_and_die(at)` starts another controller process, which kill -9 ends before the statement or
    commit with this number since it has read what guards have seen; whether it came to that."""
    names = ("database_url", "controller_lease_s", "takeover_grace_s", "heartbeat_s", "node_lost_s")
    given = json.dumps({name: getattr(settings, name) for name in names})

    def start(at):
        done = preloaded.run(
            [preloaded.DYING_CONTROLLER, "guard_states", str(at), given],
            environment=os.environ,
            timeout_s=60,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode != 0

    return start


DONE = {
    # action → what the trial has then and had not before
    "notify": {},
    "stop": {"desired": "kill"},
    "checkpoint_and_stop": {"desired": "stop"},
    "rollback": {"yields": 1, "lr": 0.05},
    "restart_elsewhere": {"yields": 1, "avoided": 1},
}


@pytest.mark.parametrize("action", DONE)
def test_a_controller_killed_at_any_moment_neither_loses_nor_repeats_what_a_guard_does(
    running, agent, fired, show, database, tick_and_die, action
):
    document = f"""
hyperparameters: {{lr: 0.1}}
guards:
  - metric: train/loss
    not_finite: true
    action: {action}
    max_times: 5
"""
    if action == "rollback":
        document += "    set: {lr: x0.5}\n"
    node, allocation_id, trial_id = running(document)
    agent("node-2", slots=1)
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(1), values("NaN", first=4))

    def facts():
        events = show(f"/trials/{trial_id}/events")["items"]
        trial = show(f"/trials/{trial_id}")
        with database.read() as session:
            avoided = session.get_one(TrialRow, trial_id).avoided
        return {
            "desired": trial["desired"],
            "lr": trial["hparams"]["lr"],
            "yields": sum(event["type"] == "attempt.yield" for event in events),
            "avoided": len(avoided or ()),
        }

    before = facts()
    assert before == {"desired": "run", "lr": 0.1, "yields": 0, "avoided": 0}
    seen = []
    # Each process takes over what the one before has left, up to some after it was done.
    while seen[-4:] != [1] * 4:
        assert tick_and_die(len(seen)), "it ended before it was killed"
        seen.append(len(fired(trial_id)))
        assert facts() == (before | DONE[action] if seen[-1] else before)
    assert (seen[0], sorted(seen)) == (0, seen)
    assert len(seen) > 10
    assert not tick_and_die(10_000)
    assert (len(fired(trial_id)), facts()) == (1, before | DONE[action])


def test_two_controllers_that_judge_the_same_values_act_once(controller, running, fired, database):
    node, allocation_id, trial_id = running(ROLLBACK)
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(1), values("NaN", first=4))
    now = clock.now()
    with database.read() as session:
        (found,) = guards.load_new(session, after=0, listening_since=now, now=now)
    decision = decide(found)
    with database.transaction() as session:
        guards.carry_out(session, decision, now=now)
    with pytest.raises(Outdated), database.transaction() as session:
        guards.carry_out(session, decision, now=now)
    assert len(fired(trial_id)) == 1


def test_values_come_in_pieces_and_none_is_judged_twice(controller, running, fired, monkeypatch):
    monkeypatch.setattr(guards, "POINTS_PER_PASS", 3)
    document = "guards: [{metric: train/loss, above: 10, action: notify, max_times: 9}]\n"
    node, allocation_id, trial_id = running(document)
    given = [1.0, 11.0, *[1.0] * 5, 12.0, *[1.0] * 6, 13.0]
    for place in range(0, len(given), 4):
        node.send(allocation_id, values(*given[place : place + 4], first=place + 1))
        controller.tick()
    assert [e["data"]["value"] for e in reversed(fired(trial_id))] == [11.0, 12.0, 13.0]


def test_a_deleted_experiment_leaves_nothing(controller, running, member_client, database):
    from muster_server.db.models import GuardStatesRow

    node, allocation_id, _trial_id = running(
        "guards: [{metric: train/loss, above: 10, action: checkpoint_and_stop}]\n"
    )
    node.send(allocation_id, values(1.0, 11.0))
    controller.tick()
    end_attempt(controller, node, allocation_id)
    assert member_client.delete("/api/v1/experiments/1").status_code < 300
    controller.tick()
    with database.read() as session:
        assert session.scalars(select(GuardStatesRow)).all() == []


def test_a_trial_that_is_to_leave_need_make_no_steps(controller, running, fired, time_machine):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    document = ROLLBACK + "  - {no_step_for_min: 0.1, action: checkpoint_and_stop}\n"
    node, allocation_id, trial_id = running(document)
    node.send(allocation_id, values(1.0, 0.9, 0.8), saved(1), values("NaN", first=4))
    for _ in range(5):
        controller.tick()
        time_machine.shift(5)
        node.beat()
    assert [e["data"]["guard"] for e in fired(trial_id)] == [1]
