"""Who is faster, who is late, who speaks twice: nothing is placed, applied or counted twice."""

import dataclasses
import datetime as dt
import subprocess
import sys
import threading

import pytest
from sqlalchemy import func, select, update

from muster.wire import (
    CheckpointRecord,
    MetricsRecord,
    NumberedRecord,
    SeriesPoints,
    StateRecord,
    WorkerRecord,
)
from muster_server import clock
from muster_server.db.leases import LeaseLost, acquire, release, require
from muster_server.db.models import (
    AllocationRow,
    CheckpointRow,
    MetricBatchRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.scheduling import SchedulerPolicy, schedule
from muster_server.errors import Conflict
from muster_server.live.waker import HintWaker
from muster_server.loops import leader as holders
from muster_server.loops.runner import Controller, run_until
from muster_server.schemas.analysis.diagnoses import DiagnoseIn
from muster_server.schemas.analysis.scaling import ScalingIn
from muster_server.security.principal import Principal
from muster_server.services.core.writes import Outdated
from muster_server.services.experiments import operations
from muster_server.services.insight import diagnoses, scaling
from muster_server.services.scheduling.placement import place
from muster_server.services.scheduling.snapshot import load_scheduler_snapshot
from support.agent import start
from support.processes import wait_until

NOW = clock.now()
TTL = dt.timedelta(seconds=5)


def at(seconds):
    return NOW + dt.timedelta(seconds=seconds)


def running_allocation(controller, node, submit):
    submit(slots=1)
    controller.tick()
    return start(controller, node)


def metrics(*steps):
    return MetricsRecord(
        local_rank=0,
        rank=0,
        step=max(steps),
        series=[
            SeriesPoints(
                name="train/loss",
                steps=list(steps),
                times_ms=[1000 * s for s in steps],
                values=[1.0 / (1 + s) for s in steps],
            )
        ],
    )


# ---- the leader's lease


def take(database, holder, seconds):
    with database.transaction() as session:
        return acquire(session, name="controller", holder=holder, ttl=TTL, now=at(seconds))


def test_one_leads_until_its_lease_expires(database):
    first = take(database, "a", 0)
    assert first.epoch == 1
    assert take(database, "b", 4) is None
    assert take(database, "a", 4) == first  # renewed: the same epoch
    assert take(database, "b", 8) is None
    assert take(database, "b", 10).epoch == 2
    assert take(database, "a", 11) is None


def test_a_leader_that_slept_too_long_writes_nothing(database):
    old = take(database, "a", 0)
    take(database, "b", 6)
    with pytest.raises(LeaseLost), database.transaction() as session:
        require(session, old)


def test_a_lease_given_back_is_free_at_once(database):
    lease = take(database, "a", 0)
    with database.transaction() as session:
        assert release(session, lease, now=at(1))
    assert take(database, "b", 1).epoch == 2


def test_the_same_holder_gets_a_new_epoch_after_a_gap(database):
    assert take(database, "a", 0).epoch == 1
    assert take(database, "a", 60).epoch == 2


def test_of_two_controllers_one_follows_and_takes_over(database, settings, agent, submit):
    node = agent(slots=1)
    submit(slots=1)
    leader, follower = Controller(database, settings), Controller(database, settings)
    assert leader.tick()
    assert not follower.tick()
    leader.resign()
    assert follower.tick()
    assert not leader.tick()
    assert len(node.poll()) == 1


def test_a_leader_that_died_on_this_machine_is_replaced_at_once(database, settings):
    process = subprocess.Popen(["sleep", "600"])
    name = holders.own_name().split(":")
    name[1], name[4] = str(process.pid), holders._started(process.pid)
    leader = Controller(database, settings, holder=":".join(name))
    follower = Controller(database, settings)
    assert leader.tick()
    assert not follower.tick(), "it lives"
    process.kill()
    wait_until("the killed one is a zombie", lambda: holders.has_ended(leader.holder))
    assert follower.tick()
    assert follower.lease.epoch == 2
    process.wait()
    assert follower.tick()
    assert not leader.tick()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a process's end")
def test_a_follower_is_woken_when_the_leader_on_its_machine_ends(database, settings):
    process = subprocess.Popen(["sleep", "600"])
    name = holders.own_name().split(":")
    name[1], name[4] = str(process.pid), holders._started(process.pid)
    assert Controller(database, settings, holder=":".join(name)).tick()
    follower, stop, waker = Controller(database, settings), threading.Event(), HintWaker(None, "")
    thread = threading.Thread(
        target=run_until, args=(follower, stop, waker), kwargs={"interval_s": 3600.0}
    )
    thread.start()
    wait_until("it has found the leader", lambda: follower._watched == ":".join(name))
    assert follower.lease is None
    process.kill()
    process.wait()
    wait_until("it leads", lambda: follower.lease is not None)
    stop.set()
    waker.wake()
    thread.join()


@pytest.mark.parametrize(
    ("part", "value"), [(3, "another-place"), (3, ""), (1, ""), (1, "not-a-number")]
)
def test_of_a_leader_elsewhere_only_time_tells(part, value):
    name = holders.own_name().split(":")
    name[4] = "1"
    assert holders.has_ended(":".join(name)), "another process has got its number"
    name[part] = value
    assert not holders.has_ended(":".join(name))


def test_many_controllers_at_once_place_a_trial_once(database, settings, agent, submit):
    node = agent(slots=4)
    experiments = [submit(slots=1) for _ in range(4)]
    settings = settings.model_copy(update={"controller_interval_s": 0.01})
    stop = threading.Event()
    threads = [
        threading.Thread(
            target=run_until,
            args=(Controller(database, settings), stop, HintWaker(None, "loops")),
            kwargs={"interval_s": 0.01},
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    deadline = clock.now() + dt.timedelta(seconds=30)
    while len(node.poll()) < len(experiments) and clock.now() < deadline:
        pass
    stop.set()
    for thread in threads:
        thread.join()
    held = sorted(slot for a in node.poll().values() for slot in a.spec.slots)
    assert held == [0, 1, 2, 3]
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(AllocationRow)) == 4
        assert set(session.scalars(select(TrialRow.attempt_no))) == {1}


# ---- placement


def decisions(database):
    with database.read() as session:
        return schedule(
            load_scheduler_snapshot(session, now=NOW), now=NOW, policy=SchedulerPolicy()
        )


def test_a_slot_is_never_given_twice(database, agent, submit):
    agent(slots=1)
    submit(slots=1)
    (first,) = decisions(database)
    submit(slots=1)
    (_, second) = (first, dataclasses.replace(first, trial_id=first.trial_id + 1))
    with database.transaction() as session:
        place(session, first, controller_epoch=1, now=NOW)
    with pytest.raises(Outdated, match="taken already"), database.transaction() as session:
        place(session, second, controller_epoch=1, now=NOW)
    with database.read() as session:
        states = dict(session.execute(select(TrialRow.id, TrialRow.state)).all())
        assert states[second.trial_id] == "QUEUED"
        assert session.scalar(select(func.count()).select_from(AllocationRow)) == 1


def test_a_trial_is_never_placed_twice(database, agent, submit):
    agent(slots=2)
    submit(slots=1)
    (decision,) = decisions(database)
    with database.transaction() as session:
        place(session, decision, controller_epoch=1, now=NOW)
    with pytest.raises(Outdated, match="not queued"), database.transaction() as session:
        place(session, decision, controller_epoch=1, now=NOW)


def test_nothing_is_placed_on_a_node_cordoned_meanwhile(database, agent, submit):
    agent(slots=1)
    submit(slots=1)
    (decision,) = decisions(database)
    with database.transaction() as session:
        session.execute(update(NodeRow).values(scheduling="cordoned"))
    with pytest.raises(Outdated, match="not open"), database.transaction() as session:
        place(session, decision, controller_epoch=1, now=NOW)
    with database.read() as session:
        assert session.scalars(select(NodeSlotRow.allocation_id)).all() == [None]


def test_nothing_is_placed_on_a_slot_that_went_meanwhile(database, agent, submit):
    agent(slots=1)
    submit(slots=1)
    (decision,) = decisions(database)
    with database.transaction() as session:
        session.execute(update(NodeSlotRow).values(is_gone=True))
    with pytest.raises(Outdated, match="taken already"), database.transaction() as session:
        place(session, decision, controller_epoch=1, now=NOW)
    with database.read() as session:
        assert session.scalars(select(NodeSlotRow.allocation_id)).all() == [None]


def test_two_transactions_for_one_slot_cannot_both_commit(database, agent, submit):
    agent(slots=1)
    submit(slots=1)
    submit(slots=1)
    first, _ = decisions(database)
    both = [first, dataclasses.replace(first, trial_id=first.trial_id + 1)]
    barrier = threading.Barrier(2)
    results = []

    def attempt(decision):
        barrier.wait()
        try:
            with database.transaction() as session:
                place(session, decision, controller_epoch=1, now=NOW)
            results.append("placed")
        except Outdated:
            results.append("outdated")

    threads = [threading.Thread(target=attempt, args=(d,)) for d in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["outdated", "placed"]


# ---- records


def test_a_repeated_batch_counts_once(controller, agent, submit, database):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    done = len(node.streams[allocation_id])
    assert node.send(allocation_id, metrics(1, 2)).acked_seq == done + 1
    again = node.send(allocation_id, numbered=node.streams[allocation_id])
    assert again.acked_seq == done + 1
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricBatchRow)) == 1


def test_a_gap_is_refused_and_the_reply_says_from_where(controller, agent, submit, database):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    done = len(node.streams[allocation_id])

    def number(seq):
        return NumberedRecord(seq=seq, at_ms=0, record=metrics(seq))

    reordered = [number(done + 2), number(done + 1)]
    assert node.send(allocation_id, numbered=reordered).acked_seq == done
    holed = [number(done + 1), number(done + 3)]
    assert node.send(allocation_id, numbered=holed).acked_seq == done + 1
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricBatchRow)) == 1


