"""What holds for a job behind any walls: in a sandbox, and in a container of a real engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import support
from muster import wire

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(params=["sandbox", "container"])
def start(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Starts the shim of a job with two workers behind walls."""
    if request.param == "container":
        started: Callable[[str], Any] = request.getfixturevalue("contained")
        return started
    isolation = request.getfixturevalue("sandbox")
    shims = request.getfixturevalue("shims")

    def start(script: str) -> Any:
        shim = shims(script, options={"isolation": isolation})
        shim.start()
        return shim

    return start


def test_a_rank_killed_by_sigkill_is_told_apart(start: Any, wait_for: Any) -> None:
    shim = start(WAIT)
    shim.wait_state("RUNNING")
    wait_for(lambda: len(shim.of(wire.WorkerRecord)) == 2)
    os.kill(shim.of(wire.WorkerRecord)[1].pid, signal.SIGKILL)
    info = shim.wait_exit()
    assert info.cause == "killed_by_signal"
    assert "rank 1 was killed by SIGKILL" in info.message


def test_workers_hear_of_a_stop_and_may_save(start: Any, wait_for: Any) -> None:
    shim = start(
        "import signal, sys, time\n"
        "def end(*_): time.sleep(0.3); print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    logs = [shim.log(rank) for rank in (0, 1)]
    wait_for(lambda: all(log.exists() and log.read_text() == "up\n" for log in logs))
    shim.command("stop", reason="a test")
    assert shim.wait_exit().cause == "stopped"
    assert [log.read_text() for log in logs] == ["up\nsaved\n"] * 2


def test_the_exception_of_a_worker_is_known(start: Any) -> None:
    shim = start(
        "import sys\nsys.excepthook = lambda *_: print('oh no', file=sys.stderr)\nraise ValueError('bad')"
    )
    message = shim.wait_exit(timeout_s=60).message
    assert message in [f"rank {rank} exited with code 1: ValueError: bad" for rank in (0, 1)]


@pytest.mark.parametrize(
    ("argument", "cause"),
    [
        ("go on", "success"),
        ("raise", "user_error"),
    ],
)
def test_of_workers_that_a_plain_process_starts_it_decides_itself(
    shims: Any, sandbox: Any, argument: str, cause: str
) -> None:
    shim = shims(
        (Path(support.__file__).parent / "nodes/starts_workers.py").read_text(),
        launcher="plain",
        slots=[0],
        world_size=1,
        entrypoint=["main.py", argument],
        variables={"CODE": "3"},
        options={"isolation": sandbox},
    )
    shim.start()
    info = shim.wait_exit()
    assert info.cause == cause
    assert cause == "success" or "rank 0 exited with code 1: RuntimeError: a" in info.message
    assert {m.rank for m in shim.of(wire.MetricsRecord)} == {0, 1, 2}
