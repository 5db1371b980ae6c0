"""GET /api/v1/cluster: every number says over how many trials it is."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import AttemptRow, MetricSeriesRow, NodeRow, NodeSlotRow, WorkerRow
from muster_server.services.core.events import add_event
from muster_server.services.nodes import utilization
from support.data import add_attempt, add_experiment, add_trial, add_worker


def test_sums_and_shares_say_over_what_they_are(database, viewer_client):
    """Communication is a sum over a sum: that of a slow worker weighs as much as it takes."""
    with database.transaction() as session:
        experiment = add_experiment(session)
        reported: list[tuple[str, float | str | None, list[tuple[float, float]]]] = [
            ("RUNNING", 100.0, [(10.0, 100.0), (50.0, 100.0)]),
            ("RUNNING", 50.0, [(240.0, 800.0)]),
            ("RUNNING", "NaN", []),
            ("COMPLETED", 999.0, [(9.0, 9.0)]),
        ]
        for no, (state, rate, workers) in enumerate(reported, 1):
            row = add_trial(session, experiment, no=no)
            (allocation,) = add_attempt(session, row)
            row.state = state
            row.summary = {"throughput/samples_per_s": {"last": rate}}
            for local_rank, (exposed, step) in enumerate(workers):
                worker = add_worker(session, allocation, local_rank)
                worker.latest = {"comm/exposed_ms": exposed, "time/step_ms": step}
    reply = viewer_client.get("/api/v1/cluster").json()
    assert reply["num_trials_running"] == 3
    assert (reply["samples_per_s"], reply["num_trials_throughput"]) == (150.0, 2)
    assert reply["comm_overhead_ratio"] == pytest.approx(300 / 1000)
    assert (reply["num_trials_comm"], reply["num_workers_comm"]) == (2, 3)


def test_every_failure_of_the_last_day_counts_and_equal_reasons_are_one(database, viewer_client):
    now = clock.now()
    with database.transaction() as session:
        told = [("exit code 1", hours) for hours in range(1, 24)]
        told += [("exit code 1", 25), ("no such file", 2)]
        for reason, hours in told:
            experiment = add_experiment(session)
            experiment.state, experiment.reason = "FAILED", reason
            experiment.ended_at = now - dt.timedelta(hours=hours)
        archived = add_experiment(session)
        archived.state, archived.archived_at, archived.ended_at = "FAILED", now, now
    reply = viewer_client.get("/api/v1/cluster").json()
    assert reply["num_failures"] == 24
    assert [(f["reason"], f["count"]) for f in reply["failures"]] == [
        ("exit code 1", 23),
        ("no such file", 1),
    ]
    assert dt.datetime.fromisoformat(reply["failures"][0]["ended_at"]) == now - dt.timedelta(
        hours=1
    )


def test_without_reports_there_is_no_number(viewer_client):
    reply = viewer_client.get("/api/v1/cluster").json()
    assert (reply["samples_per_s"], reply["num_trials_throughput"]) == (None, 0)
    assert (reply["comm_overhead_ratio"], reply["num_trials_comm"]) == (None, 0)


MINUTE = dt.timedelta(minutes=1)


def add_node(session, node_id, *, pool="default", slots=2, state="ONLINE", age=MINUTE * 400):
    now = clock.now()
    session.add(
        NodeRow(
            id=node_id, name=node_id, pool=pool, state=state, credential_hash=node_id,
            registered_at=now - age, last_seen_at=now, lease_expires_at=now + MINUTE,
        )
    )  # fmt: skip
    session.flush()
    for idx in range(slots):
        session.add(NodeSlotRow(node_id=node_id, idx=idx, slot_type="cpu"))


def add_held(session, node, slots, start, end):
    trial = add_trial(session, add_experiment(session))
    (allocation,) = add_attempt(session, trial)
    allocation.node_id, allocation.slots = node, slots
    allocation.created_at, allocation.ended_at = start, end


def use(client, hours=1):
    reply = client.get("/api/v1/cluster/utilization", params={"hours": hours})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_slots_in_use_over_time_for_each_pool(database, viewer_client):
    now = clock.now()
    with database.transaction() as session:
        add_node(session, "n0")
        add_node(session, "n1", pool="big", slots=4)
        add_node(session, "n2", pool="big", slots=4, state="LOST")
        add_node(session, "n3", pool="young", age=10 * MINUTE)
        add_held(session, "n0", [0, 1], now - 30 * MINUTE, now - 10 * MINUTE)
        add_held(session, "n1", [2], now - 20 * MINUTE, None)
        add_held(session, "n0", [0], now - 300 * MINUTE, now - 200 * MINUTE)
        add_held(session, "gone", [0], now - 30 * MINUTE, now - 10 * MINUTE)
    reply = use(viewer_client)
    assert [(p["pool"], p["slot_type"]) for p in reply["pools"]] == [
        ("big", "cpu"), ("default", "cpu"), ("young", "cpu"),
    ]  # fmt: skip
    assert (len(reply["times"]), reply["bucket_s"], reply["complete_since"]) == (96, 37.5, None)
    big, default, young = (pool["held"] for pool in reply["pools"])
    assert sum(default) * 37.5 == pytest.approx(2 * 20 * 60, abs=1)
    assert (max(default), default[0], default[-1]) == (2.0, 0.0, 0.0)
    assert young[0] is None
    assert young[-1] == 0.0
    assert sum(value is None for value in young) == pytest.approx(96 * 50 / 60, abs=1)
    assert big[-1] == pytest.approx(1.0, abs=0.05)


def test_the_slots_of_the_cluster_are_the_sum_of_its_pools(database, viewer_client):
    with database.transaction() as session:
        add_node(session, "n0", slots=3)
        add_node(session, "n1", pool="big", slots=4)
        add_node(session, "n2", pool="big", slots=4, state="LOST")
        add_node(session, "n3", pool="gone", state="LOST")
        session.flush()
        for slot in session.scalars(select(NodeSlotRow).where(NodeSlotRow.node_id != "n1")):
            slot.allocation_id = f"a{slot.node_id}"
    reply = viewer_client.get("/api/v1/cluster").json()
    assert reply["pools"] == [
        {
            "pool": "big",
            "slot_type": "cpu",
            "num_slots": 4,
            "num_slots_used": 0,
            "num_slots_free": 4,
        },
        {
            "pool": "default",
            "slot_type": "cpu",
            "num_slots": 3,
            "num_slots_used": 3,
            "num_slots_free": 0,
        },
        {
            "pool": "gone",
            "slot_type": "cpu",
            "num_slots": 0,
            "num_slots_used": 0,
            "num_slots_free": 0,
        },
    ]
    assert (reply["num_slots"], reply["num_slots_used"]) == (7, 3)


def test_a_node_that_registers_again_has_joined_when_it_first_did(database, viewer_client):
    now = clock.now()
    with database.transaction() as session:
        add_node(session, "n0", age=5 * MINUTE)  # it registered again
        add_node(session, "n1", age=30 * MINUTE)
        for age in (50, 5):
            add_event(
                session, "node.registered", "", now=now - age * MINUTE, level="info", node_id="n0"
            )
    nodes = {node["name"]: node for node in viewer_client.get("/api/v1/nodes").json()["items"]}
    assert moment(nodes["n0"]["joined_at"]) == now - 50 * MINUTE
    assert nodes["n0"]["registered_at"] > nodes["n0"]["joined_at"]
    assert nodes["n1"]["registered_at"] == nodes["n1"]["joined_at"], "of before there were events"
    one = viewer_client.get("/api/v1/nodes/n0").json()
    assert one["joined_at"] == nodes["n0"]["joined_at"]
    (pool,) = use(viewer_client)["pools"]
    known = sum(value is not None for value in pool["held"])
    assert known * 37.5 == pytest.approx(50 * 60, abs=60)


def moment(text):
    return dt.datetime.fromisoformat(text)


def test_beyond_so_many_allocations_the_earlier_part_is_unknown(
    database, viewer_client, monkeypatch
):
    monkeypatch.setattr(utilization, "MAX_ALLOCATIONS", 2)
    now = clock.now()
    with database.transaction() as session:
        add_node(session, "n0")
        for minutes in (10, 20, 30, 40):
            add_held(session, "n0", [0], now - (minutes + 5) * MINUTE, now - minutes * MINUTE)
    reply = use(viewer_client)
    assert reply["complete_since"] is not None
    (pool,) = reply["pools"]
    known = [value for value in pool["held"] if value is not None]
    assert pool["held"][0] is None
    assert sum(known) * 37.5 == pytest.approx(2 * 5 * 60, abs=40)


def test_the_period_has_limits(viewer_client):
    for hours in (0, 169):
        reply = viewer_client.get("/api/v1/cluster/utilization", params={"hours": hours})
        assert reply.status_code == 422


def test_a_trial_is_stuck_until_one_of_its_ranks_moves(database, viewer_client):
    noticed = clock.now()
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        trial_id = trial.id
        for rank, quiet in enumerate((5, 9)):
            session.add(
                WorkerRow(
                    allocation_id=allocation.id, trial_id=trial.id, attempt_no=1, rank=rank,
                    local_rank=rank, slot=rank, pid=1, node_rank=0, world_size=2, node_name="n0",
                    host="h", master_addr="h", master_port=1, moved_at=noticed - quiet * MINUTE,
                    started_at=noticed - 20 * MINUTE, last_report_at=noticed,
                )
            )  # fmt: skip
    reply = viewer_client.get("/api/v1/cluster").json()
    assert (reply["stuck"], reply["num_stuck"]) == ([], 0)
    with database.transaction() as session:
        session.query(AttemptRow).filter_by(trial_id=trial_id).one().stuck_at = noticed
    reply = viewer_client.get("/api/v1/cluster").json()
    (stuck,) = reply["stuck"]
    assert (stuck["trial_id"], reply["num_stuck"]) == (trial_id, 1)
    assert dt.datetime.fromisoformat(stuck["moved_at"]) == noticed - 5 * MINUTE
    with database.transaction() as session:
        session.query(WorkerRow).filter_by(rank=1).one().moved_at = noticed + MINUTE
    assert viewer_client.get("/api/v1/cluster").json()["stuck"] == []


def test_a_diverged_run_is_named_however_old_it_is(database, viewer_client):
    with database.transaction() as session:
        diverged = []
        for number in range(30):
            experiment = add_experiment(session)
            trial = add_trial(session, experiment)
            value = "NaN" if number < 22 else 0.5
            session.add(
                MetricSeriesRow(
                    trial_id=trial.id, attempt_no=1, rank=0, name="train/loss", count=3,
                    last_text="NaN" if number < 22 else "",
                )
            )  # fmt: skip
            trial.summary = {"train/loss": {"last": value, "step": 3, "min": 0.5, "max": 0.5}}
            if number < 22:
                diverged.append(experiment.id)
        trial.state, trial.summary = "COMPLETED", {"train/loss": {"last": "NaN", "step": 3}}
    reply = viewer_client.get("/api/v1/cluster").json()
    shown = [one["experiment_id"] for one in reply["warnings"]]
    assert shown == sorted(diverged, reverse=True)[:20]
    assert reply["num_warnings"] == 22
    first = reply["warnings"][-1]
    assert (first["non_finite_metric"], first["standstill"]) == ("train/loss", None)
    assert first["only_trial_id"] is not None
