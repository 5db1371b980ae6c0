"""A member of a gang fails: how soon the others hear of it, and whose failure it is called."""

import pytest
from sqlalchemy import select

from muster.wire import NEAR_LIMIT, ExitInfo, MessageRecord, StateRecord, WorkerExit, WorkerRecord
from muster_server import clock
from muster_server.db.models import NodeRow, WorkerRow


@pytest.fixture
def gang(controller, agent, submit):
    """Two nodes with one slot each, running one gang: (agents, their allocation ids)."""
    nodes = [agent("node-1", slots=1), agent("node-2", slots=1)]
    submit(slots=2, nodes=2)
    controller.tick()
    ids = [node.only().spec.allocation_id for node in nodes]
    for rank, (node, allocation_id) in enumerate(zip(nodes, ids, strict=True)):
        node.get_ready(allocation_id, port=1234 if rank == 0 else None)
    controller.tick()
    for rank, (node, allocation_id) in enumerate(zip(nodes, ids, strict=True)):
        node.run(allocation_id)
        worker = WorkerRecord(
            local_rank=0, rank=rank, world_size=2, node_rank=rank, pid=7, host="h",
            master_addr="m", master_port=1,
        )  # fmt: skip
        node.send(allocation_id, worker)
    controller.tick()
    return nodes, ids


def exit_info(rank, message, *, at_ms=1, blames_peer=False, unix_at_boot_ms=None):
    failure = WorkerExit(
        local_rank=0, rank=rank, exit_code=1, at_ms=at_ms, message=message, blames_peer=blames_peer
    )
    return ExitInfo(
        cause="user_error",
        message=message,
        first_failure=failure,
        workers=[failure],
        log_tail=[message],
        unix_at_boot_ms=unix_at_boot_ms,
    )


def trial(show):
    (item,) = show("/experiments/1/trials")["items"]
    return show(f"/trials/{item['id']}")


def test_the_others_are_stopped_on_the_first_word_of_a_failure(gang, controller, show):
    (one, two), (first, second) = gang
    one.send(first, StateRecord(observed="STOPPING", exit=exit_info(0, "KeyError: 'x'")))
    controller.tick()
    told = two.only()
    assert (told.desired, told.stop_kind, told.stop_grace_s) == ("stop", "gang", 1.0)
    assert trial(show)["attempts"][0]["root_rank"] == 0
    assert trial(show)["state"] == "RUNNING"  # neither its log nor the other member is in yet

    two.state(second, "STOPPING")
    two.exit(second, "stopped")
    one.send(first, StateRecord(observed="EXITED", exit=exit_info(0, "KeyError: 'x'")))
    controller.tick()
    assert trial(show)["reason"].startswith("rank 0 on node-1 exited with code 1: KeyError: 'x'")
    assert trial(show)["logs_complete"]


def test_a_member_that_exceeds_a_limit_ends_the_gang_for_good(gang, controller, show):
    (one, two), (first, second) = gang
    one.send(first, MessageRecord(level="warning", text="its files take much", event=NEAR_LIMIT))
    assert trial(show)["notices"][0]["text"] == "node-1: its files take much."
    words = "it used 8.3 GB of memory of the 8.0 GB declared in resources.memory"
    failure = WorkerExit(local_rank=0, rank=0, at_ms=1, message=words)
    exceeded = ExitInfo(cause="limit_exceeded", message=words, first_failure=failure)
    one.send(first, StateRecord(observed="STOPPING", exit=exceeded))
    controller.tick()
    told = two.only()
    assert (told.desired, told.stop_kind) == ("stop", "gang")
    two.state(second, "STOPPING")
    two.exit(second, "stopped")
    one.send(first, StateRecord(observed="EXITED", exit=exceeded))
    controller.tick()
    found = trial(show)
    assert (found["state"], found["termination"]) == ("FAILED", "limit_exceeded")
    assert words in found["reason"]
    assert len(found["attempts"]) == 1, "another attempt would exceed it again"
    assert found["notices"] == []


def test_workers_that_still_run_are_not_said_to_have_ended(gang, controller, database):
    (one, _), (first, second) = gang
    failing = exit_info(0, "boom")
    one.send(first, StateRecord(observed="STOPPING", exit=failing))
    with database.read() as session:
        ended = dict(session.execute(select(WorkerRow.allocation_id, WorkerRow.ended_at)).all())
        codes = dict(session.execute(select(WorkerRow.allocation_id, WorkerRow.exit_code)).all())
    assert ended[first] is not None
    assert ended[second] is None
    assert codes[first] == 1


def test_clocks_that_differ_by_hours_do_not_hide_who_was_first(gang, controller, show):
    """node-1 is three hours ahead and node-2 booted in another decade; both have said so."""
    (one, two), (first, second) = gang
    now_ms = clock.now().timestamp() * 1000
    hour_ms = 3_600_000
    one.beat(clock={"offset_ms": now_ms - 50_000, "error_ms": 2.0, "skew_s": 3 * 3600})
    two.beat(clock={"offset_ms": now_ms - 9e9, "error_ms": 2.0, "skew_s": 0.0})
    # On node-1 it is 50 s after the boot and three hours too late; it failed 2 s ago.
    one.send(
        first,
        StateRecord(
            observed="EXITED",
            exit=exit_info(
                0,
                "ValueError: first",
                at_ms=round(now_ms + 3 * hour_ms - 2000),
                unix_at_boot_ms=now_ms + 3 * hour_ms - 50_000,
            ),
        ),
    )
    two.send(
        second,
        StateRecord(
            observed="EXITED",
            exit=exit_info(
                1,
                "ValueError: second",
                at_ms=round(now_ms - 1000),
                unix_at_boot_ms=now_ms - 9e9,
            ),
        ),
    )
    controller.tick()
    assert trial(show)["attempts"][0]["root_rank"] == 0
    assert trial(show)["attempts"][0]["root_log_tail"] == ["ValueError: first"]


def test_a_rank_that_lost_its_peer_is_not_called_the_cause(gang, controller, show):
    (one, two), (first, second) = gang
    words = "RuntimeError: Connection closed by peer"
    blaming = exit_info(0, words, at_ms=1000, blames_peer=True)
    one.send(first, StateRecord(observed="STOPPING", exit=blaming))
    controller.tick()
    two.send(
        second, StateRecord(observed="EXITED", exit=exit_info(1, "MemoryError", at_ms=900_000))
    )
    one.send(first, StateRecord(observed="EXITED", exit=blaming))
    controller.tick()
    assert trial(show)["reason"].startswith("rank 1 on node-2 exited with code 1: MemoryError")


def test_heartbeats_tell_the_time_of_the_database(agent, database):
    node = agent()
    before = clock.now().timestamp() * 1000
    told = node.beat().server_time_ms
    assert before - 1000 <= told <= clock.now().timestamp() * 1000 + 1000
    node.beat(clock={"offset_ms": 5.5, "error_ms": 1.5, "skew_s": -2.0})
    with database.read() as session:
        row = session.scalars(select(NodeRow)).one()
        assert (row.clock_offset_ms, row.clock_error_ms, row.clock_skew_s) == (5.5, 1.5, -2.0)
    node.boot_id = "boot-2"
    with database.transaction() as session:
        session.scalars(select(NodeRow)).one().lease_expires_at = clock.now()
    node.register()
    with database.read() as session:
        assert session.scalars(select(NodeRow)).one().clock_offset_ms is None
