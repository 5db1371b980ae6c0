"""A trial that does not move: what its ranks say, who is named, and that its stacks are taken."""

import dataclasses

import pytest
from sqlalchemy import update

from muster import wire
from muster.wire import GroupProgress, ProgressRecord, StacksRecord, WorkerProgress, WorkerRecord
from muster_server import clock
from muster_server.db.models import NodeRow
from muster_server.loops.stuck import StuckLoop
from muster_server.services.runtime.progress import StuckAttempt
from muster_server.services.runtime.quiet import QuietChange
from support.agent import start

START = "2026-03-01T12:00:00Z"


def worker(rank):
    return WorkerRecord(
        local_rank=rank,
        rank=rank,
        world_size=2,
        node_rank=0,
        pid=100 + rank,
        host="h",
        master_addr="127.0.0.1",
        master_port=1,
    )


def progress(rank, enqueued, completed, **more):
    values = {
        "local_rank": rank,
        "rank": rank,
        "process": "sleeps",
        "reports": True,
        "num_reports": completed,
        "step": completed,
        "phase": "backward",
        "groups": [
            GroupProgress(
                group="world", kind="all_reduce", num_enqueued=enqueued, num_completed=completed
            )
        ],
    }
    return WorkerProgress(**values | more)


@pytest.fixture
def running(controller, agent, submit, show, time_machine):
    """A fake agent with a trial of two ranks; (agent, allocation id, trial id)."""
    time_machine.move_to(START, tick=False)
    node = agent(slots=2)
    experiment_id = submit(slots=2)
    controller.tick()
    allocation_id = start(controller, node, worker(0), worker(1))
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return node, allocation_id, trial["id"]


def elapse(time_machine, controller, node, seconds):
    """The node beats meanwhile, and the controller looks."""
    while seconds > 0:
        time_machine.shift(min(10, seconds))
        seconds -= 10
        node.beat()
        controller.tick()


def events(show, trial_id):
    return [e for e in show(f"/trials/{trial_id}/events")["items"] if e["type"] == "trial.stuck"]


def test_the_rank_that_holds_up_the_others_is_named_and_stacks_are_kept_once(
    running, controller, show, time_machine, muster
):
    node, allocation_id, trial_id = running
    path = f"/trials/{trial_id}/progress"
    assert show(path)["state"] == "unknown"

    hung = progress(1, 7, 7, phase="forward")
    node.send(allocation_id, ProgressRecord(workers=[progress(0, 7, 7), progress(1, 6, 6)]))
    elapse(time_machine, controller, node, 100)
    node.send(allocation_id, ProgressRecord(workers=[progress(0, 8, 7), hung]))
    found = show(path)
    assert (found["state"], found["blamed"]) == ("moving", [])
    assert [r["step"] for r in found["ranks"]] == [7, 7]

    elapse(time_machine, controller, node, 60)
    # That it is stopped now is news, and no progress.
    node.send(allocation_id, ProgressRecord(workers=[progress(0, 8, 7), hung]))
    found = show(path)
    assert (found["state"], found["still_s"]) == ("still", 60.0)
    assert [(b["rank"], b["kind"], b["group"]) for b in found["blamed"]] == [(1, "absent", "world")]
    controller.tick()
    assert events(show, trial_id) == []
    assert node.only().stacks_no == 0

    elapse(time_machine, controller, node, 121)
    for _ in range(2):
        controller.tick()
        elapse(time_machine, controller, node, 20)
    (event,) = events(show, trial_id)
    assert event["level"] == "warning"
    assert "Rank 1 on node-1 has not called collective 8 of world" in event["message"]
    # Once when it was quiet, once when it was stuck.
    assert (node.only().stacks_no, node.only().desired) == (2, "start")
    assert show(f"/trials/{trial_id}")["state"] == "RUNNING"

    shown = muster("progress", f"{show(f'/trials/{trial_id}')['experiment_id']}.1")
    assert shown.exit_code == 0
    assert "Rank 1 on node-1 has not called collective 8 of world" in shown.output.replace(
        "\n", " "
    )


