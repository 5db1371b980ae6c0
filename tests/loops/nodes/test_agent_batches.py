"""Calls of agents, served in batches: n requests at once come to the same as one by one."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies
from sqlalchemy import Table, insert, select, update

from muster.wire import (
    Assignment,
    AssignmentsReply,
    CheckpointRecord,
    ClockReading,
    EvaluationRecord,
    ExitInfo,
    GroupRecord,
    LeaseRequest,
    MessageRecord,
    MetricsRecord,
    NodeFacts,
    NodeProblem,
    NodeUsage,
    NumberedRecord,
    ProgressRecord,
    RecordsRequest,
    Rendezvous,
    SeriesPoints,
    ShardOrders,
    StacksRecord,
    StateRecord,
    WorkerExit,
    WorkerProgress,
    WorkerRecord,
    load,
)
from muster_server import clock
from muster_server.db import models
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    LayerTableRow,
    NodeRow,
    NodeSampleRow,
    NodeSlotRow,
    TrialRow,
    WorkerRow,
)
from muster_server.errors import MusterError, NotFound, NotSignedIn, Superseded
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret
from muster_server.services.nodes import assignments, credentials, leases, records
from muster_server.services.nodes.assignments import AssignmentsCall
from muster_server.services.nodes.leases import LeaseCall
from muster_server.services.nodes.records import RecordsCall
from muster_server.services.nodes.sessions import Fence

LATER = dt.timedelta(seconds=30)
BEGAN = clock.now()


def principal_of(node, **more) -> Principal:
    return Principal(
        kind="agent",
        name=node.name,
        role="agent",
        node_id=node.node_id,
        **{"credential_hash": hash_secret(node.credential), **more},
    )


def numbered(*reported, first=1) -> list[NumberedRecord]:
    return [NumberedRecord(seq=first + i, at_ms=1, record=r) for i, r in enumerate(reported)]


def records_call(node, allocation_id, *reported, first=1, agent=None, **more) -> RecordsCall:
    request = RecordsRequest(
        **{
            "node_id": node.node_id,
            "session_epoch": node.epoch,
            "attempt_no": 1,
            "records": numbered(*reported, first=first),
            **more,
        }
    )
    return RecordsCall(
        agent=agent or principal_of(node), allocation_id=allocation_id, request=request
    )


def lease_call(node, *, agent=None, **more) -> LeaseCall:
    request = {"node_id": node.node_id, "session_epoch": node.epoch, **more}
    return LeaseCall(agent=agent or principal_of(node), request=LeaseRequest(**request))


def poll(node, *, unless=None) -> AssignmentsCall:
    fence = Fence(node.node_id, node.epoch)
    return AssignmentsCall(agent=principal_of(node), fence=fence, unless=unless)


def worker(local_rank=0, **more) -> WorkerRecord:
    return WorkerRecord(
        **{
            "local_rank": local_rank,
            "rank": local_rank,
            "world_size": 2,
            "node_rank": 0,
            "pid": 7,
            "host": "h",
            "master_addr": "m",
            "master_port": 1,
            **more,
        }
    )


@pytest.fixture
def gangs(controller, agent, submit):
    """Two gangs on the same two nodes: (node, allocation id) of each member."""
    nodes = [agent(f"n{i}", slots=2) for i in range(2)]
    for _ in range(2):
        submit(slots=2, nodes=2)
    controller.tick()
    return [(node, allocation_id) for node in nodes for allocation_id in node.poll()]


# ---------------------------------------------------------------- at once, and one by one

TABLES: list[Table] = [
    row.__table__
    for row in vars(models).values()
    if isinstance(row, type)
    and issubclass(row, models.Base)
    and row is not models.Base
    and row is not models.ApiServerRow
]


def everything(session) -> dict[str, list[str]]:
    """Every row of every table, without the numbers that databases give."""

    def plain(value):
        return round(value, 6) if isinstance(value, float) else value

    found = {}
    for table in TABLES:
        kept = [column.name for column in table.columns if not _is_given(column)]
        rows = session.execute(select(*(table.c[name] for name in kept))) if kept else []
        found[table.name] = sorted(repr([plain(value) for value in row]) for row in rows)
    return found


def _is_given(column) -> bool:
    return column.name == "latest_checkpoint_id" or (
        column.primary_key and column.name == "id" and column.type.python_type is int
    )


class _RolledBack(Exception):
    pass


@dataclass(frozen=True)
class Situation:
    """What a batch finds: columns of nodes, allocations and trials by their place, and workers."""

    nodes: list[dict[str, Any]]
    allocations: list[dict[str, Any]]
    trials: list[dict[str, Any]]
    with_worker: list[bool]

    def make(self, session, gangs) -> None:
        node_ids = list(dict.fromkeys(node.node_id for node, _ in gangs))
        trial_ids = session.scalars(select(TrialRow.id).order_by(TrialRow.id)).all()
        for row, ids, all_values in (
            (NodeRow, node_ids, self.nodes),
            (AllocationRow, [allocation_id for _, allocation_id in gangs], self.allocations),
            (TrialRow, trial_ids, self.trials),
        ):
            for row_id, values in zip(ids, all_values, strict=True):
                if values:
                    session.execute(update(row).where(row.id == row_id).values(values))
        for (node, allocation_id), has_worker in zip(gangs, self.with_worker, strict=True):
            if has_worker:
                session.execute(
                    insert(WorkerRow).values(
                        allocation_id=allocation_id, trial_id=1, attempt_no=1, rank=0,
                        local_rank=0, node_rank=0, world_size=2, node_name=node.name, slot=1,
                        pid=3, host="", master_addr="", master_port=0, device="cuda:0",
                        reports=True, started_at=BEGAN,
                    )
                )  # fmt: skip


def served(database, situation, gangs, handler, batches):
    """Outcomes, all rows and what was touched, in a transaction that is rolled back."""
    secrets = itertools.count()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.suppress(_RolledBack),
        database.transaction() as session,
    ):
        patch.setattr(credentials, "mint", lambda kind: f"mst_{kind}_{next(secrets)}")
        situation.make(session, gangs)
        outcomes = []
        for batch in batches:
            outcomes += handler(session, batch)
            session.flush()
            session.expunge_all()
            session.info.pop("muster_ingest", None)
        found = (
            [_plain(outcome) for outcome in outcomes],
            everything(session),
            session.info.pop("muster_topics", set()),
        )
        raise _RolledBack
    return found


def _plain(outcome):
    if isinstance(outcome, MusterError):
        return (type(outcome), outcome.code, outcome.message)
    if dataclasses.is_dataclass(outcome) and hasattr(outcome, "server_time_ms"):
        return dataclasses.replace(outcome, server_time_ms=None)
    return outcome


some, build, lists = strategies.sampled_from, strategies.builds, strategies.lists
nothing = strategies.none()
texts = some(["", "words"])
exits = build(
    ExitInfo,
    cause=some(["success", "user_error"]),
    message=texts,
    workers=lists(
        build(
            WorkerExit,
            local_rank=some([0, 1]),
            rank=some([0, 1]),
            exit_code=some([None, 1]),
            at_ms=some([0, 9]),
            message=texts,
            blames_peer=strategies.booleans(),
        ),
        max_size=2,
    ),
    unix_at_boot_ms=some([None, 5.0]),
    first_failure=nothing,
    log_tail=strategies.just([]),
)
states = build(
    StateRecord,
    observed=some(
        ["PREPARING", "READY", "PREPARE_FAILED", "STARTING", "RUNNING", "STOPPING", "EXITED"]
    ),
    message=texts,
    exit=nothing | exits,
    facts=some([None, NodeFacts(torch_version="2.13")]),
    rendezvous=some([None, Rendezvous(host="10.0.0.1", port=29500, run_id="r")]),
    blames=some(["", "node", "placement", "document"]),
    passes=strategies.booleans(),
)
workers = build(
    worker, some([0, 1]), device=some(["", "cpu"]), backend=texts, reports=strategies.booleans()
)
others = some(
    [
        MessageRecord(level="info", text="half way"),
        GroupRecord(name="world", kind="world", backend="gloo", ranks=[0, 1]),
        CheckpointRecord(step=5, path="step-5", size_bytes=1, files={"f": "0" * 64}),
        CheckpointRecord(step=9, path="step-9", size_bytes=1, files={"f": "0" * 64}),
        EvaluationRecord(name="test", step=5, metrics={"loss": 0.5}),
        StacksRecord(no=1, local_rank=0, rank=0, text="line 3"),
        ProgressRecord(workers=[WorkerProgress(local_rank=0, rank=0, num_reports=3)]),
        *(
            MetricsRecord(
                local_rank=rank,
                rank=rank,
                step=step,
                epoch=1.0,
                series=[SeriesPoints(name="train/loss", steps=[step], times_ms=[1], values=[0.5])],
            )
            for rank in (0, 1)
            for step in (1, 2)
        ),
    ]
)
faults = some(["", "", "", "", "", "old session", "old attempt", "other", "unknown", "stolen"])
reported = strategies.tuples(
    lists(states | states | workers | others, max_size=4), some([1, 1, 1, 2, 3]), faults
)
situations = build(
    Situation,
    nodes=lists(
        strategies.fixed_dictionaries(
            {
                "state": some(["ONLINE", "ONLINE", "SUSPECT", "RECONCILING", "LOST"]),
                "strikes": some([0, 0, 2]),
                "clock_offset_ms": some([None, 50.0]),
                "clock_error_ms": some([None, 1.0]),
                "sampled_at": some([None, BEGAN]),
                "join_id": some(["", "a joining"]),
                "credential_at": some([BEGAN, BEGAN - dt.timedelta(days=365)]),
                "next_credential_hash": nothing,
                "problems": some([[], [{"kind": "disk", "message": "full", "blocks": True}]]),
            }
        ),
        min_size=2,
        max_size=2,
    ),
    allocations=lists(
        strategies.fixed_dictionaries(
            {
                "observed": some(
                    ["ASSIGNED", "PREPARING", "READY", "STARTING", "RUNNING", "STOPPING", "LOST"]
                ),
                "acked_seq": some([0, 0, 1]),
                "message": texts,
            }
        ),
        min_size=4,
        max_size=4,
    ),
    trials=lists(
        some([{}, {}, {}, {"attempt_no": 2}]),
        min_size=2,
        max_size=2,
    ),
    with_worker=lists(strategies.booleans(), min_size=4, max_size=4),
)
often = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def record_calls(gangs, drawn) -> list[RecordsCall]:
    calls = []
    for place, (node, allocation_id) in enumerate(gangs):
        said, first, fault = drawn[place]
        more: dict[str, Any] = {}
        match fault:
            case "old session":
                more["session_epoch"] = node.epoch - 1
            case "old attempt":
                more["attempt_no"] = 2
            case "other":
                node = next(other for other, _ in gangs if other is not node)
            case "unknown":
                allocation_id = f"unknown-{place}"
            case "stolen":
                more["agent"] = principal_of(node, credential_hash="another")
        calls.append(records_call(node, allocation_id, *said, first=first, **more))
    return calls


@often
@given(
    situation=situations,
    drawn=lists(reported, min_size=4, max_size=4),
    order=strategies.permutations(range(4)),
)
def test_records_come_to_the_same_at_once_and_one_by_one(database, gangs, situation, drawn, order):
    now = clock.now()
    calls = [record_calls(gangs, drawn)[place] for place in order]

    def store(session, batch):
        return records.store(session, batch, now=now)

    at_once = served(database, situation, gangs, store, [calls])
    one_by_one = served(database, situation, gangs, store, [[call] for call in calls])
    assert at_once == one_by_one


beats = strategies.tuples(
    strategies.fixed_dictionaries(
        {
            "usage": some(
                [
                    None,
                    NodeUsage(
                        cpu_pct=5.0, memory_used_bytes=1, memory_total_bytes=2, disk_free_bytes=3
                    ),
                ]
            ),
            "clock": some([None, ClockReading(offset_ms=1.0, error_ms=2.0, skew_s=3.0)]),
            "accepts_credential": strategies.booleans(),
            "problems": some([None, [], [NodeProblem(kind="disk", message="full", blocks=True)]]),
        }
    ),
    some(["nothing", "all", "not said"]),
    some(["", "", "", "", "old session", "stolen", "next credential"]),
)


@often
@given(
    situation=situations,
    drawn=lists(beats, min_size=2, max_size=2),
    is_turned=strategies.booleans(),
)
def test_heartbeats_come_to_the_same_at_once_and_one_by_one(
    database, settings, gangs, situation, drawn, is_turned
):
    now = clock.now() + LATER
    calls = []
    nodes = list(dict.fromkeys(node for node, _ in gangs))
    for node, values, (said, running, fault) in zip(nodes, situation.nodes, drawn, strict=True):
        more: dict[str, Any] = {}
        match running:
            case "all":
                more["running"] = [allocation for owner, allocation in gangs if owner is node]
            case "nothing":
                more["running"] = []
        match fault:
            case "old session":
                more["session_epoch"] = node.epoch - 1
            case "stolen":
                more["agent"] = principal_of(node, credential_hash="another")
            case "next credential":
                values["next_credential_hash"] = hash_secret(f"next of {node.name}")
                more["agent"] = principal_of(node, uses_next_credential=True)
        calls.append(lease_call(node, **said, **more))
    if is_turned:
        calls.reverse()

    def renew(session, batch):
        return leases.renew(session, batch, settings=settings, now=now)

    at_once = served(database, situation, gangs, renew, [calls])
    one_by_one = served(database, situation, gangs, renew, [[call] for call in calls])
    assert at_once == one_by_one


# ---------------------------------------------------------------- what each call comes to


def test_one_that_is_refused_does_not_harm_the_others(database, gangs, settings):
    with database.transaction() as session:
        node = session.scalars(select(NodeRow).where(NodeRow.name == "n0")).one()
        node.credential_hash = hash_secret("mst_agt_another")
    (n0, a0), _, (n1, a1), (_, a2) = gangs
    steps = (StateRecord(observed="PREPARING"), StateRecord(observed="READY"))
    calls = [
        records_call(n0, a0, *steps),
        records_call(n1, a1, *steps),
        records_call(n1, a2, *steps, session_epoch=n1.epoch - 1),
    ]
    with database.transaction() as session:
        stolen, stored, old = records.store(session, calls, now=clock.now())
        refused, renewed = leases.renew(
            session, [lease_call(n0), lease_call(n1)], settings=settings, now=clock.now() + LATER
        )
        unknown, answered = assignments.answer(session, [poll(n0), poll(n1)])
    assert isinstance(stolen, NotSignedIn)
    assert isinstance(refused, NotSignedIn)
    assert isinstance(unknown, NotSignedIn)
    assert isinstance(old, Superseded)
    assert (stored.reply.acked_seq, len(stored.new)) == (2, 2)
    assert renewed.lease_s > 0
    assert [a["desired"] for a in json.loads(answered)["assignments"]] == ["prepare"] * 2
    with database.read() as session:
        found = dict(session.execute(select(AllocationRow.id, AllocationRow.observed)).all())
        heard = dict(session.execute(select(NodeRow.name, NodeRow.last_seen_at)).all())
    assert (found[a0], found[a1], found[a2]) == ("ASSIGNED", "READY", "ASSIGNED")
    assert heard["n1"] > heard["n0"]


def test_what_each_record_of_a_life_leaves_in_the_database(
    database, controller, agent, submit, time_machine
):
    time_machine.move_to("2026-11-01T00:00:00Z", tick=False)
    node = agent("n0", slots=1)
    submit(slots=1)
    controller.tick()
    (allocation_id,) = node.poll()
    failure = WorkerExit(local_rank=0, rank=0, exit_code=1, message="KeyError")
    life = (
        StateRecord(observed="PREPARING"),
        StateRecord(
            observed="READY",
            rendezvous=Rendezvous(host="10.0.0.1", port=29500, run_id="r"),
            facts=NodeFacts(torch_version="2.13"),
        ),
        StateRecord(observed="STARTING"),
        worker(device="cuda:0", backend="gloo"),
        worker(rank=5, pid=8, reports=True),
        StateRecord(observed="RUNNING", message="up"),
        StateRecord(
            observed="EXITED",
            message="rank 0 failed",
            exit=ExitInfo(cause="user_error", message="rank 0 failed", workers=[failure]),
        ),
    )
    seen = []
    for seq, record in enumerate(life, start=1):
        time_machine.shift(1)
        call = records_call(node, allocation_id, record, first=seq)
        for is_repeated in (False, True):
            with database.transaction() as session:
                (stored,) = records.store(session, [call], now=clock.now())
            assert (stored.reply.acked_seq, len(stored.new)) == (seq, 0 if is_repeated else 1)
        with database.read() as session:
            seen.append(session.get_one(AllocationRow, allocation_id).observed)
    assert seen == [
        "PREPARING", "READY", "STARTING", "STARTING", "STARTING", "RUNNING", "EXITED",
    ]  # fmt: skip
    with database.read() as session:
        row = session.get_one(AllocationRow, allocation_id)
        assert row.facts["torch_version"] == "2.13"
        assert (row.message, row.exit["cause"]) == ("rank 0 failed", "user_error")
        assert row.state_since == row.ended_at == clock.now()
        attempt = session.get_one(AttemptRow, row.attempt_id)
        assert (attempt.rendezvous_host, attempt.rendezvous_port) == ("10.0.0.1", 29500)
        one = session.scalars(select(WorkerRow)).one()
        assert (one.rank, one.pid, one.slot, one.reports) == (5, 8, 0, True)
        assert (one.device, one.backend) == ("cuda:0", "gloo"), "what was said before stays"
        assert (one.exit_code, one.exit_message) == (1, "KeyError")
        assert one.ended_at == clock.now()


def test_what_a_superseded_attempt_reports_changes_nothing(database, gangs):
    (node, old), (_, current), *_ = gangs
    steps = (StateRecord(observed="PREPARING"), worker(), MessageRecord(level="info", text="x"))
    with database.transaction() as session:
        trial_id = session.get_one(AllocationRow, old).trial_id
        session.get_one(TrialRow, trial_id).attempt_no = 2
        session.flush()
        before = everything(session)
        (stored,) = records.store(session, [records_call(node, old, *steps)], now=clock.now())
        assert (stored.reply.acked_seq, stored.reply.superseded, stored.new) == (3, True, [])
        assert everything(session) == before
        calls = [
            records_call(node, current, *steps, attempt_no=2),
            records_call(node, "unknown", *steps),
        ]
        for refused in records.store(session, calls, now=clock.now()):
            assert isinstance(refused, NotFound)
        assert everything(session) == before


def test_of_a_lost_allocation_only_its_end_counts(database, gangs):
    (node, allocation_id), *_ = gangs
    steps = [StateRecord(observed="RUNNING"), StateRecord(observed="EXITED")]
    with database.transaction() as session:
        session.get_one(AllocationRow, allocation_id).observed = "LOST"
    held = select(NodeSlotRow.idx).where(NodeSlotRow.allocation_id == allocation_id)
    for number, (observed, num_held) in enumerate([("LOST", 1), ("CLEANED", 0)], start=1):
        call = records_call(node, allocation_id, *steps[:number])
        with database.transaction() as session:
            (stored,) = records.store(session, [call], now=clock.now())
        assert (stored.reply.acked_seq, stored.reply.superseded) == (number, True)
        with database.read() as session:
            assert session.get_one(AllocationRow, allocation_id).observed == observed
            assert len(session.scalars(held).all()) == num_held


def test_what_a_heartbeat_leaves_in_the_database(database, agent, settings):
    node = agent("n0")
    usage = NodeUsage(cpu_pct=5.0, memory_used_bytes=1, memory_total_bytes=2, disk_free_bytes=3)
    problem = NodeProblem(kind="disk", message="almost full", blocks=True)
    now = clock.now() + LATER
    call = lease_call(
        node,
        usage=usage,
        clock=ClockReading(offset_ms=1.0, error_ms=2.0, skew_s=3.0),
        problems=[problem],
    )
    with database.transaction() as session:
        (reply,) = leases.renew(session, [call], settings=settings, now=now)
    with database.read() as session:
        row = session.scalars(select(NodeRow)).one()
        assert (row.last_seen_at, row.sampled_at) == (now, now)
        assert row.heard_by == settings.own_name
        assert row.lease_expires_at == now + dt.timedelta(seconds=reply.lease_s)
        assert row.usage["cpu_pct"] == 5.0
        assert (row.clock_offset_ms, row.clock_error_ms, row.clock_skew_s) == (1.0, 2.0, 3.0)
        assert [found["kind"] for found in row.problems] == ["disk"]
        assert row.health == "degraded"
        assert row.join_id == ""
        (sample,) = session.scalars(select(NodeSampleRow)).all()
        assert (sample.at, sample.usage["cpu_pct"]) == (now, 5.0)


def test_a_heartbeat_frees_what_was_lost_and_is_gone(database, gangs, settings):
    (node, gone), (_, lives), *_ = gangs
    with database.transaction() as session:
        for allocation_id in (gone, lives):
            session.get_one(AllocationRow, allocation_id).observed = "LOST"
    for running, observed in ((None, "LOST"), ([lives], "CLEANED")):
        with database.transaction() as session:
            call = lease_call(node, running=running)
            leases.renew(session, [call], settings=settings, now=clock.now() + LATER)
        with database.read() as session:
            assert session.get_one(AllocationRow, gone).observed == observed
            assert session.get_one(AllocationRow, lives).observed == "LOST"


@pytest.mark.parametrize("state", ["LOST", "SUSPECT"])
def test_a_node_of_which_something_was_given_up_registers_again(database, gangs, settings, state):
    (node, allocation_id), *_ = gangs
    with database.transaction() as session:
        session.get_one(NodeRow, node.node_id).state = state
        if state == "SUSPECT":
            session.get_one(AllocationRow, allocation_id).observed = "LOST"
        session.flush()
        before = everything(session)
        calls = [lease_call(node, running=[])]
        (refused,) = leases.renew(session, calls, settings=settings, now=clock.now() + LATER)
        assert isinstance(refused, Superseded)
        assert everything(session) == before


# ---------------------------------------------------------------- assignments


def test_every_field_of_an_assignment_is_sent(database, gangs):
    """Also one that is added: its column has its name."""
    (node, allocation_id), *_ = gangs
    stored = {
        "desired": "stop",
        "stop_reason": "a reason",
        "stop_kind": "user",
        "stop_grace_s": 7.5,
        "stacks_no": 3,
        "profile": {"no": 1, "ranks": [0], "num_steps": 2},
        "shards": dataclasses.asdict(ShardOrders(no=4, num_shards=7)),
    }
    with database.transaction() as session:
        session.execute(
            update(AllocationRow)
            .where(AllocationRow.id == allocation_id)
            .values(**stored, role="rollout", address="10.0.0.1:5")
        )
        session.execute(update(AttemptRow).values(rendezvous_host="h", rendezvous_port=5))
    with database.read() as session:
        (reply,) = assignments.answer(session, [poll(node)])
        row = session.get_one(AllocationRow, allocation_id)
        spec, run_id = row.spec, f"{row.trial_id}.1"
    found = json.loads(reply)["assignments"]
    (sent,) = (one for one in found if one["spec"]["allocation_id"] == allocation_id)
    fields = {field.name for field in dataclasses.fields(Assignment)}
    assert fields == {*stored, "spec", "rendezvous", "addresses"}, "give the new field a value"
    assert {name: sent[name] for name in stored} == stored
    assert sent["spec"] == spec
    assert sent["rendezvous"] == {"host": "h", "port": 5, "run_id": run_id}
    assert sent["addresses"]["rollout"] == "10.0.0.1:5"
    assert sent.keys() == fields


def test_a_set_is_sent_once_it_has_another_number(database, gangs):
    (node, _), *_ = gangs
    with database.read() as session:
        (reply,) = assignments.answer(session, [poll(node)])
        index = json.loads(reply)["index"]
        calls = [poll(node, unless=index), poll(node, unless=index - 1)]
        assert assignments.answer(session, calls) == [None, reply]


def test_only_the_node_that_is_to_describe_a_model_is_asked_to(database, gangs):
    nodes = list(dict.fromkeys(node for node, _ in gangs))
    question = {"settings": {}, "code": {"kind": "none"}, "python": None, "environment": {}}
    with database.transaction() as session:
        session.add(
            LayerTableRow(
                key="k", state="wanted", question=question, node_id=nodes[0].node_id,
                node_name="n0", layers=None, asked_at=clock.now(), ended_at=None,
            )
        )  # fmt: skip
    with database.read() as session:
        replies = assignments.answer(session, [poll(node) for node in nodes])
    asked = [load(AssignmentsReply, json.loads(reply)) for reply in replies]
    assert [len(one.descriptions) for one in asked] == [1, 0]
    assert [len(one.assignments) for one in asked] == [2, 2]


# ---------------------------------------------------------------- what the framework judges


def test_what_an_agent_of_this_version_does_not_say_is_judged_by_the_framework(gangs):
    (n0, a0), *_ = gangs

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