def test_an_older_session_is_answered_410_everywhere(controller, agent, submit):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    node.register(running=[node.running(allocation_id)])
    node.epoch -= 1
    node.beat(expect=410)
    node.send(allocation_id, metrics(1), expect=410)
    params = {"node_id": node.node_id, "session_epoch": node.epoch, "index": -1, "wait": 0}
    reply = node.client.get("/agent/v1/assignments", params=params)
    assert reply.status_code == 410
    assert reply.json()["error"]["code"] == "agent.session_superseded"
    reply = node.client.post(
        f"/agent/v1/allocations/{allocation_id}/logs/0/stdout",
        params=params | {"offset": 0, "attempt_no": 1},
        content=b"x",
    )
    assert reply.status_code == 410


def test_an_unknown_allocation_is_404_so_that_it_is_forgotten(controller, agent, submit):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    node.specs["other"] = node.specs[allocation_id]
    node.send("other", metrics(1), expect=404)


def test_a_node_cannot_speak_for_another(controller, agent, submit):
    node, other = agent("node-1", slots=1), agent("node-2", slots=1)
    allocation_id = running_allocation(controller, node, submit)
    other.specs[allocation_id] = node.specs[allocation_id]
    other.send(allocation_id, metrics(1), expect=404)
    other.node_id = node.node_id
    other.beat(expect=403)


