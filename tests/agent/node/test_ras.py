"""The status that NCCL's RAS threads tell, asked of a real server that speaks their protocol."""

from __future__ import annotations

import asyncio
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.shim.reporting import ras
from muster_agent.shim.reporting.progress import Watching
from support.ports import free_port

STATUS = """\
NCCL version 2.28.9 compiled with CUDA 13.0
Job summary
===========
  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          4            1          4        4

Communicators... (0.00s)
=============
#0-0 (ab12cd34) MISMATCH
  Communicator ranks have different collective operation counts
  3 ranks have launched up to operation 17
  1 rank has launched up to operation 16: rank 2 (GPU 2 managed by process 4242 on node 10.0.0.7)
"""


class Handler(socketserver.StreamRequestHandler):
    answer = STATUS.encode()
    hangs: threading.Event | None = None
    asked: list[bytes] = []

    def handle(self) -> None:
        self.asked.append(self.rfile.readline())
        for start in range(0, len(self.answer), 100):  # in pieces
            self.wfile.write(self.answer[start : start + 100])
        if self.hangs is not None:
            self.hangs.wait(30)


@pytest.fixture
def serve() -> Iterator[socketserver.ThreadingTCPServer]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_status_is_asked_for_verbosely(serve: socketserver.ThreadingTCPServer) -> None:
    Handler.asked.clear()
    assert ras.ask(serve.server_address[1]) == STATUS.strip()
    assert Handler.asked == [b"verbose status\n"]


def test_an_answer_that_never_ends_is_cut_off(
    serve: socketserver.ThreadingTCPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "answer", b"a\x1b[31mb")
    monkeypatch.setattr(Handler, "hangs", threading.Event())
    monkeypatch.setattr(ras, "ANSWER_TIMEOUT_S", 0.3)
    assert ras.ask(serve.server_address[1]) == "a[31mb"
    assert Handler.hangs is not None
    Handler.hangs.set()
    monkeypatch.setattr(Handler, "answer", b"x" * 3 * ras.MAX_ANSWER_BYTES)
    assert len(ras.ask(serve.server_address[1])) == ras.MAX_ANSWER_BYTES


def test_nobody_listens() -> None:
    assert ras.ask(free_port()) == ""


def test_it_is_told_with_the_stacks(serve: socketserver.ThreadingTCPServer, tmp_path: Path) -> None:
    told: list[wire.ProgressRecord | wire.StacksRecord] = []
    is_told = asyncio.Event()

    def record(what: wire.ProgressRecord | wire.StacksRecord) -> None:
        told.append(what)
        if len(told) == 2:
            is_told.set()

    watching = Watching(
        folder=tmp_path,
        alive=list,
        reported=dict,
        record=record,
        ras_port=lambda: serve.server_address[1],
    )

    async def take() -> None:
        watching.look(stacks_no=1)
        await asyncio.wait_for(is_told.wait(), 20)

    asyncio.run(take())
    _, status = told
    assert isinstance(status, wire.StacksRecord)
    assert (status.no, status.rank, status.text) == (1, wire.RAS_RANK, STATUS.strip())


def test_every_attempt_on_gpus_has_an_address_of_its_own(shims: Any) -> None:
    def address(slot_type: str, **more: Any) -> str:
        shim = shims(
            "import os; print(os.environ.get('NCCL_RAS_ADDR'))",
            launcher="plain",
            slots=[0],
            world_size=1,
            slot_type=slot_type,
            **more,
        )
        shim.start()
        assert shim.wait_exit(timeout_s=120).cause == "success", shim.log(0, "stderr").read_text()
        return str(shim.printed(0)).strip()

    assert address("cpu", allocation_id="a1") == "None"
    found = address("cuda", allocation_id="a2", trial_id=8)
    assert re.fullmatch(r"localhost:21\d\d\d", found), found
