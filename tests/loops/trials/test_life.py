"""Trials from submission to their end, through the real API, with agents that only talk."""

import datetime as dt

import time_machine

from muster.wire import CheckpointRecord, ExitInfo, StateRecord, WorkerRecord
from muster_server import clock
from muster_server.loops.runner import Controller

WORKER = WorkerRecord(
    local_rank=0, rank=0, world_size=1, node_rank=0, pid=1, host="n", master_addr="n", master_port=1
)


def in_(seconds):
    """A clock that runs ahead, for the controller."""
    return lambda: clock.now() + dt.timedelta(seconds=seconds)


def trial_of(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


def start(controller, agent, *, port=None):
    """Drive one agent's only allocation to RUNNING; its id."""
    allocation_id = agent.only().spec.allocation_id
    agent.get_ready(allocation_id, port=port)
    controller.tick()
    assert agent.only().desired == "start"
    agent.run(allocation_id)
    controller.tick()
    return allocation_id


def test_a_trial_runs_from_submission_to_completed(controller, agent, submit, show):
    node = agent(slots=2)
    experiment_id = submit(slots=2)
    controller.tick()

    assignment = node.only()
    assert assignment.desired == "prepare"
    assert assignment.spec.slots == [0, 1]
    assert assignment.spec.entrypoint == ["train.py"]
    assert assignment.spec.code.path == "/srv/code"
    assert show("/cluster")["num_slots_used"] == 2
    assert trial_of(show, experiment_id)["state"] == "STARTING"

    allocation_id = start(controller, node)
    assert trial_of(show, experiment_id)["state"] == "RUNNING"
    assert show(f"/experiments/{experiment_id}")["state"] == "RUNNING"

    node.exit(allocation_id)
    controller.tick()
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["termination"]) == ("COMPLETED", "success")
    assert trial["logs_complete"]
    assert show(f"/experiments/{experiment_id}")["state"] == "COMPLETED"
    assert show("/cluster")["num_slots_used"] == 0
    assert node.poll() == {}


def test_a_trial_that_began_and_ended_between_two_passes_ran_as_long_as_it_did(
    controller, agent, submit, show
):
    """It ran from when its first worker was heard of, not from when the controller looked."""
    node = agent(slots=1)
    experiment_ids = [submit(slots=1) for _ in range(2)]
    for experiment_id, cause in zip(experiment_ids, ("success", "user_error"), strict=True):
        controller.tick()
        allocation_id = node.only().spec.allocation_id
        node.get_ready(allocation_id)
        controller.tick()
        node.run(allocation_id)
        node.send(allocation_id, WORKER)
        node.exit(allocation_id, cause=cause)
        controller.tick(in_(20))
        trial = trial_of(show, experiment_id)
        assert trial["state"] == ("COMPLETED" if cause == "success" else "FAILED")
        times = [trial[name] for name in ("started_at", "ended_at")]
        # The list shows the experiment's times, the page those of its only trial.
        experiment = show(f"/experiments/{experiment_id}")
        assert [experiment[name] for name in ("started_at", "ended_at")] == times
        started, ended = (dt.datetime.fromisoformat(at) for at in times)
        assert 15 < (ended - started).total_seconds() < 25


def test_slots_that_are_held_are_told_apart_from_those_that_are_asked_for(
    controller, agent, submit, show
):
    node = agent(slots=1)
    experiment_id = submit(slots=4, min_slots=1)

    def held():
        trial = trial_of(show, experiment_id)
        experiment = show(f"/experiments/{experiment_id}")
        (listed,) = show("/experiments")["items"]
        assert experiment["num_slots_held"] == listed["num_slots_held"] == trial["num_slots_held"]
        assert (experiment["slots_per_trial"], trial["num_slots"]) == (4, 4)
        return trial["num_slots_held"]

    assert held() == 0
    controller.tick()
    assert held() == 1
    node.exit(start(controller, node))
    controller.tick()
    assert held() == 0


def test_what_is_in_no_checkpoint_is_said_before_a_pause(
    controller, agent, submit, show, member_client
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)

    def previewed(action):
        body = {"action": action, "ids": [experiment_id]}
        answer = member_client.post("/api/v1/experiments:bulk-preview", json=body)
        return answer.json()["unsaved"]

    controller.tick()
    assert show(f"/experiments/{experiment_id}")["unsaved"] is None
    allocation_id = start(controller, node)
    unsaved = show(f"/experiments/{experiment_id}")["unsaved"]
    assert unsaved["num_trials"] == 1
    assert 0 <= unsaved["longest_s"] < 60
    assert previewed("pause")["num_trials"] == previewed("kill")["num_trials"] == 1
    assert previewed("archive") is None
    node.send(
        allocation_id, CheckpointRecord(step=40, path="step-40", size_bytes=3, files={"a": "0"})
    )
    assert show(f"/experiments/{experiment_id}")["unsaved"] is None
    assert previewed("pause") is None


