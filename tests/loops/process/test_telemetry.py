"""What a working control plane tells Prometheus: passes, decisions, and what agents sent."""

from __future__ import annotations

import datetime as dt
import threading

import pytest
from sqlalchemy import update

from muster.wire import MetricsRecord, SeriesPoints
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import ExperimentRow
from muster_server.live.waker import HintWaker
from muster_server.loops.runner import Controller, run_until


def sample(telemetry, name, **labels):
    return telemetry.registry.get_sample_value(name, labels)


def three_rows():
    steps = [1, 2, 3]
    return MetricsRecord(
        local_rank=0,
        rank=0,
        series=[
            SeriesPoints(name=name, steps=steps, times_ms=[1, 2, 3], values=[0.5, 0.4, "NaN"])
            for name in ("train/loss", "train/lr")
        ],
        step=3,
    )


def test_stored_records_are_counted_once_however_often_they_come(app, agent, submit, controller):
    telemetry = app.state.telemetry
    node = agent(slots=1)
    submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    node.send(allocation_id, three_rows())
    node.send(allocation_id, numbered=node.streams[allocation_id])  # the answer was lost
    assert sample(telemetry, "muster_ingest_records_total", type="metrics") == 1
    assert sample(telemetry, "muster_ingest_records_total", type="state") == 4
    assert sample(telemetry, "muster_ingest_rows_total") == 3
    assert sample(telemetry, "muster_ingest_points_total") == 6
    assert sample(telemetry, "muster_ingest_bytes_total", kind="records") > 1000


def test_log_bytes_are_counted_where_they_are_stored(app, agent, submit, controller):
    node = agent(slots=1)
    submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    where = {"node_id": node.node_id, "session_epoch": node.epoch, "attempt_no": 1}
    for offset in (0, 700):  # the second is not where the stream stands: nothing is stored
        reply = node.client.post(
            f"/agent/v1/allocations/{allocation_id}/logs/0/stdout",
            params={**where, "offset": offset},
            content=b"hello\n",
        )
        assert reply.json() == {"next_offset": 6}
    assert sample(app.state.telemetry, "muster_ingest_bytes_total", kind="logs") == 6


def test_passes_and_decisions_are_measured_by_loop(agent, submit, controller):
    agent(slots=1)
    submit(slots=1)
    controller.tick()
    telemetry = controller.telemetry
    for loop in ("lifecycle", "search", "scheduler"):
        count = sample(telemetry, "muster_controller_pass_duration_seconds_count", loop=loop)
        assert count >= 2, "one that decides, one that finds nothing more"
    there = sample(telemetry, "muster_controller_pass_duration_seconds_count", loop="budgets")
    assert there is None, "there are none to decide about"
    assert sample(telemetry, "muster_controller_decisions_total", loop="scheduler") >= 1


def test_readiness_judges_the_leader_by_its_last_good_round(
    agent, submit, controller, database, settings, client
):
    def ready():
        found = client.get("/readyz").json()
        return found["status"], found["controller"], found["failing_loop"]

    def long_ago():
        return clock.now() - dt.timedelta(seconds=100)

    assert ready() == ("ready", "absent", None)
    agent(slots=1)
    submit(slots=1)
    controller.tick(long_ago)
    with database.transaction() as session:
        session.execute(update(ExperimentRow).values(budget=5))  # which nobody can read
    for _ in range(2):
        with pytest.raises(AttributeError):
            controller.tick()
    assert ready() == ("ready", "failing", "budgets")

    # Another one takes over, and has as much time for its first round.
    controller.resign()
    other = Controller(database, settings, holder="other")
    with pytest.raises(AttributeError):
        other.tick()
    assert ready() == ("ready", "ok", None)
    with database.transaction() as session:
        session.execute(update(ExperimentRow).values(budget=None))
    other.tick()
    other.tick()
    assert ready() == ("ready", "ok", None)


def test_it_tells_whether_it_leads_and_what_goes_wrong(controller, monkeypatch, tmp_path):
    away = Database(f"sqlite:///{tmp_path}/no/such/folder/x.db")
    telemetry, stop = controller.telemetry, threading.Event()
    seen = []
    rounds = iter(["ok", "away", "broken"])

    def tick():
        match next(rounds, None):
            case "ok":
                return True
            case "away":
                seen.append(sample(telemetry, "muster_controller_leading"))
                away.engine.connect()
            case "broken":
                raise RuntimeError("unexpected")
        stop.set()
        return False

    monkeypatch.setattr(controller, "tick", tick)
    assert not telemetry.has_ticked_within(1000)
    waker = HintWaker(None, "loops")
    run_until(controller, stop, waker, interval_s=0.001)
    waker.close()
    assert seen == [1]
    assert sample(telemetry, "muster_controller_leading") == 0
    assert sample(telemetry, "muster_controller_tick_failures_total", cause="database") == 1
    assert sample(telemetry, "muster_controller_tick_failures_total", cause="other") == 1
    assert sample(telemetry, "muster_controller_last_tick_timestamp_seconds") > 1e9
    assert telemetry.has_ticked_within(1000)
