"""What a process inherits is collected at once; what it has started keeps its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="adopted on Linux alone")

SCRIPT = """
import asyncio, json, os, signal, subprocess, sys, threading
from pathlib import Path
from muster.launch import reaping
from muster.launch.forkserver import ForkServer

LEAVES = "(sh -c 'exit 5' &); (sleep 0.02 &); exit 7"  # two that are orphaned, before or after their end

def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

async def main():
    reaping.adopt()
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, reaping.collect)
    server = ForkServer(["json"], environment=dict(os.environ))
    await asyncio.to_thread(server.wait_until_ready)
    codes = []

    def in_a_thread():
        for _ in range(25):
            codes.append(subprocess.run(["sh", "-c", LEAVES]).returncode)

    async def in_the_loop():
        for _ in range(25):
            child = await asyncio.create_subprocess_exec("sh", "-c", LEAVES)
            codes.append(await child.wait())

    forked = []
    async def by_the_server():
        for _ in range(25):
            forked.append(server.spawn(["ends"], environment=dict(os.environ), folder=Path.cwd(),
                                       stdin=0, stdout=1, stderr=2))
            await asyncio.sleep(0)

    late = [subprocess.Popen(["sh", "-c", LEAVES]) for _ in range(5)]
    await asyncio.gather(
        asyncio.to_thread(in_a_thread), asyncio.to_thread(in_a_thread), in_the_loop(), by_the_server()
    )
    for program in forked:
        codes.append(await asyncio.to_thread(program.wait))
    codes += [child.wait() for child in late]
    server.close()
    for _ in range(500):
        if not children():
            break
        await asyncio.sleep(0.01)
    print(json.dumps({"codes": codes, "left": children()}))

asyncio.run(main())
"""


def test_orphans_are_collected_and_nobody_loses_an_exit_code(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(7)\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found == {"codes": [7] * 105, "left": []}
    assert done.stderr == ""


def test_what_runs_before_is_left_to_who_waits_for_it(tmp_path: Path) -> None:
    script = """
import subprocess, time
from muster.launch import reaping
before = subprocess.Popen(["sh", "-c", "exit 7"])
reaping.adopt()
time.sleep(0.3)
reaping.collect()
print(before.wait())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("7\n", "")
