"""A batch system, a service manager or Ray ends a job by a signal to each of its processes at once: the
agent, the shim, launchers and workers. What runs saves its last checkpoint all the same."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster_agent.loop import SHUTDOWN_UPLOAD_S
from muster_agent.records.spool import last_state

LISTENS = """
import os, sys, time
import muster
run = muster.init()
print("up", flush=True)
while not (notice := run.should_stop()):
    time.sleep(0.05)
time.sleep(0.5)
print(f"saved for {notice.kind}", flush=True)
"""
HANDLES = """
import signal, sys, time
num = 0
def save(*_):
    global num
    num += 1
    time.sleep(0.5)
    print(f"saved, signal {num}", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(600)
"""
KNOWS_NOTHING = """
import time
print("up", flush=True)
while True:
    time.sleep(600)
"""
LOADS = """
import time
import torch
import muster

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 10_000
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(1)

run = muster.init()
for number, _ in enumerate(torch.utils.data.DataLoader(Slow(), num_workers=2)):
    if number == 4:
        print("up", flush=True)
    if run.should_stop():
        break
print(f"saved for {run.should_stop().kind}", flush=True)
"""


@pytest.fixture(params=["none", "sandbox"])
def pilot(agent: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """An agent inside the job of a batch system, at two levels of isolation."""
    agent.kill()
    agent.environment |= {
        "MUSTER_AGENT_IDLE_EXIT_S": "1h",
        "MUSTER_AGENT_ISOLATION": request.param,
        "MUSTER_AGENT_JOB_READS": str(tmp_path / "code"),
    }
    agent.start()
    return agent


def log_of(plane: Any, local_rank: int) -> bytes:
    return b"".join(
        text for (rank, stream), text in sorted(plane.of("a1").logs.items()) if rank == local_rank
    )


def tree_of(agent: Any) -> list[psutil.Process]:
    root = psutil.Process(agent.process.pid)
    return [root, *root.children(recursive=True)]


def signal_all(agent: Any, number: int = signal.SIGTERM) -> None:
    """Send a signal to every process of the job, the youngest first: what is above hears of it last."""
    for process in sorted(tree_of(agent), key=lambda p: p.create_time(), reverse=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def run_until_up(agent: Any, plane: Any, spec: Any, wait_for: Any) -> None:
    plane.want(spec)
    held = plane.of("a1")
    wait_for(lambda: {"RUNNING", "PREPARE_FAILED"} & set(held.states()), timeout_s=120)
    assert "RUNNING" in held.states(), held.records
    ranks = range(len(spec.slots))
    wait_for(lambda: all(b"up" in log_of(plane, rank) for rank in ranks), timeout_s=60)


def check_left_in_peace(agent: Any, plane: Any, wait_for: Any) -> None:
    """The server heard that the node leaves before it heard of any end, so nothing is charged."""
    info = agent.wait_exit("a1")
    assert info.cause == "stopped", info
    wait_for(lambda: agent.process.poll() is not None)
    assert agent.process.poll() == 0
    assert [stage for stage, _ in plane.left] == ["draining", "gone"]


@pytest.mark.parametrize("launcher", ["direct", "plain"])
def test_a_script_with_the_sdk_saves(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any, launcher: str
) -> None:
    slots = [0, 1] if launcher == "direct" else [0]
    spec = make_spec(
        code=code(LISTENS), launcher=launcher, slots=slots, world_size=len(slots), stop_grace_s=20.0
    )
    run_until_up(pilot, plane, spec, wait_for)
    signal_all(pilot)
    check_left_in_peace(pilot, plane, wait_for)
    for rank in range(len(slots)):
        assert b"saved for drain" in log_of(plane, rank)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("script", "warm"),
    [(LISTENS, "none"), (LISTENS, "all"), (LOADS, "none")],
    ids=["torchrun", "warm", "loader"],
)
def test_workers_that_a_launcher_started_save(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any, script: str, warm: str
) -> None:
    pilot.kill()
    pilot.environment["MUSTER_AGENT_WARM_WORKERS"] = warm
    pilot.start()
    spec = make_spec(code=code(script), launcher="torchrun", stop_grace_s=20.0)
    run_until_up(pilot, plane, spec, wait_for)
    assert (warm == "all") == any(
        "muster-warm (keeper)" in " ".join(p.cmdline()) for p in tree_of(pilot)
    )
    signal_all(pilot)
    check_left_in_peace(pilot, plane, wait_for)
    for rank in (0, 1):
        assert b"saved for drain" in log_of(plane, rank)


def test_a_script_that_handles_the_signal_does_so_once(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    spec = make_spec(code=code(HANDLES), stop_grace_s=20.0)
    run_until_up(pilot, plane, spec, wait_for)
    signal_all(pilot)
    check_left_in_peace(pilot, plane, wait_for)
    for rank in (0, 1):
        assert log_of(plane, rank).count(b"saved, signal 1") == 1
        assert b"signal 2" not in log_of(plane, rank)


def test_a_service_that_ends_with_its_control_group_saves_and_says_so(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    run_until_up(agent, plane, make_spec(code=code(LISTENS), stop_grace_s=20.0), wait_for)
    signal_all(agent)
    assert agent.wait_exit("a1").cause == "stopped"
    wait_for(lambda: agent.process.poll() is not None)
    assert [stage for stage, _ in plane.left] == ["draining"]
    assert b"saved for drain" in log_of(plane, 0)


def test_a_service_that_ends_alone_leaves_its_jobs_running(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    run_until_up(agent, plane, make_spec(code=code(LISTENS)), wait_for)
    agent.process.terminate()
    wait_for(lambda: agent.process.poll() is not None)
    assert plane.left == []
    assert agent.folder("a1").processes()


def test_a_server_that_was_away_hears_from_the_next_agent_whose_stop_it_was(
    agent: Any, plane: Any, make_spec: Any, code: Any, tmp_path: Path, wait_for: Any
) -> None:
    scripts = {"sdk": LISTENS, "handler": HANDLES, "plain": KNOWS_NOTHING}
    agent.kill()
    agent.environment["MUSTER_AGENT_SLOTS"] = f"{len(scripts)}"
    agent.start()
    folder = code("")
    for slot, (name, script) in enumerate(scripts.items()):
        (tmp_path / "code" / f"{name}.py").write_text(script)
        plane.want(
            make_spec(
                name, code=folder, entrypoint=[f"{name}.py"], slots=[slot], world_size=1, stop_grace_s=5.0
            )
        )  # fmt: skip
    for name in scripts:
        agent.wait_state(name, "RUNNING")
        wait_for(lambda n=name: "up" in plane.of(n).log_text(0), timeout_s=60)
    plane.is_down = True
    began_ms = time.time() * 1000
    signal_all(agent)
    wait_for(lambda: agent.process.poll() is not None, timeout_s=120)
    plane.is_down = False
    agent.start()
    for name in scripts:
        info = agent.wait_exit(name, timeout_s=120)
        assert info.cause == "stopped", (name, info)
        assert began_ms - 1_000 < info.site_stop_at_ms < time.time() * 1000
    assert plane.left == []


def test_a_server_that_comes_back_in_time_hears_from_the_pilot_whose_stop_it_was(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    pilot.kill()
    pilot.environment["MUSTER_AGENT_TERM_GRACE_S"] = "300"
    pilot.start()
    run_until_up(pilot, plane, make_spec(code=code(LISTENS), stop_grace_s=5.0), wait_for)
    plane.is_down = True
    signal_all(pilot)
    ended = pilot.folder("a1").records
    wait_for(lambda: (state := last_state(ended)) and state.observed == "EXITED", timeout_s=120)
    # Nobody keeps a pilot's home: it stays for as long as its site lets it.
    with contextlib.suppress(psutil.TimeoutExpired):
        psutil.Process(pilot.process.pid).wait(timeout=SHUTDOWN_UPLOAD_S + 3.0)
    plane.is_down = False
    info = pilot.wait_exit("a1", timeout_s=120)
    assert info.cause == "stopped", info
    assert info.site_stop_at_ms
    wait_for(lambda: pilot.process.poll() is not None, timeout_s=120)
    assert [stage for stage, _ in plane.left] == ["gone"]


def test_whose_stop_it_was_is_known_after_the_site_has_killed_the_shim(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    script = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + KNOWS_NOTHING
    run_until_up(agent, plane, make_spec(code=code(script), stop_grace_s=600.0), wait_for)
    plane.is_down = True
    signal_all(agent)
    folder = agent.folder("a1")
    wait_for(
        lambda: (state := last_state(folder.records)) and state.observed == "STOPPING",
        timeout_s=120,
    )
    signal_all(agent, signal.SIGKILL)
    agent.process.wait()
    plane.is_down = False
    agent.start()
    info = agent.wait_exit("a1", timeout_s=120)
    assert info.cause == "stopped", info
    assert info.site_stop_at_ms


def test_a_script_without_the_sdk_ends_at_once_and_at_nobodys_expense(
    pilot: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    spec = make_spec(code=code(KNOWS_NOTHING), stop_grace_s=60.0)
    run_until_up(pilot, plane, spec, wait_for)
    began = time.monotonic()
    signal_all(pilot)
    check_left_in_peace(pilot, plane, wait_for)
    assert time.monotonic() - began < 20, "it had nothing to wait for"