def test_what_nccl_and_the_stacks_say_is_one_verdict_with_the_counts(
    running, controller, show, time_machine, muster
):
    node, allocation_id, trial_id = running
    node.send(allocation_id, ProgressRecord(workers=[progress(0, 8, 7), progress(1, 8, 7)]))
    elapse(time_machine, controller, node, 60)
    found = show(f"/trials/{trial_id}/progress")
    assert (found["blamed"], found["evidence"]) == ([], [])
    status = (
        "#0-0 (ab12cd34) MISMATCH\n  1 rank has launched up to operation 8\n"
        "  1 rank has launched up to operation 7: rank 1 (GPU 1 managed by process 9 on node n)\n"
    )
    stack = 'Current thread 0x1 (most recent call first):\n  File "/job/train.py", line 9 in f\n'
    for rank, text in ((wire.RAS_RANK, status), (0, stack), (1, stack)):
        record = StacksRecord(no=1, local_rank=rank, rank=rank, text=text, problem="")
        node.send(allocation_id, record)
    found = show(f"/trials/{trial_id}/progress")
    assert [(b["rank"], b["kind"]) for b in found["blamed"]] == [(1, "absent")]
    assert [(e["witness"], e["text"]) for e in found["evidence"]] == [
        ("nccl", "By NCCL's own status, rank 1 has launched operation 7, others 8."),
        ("stacks", "Rank 1 stands at train.py:9 in f."),
    ]
    assert found["evidence"][1]["text_parts"][0]["code"] == "stuck.by_stack"
    shown = muster("stuck", f"{show(f'/trials/{trial_id}')['experiment_id']}.1")
    assert shown.exit_code == 0
    assert "Stacks: Rank 1 stands at train.py:9 in f." in shown.output
    # Once they move again, what was seen before says nothing.
    node.send(allocation_id, ProgressRecord(workers=[progress(0, 9, 8), progress(1, 9, 8)]))
    elapse(time_machine, controller, node, 60)
    found = show(f"/trials/{trial_id}/progress")
    assert (found["state"], found["blamed"], found["evidence"]) == ("still", [], [])


def test_once_it_has_ended_it_is_said_who_held_up_the_others(
    running, controller, show, time_machine
):
    node, allocation_id, trial_id = running
    dumped = GroupProgress(
        group="world", kind="all_reduce", num_enqueued=8, num_completed=7, source="train.py:9 in f"
    )
    waits = progress(0, 8, 7, process="", groups=[dumped])
    late = progress(1, 7, 7, process="")
    node.send(allocation_id, ProgressRecord(workers=[waits, late]))
    node.exit(allocation_id, "user_error")
    controller.tick()
    found = show(f"/trials/{trial_id}/progress")
    assert (found["state"], [b["rank"] for b in found["blamed"]]) == ("over", [1])
    assert "an all_reduce in which 1 other waits at train.py:9 in f" in found["reason"]
    assert [r["rank"] for r in found["ranks"]] == [0, 1]


def test_a_controller_that_has_just_begun_and_a_node_that_is_not_heard_say_nothing(
    running, database, time_machine
):
    node, allocation_id, _ = running
    both = [progress(0, 8, 7), progress(1, 7, 7)]
    node.send(allocation_id, ProgressRecord(workers=both))
    time_machine.shift(500)
    loop = StuckLoop(database, after_s=180)
    found = []
    for seconds in (0, 170, 20):
        time_machine.shift(seconds)
        with database.read() as session:
            found.append([type(d) for d in loop.load(session, lease=None, now=clock.now())])
    assert found == [[], [], [QuietChange, StuckAttempt]]
    with database.transaction() as session:
        session.execute(update(NodeRow).values(state="SUSPECT"))
    time_machine.shift(20)
    with database.read() as session:
        assert loop.load(session, lease=None, now=clock.now()) == []


def test_stopped_and_silent_ranks_are_named(running, show, time_machine):
    node, allocation_id, trial_id = running
    both = [progress(0, 8, 7), progress(1, 7, 7)]
    node.send(allocation_id, ProgressRecord(workers=both))
    time_machine.shift(31)
    node.beat()
    both[1] = dataclasses.replace(both[1], process="stopped")
    node.send(allocation_id, ProgressRecord(workers=both))
    found = show(f"/trials/{trial_id}/progress")
    assert [(b["rank"], b["kind"]) for b in found["blamed"]] == [(1, "stopped")]


def test_stacks_are_asked_for_kept_for_the_last_times_and_shown(
    running, member_client, viewer_client, show, muster
):
    node, allocation_id, trial_id = running
    path = f"/api/v1/trials/{trial_id}"
    assert viewer_client.post(f"{path}:stacks").status_code == 403
    assert show(f"/trials/{trial_id}/stacks")["ranks"] == []
    for no in range(1, 8):
        index = node.client.get(
            "/agent/v1/assignments",
            params={"node_id": node.node_id, "session_epoch": node.epoch, "wait": 0},
        ).json()["index"]
        asked = member_client.post(f"{path}:stacks").json()
        assert (asked["no"], asked["num_expected"], asked["ranks"]) == (no, 2, [])
        assert node.poll(index=index)[allocation_id].stacks_no == no  # its poll was answered
        node.send(
            allocation_id,
            StacksRecord(no=no, local_rank=1, rank=1, problem="the process is stopped"),
            StacksRecord(no=no, local_rank=0, rank=0, text=f"Thread {no}\0 " + "x" * 70_000),
        )
    found = show(f"/trials/{trial_id}/stacks")
    assert (found["no"], found["kept"]) == (7, [3, 4, 5, 6, 7])
    first, second = found["ranks"]
    assert (first["rank"], first["is_cut"], len(first["text"])) == (0, True, 65_536)
    assert (second["problem"], second["text"]) == ("the process is stopped", "")
    assert show(f"/trials/{trial_id}/stacks?no=3")["ranks"][0]["rank"] == 0

    shown = muster("stacks", f"{show(f'/trials/{trial_id}')['experiment_id']}.1", "--last")
    assert shown.exit_code == 0, shown.output
    assert "no stacks: the process is stopped" in shown.output

    node.exit(allocation_id)
    refused = member_client.post(f"{path}:stacks")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "trials.not_running")
    assert show(f"/trials/{trial_id}/progress")["state"] == "over"


