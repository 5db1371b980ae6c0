"""A worker fails: that is told at once, and the others do not outlive it for long."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.jobs.process import identify
from muster_agent.shim.processes.exit_watch import exit_status, watch_end

DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while not os.path.exists("go" + os.environ["RANK"]): time.sleep(0.01)
sys.exit(7)
"""


@pytest.fixture
def go(shims: Any) -> Any:
    """Makes a rank of DEAF fail."""
    return lambda rank: (shims.code / f"go{rank}").touch()


def told_failure(shim: Any, wait_for: Any) -> tuple[wire.ExitInfo, float]:
    """The early word, and its time by the shim's clock in ms."""

    def found() -> Any:
        for numbered in shim.records:
            record = numbered.record
            if isinstance(record, wire.StateRecord) and record.observed == "STOPPING":
                return record.exit, numbered.at_ms
        return None

    info, at_ms = wait_for(found, what=shim.words())
    assert info is not None
    return info, at_ms


@pytest.mark.parametrize("launcher", ["direct", pytest.param("torchrun", marks=pytest.mark.torch)])
def test_a_failure_is_told_before_the_others_have_ended(
    shims: Any, go: Any, wait_for: Any, launcher: str
) -> None:
    shim = shims(DEAF, launcher=launcher)
    shim.start()
    shim.wait_state("RUNNING", timeout_s=120)
    pids = {w.rank: w.pid for w in shim.of(wire.WorkerRecord)}
    wait_for(
        lambda: len([p for p in shim.folder.logs.rglob("stdout.log") if p.stat().st_size]) == 2
    )
    go(1)
    early, told_at_ms = told_failure(shim, wait_for)
    assert early.message == "rank 1 exited with code 7"
    assert [w.rank for w in early.workers] == [1]
    assert early.first_failure is not None
    final = shim.wait_exit(timeout_s=60)
    assert (final.cause, final.message) == (early.cause, early.message)
    assert final.first_failure == early.first_failure
    # Its time is that of the death, not of our looking.
    assert 0 <= told_at_ms - final.first_failure.at_ms < 2_000
    assert final.unix_at_boot_ms is not None
    # Rank 0 was deaf to SIGTERM, and torchrun would have waited ten seconds for it.
    ended_at_ms = next(w.at_ms for w in final.workers if w.rank == 0)
    assert ended_at_ms - final.first_failure.at_ms < 6_000
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


@pytest.mark.torch
def test_the_status_of_a_torchrun_worker_is_known_though_torchrun_never_says_it(
    shims: Any, wait_for: Any
) -> None:
    shim = shims("import time; time.sleep(600)", launcher="torchrun")
    shim.start()
    shim.wait_state("RUNNING", timeout_s=120)
    victim = next(w for w in shim.of(wire.WorkerRecord) if w.rank == 1)
    launcher = psutil.Process(victim.pid).parent()
    assert launcher is not None
    launcher.suspend()  # it will not notice, nor say anything
    os.kill(victim.pid, signal.SIGSEGV)
    early, _ = told_failure(shim, wait_for)
    assert early.message == "rank 1 was killed by SIGSEGV"
    assert shim.wait_exit().message == early.message


SLOW_TO_END = """
import sys
if "torch.distributed.run" in sys.orig_argv:
    import atexit, signal, time
    def slow():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    atexit.register(slow)
"""


@pytest.fixture
def slow_torchrun(shims: Any) -> dict[str, str]:
    """Variables with which torchrun takes a minute to end, and not the second that torch may take."""
    (shims.code / "sitecustomize.py").write_text(SLOW_TO_END)
    return {"PYTHONPATH": str(shims.code)}


@pytest.mark.torch
def test_nobody_waits_for_a_torchrun_that_has_said_which_worker_failed(
    shims: Any, go: Any, wait_for: Any, slow_torchrun: dict[str, str]
) -> None:
    shim = shims(DEAF, launcher="torchrun", variables=slow_torchrun)
    shim.start()
    shim.wait_state("RUNNING", timeout_s=120)
    go(1)
    _, told_at_ms = told_failure(shim, wait_for)
    assert shim.wait_exit().message == "rank 1 exited with code 7"
    (ended_at_ms,) = (
        r.at_ms for r in shim.records if getattr(r.record, "observed", "") == "EXITED"
    )
    assert ended_at_ms - told_at_ms < 2_500
    said = (shim.folder.logs / "launcher" / "stderr.log").read_text()
    assert "Root Cause" in said
    assert said.rstrip().endswith("====")


@pytest.mark.torch
def test_a_member_that_ends_for_its_gang_is_stopped_though_its_torchrun_takes_long(
    shims: Any, wait_for: Any, slow_torchrun: dict[str, str]
) -> None:
    shim = shims("import time; time.sleep(600)", launcher="torchrun", variables=slow_torchrun)
    shim.start()
    shim.wait_state("RUNNING", timeout_s=120)
    shim.command("stop", reason="rank 3 has failed", kind="gang", grace_s=20.0)
    info = shim.wait_exit()
    assert (info.cause, info.message) == ("stopped", "stopped (rank 3 has failed)")


def test_an_urgent_stop_gives_reporting_workers_no_notice(shims: Any, wait_for: Any) -> None:
    shim = shims(
        "import json, os, signal, socket, time\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(os.environ['MUSTER_REPORT_SOCKET'])\n"
        "s.sendall(json.dumps(dict(type='hello', local_rank=int(os.environ['RANK']),"
        " rank=int(os.environ['RANK']), world_size=2, node_rank=0, pid=os.getpid(), host='h',"
        " master_addr='m', master_port=1)).encode() + b'\\n')\n"
        "signal.signal(signal.SIGTERM, lambda *a: print('term', flush=True))\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(0.05)\n",
        stop_grace_s=300.0,
    )
    shim.start()
    shim.wait_state("RUNNING")
    wait_for(lambda: len([w for w in shim.of(wire.WorkerRecord) if w.reports]) == 2)
    wait_for(lambda: all(shim.printed(r) for r in (0, 1)))
    asked_at = time.monotonic()
    shim.command("stop", reason="another member of the gang ended", kind="gang", grace_s=1.0)
    info = shim.wait_exit()
    assert time.monotonic() - asked_at < 15.0
    assert info.message == (
        "killed: it did not end within 1 s after being asked to (another member of the gang ended)"
    )
    assert shim.printed(0) == "up\nterm\n"


@pytest.mark.parametrize(("code", "status"), [("exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)])
def test_the_end_of_somebody_elses_child_is_seen_with_its_status(code: str, status: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", f"import os; input(); {code}"], stdin=-1)
    seen: list[int | None] = []

    async def watch() -> None:
        identity = identify(child.pid)
        assert identity is not None
        ended = asyncio.Event()
        assert watch_end(identity, lambda s: (seen.append(s), ended.set()))  # type: ignore[func-returns-value]
        assert exit_status(identity) is None  # it lives
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.close()
        await asyncio.wait_for(ended.wait(), 30)

    asyncio.run(watch())
    assert child.wait() == status
    assert seen == [status]


def test_who_is_gone_already_is_not_watched() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    identity = identify(child.pid)
    assert identity is not None
    child.wait()

    async def watch() -> None:
        assert not watch_end(identity, lambda status: None)

    asyncio.run(watch())
