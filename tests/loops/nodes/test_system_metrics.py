"""How busy a node was, from heartbeats to the answer of the API."""

import dataclasses
import datetime as dt

from sqlalchemy import select

from muster.wire import GpuUsage, InterfaceUsage, NodeUsage, WorkerRecord
from muster_server import clock
from muster_server.db.models import NodeSampleRow
from muster_server.services.core.retention import delete_expired
from muster_server.services.nodes import system_metrics


def usage(cpu_pct, **more):
    return dataclasses.asdict(
        NodeUsage(
            cpu_pct=cpu_pct,
            memory_used_bytes=1,
            memory_total_bytes=2,
            disk_free_bytes=3,
            interfaces=[
                InterfaceUsage(name="eth0", sent_bytes_per_s=5.0, received_bytes_per_s=6.0)
            ],
            **more,
        )
    )


def test_some_heartbeats_are_kept_for_some_hours_with_the_ranks_that_run(
    controller, agent, submit, show, database, time_machine
):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    node = agent("node-1", slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    node.send(
        allocation_id,
        WorkerRecord(
            local_rank=0, rank=0, world_size=1, node_rank=0, pid=1, host="h",
            master_addr="127.0.0.1", master_port=1,
        ),
    )  # fmt: skip
    gpu = GpuUsage(
        index=1, name="x", use_pct=None, memory_used_bytes=7, memory_total_bytes=8, power_w=9.0,
        temperature_c=40.0, clock_mhz=1200.0, max_clock_mhz=1980.0, throttle_reasons=["heat"],
    )  # fmt: skip
    node.beat(usage=usage(10.0, gpu_problem="nvidia-ml-py is not installed for the agent"))
    for seconds, cpu_pct in ((5, 20.0), (10, 30.0)):  # the first of them comes too soon
        time_machine.shift(seconds)
        node.beat(usage=usage(cpu_pct, gpus=[gpu]))
    for place in (node.node_id, "node-1"):
        found = show(f"/nodes/{place}/system-metrics")
        assert found["times"] == ["2026-03-01T12:00:00Z", "2026-03-01T12:00:15Z"]
        assert found["series"]["cpu_pct"] == [10.0, 30.0]
        assert found["series"]["net/eth0/received_bytes_per_s"] == [6.0, 6.0]
        assert found["series"]["gpu/1/power_w"] == [None, 9.0]
        assert found["series"]["gpu/1/clock_mhz"] == [None, 1200.0]
        assert found["series"]["gpu/1/throttled_pct/heat"] == [None, 100.0]
        assert found["series"]["gpu/1/throttled_pct/board"] == [None, 0.0]
        assert "gpu/1/use_pct" not in found["series"]
        assert found["gpu_problem"] == ""
        (rank,) = found["ranks"]
        (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
        assert (rank["trial_id"], rank["rank"], rank["slot"]) == (trial["id"], 0, 0)

    time_machine.shift(6 * 3600 - 10)
    with database.transaction() as session:
        delete_expired(session, clock.now())
    assert len(show("/nodes/node-1/system-metrics?minutes=360")["times"]) == 1


def test_a_trial_shows_its_nodes_during_its_attempts_alone(
    controller, agent, submit, show, database, time_machine
):
    time_machine.move_to("2026-03-01T12:00:00Z", tick=False)
    node = agent("node-1", slots=1)
    node.beat(usage=usage(1.0))
    time_machine.shift(15)
    experiment_id = submit(slots=1)
    controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    path = f"/trials/{trial['id']}/system-metrics"
    assert show(path)["items"] == []
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    for cpu_pct in (50.0, 60.0):
        time_machine.shift(15)
        node.beat(usage=usage(cpu_pct))
    node.exit(allocation_id)
    controller.tick()
    time_machine.shift(15)
    node.beat(usage=usage(2.0))

    found = show(path)
    assert (found["node_names"], found["shown"]) == (["node-1"], ["node-1"])
    (item,) = found["items"]
    assert (item["node_name"], item["attempt_no"]) == ("node-1", 1)
    assert item["times"] == ["2026-03-01T12:00:30Z", "2026-03-01T12:00:45Z"]
    assert item["series"]["cpu_pct"] == [50.0, 60.0]
    assert show(f"{path}?node=elsewhere")["items"] == []

    # Later on one sample in five minutes is left of them, and after days none.
    def kept_after(**age):
        time_machine.move_to(dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC) + dt.timedelta(**age))
        with database.transaction() as session:
            delete_expired(session, clock.now())
            return list(session.scalars(select(NodeSampleRow.at)))

    assert len(kept_after(hours=5)) == 4
    assert kept_after(hours=7) == [dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)]
    assert kept_after(days=7, hours=1) == []
    assert show(path)["items"] == []


def test_many_samples_of_a_trial_are_thinned_to_means(monkeypatch):
    monkeypatch.setattr(system_metrics, "POINTS_MAX", 2)
    start = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    samples = [(start + dt.timedelta(seconds=i), {"cpu_pct": float(i)}) for i in range(5)]
    samples[1][1]["gpu/0/power_w"] = 9.0
    assert system_metrics._thinned(samples) == [
        (start + dt.timedelta(seconds=2), {"cpu_pct": 1.0, "gpu/0/power_w": 9.0}),
        (start + dt.timedelta(seconds=4), {"cpu_pct": 3.5}),
    ]
    assert system_metrics._thinned(samples[:2]) == samples[:2]
