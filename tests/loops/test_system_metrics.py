"""How busy a node was, from heartbeats to the answer of the API."""

import dataclasses

from muster.wire import GpuUsage, InterfaceUsage, NodeUsage, WorkerRecord
from muster_server import clock
from muster_server.services.core.retention import delete_expired


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
        temperature_c=40.0,
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
        assert "gpu/1/use_pct" not in found["series"]
        assert found["gpu_problem"] == ""
        (rank,) = found["ranks"]
        (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
        assert (rank["trial_id"], rank["rank"], rank["slot"]) == (trial["id"], 0, 0)

    time_machine.shift(6 * 3600 - 10)
    with database.transaction() as session:
        delete_expired(session, clock.now())
    assert len(show("/nodes/node-1/system-metrics?minutes=360")["times"]) == 1