def test_an_illegal_state_is_ignored_but_does_not_block_the_stream(
    controller, agent, submit, database, show
):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    reply = node.send(allocation_id, StateRecord(observed="PREPARING"), metrics(3))
    assert reply.acked_seq == len(node.streams[allocation_id])
    with database.read() as session:
        assert session.get(AllocationRow, allocation_id).observed == "RUNNING"


def test_worker_and_checkpoint_records_are_kept_once(controller, agent, submit, database):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    worker = WorkerRecord(
        local_rank=0, rank=0, world_size=1, node_rank=0, pid=7, host="h", master_addr="m",
        master_port=1,
    )  # fmt: skip
    checkpoint = CheckpointRecord(step=5, path="step-5", size_bytes=1, files={})
    node.send(allocation_id, worker, checkpoint)
    node.send(allocation_id, dataclasses.replace(worker, reports=True, device="cpu"), checkpoint)
    node.exit(allocation_id, "user_error", message="boom")
    with database.read() as session:
        (row,) = session.scalars(select(WorkerRow)).all()
        assert (row.pid, row.reports, row.device, row.exit_code) == (7, True, "cpu", 1)
        (saved,) = session.scalars(select(CheckpointRow)).all()
        assert session.get_one(TrialRow, saved.trial_id).latest_checkpoint_id == saved.id


