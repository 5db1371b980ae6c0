"""A program that knows nothing of us ends when we do, also by SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from muster_server.local import guard

PARENT = """
import os, subprocess, sys, time
read, write = os.pipe()
guard, stay = sys.argv[1], sys.argv[2]
if stay == "stay":
    start = f"import sys; sys.platform = 'other'; sys.argv = sys.argv[1:]; exec(open({guard!r}).read())"
    command = [sys.executable, "-c", start, guard]
else:
    command = [sys.executable, "-I", "-S", guard]
child = subprocess.Popen(
    [*command, str(os.getpid()), str(read), "/bin/sleep", "300"], pass_fds=[read]
)
os.close(read)
print(child.pid, flush=True)
time.sleep(300)
"""


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("how", ["kernel", "stay"])
def test_it_ends_with_a_killed_parent(how: str) -> None:
    if how == "kernel" and sys.platform != "linux":
        pytest.skip("the kernel offers this on Linux only")
    guard_path = str(Path(guard.__file__))
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, guard_path, how], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wanted = 1 if how == "kernel" else 2
    deadline = time.monotonic() + 20
    processes = family(pid)
    while time.monotonic() < deadline:
        processes = family(pid)
        if len(processes) == wanted and "sleep" in processes[-1].name():
            break
        time.sleep(0.02)
    assert "sleep" in processes[-1].name()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    while any(is_alive(p) for p in processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(is_alive(p) for p in processes)
