"""When a session is in use, seen on real processes and connections, and when it ends."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from muster.launch.session_activity import (
    ActivityProbe,
    SessionActivity,
    count_connections,
    idle_since,
)

MARK = "session-activity-test"


@pytest.fixture(autouse=True)
def of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """This test is the launcher of a job."""
    monkeypatch.setenv("MUSTER_ALLOCATION_ID", MARK)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def probe() -> ActivityProbe:
    return ActivityProbe(port=0, token="", is_jupyter=False)


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    processes = []

    def start(script: str, **more: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", script], **more)  # type: ignore[call-overload]
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def sees(look: Callable[[], bool], within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.mark.parametrize(
    ("activity", "is_in_use"),
    [
        (SessionActivity(), False),
        (SessionActivity(cpus=0.05, device_percent=2.0), False),
        (SessionActivity(num_connections=1), True),
        (SessionActivity(num_terminals=1), True),
        (SessionActivity(num_busy_kernels=1), True),
        (SessionActivity(cpus=0.5), True),
        (SessionActivity(device_percent=80.0), True),
    ],
)
def test_one_sign_of_life_is_enough(activity: SessionActivity, is_in_use: bool) -> None:
    assert activity.is_in_use == is_in_use


def test_idleness_counts_from_the_last_use() -> None:
    used, idle = SessionActivity(num_connections=1), SessionActivity()
    assert idle_since(0.0, idle, 10.0) == 0.0
    assert idle_since(0.0, used, 20.0) is None
    assert idle_since(None, idle, 30.0) == 30.0


def test_connections_to_the_port_count_and_those_that_ended_do_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert count_connections(port) == 0
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = listening.accept()
            assert count_connections(port) == 1
            accepted.close()
        assert sees(lambda: count_connections(port) == 0)


def test_a_process_of_the_job_that_computes_is_seen(
    probe: ActivityProbe, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    elsewhere = {**os.environ, "MUSTER_ALLOCATION_ID": "another"}
    started("while True: pass", env=elsewhere)
    started("import time; time.sleep(600)", env=dict(os.environ, MUSTER_ALLOCATION_ID=MARK))
    assert sees(lambda: probe.look().cpus < 0.1)
    started("while True: pass", env=dict(os.environ, MUSTER_ALLOCATION_ID=MARK))
    assert sees(lambda: probe.look().cpus >= 0.1)


def test_an_open_shell_is_seen_and_what_it_leaves_behind_is_not(
    probe: ActivityProbe, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    within = dict(os.environ, MUSTER_ALLOCATION_ID=MARK, MUSTER_TUNNEL="1")
    wait = "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); time.sleep(600)"
    started(wait, env=within, stdin=subprocess.DEVNULL, start_new_session=True)
    assert probe.look().num_terminals == 0
    ours, theirs = pty.openpty()
    started(wait, env=within, stdin=theirs, start_new_session=True)
    os.close(theirs)
    assert sees(lambda: probe.look().num_terminals == 1)
    os.close(ours)
    assert sees(lambda: probe.look().num_terminals == 0)
