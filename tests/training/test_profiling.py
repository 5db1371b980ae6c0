"""A window of the profiler in real ranks: through the shim's socket, to a trace that viewers open."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from muster import wire
from muster.timeline.summary import summarize
from muster_agent.jobs.process import identify
from muster_agent.shim.processes.workers import Worker
from muster_agent.shim.reporting.profiling import MAX_TRACE_BYTES, Profiling
from muster_agent.shim.reporting.reports import ReportServer
from support.training.jobs import start_job, wait_for

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).with_name("workers") / "profiled.py"


def test_chosen_ranks_are_traced_for_the_steps_asked_for(tmp_path: Path) -> None:
    hellos: dict[int, wire.WorkerRecord] = {}
    told: list[wire.ProfileRecord] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    reports = ReportServer(
        record=lambda *_: None,
        hello=lambda record: hellos.update({record.rank: record}),
        warn=print,
        profiled=lambda rank, said: profiling.take(rank, said),
    )

    def alive() -> list[Worker]:
        real = [Worker(record, identify(record.pid)) for record in hellos.values()]
        return [*real, Worker(replace(hellos[0], rank=3, local_rank=3), None)]

    folder = tmp_path / "profiles"
    profiling = Profiling(
        folder=folder,
        alive=alive,
        reporting=lambda: list(hellos),
        push=reports.order_profile,
        record=told.append,
    )

    async def look(order: wire.ProfileOrder) -> None:
        profiling.look(order)

    socket = Path(f"/tmp/muster-test-{os.getpid()}.sock")  # a socket's path may be 107 bytes long
    call(reports.listen(socket))
    job = start_job(
        tmp_path / "job",
        workers=3,
        script=SCRIPT,
        MUSTER_REPORT_SOCKET=str(socket),
        MUSTER_PROFILES_DIR=str(folder),
    )
    try:
        wait_for(lambda: len(hellos) == 3, timeout_s=120)
        call(look(wire.ProfileOrder(no=1, ranks=[0, 2, 3, 9], num_steps=3)))
        wait_for(lambda: {r.rank for r in told} == {0, 2, 3}, timeout_s=120)
        call(look(wire.ProfileOrder(no=2, ranks=[1], num_steps=1)))
        wait_for(lambda: any(r.rank == 1 for r in told), timeout_s=120)
    finally:
        job.kill()
        call(reports.drain(timeout_s=5))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        socket.unlink()
    by_rank = {record.rank: record for record in told}
    assert by_rank[3].problem == "the script has not called muster.init()"
    for rank, num_steps in ((0, 3), (2, 3), (1, 1)):
        record = by_rank[rank]
        assert (record.problem, record.index) == ("", 0)
        assert record.first_step is not None
        steps = list(range(record.first_step, record.first_step + num_steps))
        assert record.last_step == steps[-1]
        trace = base64.b64decode(record.data)
        assert len(trace) == record.size_bytes <= MAX_TRACE_BYTES
        events = json.loads(gzip.decompress(trace))["traceEvents"]
        names = [event.get("name") for event in events if event.get("ph") == "X"]
        assert [name for name in names if name.startswith("step ")] == [f"step {s}" for s in steps]
        assert names.count("aten::matmul") == num_steps
        assert "gloo:all_reduce" in names
        (tmp_path / str(rank)).write_bytes(trace)
        (figures,) = summarize([(None, tmp_path / str(rank))])["ranks"]
        assert (figures["rank"], figures["device"], figures["world_size"]) == (rank, "cpu", 3)
        assert [step["step"] for step in figures["steps"]] == steps
        assert ("world", "all_reduce", num_steps, 32 * num_steps) in [
            (kind["group"], kind["kind"], kind["count"], kind["bytes"]) for kind in figures["kinds"]
        ]
        assert figures["communication_us"] > 0 < figures["computation_us"]
    assert list(folder.iterdir()) == []
