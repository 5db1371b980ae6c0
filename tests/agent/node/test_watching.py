"""Stacks of processes that are no trainings: whom a signal may be sent to, and how much is kept."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.measure import stacks
from muster_agent.jobs.process import identify
from muster_agent.shim.reporting import progress
from muster_agent.shim.reporting.progress import state_of, take_stacks
from support.training.jobs import wait_for as until


def test_a_process_without_a_handler_is_left_alone(tmp_path: Path) -> None:
    plain = subprocess.Popen(["/bin/sleep", "600"])
    try:
        # Even where a file says that it has one: the kernel knows better.
        stacks.file_of(tmp_path, plain.pid).touch()
        (answer,) = take_stacks([identify(plain.pid)], tmp_path)
        assert "has not called muster.init()" in answer.problem
        assert plain.poll() is None
        until(lambda: state_of(identify(plain.pid)) == "sleeps")
    finally:
        plain.kill()
        plain.wait()
    (gone,) = take_stacks([identify(plain.pid)], tmp_path)
    assert gone.problem == "the process has ended"


PTRACE = Path("/proc/sys/kernel/yama/ptrace_scope")
SPAWNING = """
import multiprocessing, time
def hang_in_child(ready):
    ready.set()
    time.sleep(600)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    child = context.Process(target=hang_in_child, args=(ready,))
    child.start()
    ready.wait()
    print(flush=True)
    child.join()
"""


@pytest.mark.skipif(
    os.geteuid() != 0 and PTRACE.exists() and PTRACE.read_text().strip() != "0",
    reason="only root reads other processes here",
)
@pytest.mark.parametrize("shell", [False, True])
def test_stacks_of_a_plain_script_are_those_of_all_its_processes(
    tmp_path: Path, shell: bool
) -> None:
    """py-spy comes with the agent; a script that spawns waits for a child that hangs."""
    (tmp_path / "spawning.py").write_text(SPAWNING)
    command = [sys.executable, str(tmp_path / "spawning.py")]
    if shell:
        command = ["sh", "-c", f"{shlex.join(command)}; true"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        (answer,) = take_stacks([identify(process.pid)], tmp_path)
        assert answer.problem == ""
        assert "hang_in_child (spawning.py:5)" in answer.text
        # It may still be where it has said that the child is there.
        assert re.search(r"<module> \(spawning\.py:1[23]\)", answer.text)
        assert process.poll() is None
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


def test_a_long_answer_keeps_its_end(tmp_path: Path, monkeypatch) -> None:
    """The main thread comes last."""
    monkeypatch.setattr(progress, "MAX_STACKS_BYTES", 100)
    script = (
        "import threading, time, muster.measure.stacks as s\n"
        "def deep(n):\n"
        "    if n:\n        deep(n - 1)\n"
        "    print(flush=True)\n    time.sleep(600)\n"
        "s.install()\ndeep(20)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, stacks.VARIABLE: str(tmp_path)},
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        (answer,) = take_stacks([identify(process.pid)], tmp_path)
        assert (answer.is_cut, len(answer.text), answer.problem) == (True, 100, "")
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


HANGING = """
import threading, time, muster
muster.init()
def count():
    for step in range(3, 10_000):
        muster.log({"train/loss": 1.0}, step=step)
        time.sleep(0.05)
threading.Thread(target=count, daemon=True).start()
time.sleep(600)
"""


def test_an_agent_that_is_asked_sends_how_far_its_workers_are_and_where(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    spec = make_spec(code=code(HANGING), slots=[0], world_size=1)

    def of(kind: type) -> list[Any]:
        return [r.record for r in plane.of("a1").records if isinstance(r.record, kind)]

    plane.want(spec)
    wait_for(lambda: of(wire.MetricsRecord), timeout_s=60.0)
    agent.wait_state("a1", "RUNNING")
    plane.want(spec, stacks_no=1)
    (found,) = wait_for(lambda: of(wire.StacksRecord), timeout_s=60.0)
    assert (found.no, found.rank, found.problem) == (1, 0, "")
    assert "line 9 in <module>" in found.text
    (worker,) = of(wire.ProgressRecord)[-1].workers
    assert worker.process == "sleeps"
    order = wire.ProfileOrder(no=1, ranks=[0], num_steps=2)
    plane.want(spec, stacks_no=1, profile=order)
    (answer,) = wait_for(lambda: of(wire.ProfileRecord), timeout_s=60.0)
    assert (answer.no, answer.rank, answer.problem) == (1, 0, "the script has not imported torch")
    assert plane.of("a1").exit() is None