def test_a_stuck_attempt_is_ended_and_starts_again_where_the_document_says_so(
    controller, agent, submit, show, time_machine
):
    time_machine.move_to(START, tick=False)
    node = agent(slots=2)
    experiment_id = submit("restarts: {stuck_after_s: 90}", slots=2)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    node.send(allocation_id, worker(0), worker(1))
    both = [progress(0, 8, 7), progress(1, 7, 7)]
    node.send(allocation_id, ProgressRecord(workers=both))
    controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]

    def after(seconds):
        elapse(time_machine, controller, node, seconds)
        controller.tick()
        return show(f"/trials/{trial['id']}")["state"]

    # A controller that has just begun does not know since when: it waits as long as for the event.
    assert after(100) == "RUNNING"
    assert events(show, trial["id"]) == []
    assert after(85) == "RUNNING"
    (event,) = events(show, trial["id"])
    assert event["message"].endswith(
        "Its stacks are kept; once nothing has moved for 90 s it is ended and starts again."
    )
    assert (node.only().stacks_no, node.only().desired) == (2, "start")
    # Only what still does not move is ended.
    node.send(allocation_id, ProgressRecord(workers=[progress(0, 9, 9), progress(1, 9, 9)]))
    assert after(60) == "RUNNING"
    assert node.only().desired == "start"
    assert after(40) == "RUNNING"
    assert node.only().desired == "stop"
    (attempt,) = show(f"/trials/{trial['id']}")["attempts"]
    assert (attempt["state"], attempt["termination"]) == ("FAILED", "stuck")
    assert attempt["reason"].startswith("nothing has moved for 90 s. ")
    assert attempt["reason"].endswith(" (restarts.stuck_after_s is 90 s)")
    node.exit(allocation_id, cause="stopped")
    found = after(1)
    assert found in ("RETRY_WAIT", "STARTING")
    reason = show(f"/trials/{trial['id']}")["reason"]
    assert "infra restart (1 of 3 used)" in reason or found == "STARTING"


def quiet_events(show, trial_id):
    return [e for e in show(f"/trials/{trial_id}/events")["items"] if e["type"] == "trial.quiet"]


def test_a_trial_that_says_and_steps_nothing_is_quiet_once_per_silence(
    running, controller, show, time_machine, muster
):
    """It prints nothing for two minutes; then it prints; then it is quiet for four, and no less."""
    node, allocation_id, trial_id = running
    experiment_id = show(f"/trials/{trial_id}")["experiment_id"]
    elapse(time_machine, controller, node, 100)
    node.log(allocation_id, "downloading")
    elapse(time_machine, controller, node, 110)
    assert (quiet_events(show, trial_id), show(f"/trials/{trial_id}")["flags"]) == ([], [])
    elapse(time_machine, controller, node, 60)
    (event,) = quiet_events(show, trial_id)
    assert event["level"] == "info"
    assert "printed nothing and made no step for more than two minutes" in event["message"]
    trial = show(f"/trials/{trial_id}")
    assert (trial["state"], trial["flags"], len(trial["notices"])) == ("RUNNING", ["QUIET"], 1)
    assert node.only().stacks_no == 1
    assert show(f"/experiments/{experiment_id}")["is_quiet"]
    assert "RUNNING quiet" in muster("list").output

    node.log(allocation_id, "training")
    elapse(time_machine, controller, node, 20)
    assert show(f"/trials/{trial_id}")["flags"] == []
    assert not show(f"/experiments/{experiment_id}")["is_quiet"]
    elapse(time_machine, controller, node, 200)
    assert len(quiet_events(show, trial_id)) == 1
    elapse(time_machine, controller, node, 60)
    assert len(quiet_events(show, trial_id)) == 2
    assert node.only().stacks_no == 2

    moving = [progress(0, 1, 1), progress(1, 1, 1)]
    node.send(allocation_id, ProgressRecord(workers=moving))
    elapse(time_machine, controller, node, 20)
    assert show(f"/trials/{trial_id}")["flags"] == []


def test_a_quiet_trial_that_starts_again_is_not_quiet_while_it_waits(
    running, controller, show, time_machine
):
    node, allocation_id, trial_id = running
    elapse(time_machine, controller, node, 240)
    assert show(f"/trials/{trial_id}")["flags"] == ["QUIET"]
    node.exit(allocation_id, "user_error")
    elapse(time_machine, controller, node, 20)
    trial = show(f"/trials/{trial_id}")
    assert (trial["state"], trial["flags"]) == ("FAILED", [])
