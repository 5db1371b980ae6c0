"""Batch inference from the records of agents to the orders for workers."""

from __future__ import annotations

import pytest

from muster.wire import (
    CommittedPart,
    InputFile,
    OutputFile,
    ShardDone,
    ShardPlanRecord,
    ShardsRecord,
)
from muster_server.db.models import PredictionShardRow
from support.agent import start

from .test_model_uses import submitted, upload

DOCUMENT = """
name: predict
predict: {{model: digits, inputs: /data/*.jsonl, {options}}}
resources: {{slots: {slots}}}
restarts: {{infra: 5}}
"""


@pytest.fixture
def make(member_client):
    upload(member_client)

    def begin(slots=2, options="lease_s: 60"):
        return submitted(member_client, DOCUMENT.format(slots=slots, options=options))["id"]

    return begin


def plan(num_shards, rows=10):
    file = InputFile(
        path="/data/a.jsonl", kind="jsonl", size_bytes=1, mtime_ns=1, digest="0" * 64,
        num_rows=num_shards * rows,
    )  # fmt: skip
    return ShardPlanRecord(
        inputs=[file],
        input_nos=[0] * num_shards,
        first_rows=[n * rows for n in range(num_shards)],
        nums_rows=[rows] * num_shards,
        starts=[n * 20 for n in range(num_shards)],
        ends=[n * 20 + 20 for n in range(num_shards)],
    )


class Gang:
    """The workers of one allocation."""

    def __init__(self, node, allocation_id, ranks):
        self.node, self.allocation_id, self.ranks = node, allocation_id, ranks

    def say(self, rank, **fields):
        record = ShardsRecord(rank=rank, local_rank=rank - self.ranks[0], **fields)
        self.node.send(self.allocation_id, record)
        return self.orders

    @property
    def orders(self):
        return self.node.poll()[self.allocation_id].shards

    def held(self, rank):
        return [grant for grant in self.orders.grants if grant.rank == rank]

    def finish(self):
        for _ in range(20):
            for rank in self.ranks:
                self.say(rank, done=self.done(rank))
        assert self.orders.is_complete

    def done(self, rank, num_errors=0):
        return [
            ShardDone(
                no=g.no, token=g.token, num_rows=g.num_rows - num_errors, num_errors=num_errors,
                size_bytes=5, sha256=f"{g.no:064d}",
            )
            for g in self.held(rank)
        ]  # fmt: skip


def only_trial(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}")


def test_two_workers_share_the_shards_and_rank_0_lists_the_parts(controller, agent, make, show):
    node = agent()
    experiment_id = make()
    controller.tick()
    gang = Gang(node, start(controller, node), (0, 1))
    spec = node.specs[gang.allocation_id].spec
    assert (spec.launcher, spec.entrypoint) == ("direct", ["-m", "muster.inference.predict"])
    assert gang.say(0, parts=[], takes_none=True).wants_plan
    node.send(gang.allocation_id, plan(7))
    before = gang.say(0, takes_none=True)
    assert (before.wants_plan, before.grants, before.num_rows) == (False, [], 70)
    gang.say(0)
    gang.say(1)
    first = gang.orders
    assert {(g.rank, g.no, g.token) for g in first.grants} == {(0, 0, 1), (1, 1, 1)}
    assert first.inputs["0"].path == "/data/a.jsonl"
    assert first.grants[1].start, first.grants[1].end == (20, 40)
    late = gang.done(0)
    gang.finish()
    gang.say(0, done=late)
    assert gang.orders.refused == [], "said again is no second commit"
    gang.say(0, parts_from=0)
    assert [part.sha256 for part in gang.orders.parts] == [f"{no:064d}" for no in range(7)]
    assert gang.say(0, parts_from=5).parts == [
        CommittedPart(token=1, num_rows=10, num_errors=0, size_bytes=5, sha256=f"{no:064d}")
        for no in (5, 6)
    ]
    no = gang.orders.no
    assert gang.say(0, parts_from=5).no == no, "nothing new wakes nobody"
    trial = only_trial(show, experiment_id)
    assert trial["prediction"] == {
        "num_shards": 7, "num_done": 7, "num_rows": 70, "rows_done": 70, "num_errors": 0, "problem": "",
    }  # fmt: skip
    said = [e["message"] for e in show(f"/trials/{trial['id']}/events")["items"]]
    assert "Batch inference: 70 rows of 1 inputs in 7 shards." in said


def test_a_silent_worker_loses_its_shards_and_its_late_part_counts_for_nothing(
    controller, agent, make, time_machine, settings
):
    time_machine.move_to("2026-01-01T00:00:00Z", tick=False)
    node = agent()
    make(options="lease_s: 10")
    controller.tick()
    gang = Gang(node, start(controller, node), (0, 1))
    gang.say(0, parts=[])
    node.send(gang.allocation_id, plan(1))
    gang.say(0)
    slow = gang.done(0)
    gang.say(1)
    assert gang.held(1) == []
    time_machine.shift(11)
    gang.say(1)
    assert [(g.no, g.token) for g in gang.held(1)] == [(0, 2)]
    assert gang.say(0, done=slow).refused == [[0, 1]]
    assert not gang.orders.is_complete
    assert gang.say(1, done=gang.done(1)).is_complete