# ---- registration


def test_a_restarted_agent_supersedes_its_former_session_and_keeps_its_work(
    controller, agent, submit
):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    node.instance_id = "another"
    reply = node.register(running=[node.running(allocation_id)])
    assert reply.session_epoch == 2
    assert reply.credential is None
    (adopted,) = reply.adopt
    assert (adopted.allocation_id, adopted.acked_seq) == (allocation_id, 4)
    assert node.only().spec.allocation_id == allocation_id


def test_a_clone_is_refused_while_the_original_lives(agent, connect, join_token):
    node = agent()
    node.boot_id = "boot-2"
    node.register(expect=409)
    node.boot_id = "boot-1"
    node.credential = None  # another machine of that name, with a join token
    node.boot_id = "boot-3"
    node.register(expect=409)


def test_a_rebooted_node_ends_what_it_ran(controller, agent, submit, show, database):
    node = agent(slots=1)
    running_allocation(controller, node, submit)
    with database.transaction() as session:  # its lease has run out while it was down
        session.execute(update(NodeRow).values(lease_expires_at=at(-1)))
    node.boot_id = "boot-2"
    reply = node.register(running=[])
    assert reply.adopt == []
    controller.tick()
    (trial,) = show("/experiments/1/trials")["items"]
    detail = show(f"/trials/{trial['id']}")
    # Where the machine is slow enough the next attempt is there already.
    (first,) = (attempt for attempt in detail["attempts"] if attempt["no"] == 1)
    assert first["termination"] == "node_rebooted"
    assert detail["state"] in ("RETRY_WAIT", "STARTING")


def test_a_rebooted_node_is_let_in_although_the_clock_was_set_back(agent, database):
    node = agent()
    node.boot_id = "boot-2"
    with database.transaction() as session:  # by that clock its lease holds for an hour
        session.execute(update(NodeRow).values(lease_expires_at=at(3600)))
    node.register(expect=409)
    with database.transaction() as session:  # and by the controller's it is over
        session.execute(update(NodeRow).values(state="SUSPECT"))
    node.register()


@pytest.mark.parametrize("has_exited", [False, True])
def test_what_left_no_trace_on_its_node_is_never_assigned_to_it_again(
    controller, agent, submit, has_exited
):
    """The disk is empty, the history on it too, and no controller has looked since."""
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    if has_exited:
        node.exit(allocation_id, "user_error")
    node.register(running=[])
    assert node.poll() == {}
    controller.tick()
    assert allocation_id not in node.poll()


def test_what_was_not_delivered_yet_is_assigned_after_a_registration(controller, agent, submit):
    node = agent(slots=1)
    submit(slots=1)
    controller.tick()
    node.register(running=[])
    assert node.only().desired == "prepare"


def test_what_the_server_does_not_know_is_forgotten(agent, controller, submit):
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    stray = dataclasses.replace(node.running(allocation_id), allocation_id="stray")
    reply = node.register(running=[node.running(allocation_id), stray])
    assert reply.forget == ["stray"]
    assert [ack.allocation_id for ack in reply.adopt] == [allocation_id]


def test_slots_follow_the_inventory(agent, show):
    node = agent(slots=2)
    node.slots = node.slots[:1]
    node.register()
    assert show("/cluster")["num_slots"] == 1


