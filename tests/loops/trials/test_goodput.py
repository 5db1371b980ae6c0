"""Ledgers through the real API and controller: each second of each attempt is where it was spent."""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import io

import pytest
import time_machine
from sqlalchemy import select

from muster.wire import (
    CHECKPOINT_DAMAGED,
    CheckpointRecord,
    MessageRecord,
    MetricsRecord,
    SeriesPoints,
    WorkerRecord,
    encode_number,
)
from muster_server.db.models import LedgerDayRow, LedgerRow, NodeSampleRow
from muster_server.domain.goodput.ledger import CLASSES
from muster_server.services.goodput.updating import update_due
from muster_server.services.metrics.compaction import compact_trial

BEGAN = dt.datetime(2026, 3, 2, 9, 0, tzinfo=dt.UTC)
WORKER = WorkerRecord(
    local_rank=0, rank=0, world_size=1, node_rank=0, pid=1, host="n", master_addr="n",
    master_port=1, reports=True,
)  # fmt: skip


@pytest.fixture
def at():
    """`at(90)`: it is 90 s later than when the test began."""
    with time_machine.travel(BEGAN, tick=False) as traveller:
        yield lambda seconds: traveller.move_to(BEGAN + dt.timedelta(seconds=seconds))


@pytest.fixture
def count(database):
    def update(seconds):
        return update_due(database, BEGAN + dt.timedelta(seconds=seconds), budget_s=60.0)

    return update


def rows(steps, *, begin_s, step_s=1.0, **ms):
    """Rows of single steps that begin at `begin_s`."""
    times = [begin_s + step_s * no for no in range(1, len(steps) + 1)]
    values = {"time/step_ms": 1e3 * step_s, "time/other_ms": 0.0, **ms}
    return MetricsRecord(
        local_rank=0,
        rank=0,
        step=steps[-1],
        series=[
            SeriesPoints(
                name=name,
                steps=list(steps),
                times_ms=[int(1e3 * (BEGAN.timestamp() + at)) for at in times],
                values=[encode_number(value)] * len(steps),
            )
            for name, value in values.items()
        ],
    )


class Played:
    """An agent with one node, led through attempts at times of the test's own."""

    def __init__(self, controller, node, at):
        self.controller, self.node, self.at = controller, node, at

    def move(self, seconds):
        self.at(seconds)
        self.node.beat()

    def begin(self, placed_s, started_s, worker=WORKER):
        self.move(placed_s)
        self.controller.tick()
        allocation_id = self.node.only().spec.allocation_id
        self.move(started_s)
        self.node.get_ready(allocation_id)
        self.controller.tick()
        self.node.state(allocation_id, "STARTING")
        self.node.send(allocation_id, worker)
        self.node.state(allocation_id, "RUNNING")
        self.controller.tick()
        return allocation_id

    def end(self, allocation_id, cause, noticed_s, freed_s):
        """The process ends at `noticed_s`; what is left of it is cleaned at `freed_s`."""
        self.move(noticed_s)
        self.node.state(allocation_id, "STOPPING")
        self.node.exit(allocation_id, cause)
        self.move(freed_s)
        self.controller.tick()


@pytest.fixture
def played(controller, agent, at):
    return Played(controller, agent(slots=2), at)


def save(step):
    return CheckpointRecord(step=step, path=f"s{step}", size_bytes=1, files={"a": "0"})


def ledger(show, experiment_id):
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return show(f"/trials/{trial['id']}/goodput")