def test_a_gang_starts_only_when_every_node_is_ready(controller, agent, submit):
    first, second = agent("node-1", slots=1), agent("node-2", slots=1)
    submit(slots=2, nodes=2)
    controller.tick()
    one, two = first.only(), second.only()
    assert [one.spec.node_rank, two.spec.node_rank] == [0, 1]
    assert [one.spec.rank_offset, two.spec.rank_offset] == [0, 1]
    assert one.spec.world_size == two.spec.world_size == 2

    first.get_ready(one.spec.allocation_id, port=29500)
    controller.tick()
    assert first.only().desired == "prepare"

    second.get_ready(two.spec.allocation_id)
    controller.tick()
    for assignment in (first.only(), second.only()):
        assert assignment.desired == "start"
        assert assignment.rendezvous.port == 29500
        assert assignment.rendezvous.run_id == f"{one.spec.trial_id}.1"


def test_a_failing_member_stops_the_other_and_names_the_first_rank(controller, agent, submit, show):
    first, second = agent("node-1", slots=1), agent("node-2", slots=1)
    experiment_id = submit(slots=2, nodes=2)
    controller.tick()
    one, two = first.only().spec.allocation_id, second.only().spec.allocation_id
    first.get_ready(one, port=1234)
    second.get_ready(two)
    controller.tick()
    first.run(one)
    second.run(two)
    controller.tick()

    # The second to fail is the first to be heard.
    first.exit(one, "user_error", rank=0, at_ms=2000, message="connection reset")
    controller.tick()
    assert second.only().desired == "stop"
    assert trial_of(show, experiment_id)["state"] == "RUNNING"

    second.exit(two, "user_error", rank=1, at_ms=1000, message="KeyError: 'x'")
    controller.tick()
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["termination"]) == ("FAILED", "user_error")
    assert trial["attempts"][0]["root_rank"] == 1
    assert trial["attempts"][0]["root_log_tail"] == ["KeyError: 'x'"]
    assert trial["reason"].startswith("rank 1 on node-2 exited with code 1: KeyError: 'x'")
    experiment = show(f"/experiments/{experiment_id}")
    assert (experiment["state"], "KeyError" in experiment["reason"]) == ("FAILED", True)


def test_a_lost_node_moves_the_trial_and_its_checkpoint(controller, agent, submit, show, database):
    home, other = agent("node-1", slots=1), agent("node-2", slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, home)
    home.send(
        allocation_id, CheckpointRecord(step=40, path="step-40", size_bytes=3, files={"a": "0"})
    )

    other_beats(other, controller, from_s=0, until_s=20)
    assert trial_of(show, experiment_id)["flags"] == ["UNREACHABLE"]
    other_beats(other, controller, from_s=20, until_s=75)

    trial = trial_of(show, experiment_id)
    states = {attempt["no"]: attempt["state"] for attempt in trial["attempts"]}
    assert states == {1: "LOST", 2: "PREPARING"}
    assert (trial["state"], trial["attempt_no"]) == ("STARTING", 2)
    spec = other.only().spec
    assert (spec.attempt_no, spec.resume_step) == (2, 40)
    assert spec.resume_from == f"experiment-{experiment_id}/trial-1/step-40"
    nodes = {node["name"]: node for node in show("/nodes")["items"]}
    assert nodes["node-1"]["state"] == "LOST"
    assert nodes["node-1"]["num_slots_used"] == 1  # something may still run there

    # The node is back, and what it still runs is of a superseded attempt.
    home.beat(expect=410)
    reply = home.register(running=[home.running(allocation_id)])
    assert (reply.adopt, reply.forget) == ([], [allocation_id])
    late = home.send(allocation_id, StateRecord(observed="STOPPING"))
    assert late.superseded
    other.beat()
    home.beat(running=[allocation_id])
    controller.tick()
    assert node_state(show, "node-1") == ("RECONCILING", 1)
    home.beat(running=[])
    controller.tick()
    assert node_state(show, "node-1") == ("ONLINE", 0)