def test_a_long_poll_returns_when_the_set_changes(controller, agent, submit):
    node = agent(slots=1)
    assert node.poll() == {}
    known = node.index
    submit(slots=1)
    found = {}
    waiting = threading.Thread(target=lambda: found.update(node.poll(wait=20, index=known)))
    waiting.start()
    controller.tick()
    waiting.join()
    assert len(found) == 1
    assert node.index > known, "one whose time is up is answered, too"


# ---- people


@pytest.mark.parametrize("kind", ["diagnosis", "scaling report"])
def test_of_two_that_begin_at_once_one_is_refused(database, settings, member_client, kind):
    document = "name: digits\ntrainer: {model: mlp, batch_size: 16}\nresources: {slots: 2}\n"
    made = member_client.post("/api/v1/experiments", json={"document": document}).json()["id"]
    (trial,) = member_client.get(f"/api/v1/experiments/{made}/trials").json()["items"]
    by = operations.Caller(principal=Principal(kind="user", name="ada", role="admin"), now=NOW)

    def begin(session):
        if kind == "diagnosis":
            diagnoses.start(session, trial["id"], DiagnoseIn(), by, settings=settings)
        else:
            scaling.start_report(session, made, ScalingIn(slots=[1, 2]), by)

    second, is_over = [], threading.Event()

    def begin_too():
        try:
            with database.transaction() as session:
                begin(session)
            second.append("begun")
        except Conflict as error:
            second.append(error.code)
        is_over.set()

    thread = threading.Thread(target=begin_too)
    with database.transaction() as session:
        begin(session)
        thread.start()
        # One that does not wait for us would be through by then.
        is_over.wait(0.5)
    thread.join()
    assert second == ["diagnoses.running" if kind == "diagnosis" else "scaling.running"]


def test_a_cordoned_node_gets_nothing_until_it_is_open(
    controller, agent, submit, show, admin_client
):
    node = agent(slots=1)
    url = f"/api/v1/nodes/{node.node_id}"
    assert admin_client.patch(url, json={"scheduling": "cordoned"}).status_code == 200
    submit(slots=1)
    controller.tick()
    assert node.poll() == {}
    assert "1 on cordoned node node-1" in show("/queue")["items"][0]["pending_reason"]
    admin_client.patch(url, json={"scheduling": "open"})
    controller.tick()
    assert len(node.poll()) == 1


def test_a_node_in_use_is_not_removed_and_an_empty_cordoned_one_is(
    controller, agent, submit, show, admin_client
):
    node = agent(slots=1)
    url = f"/api/v1/nodes/{node.node_id}"
    allocation_id = running_allocation(controller, node, submit)
    assert admin_client.delete(url).status_code == 409
    admin_client.patch(url, json={"scheduling": "cordoned"})
    assert admin_client.delete(url).status_code == 409
    node.exit(allocation_id)
    controller.tick()
    assert admin_client.delete(url).status_code == 204
    assert show("/nodes")["items"] == []
    node.beat(expect=401)


def test_the_plan_of_a_preview_is_where_it_would_run(agent, member_client):
    agent("node-1", slots=1)
    agent("node-2", slots=1)
    document = "name: x\nentrypoint: train.py\ncode: {installed: /srv}\nresources: {slots: 2}\n"
    plan = member_client.post("/api/v1/experiments:preview", json={"document": document}).json()
    assert plan["fits_now"]
    assert [node["node_name"] for node in plan["plan"]] == ["node-1", "node-2"]


def test_an_agent_whose_disk_was_set_back_does_not_go_on(controller, agent, submit, show):
    """Its next records would carry numbers that were used for others."""
    node = agent(slots=1)
    allocation_id = running_allocation(controller, node, submit)
    acked = node.send(allocation_id, metrics(1), metrics(2)).acked_seq
    older = dataclasses.replace(node.running(allocation_id), num_records=acked - 1)
    reply = node.register(running=[older])
    assert (reply.adopt, reply.forget) == ([], [allocation_id])
    controller.tick()
    (trial,) = show("/experiments/1/trials")["items"]
    assert show(f"/trials/{trial['id']}")["attempts"][-1]["termination"] == "shim_lost"