def test_a_training_that_failed_once_has_each_second_in_its_class(
    played, submit, show, count, database, admin_client, at
):
    admin_client.put("/api/v1/pools/default", json={"price_per_slot_hour": 3600})
    experiment_id = submit("restarts: {user: 1}", slots=2)
    first = played.begin(10, 40)
    played.node.send(first, rows(range(1, 81), begin_s=60), save(80))
    played.node.send(first, rows(range(81, 101), begin_s=140))
    played.end(first, "user_error", 165, 170)
    at(171)
    assert count(171) == 1

    second = played.begin(300, 310)
    played.node.send(second, rows(range(81, 151), begin_s=320))
    played.end(second, "success", 395, 400)
    at(400)
    found = ledger(show, experiment_id)
    assert found["allocated_s"] == pytest.approx(2 * (160 + 100), rel=1e-3)
    assert found["classes"] == pytest.approx(
        {
            "preparing": 2 * (30 + 10),
            "starting": 2 * (20 + 10),
            "productive": 2 * (80 + 70),
            "repeated": 2 * 20,
            "undetected": 2 * 5,
            "finishing": 2 * 5,
            "stopping": 2 * (5 + 5),
        },
        abs=0.5,
    )
    assert found["parts"]["computation"] == pytest.approx(2 * 150, abs=0.5)
    assert [a["kept_step"] for a in found["attempts"]] == [80, None]
    assert found["attempts"][0]["queued_s"] == pytest.approx(10, abs=0.5)
    assert found["headline"] == (
        "42% of the slot time moved no training forward. 15% went into preparing nodes: environment, "
        "image, code and checks. 12% passed before the first step: imports, rendezvous, loading and "
        "compiling."
    )

    # What is stored is what was shown, however often it is counted, also once the curves show the steps
    # that were repeated no more.
    compact_trial(database, ledger(show, experiment_id)["trial_id"], BEGAN)
    assert ledger(show, experiment_id)["classes"] == pytest.approx(found["classes"])
    for _ in range(3):
        count(401)
    total = show("/goodput?days=366&by=user")
    assert total["classes"] == pytest.approx(found["classes"])
    assert total["cost"] == pytest.approx(found["allocated_s"])
    assert total["losses"][0]["kind"] == "preparing"
    (trial,) = total["trials"]
    assert (trial["address"], trial["largest"]) == (f"{experiment_id}.1", "preparing")
    assert total["groups"][0]["name"] == "member"
    spent = show(f"/experiments/{experiment_id}")["spending"]["slot_hours"]
    assert total["allocated_s"] == pytest.approx(3600 * spent, rel=5e-3)


@pytest.mark.parametrize(("damaged", "repeated_s"), [(False, 5), (True, 20)])
def test_steps_that_only_the_disk_of_the_node_had_are_not_repeated(
    played, submit, show, count, at, damaged, repeated_s
):
    experiment_id = submit("restarts: {user: 1}\ncheckpoints: {local: true}", slots=2)
    first = played.begin(10, 40)
    played.node.send(first, rows(range(1, 81), begin_s=60), save(80))
    played.node.send(first, rows(range(81, 96), begin_s=140))
    played.node.send(first, dataclasses.replace(save(95), is_local=True))
    played.node.send(first, rows(range(96, 101), begin_s=155))
    played.end(first, "user_error", 165, 170)
    second = played.begin(300, 310)
    count(310)
    if damaged:
        played.node.send(
            second,
            MessageRecord(
                level="warning", text="95 is damaged", event=CHECKPOINT_DAMAGED, resume_step=80
            ),
        )
    begin = 81 if damaged else 96
    played.node.send(second, rows(range(begin, 151), begin_s=320))
    played.end(second, "success", 395, 400)
    at(400)
    count(400)
    found = ledger(show, experiment_id)
    assert found["classes"]["repeated"] == pytest.approx(2 * repeated_s, abs=0.5)
    assert found["classes"]["productive"] == pytest.approx(2 * 150, abs=0.5)
    assert [a["kept_step"] for a in found["attempts"]] == [begin - 1, None]


def test_the_slots_of_a_lost_node_are_held_until_it_was_lost(
    played, agent, submit, show, at, count
):
    experiment_id = submit("restarts: {infra: 0, user: 0}", slots=1)
    first = played.begin(0, 10)
    played.node.send(first, rows(range(1, 21), begin_s=10))
    other = agent("node-2", slots=1)
    for seconds in range(35, 240, 5):
        at(seconds)
        other.beat()
        played.controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    (attempt,) = show(f"/trials/{trial['id']}")["attempts"]
    lost_s = (dt.datetime.fromisoformat(attempt["ended_at"]) - BEGAN).total_seconds()
    assert (attempt["state"], 40 < lost_s < 240) == ("LOST", True)
    at(1000)
    played.node.beat(expect=410)
    played.node.register()
    played.node.beat(running=[])
    played.controller.tick()
    count(1000)
    found = ledger(show, experiment_id)
    assert found["allocated_s"] == pytest.approx(lost_s)
    spent = show(f"/experiments/{experiment_id}")["spending"]["slot_hours"]
    assert found["allocated_s"] == pytest.approx(3600 * spent)
    assert found["classes"]["undetected"] == pytest.approx(lost_s - 30)


