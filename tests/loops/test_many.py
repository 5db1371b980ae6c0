"""What many agents say in the same moment comes to the same as what each says alone."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select

from muster.wire import (
    AssignmentsReply,
    ExitInfo,
    LeaseRequest,
    MessageRecord,
    NodeFacts,
    NumberedRecord,
    RecordsRequest,
    Rendezvous,
    StateRecord,
    WorkerExit,
    WorkerRecord,
    load,
)
from muster_server import clock
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    LayerTableRow,
    LogStreamRow,
    NodeRow,
    WorkerRow,
)
from muster_server.db.together import ALONE
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret
from muster_server.services import many_leases, many_polls, many_records, records
from muster_server.services.agents import Fence


def principal_of(node) -> Principal:
    return Principal(
        kind="agent",
        name=node.name,
        role="agent",
        node_id=node.node_id,
        credential_hash=hash_secret(node.credential),
    )


def sent(node, allocation_id, *said, first=1, **more) -> many_records.Sent:
    request = {
        "node_id": node.node_id,
        "session_epoch": node.epoch,
        "attempt_no": 1,
        "records": [
            NumberedRecord(seq=first + i, at_ms=1, record=record) for i, record in enumerate(said)
        ],
        **more,
    }
    return many_records.Sent(
        agent=principal_of(node), allocation_id=allocation_id, request=RecordsRequest(**request)
    )


def worker(rank: int) -> WorkerRecord:
    return WorkerRecord(
        local_rank=0,
        rank=rank,
        world_size=3,
        node_rank=rank,
        pid=7,
        host="h",
        master_addr="m",
        master_port=1,
    )


@pytest.fixture
def gang(controller, agent, submit):
    """Three nodes with an allocation each, by node."""
    nodes = [agent(f"n{i}", slots=1) for i in range(3)]
    submit(slots=3, nodes=3)
    controller.tick()
    return {node: next(iter(node.poll())) for node in nodes}


def test_the_usual_is_stored_for_all_and_the_unusual_is_left_alone(database, gang):
    (n0, a0), (n1, a1), (n2, a2) = gang.items()
    steps = (StateRecord(observed="PREPARING"), StateRecord(observed="READY"))
    with database.transaction() as session:
        stored = many_records.store(
            session,
            [
                sent(n0, a0, *steps),
                sent(n1, a1, *steps, MessageRecord(level="info", text="half way")),
                sent(n2, a2, *steps, session_epoch=n2.epoch - 1),
                sent(n2, "unknown", *steps),
                sent(n2, a1, *steps),
                sent(n2, a2, *steps, attempt_no=2),
                sent(n2, a2, StateRecord(observed="LOST")),
                sent(n0, a0, StateRecord(observed="STARTING"), first=3),
            ],
            now=clock.now(),
        )
    assert stored[0] is not ALONE
    assert stored[0][0].acked_seq == 2
    assert stored[1:] == [ALONE] * 7
    with database.read() as session:
        found = dict(session.execute(select(AllocationRow.id, AllocationRow.observed)).all())
    assert found == {a0: "READY", a1: "ASSIGNED", a2: "ASSIGNED"}


def test_a_credential_that_was_taken_away_is_left_alone(database, gang, settings):
    with database.transaction() as session:
        node = session.scalars(select(NodeRow).where(NodeRow.name == "n0")).one()
        node.credential_hash = hash_secret("mst_agt_another")
    (n0, a0), (n1, _), _ = gang.items()
    beats = [
        many_leases.Beat(
            agent=principal_of(n), request=LeaseRequest(node_id=n.node_id, session_epoch=n.epoch)
        )
        for n in (n0, n1, n1)
    ]
    with database.transaction() as session:
        stored = many_records.store(
            session, [sent(n0, a0, StateRecord(observed="PREPARING"))], now=clock.now()
        )
        replies = many_leases.renew(session, beats, settings=settings, now=clock.now())
        answers = many_polls.answer(
            session,
            [
                many_polls.Poll(agent=principal_of(n), fence=Fence(n.node_id, n.epoch), unless=None)
                for n in (n0, n1)
            ],
        )
    assert stored == [ALONE]
    assert [reply is ALONE for reply in replies] == [True, False, True]
    assert answers[0] is ALONE
    assert [a["desired"] for a in json.loads(answers[1])["assignments"]] == ["prepare"]


def test_only_the_node_that_is_to_describe_a_model_is_answered_alone(database, gang):
    (n0, _), (n1, _), _ = gang.items()
    with database.transaction() as session:
        session.add(
            LayerTableRow(
                key="k", state="wanted", question={}, node_id=n0.node_id, node_name="n0",
                layers=None, asked_at=clock.now(), ended_at=None,
            )
        )  # fmt: skip
    polls = [
        many_polls.Poll(agent=principal_of(n), fence=Fence(n.node_id, n.epoch), unless=None)
        for n in (n0, n1)
    ]
    with database.transaction() as session:
        alone, shared = many_polls.answer(session, polls)
    assert alone is ALONE
    assert load(AssignmentsReply, json.loads(shared)).descriptions == []


LIFE = (
    (
        StateRecord(observed="PREPARING"),
        StateRecord(
            observed="READY",
            rendezvous=Rendezvous(host="10.0.0.1", port=29500, run_id="r"),
            facts=NodeFacts(torch_version="2.13"),
        ),
    ),
    (StateRecord(observed="STARTING"), worker(0), StateRecord(observed="RUNNING", message="up")),
    (
        StateRecord(
            observed="EXITED",
            message="rank 0 failed",
            exit=ExitInfo(
                cause="user_error",
                message="rank 0 failed",
                exit_code=1,
                workers=[
                    WorkerExit(local_rank=0, rank=0, exit_code=1, signal=None, message="KeyError")
                ],
                unix_at_boot_ms=5.0,
            ),
        ),
    ),
)
KEYS = {"id", "attempt_id", "allocation_id", "trial_id", "spec", "attempt_no", "created_at"}


def rows(session, kind, where):
    """Every column but what tells one life from another."""
    found = session.scalars(select(kind).where(where)).all()
    names = set(kind.__table__.columns.keys()) - KEYS
    return [{name: getattr(row, name) for name in sorted(names)} for row in found]


def test_a_life_comes_to_the_same_both_ways(database, controller, agent, submit, time_machine):
    """A gang of one, twice on the same node: every row that is left is equal."""
    time_machine.move_to("2026-11-01T00:00:00Z", tick=False)
    node = agent("n0", slots=1)
    left = []
    for is_shared in (True, False):
        submit(slots=1)
        controller.tick()
        (allocation_id,) = node.poll()
        first = 1
        for said in LIFE:
            one = sent(node, allocation_id, *said, first=first)
            first += len(said)
            with database.transaction() as session:
                if is_shared:
                    assert many_records.store(session, [one], now=clock.now()) != [ALONE]
                else:
                    records.apply_records(session, allocation_id, one.request, now=clock.now())
        with database.read() as session:
            allocation = session.get_one(AllocationRow, allocation_id)
            left.append(
                [
                    rows(session, AllocationRow, AllocationRow.id == allocation_id),
                    rows(session, WorkerRow, WorkerRow.allocation_id == allocation_id),
                    rows(session, AttemptRow, AttemptRow.id == allocation.attempt_id),
                    rows(session, LogStreamRow, LogStreamRow.allocation_id == allocation_id),
                ]
            )
        controller.tick()
        controller.tick()
    assert left[0] == left[1]
    (worker_row,) = left[0][1]
    assert (worker_row["exit_code"], worker_row["exit_message"]) == (1, "KeyError")


def test_what_an_agent_of_this_version_does_not_say_is_judged_by_the_route(agent, gang):
    (n0, a0), *_ = gang.items()

    def post(path, content, kind="application/json"):
        return n0.client.post(f"/agent/v1{path}", content=content, headers={"Content-Type": kind})

    beat = json.dumps({"node_id": n0.node_id, "session_epoch": n0.epoch, "newer": 1})
    assert (
        post("/lease", beat).json().keys()
        == post("/lease", beat, "application/json; charset=utf-8").json().keys()
    ), "what only a newer agent says is passed over, on either way"
    assert post("/lease", "{").status_code == 400
    assert post("/lease", '{"node_id": 5}').status_code == 422
    assert post("/lease", beat, "text/plain").status_code == 422
    half = json.dumps(
        {
            "node_id": n0.node_id,
            "session_epoch": n0.epoch,
            "attempt_no": 1,
            "records": [{"seq": 1, "at_ms": 1, "record": {"type": "secret"}}],
        }
    )
    assert post(f"/allocations/{a0}/records", half).status_code == 422
    query = {"node_id": n0.node_id, "session_epoch": n0.epoch, "index": -1, "wait": 0}
    answers = [
        n0.client.get("/agent/v1/assignments", params={**query, **more})
        for more in ({}, {"wait": "0e0"}, {"newer": "1"}, {f"p{i}": 1 for i in range(9)})
    ]
    assert [answer.json() for answer in answers] == 4 * [answers[0].json()]
    assert n0.client.get("/agent/v1/assignments", params={**query, "wait": 61}).status_code == 422
    other = {**query, "node_id": "another"}
    assert n0.client.get("/agent/v1/assignments", params=other).status_code == 403
