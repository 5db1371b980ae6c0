from __future__ import annotations

import signal
import socket
import tempfile
import threading

import pytest

from muster import wire
from support.training.jobs import Start, wait_for

pytestmark = pytest.mark.torch

LONG = {"model": "mlp", "steps": 100_000, "options": {"rows_per_s": 0}}


def test_a_stop_request_to_one_rank_ends_both_at_the_same_step(start: Start) -> None:
    with tempfile.TemporaryDirectory(prefix="mst") as folder:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{folder}/s")
        listener.listen()
        lines: dict[int, list[bytes]] = {}
        connections: list[socket.socket] = []

        def read(connection: socket.socket) -> None:
            lines[len(lines)] = mine = []
            mine += connection.makefile("rb")

        def accept() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                connections.append(connection)
                threading.Thread(target=read, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        job = start(
            "stopped",
            workers=2,
            trainer=LONG,
            document={"checkpoints": {"every": None}},
            MUSTER_REPORT_SOCKET=f"{folder}/s",
        )
        wait_for(lambda: len(connections) == 2)
        control = wire.Control(should_stop=True, reason="behind at rung 1")
        connections[0].sendall((wire.dump(control) + "\n").encode())
        outputs = [w.communicate(timeout=60)[0] for w in job.workers]
        listener.close()
        for connection in connections:
            connection.close()
    assert [w.returncode for w in job.workers] == [0, 0]
    stopped = {
        line.split(":")[0] for out in outputs for line in out.splitlines() if "stopped" in line
    }
    assert len(stopped) == 1, outputs


def test_sigterm_finishes_the_step_saves_and_exits_0(start: Start) -> None:
    job = start("terminated", trainer=LONG, document={"checkpoints": {"every": None}})
    wait_for(lambda: (job.folder / "reports.jsonl").exists() and job.series("train/loss"))
    job.workers[0].send_signal(signal.SIGTERM)
    job.wait()
    steps = job.series("train/loss")
    (checkpoint,) = job.lines("checkpoint")
    assert checkpoint["step"] == max(steps) < 100_000


def test_a_bad_document_exits_2_with_one_sentence(start: Start) -> None:
    job = start("bad", trainer={"model": "cnn", "options": {"widht": 8}})
    out, _ = job.workers[0].communicate(timeout=60)
    assert job.workers[0].returncode == 2
    assert (
        "trainer.options.widht: the built-in trainer does not know 'widht'; did you mean 'width'?"
        in out
    )
    assert "Traceback" not in out