@pytest.mark.parametrize("logged", [{"train/loss": 1.0}, {}])
def test_nobody_says_that_a_script_without_checkpoints_starts_over(
    played, submit, show, count, at, logged
):
    """It may have gone on from a file of its own, and values of a log without steps are numbered."""
    experiment_id = submit("restarts: {user: 1}", slots=1)
    first = played.begin(0, 10)
    played.node.send(first, rows(range(1, 51), begin_s=10, **logged))
    played.end(first, "user_error", 61, 62)
    second = played.begin(170, 180)
    played.node.send(second, rows(range(1, 71), begin_s=180, **logged))
    played.end(second, "success", 251, 252)
    at(252)
    count(252)
    found = ledger(show, experiment_id)
    assert found["classes"]["unmeasured"] == pytest.approx(50, abs=0.5)
    assert found["classes"]["productive"] == pytest.approx(70, abs=0.5)
    assert "repeated" not in found["classes"]


@pytest.mark.parametrize("unit", [1, 64])
def test_steps_timed_from_outside_are_compared_with_those_that_the_script_logs(
    played, submit, show, count, at, unit
):
    """Each attempt is timed from step 1 on, while a script that resumes by itself goes on with its own
    steps: here from 30 to 60 and, after another failure, again from 40; or in samples, 64 a step."""

    def train(attempt, first, num, begin_s):
        logged = [unit * (first + no) for no in range(0, num, 5)]
        times = [int(1e3 * (BEGAN.timestamp() + begin_s + 1.5 + no)) for no in range(0, num, 5)]
        printed = MetricsRecord(
            local_rank=0, rank=0, step=logged[-1],
            series=[SeriesPoints(name="loss", steps=logged, times_ms=times,
                                 values=[encode_number(1.0)] * len(logged))],
        )  # fmt: skip
        played.node.send(attempt, rows(range(1, num + 1), begin_s=begin_s), printed)

    experiment_id = submit("restarts: {user: 2}", slots=1)
    for placed_s, first_step, num in ((0, 1, 50), (300, 31, 30), (600, 41, 20)):
        attempt = played.begin(placed_s, placed_s + 10)
        train(attempt, first_step, num, placed_s + 10)
        is_last = placed_s == 600
        played.end(attempt, "success" if is_last else "user_error", placed_s + 71, placed_s + 72)
        at(placed_s + 72)
        count(placed_s + 72)
    attempts = ledger(show, experiment_id)["attempts"]
    repeated = [a["classes"].get("repeated", 0.0) for a in attempts]
    assert repeated == pytest.approx([20, 20, 0], abs=1.1)


def test_work_of_a_trial_that_failed_is_abandoned_until_somebody_uses_its_checkpoint(
    played, submit, show, count, at, member_client, database
):
    experiment_id = submit("restarts: {user: 0}", slots=1)
    first = played.begin(0, 10)
    played.node.send(first, rows(range(1, 51), begin_s=10), save(50))
    played.end(first, "user_error", 61, 62)
    at(63)
    count(63)
    assert ledger(show, experiment_id)["classes"]["abandoned"] == pytest.approx(50, abs=0.5)
    assert show("/goodput?days=366")["classes"]["abandoned"] == pytest.approx(50, abs=0.5)

    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    (checkpoint,) = show(f"/trials/{trial['id']}/checkpoints")["items"]
    answer = member_client.post(
        f"/api/v1/experiments/{experiment_id}:fork",
        json={"from": {"checkpoint": checkpoint["id"]}},
    )
    assert answer.status_code == 201, answer.text
    second = played.begin(70, 71)
    at(72)
    count(72)
    count(72)
    assert ledger(show, experiment_id)["classes"].get("abandoned", 0) == 0
    assert show("/goodput?days=366")["classes"]["productive"] == pytest.approx(50, abs=0.5)
    played.end(second, "success", 80, 81)


