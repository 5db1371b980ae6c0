"""What a worker has sent is recorded, however soon after that it ends."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster import wire
from muster_agent.shim.reporting.reports import ReportServer

NUM_LINES = 2_000


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


HELLO = line(
    type="hello",
    local_rank=0,
    rank=0,
    world_size=1,
    node_rank=0,
    pid=os.getpid(),
    host="h",
    master_addr="m",
    master_port=1,
)


def metrics(step: int) -> bytes:
    series = {"name": "train/loss", "steps": [step], "times_ms": [1], "values": [0.5]}
    return line(type="metrics", step=step, series=[series])


def steps_of(records: list[str]) -> list[int]:
    return [json.loads(record)["step"] for record in records]


def serve(
    folder: Path, work: Callable[[ReportServer, Path], Any], hello: Callable[[Any], None]
) -> list[str]:
    """Run a server until `work` is done and the rest is drained; return what it recorded."""
    records: list[str] = []

    async def run() -> None:
        server = ReportServer(
            record=lambda text, is_metrics: records.append(text), hello=hello, warn=print
        )
        await server.listen(folder / "reports")
        await work(server, folder / "reports")
        await server.drain(timeout_s=10)

    asyncio.run(run())
    return records


def connected(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    return client


def test_a_worker_that_ends_before_its_answer_loses_nothing(tmp_path: Path) -> None:
    clients: list[socket.socket] = []
    was_heard = asyncio.Event()

    def goes_at_once(_: wire.WorkerRecord) -> None:
        clients[0].sendall(metrics(1) + metrics(2))
        clients[0].close()
        was_heard.set()

    async def work(server: ReportServer, path: Path) -> None:
        clients.append(connected(path))
        clients[0].sendall(HELLO)
        await was_heard.wait()

    assert steps_of(serve(tmp_path, work, goes_at_once)) == [1, 2]


def test_a_worker_that_ended_before_it_was_accepted_loses_nothing(tmp_path: Path) -> None:
    async def work(server: ReportServer, path: Path) -> None:
        for step in range(3):
            client = connected(path)
            client.sendall(HELLO + metrics(step))
            client.close()

    assert sorted(steps_of(serve(tmp_path, work, lambda _: None))) == [0, 1, 2]


def test_a_worker_that_reads_late_gets_every_control(tmp_path: Path) -> None:
    """More of them than the buffers of its socket hold."""
    heard: list[int] = []
    was_heard = asyncio.Event()

    async def work(server: ReportServer, path: Path) -> None:
        client = connected(path)
        client.sendall(HELLO)
        await was_heard.wait()
        for no in range(NUM_LINES):
            server.push(wire.Control(should_stop=False, reason=f"{no} " + 200 * "x"))
        client.setblocking(False)
        loop, data = asyncio.get_running_loop(), b""
        while f'"{NUM_LINES - 1} '.encode() not in data or not data.endswith(b"\n"):
            data += await loop.sock_recv(client, 1 << 16)
        controls = [json.loads(text) for text in data.splitlines()]
        heard.extend(int(c["reason"].split()[0]) for c in controls if c.get("reason"))
        client.close()

    serve(tmp_path, work, lambda _: was_heard.set())
    assert heard == list(range(NUM_LINES))