def node_state(show, name):
    (node,) = [n for n in show("/nodes")["items"] if n["name"] == name]
    return node["state"], node["num_slots_used"]


def other_beats(other, controller, *, from_s, until_s):
    """From `from_s` to `until_s` from now: `other` is heard, everybody else is not."""
    start = clock.now()
    for silent_s in range(from_s, until_s + 1, 5):
        with time_machine.travel(start + dt.timedelta(seconds=silent_s), tick=True):
            other.beat()
            controller.tick()


def test_a_stop_ends_canceled_and_frees_everything(controller, agent, submit, show, member_client):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    reply = member_client.post(f"/api/v1/experiments/{experiment_id}:stop")
    assert reply.status_code == 202
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "STOPPING"
    assignment = node.only()
    assert (assignment.desired, assignment.stop_reason) == ("stop", "stop requested by a user")

    node.state(allocation_id, "STOPPING")
    node.exit(allocation_id, "stopped")
    controller.tick()
    assert trial_of(show, experiment_id)["state"] == "CANCELED"
    assert show(f"/experiments/{experiment_id}")["state"] == "CANCELED"
    assert node.poll() == {}


def test_what_never_ran_is_canceled_on_the_spot(controller, submit, show, member_client):
    experiment_id = submit(slots=1)
    controller.tick()
    (item,) = show("/queue")["items"]
    assert item["position"] == 1
    assert item["pending_reason"].startswith(
        "Needs 1 cpu slot in pool default: no node there has cpu slots. "
    )
    member_client.post(f"/api/v1/experiments/{experiment_id}:stop")
    controller.tick()
    assert show(f"/experiments/{experiment_id}")["state"] == "CANCELED"
    assert show("/queue")["items"] == []


def test_every_step_is_told_in_a_sentence(controller, agent, submit, show):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    node.exit(start(controller, node))
    controller.tick()
    trial = trial_of(show, experiment_id)
    told = [event["message"] for event in show(f"/trials/{trial['id']}/events")["items"]]
    assert "Trial 1 is COMPLETED: every worker exited with 0." in told
    assert "Attempt 1 got 1 slot: 1 on node-1." in told
    assert "Attempt 1 is STARTING: every node is ready." in told


def test_an_end_that_may_not_be_what_it_says_is_told_everywhere(controller, agent, submit, show):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    doubt = "a Python process of the job ended with ValueError: bad"
    info = ExitInfo(cause="success", message="every worker exited with code 0", doubt=doubt)
    node.send(start(controller, node), StateRecord(observed="EXITED", exit=info))
    controller.tick()
    words = f"exit code 0, but {doubt}"
    trial = show(f"/trials/{trial_of(show, experiment_id)['id']}")
    assert (trial["state"], trial["reason"]) == ("COMPLETED", words)
    assert trial["notices"][0]["text"] == f"E{words[1:]}."
    experiment = show(f"/experiments/{experiment_id}")
    assert (experiment["state"], experiment["is_doubtful"]) == ("COMPLETED", True)
    assert experiment["reason"] == f"trial 1: {words}"
    (listed,) = show("/experiments")["items"]
    assert listed["is_doubtful"]
    told = [e["message"] for e in show(f"/experiments/{experiment_id}/events")["items"]]
    assert any(words in text for text in told)


def test_any_controller_goes_on_from_anywhere(database, settings, agent, submit, show):
    """A controller is killed after each single pass; the next one takes over."""
    settings = settings.model_copy(update={"controller_lease_s": 5.0})
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    num_killed = 0

    def pass_of_a_new_controller():
        nonlocal num_killed
        num_killed += 1
        fresh = Controller(database, settings)
        # By then the lease of the one before, which was killed, has expired.
        assert fresh.tick(in_(6 * num_killed))
        assert fresh.lease.epoch == num_killed

    pass_of_a_new_controller()
    allocation_id = node.only().spec.allocation_id
    for act in (
        lambda: node.state(allocation_id, "PREPARING"),
        lambda: node.state(allocation_id, "READY"),
        lambda: node.state(allocation_id, "STARTING"),
        lambda: node.state(allocation_id, "RUNNING"),
        lambda: node.exit(allocation_id),
    ):
        act()
        pass_of_a_new_controller()
        pass_of_a_new_controller()
    trial = trial_of(show, experiment_id)
    assert (trial["state"], trial["attempt_no"]) == ("COMPLETED", 1)