def test_a_running_attempt_is_counted_to_its_last_row_and_its_silence_is_seen(
    played, submit, show, count, at
):
    experiment_id = submit(slots=1)
    first = played.begin(0, 10)
    played.node.send(first, rows(range(1, 601), begin_s=10))
    at(612)
    count(612)
    found = ledger(show, experiment_id)
    assert found["allocated_s"] == pytest.approx(610, abs=0.5)
    assert "undetected" not in found["classes"]
    at(4000)
    count(4000)
    assert ledger(show, experiment_id)["classes"]["undetected"] == pytest.approx(3390, abs=1)
    assert show("/goodput?days=366")["classes"]["undetected"] == pytest.approx(3390, abs=1)
    played.node.send(first, rows(range(601, 700), begin_s=4000))
    at(4100)
    found = ledger(show, experiment_id)
    assert found["classes"]["stalled"] == pytest.approx(3390, abs=5)


def test_what_was_spent_outlives_its_experiment_and_can_be_charged(
    played, submit, show, count, at, member_client, admin_client, database
):
    admin_client.put("/api/v1/pools/default", json={"price_per_slot_hour": 36})
    experiment_id = submit(slots=2)
    first = played.begin(0, 10)
    played.node.send(first, rows(range(1, 51), begin_s=10))
    played.end(first, "success", 60, 60)
    at(60)
    count(60)
    text = member_client.get("/api/v1/goodput/export?days=366").text
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["project"], row["user"], row["pool"]) == ("default", "member", "default")
    assert float(row["allocated_slot_hours"]) == pytest.approx(2 * 60 / 3600, rel=1e-3)
    assert float(row["cost"]) == pytest.approx(2 * 60 / 100, rel=1e-3)

    assert member_client.delete(f"/api/v1/experiments/{experiment_id}").status_code < 300
    played.controller.tick()
    with database.read() as session:
        assert session.scalars(select(LedgerRow)).all() == []
        (day,) = session.scalars(select(LedgerDayRow))
        assert day.attempt_id is None
        assert sum(getattr(day, kind) for kind in CLASSES) == pytest.approx(120, rel=1e-3)
    after = member_client.get("/api/v1/goodput/export?days=366").text
    assert after == text


def test_a_state_that_nothing_is_known_of_is_not_guessed(played, submit, show, at, count):
    experiment_id = submit(slots=1)
    silent = WorkerRecord(**{**vars(WORKER), "reports": False})
    allocation_id = played.begin(0, 10, silent)
    played.end(allocation_id, "success", 100, 100)
    at(100)
    count(100)
    found = ledger(show, experiment_id)
    assert found["classes"]["unmeasured"] == pytest.approx(90, abs=0.5)
    assert found["headline"].startswith("Unknown: 90% of the slot time has no measured steps.")


@pytest.mark.parametrize("use_pct", [(0, 0), (0, 40)])
def test_slots_whose_gpus_do_nothing_are_idle(
    controller, agent, submit, show, at, database, use_pct
):
    at(0)
    played = Played(controller, agent(slots=2, slot_type="cuda"), at)
    experiment_id = submit(slots=2, slot_type="cuda")
    silent = WorkerRecord(**{**vars(WORKER), "reports": False})
    allocation_id = played.begin(0, 10, silent)
    with database.transaction() as session:
        for no in range(10):
            gpus = [
                {"index": i, "use_pct": pct} for i, pct in enumerate(use_pct if no < 5 else (0, 1))
            ]
            session.add(
                NodeSampleRow(
                    node_id=played.node.node_id,
                    at=BEGAN + dt.timedelta(seconds=15 + no),
                    usage={"gpus": gpus},
                )
            )
    played.end(allocation_id, "success", 110, 110)
    found = ledger(show, experiment_id)
    classes = found["classes"]
    (use,) = found["efficiency"]["used"]
    assert (use["name"], use["num_samples"]) == ("gpu_pct", 10)
    assert use["peak"] == pytest.approx(max(sum(use_pct) / 2, 0.5))
    assert found["efficiency"]["advice"] == [], "ten samples are too few"
    idle = 200 if max(use_pct) < 5 else 100
    assert classes["idle"] == pytest.approx(idle, abs=1)
    assert classes.get("unmeasured", 0) == pytest.approx(200 - idle, abs=1)
