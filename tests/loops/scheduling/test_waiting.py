"""Who waits for the database, and for hints, does so without keeping others from their work."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import select, update

from muster_server.db.engine import Database
from muster_server.db.models import NodeRow, ProjectRow
from muster_server.services.nodes.sessions import Fence
from support.data import NOW


def test_one_look_wakes_every_poll_whose_hint_was_lost(app, portal, database, agent):
    one, other = agent("n1"), agent("n2")
    polls = app.state.polls

    def told(fence: Fence, index: int) -> bool:
        async def ask() -> bool:
            with polls.listen(fence, index) as listener:
                return await polls.look() == 1 and bool(listener.take())

        return portal.call(ask)

    with database.read() as session:
        index = session.scalars(select(NodeRow.assignments_index).distinct()).one()
    assert not told(Fence(one.node_id, one.epoch), index)
    with database.transaction() as session:  # no hint of it reaches the server
        session.execute(
            update(NodeRow).where(NodeRow.id == one.node_id).values(assignments_index=index + 1)
        )
    assert told(Fence(one.node_id, one.epoch), index)
    assert not told(Fence(other.node_id, other.epoch), index)
    assert told(Fence(other.node_id, other.epoch - 1), index), "its session is over"
    with database.transaction() as session:
        session.execute(update(NodeRow).where(NodeRow.id == other.node_id).values(state="LOST"))
    assert told(Fence(other.node_id, other.epoch), index), "it was given up"


def test_threads_that_wait_to_write_to_sqlite_hold_no_connection(sqlite_url):
    database = Database(sqlite_url)
    held: list[int] = []
    together = threading.Barrier(6)

    def write(number: int) -> None:
        together.wait()
        for turn in range(4):
            with database.transaction() as session:
                session.add(ProjectRow(name=f"p{number}-{turn}", created_at=NOW))
                session.flush()
                time.sleep(0.005)
                held.append(database.engine.pool.checkedout())

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    assert held == [1] * 24
    database.dispose()


def test_a_request_that_no_present_node_can_hold_is_told_apart_from_a_wait(
    controller, agent, submit, show, member_client
):
    agent(slots=2)
    submit(slots=2)
    waits, never = submit(slots=1), submit(slots=6)
    controller.tick()
    cluster = show("/cluster")
    assert cluster["num_impossible"] == 1
    (found,) = cluster["impossible"]
    assert found["experiment_id"] == never
    assert "only 2 in total" in found["pending_reason"]
    assert found["pending_parts"]
    queue = {item["experiment_id"]: item["is_impossible"] for item in show("/queue")["items"]}
    assert queue == {waits: False, never: True}
    trials = [show(f"/experiments/{no}/trials")["items"][0] for no in (waits, never)]
    assert [trial["is_impossible"] for trial in trials] == [False, True]
    document = "name: x\nentrypoint: t.py\ncode: {installed: /srv}\nresources: {slots: 6}"
    preview = member_client.post("/api/v1/experiments:preview", json={"document": document}).json()
    assert (preview["valid"], preview["fits_now"], preview["is_impossible"]) == (True, False, True)
    # A node that joins is all that it takes.
    agent("node-2", slots=6)
    controller.tick()
    assert show("/cluster")["num_impossible"] == 0