def test_the_next_attempt_goes_on_and_computes_again_what_is_nowhere(
    controller, agent, make, database, show, time_machine
):
    time_machine.move_to("2026-01-01T00:00:00Z", tick=False)
    node = agent()
    experiment_id = make()
    controller.tick()
    gang = Gang(node, start(controller, node), (0, 1))
    gang.say(0, parts=[])
    node.send(gang.allocation_id, plan(6))
    gang.say(0)
    gang.say(0, done=gang.done(0))
    gang.say(0, done=gang.done(0))
    assert gang.orders.num_done == 2
    stale = gang.done(0)
    node.exit(gang.allocation_id, "killed")
    controller.tick()
    time_machine.shift(5)  # longer than the pause before the first restart
    controller.tick()
    old = gang.allocation_id
    (new_id,) = (a for a in node.poll() if a != old)
    node.get_ready(new_id)
    controller.tick()
    node.run(new_id)
    again = Gang(node, new_id, (0, 1))
    again.say(1)
    assert [g.token for g in again.held(1)] == [2], "what the last attempt held is free at once"
    orders = again.say(0, parts=[[0, 1], [5, 7]], takes_none=True)
    assert orders.num_done == 1, "one of the parts is not there any more"
    with database.read() as session:
        lost = session.query(PredictionShardRow).filter_by(no=1).one()
        assert lost.state == "free"
    node.send(old, ShardsRecord(rank=0, local_rank=0, done=stale))
    assert again.orders.num_done == 1, "the old attempt is fenced off"
    again.finish()
    trial = only_trial(show, experiment_id)
    assert (trial["attempt_no"], trial["prediction"]["rows_done"]) == (2, 60)


def test_parts_of_a_node_that_is_not_needed_any_more_are_where_they_were_collected(
    controller, agent, make, database
):
    """An attempt on fewer nodes: what the other node has delivered still counts."""
    node, other = agent("node-1", slots=1), agent("node-2", slots=1)
    make(slots=2)
    controller.tick()
    ids = {n: n.only().spec.allocation_id for n in (node, other)}
    for n, allocation_id in ids.items():
        n.get_ready(allocation_id, port=1 if n.specs[allocation_id].spec.node_rank == 0 else None)
    controller.tick()
    for n, allocation_id in ids.items():
        n.run(allocation_id)
    controller.tick()
    gangs = [Gang(n, ids[n], (n.specs[ids[n]].spec.node_rank,)) for n in (node, other)]
    gangs.sort(key=lambda gang: gang.ranks)
    first, second = gangs
    first.say(0, parts=[])
    first.node.send(first.allocation_id, plan(3))
    first.say(0, done=[])
    second.say(1, parts=[])
    for _ in range(5):
        first.say(0, done=first.done(0))
        second.say(1, done=second.done(1))
    assert first.say(0).is_complete
    with database.transaction() as session:
        rows = {row.no: row for row in session.query(PredictionShardRow)}
        by_rank = {no: row.rank for no, row in rows.items()}
    assert set(by_rank.values()) == {0, 1}
    path = "muster-outputs/predictions/part-{:05d}-1.jsonl"
    delivered = [no for no, rank in by_rank.items() if rank == 1]
    second.node.send_outputs(
        second.allocation_id,
        [
            OutputFile(path=path.format(no), state="kept", size_bytes=5, sha256="0" * 64)
            for no in delivered
        ],
    )
    from muster_server.services.runtime import predictions

    with database.read() as session:
        trial_id = first.node.specs[first.allocation_id].spec.trial_id
        assert predictions._collected(session, trial_id, 1) == {(no, 1) for no in delivered}
        assert predictions._collected(session, trial_id, 2) == set()


def test_too_many_errors_end_the_job(controller, agent, make, show):
    node = agent()
    experiment_id = make(options="max_errors: 0.1")
    controller.tick()
    gang = Gang(node, start(controller, node), (0, 1))
    gang.say(0, parts=[])
    node.send(gang.allocation_id, plan(2))
    gang.say(0)
    assert gang.say(0, done=gang.done(0, num_errors=2)).problem == ""
    gang.say(0)
    orders = gang.say(0, done=gang.done(0, num_errors=1))
    assert orders.problem.startswith("3 rows of 20 could not be predicted")
    assert not orders.is_complete
    assert only_trial(show, experiment_id)["prediction"]["num_errors"] == 3


def test_a_plan_that_makes_no_sense_ends_the_job(controller, agent, make):
    node = agent()
    make()
    controller.tick()
    gang = Gang(node, start(controller, node), (0, 1))
    gang.say(0, parts=[])
    broken = plan(2)
    broken.input_nos[1] = 4
    node.send(gang.allocation_id, broken)
    assert "names inputs that it does not have" in gang.say(0).problem


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ("inputs: rows.jsonl", "predict.inputs[0]"),
        ("inputs: []", "predict.inputs"),
        ("inputs: /d/a.jsonl, function: mine", "predict.function"),
        ("inputs: /d/a.jsonl, function: 'mine:predict'", "code"),
        ("inputs: /d/a.jsonl, max_errors: 1.5", "predict.max_errors"),
        ("inputs: /d/a.jsonl}\noutputs: null\nlabels: {a: b", "outputs"),
        ("inputs: /d/a.jsonl}\nlauncher: plain\nlabels: {a: b", "launcher"),
    ],
)
def test_a_document_that_cannot_run_names_the_field(member_client, changes, field):
    upload(member_client)
    document = f"name: predict\npredict: {{model: digits, {changes}}}\n"
    reply = submitted(member_client, document, 422)
    assert field in [problem["path"] for problem in reply["error"]["fields"]]
