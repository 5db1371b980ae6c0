"""What counts as ended, and what follows where SIGKILL does not end something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster_agent.jobs import survivors
from muster_agent.jobs.process import Identity, identify, kill_all
from muster_agent.node.health import check_processes, find_problems

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces of Linux")
root = pytest.mark.skipif(os.getuid() != 0, reason="only root makes process namespaces")

CLONE_NEWPID = 0x20000000
SLEEPS = "import time; time.sleep(600)"
NAMESPACE = f"""
import ctypes, os, sys, time
assert ctypes.CDLL(None, use_errno=True).unshare({CLONE_NEWPID}) == 0
first = os.fork()
if first == 0:
    time.sleep(600)
    os._exit(0)
other = os.fork()
if other == 0:
    os._exit(0)
print(first, other, flush=True)
sys.stdin.readline()  # until then the other one is a zombie
os.waitpid(other, 0)
os.waitpid(first, 0)
"""
TWO_THREADS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("up", flush=True)
ctypes.CDLL(None).syscall(60, 0)  # exit, of this thread alone
"""


@pytest.fixture
def start() -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def make(script: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


@root
def test_the_first_process_of_a_sandbox_that_waits_for_others_to_be_collected_has_ended(
    start: Any, wait_for: Any
) -> None:
    holder = start(NAMESPACE)
    first, other = map(int, holder.stdout.readline().split())
    wait_for(lambda: psutil.Process(other).status() == psutil.STATUS_ZOMBIE)
    identity = identify(first)
    assert identity is not None
    began = time.monotonic()
    assert kill_all(lambda: {i} if (i := identify(first)) else set(), timeout_s=20.0) == set()
    assert time.monotonic() - began < 10.0
    # It is there, no zombie, and stays so until the other one is collected.
    assert psutil.Process(first).status() == psutil.STATUS_SLEEPING
    assert identify(first) is None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.wait(20) == 0


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of a system call")
def test_a_process_whose_first_thread_has_ended_is_alive(start: Any, wait_for: Any) -> None:
    process = start(TWO_THREADS)
    assert process.stdout.readline() == "up\n"
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    identity = identify(process.pid)
    assert identity is not None
    assert kill_all(lambda: {identity} if identify(process.pid) else set(), timeout_s=20.0) == set()
    assert process.wait(20) == -9


@root
def test_nobody_waits_long_for_what_is_not_ours_to_kill(start: Any) -> None:
    ours = start(SLEEPS)
    script = f"""
import time
from muster_agent.jobs.process import identify, kill_all
began = time.monotonic()
left = kill_all(lambda: {{identify({ours.pid})}}, timeout_s=600.0)
print(len(left), time.monotonic() - began < 60.0)
"""
    other = start(script, user=65534)
    assert other.stdout.readline() == "1 True\n"


def test_survivors_keep_new_work_away_until_they_are_gone(tmp_path: Path, start: Any) -> None:
    def problems() -> list[Any]:
        found = find_problems([], clock=None, devices=[], home=tmp_path, kill_wait_s=180.0)
        return [problem for problem in found if problem.kind == "processes"]

    assert problems() == []
    survivors.note(tmp_path, "a1", [])
    assert list(tmp_path.iterdir()) == []
    left = start(SLEEPS)
    identity = identify(left.pid)
    assert identity is not None
    survivors.note(tmp_path, "a1", [identity, Identity(identity.pid, identity.start_ticks + 1)])
    (problem,) = problems()
    assert problem.blocks
    assert problem.message == (
        f"process {left.pid} of a job that has ended did not die of SIGKILL within 180 s and may hold "
        "devices or memory; nothing new is placed here until the kernel has let go of it"
    )
    left.kill()
    left.wait()
    assert problems() == []
    assert list((tmp_path / "survivors").iterdir()) == []


def test_survivors_of_another_boot_are_none(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    survivors.note(tmp_path, "a1", [me])
    file = tmp_path / "survivors" / "a1"
    assert survivors.remaining(tmp_path) == {"a1": [me.pid]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"boot_id": "another"}))
    assert survivors.remaining(tmp_path) == {}
    file.write_text("{")
    assert survivors.remaining(tmp_path) == {}


def test_many_are_counted_and_some_are_named() -> None:
    (problem,) = check_processes({"a": [1, 2, 3], "b": [4, 5, 6]}, kill_wait_s=60.0)
    assert problem.message.startswith(
        "6 processes (1, 2, 3, 4, 5, …) of a job that has ended did not"
    )
