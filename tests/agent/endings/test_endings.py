"""Jobs end in every way, many times, at every level of isolation: nothing is left, and nothing is blamed.

MUSTER_ENDINGS sets how many end at each level, MUSTER_ENDINGS_SEED when.
"""

from __future__ import annotations

import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import JOIN_TOKEN, RunningAgent, run_agent, wait_for
from muster import wire
from muster_agent.isolation import walls
from muster_agent.isolation.walls import CannotIsolate
from muster_agent.jobs.process import num_system_oom_kills, owned, owner_of
from muster_agent.settings import AgentSettings

NUM_ENDINGS = int(os.environ.get("MUSTER_ENDINGS", "8"))
SEED = int(os.environ.get("MUSTER_ENDINGS_SEED", "1"))
END_S = 60.0
pytestmark = [pytest.mark.torch, pytest.mark.timeout(900 + 20 * NUM_ENDINGS)]

SCRIPT = """
import os, signal, subprocess, sys, time

def leave(seconds):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(seconds)
        os._exit(0)
    os.wait()

if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for seconds in (0.0, 0.1, 600.0):
    leave(seconds)
subprocess.Popen(["sleep", "600"])
print("up", flush=True)
if sys.argv[1] != "ends":
    time.sleep(600)
"""
IDLE_INIT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-P", "-m", "muster_agent.cli", "run"])
while True:
    time.sleep(600)
"""
ENDINGS = {
    # how: (causes, launchers)
    "kill": ({"killed"}, ("torchrun", "direct", "shell")),
    "stop": ({"stopped"}, ("torchrun", "direct")),  # a shell waits for all that it has started
    "pause": ({"stopped"}, ("torchrun", "direct")),
    "deaf": ({"killed"}, ("torchrun", "direct")),
    "ends": ({"success"}, ("torchrun", "direct", "shell")),
    "rank": ({"killed_by_signal"}, ("torchrun", "direct")),
    "keeper": ({"killed_by_signal", "launcher_failed"}, ("torchrun",)),
    "shim": ({"shim_lost"}, ("torchrun", "direct", "shell")),
}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user reaches."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class InContainer:
    """An agent below a first process that collects nothing, as in many containers."""

    words, folder = RunningAgent.words, RunningAgent.folder
    wait_state, wait_exit = RunningAgent.wait_state, RunningAgent.wait_exit

    def __init__(self, plane: Any, home: Path) -> None:
        self.plane, self.home = plane, home
        self.environment: dict[str, str] = {}

    def start(self) -> None:
        own = {"URL": self.plane.url, "TOKEN": JOIN_TOKEN}
        with (self.home / "agent.log").open("ab") as words:
            self.process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                 sys.executable, "-c", IDLE_INIT],
                env={
                    **os.environ,
                    "MUSTER_AGENT_SERVER_URL": own["URL"],
                    "MUSTER_AGENT_JOIN_TOKEN": own["TOKEN"],
                    "MUSTER_AGENT_HOME": str(self.home),
                    "MUSTER_AGENT_NAME": "node-1",
                    "MUSTER_AGENT_SLOTS": "2",
                    "MUSTER_AGENT_ADDRESS": "127.0.0.1",
                    "MUSTER_AGENT_CONTAINERS": "none",
                    **self.environment,
                },
                stdout=words,
                stderr=words,
            )  # fmt: skip


def in_container(plane: Any, home: Path) -> Iterator[InContainer]:
    running = InContainer(plane, home)
    yield running
    running.process.kill()
    running.process.wait()


LEVELS = ["none", "user", "sandbox", "sandbox below an idle init"]


@pytest.fixture(params=LEVELS)
def isolated(request: Any, plane: Any, open_folder: Path) -> Iterator[Any]:
    """An agent at this level."""
    level, _, is_contained = request.param.partition(" ")
    if is_contained and os.geteuid() != 0:
        pytest.skip("only root makes process namespaces")
    home, code = open_folder / "agent", open_folder / "code"
    home.mkdir()
    code.mkdir()
    (code / "main.py").write_text(SCRIPT)
    settings = AgentSettings(server_url="http://127.0.0.1", home=home, isolation=level)
    try:
        walls.choose(settings, gpus=None)
    except CannotIsolate as error:
        pytest.skip(str(error))
    make = in_container(plane, home) if is_contained else run_agent(plane, home, start=False)
    for running in make:
        running.environment |= {
            "MUSTER_AGENT_ISOLATION": level,
            "MUSTER_AGENT_JOB_READS": str(code),
            "MUSTER_AGENT_WARM_WORKERS": "all",
        }
        running.start()
        yield running


class Job:
    """One allocation, and how it is to end."""

    def __init__(self, agent: Any, plane: Any, spec: wire.AllocationSpec, how: str) -> None:
        self.agent, self.plane, self.spec, self.how = agent, plane, spec, how
        self.id = spec.allocation_id
        self.oom_kills = 0

    def start(self) -> None:
        self.oom_kills = num_system_oom_kills()
        self.plane.want(self.spec)

    def wait_until_up(self) -> None:
        if self.how != "ends":
            held = self.plane.of(self.id)

            def is_up() -> bool:
                assert held.exit() is None, (self.how, self.spec, held.exit(), self.agent.words())
                is_said = b"up\n" in b"".join(list(held.logs.values()))
                return is_said and "RUNNING" in held.states()

            try:
                wait_for(is_up, timeout_s=120)
            except BaseException:
                shim_log = self.agent.folder(self.id).shim_log.read_text()
                print(self.how, self.spec.launcher, held.states(), held.logs, shim_log)
                raise

    def end(self) -> None:
        match self.how:
            case "kill":
                self.plane.want(self.spec, "kill")
            case "stop" | "pause" | "deaf":
                self.plane.want(self.spec, "stop")
            case "rank":
                os.kill(self.find(lambda words: "main.py rank" in words), signal.SIGKILL)
            case "keeper":
                os.kill(self.find(lambda words: "muster-warm (keeper)" in words), signal.SIGKILL)
            case "shim":
                shims = [p for p in psutil.process_iter() if self.is_its_shim(p)]
                shims[0].kill()

    def is_its_shim(self, process: psutil.Process) -> bool:
        try:
            return process.cmdline()[-1:] == [str(self.agent.folder(self.id).path)]
        except psutil.NoSuchProcess:
            return False

    def find(self, is_it: Callable[[str], bool]) -> int:
        """Return the pid, as we see it, of the oldest of its processes with such a command line."""
        found = [psutil.Process(i.pid) for i in self.agent.folder(self.id).processes()]
        found = [process for process in found if is_it(" ".join(process.cmdline()))]
        assert found, (
            f"its workers were started cold: {self.agent.folder(self.id).shim_log.read_text()}"
        )
        return min(found, key=lambda process: (process.create_time(), process.pid)).pid

    def check(self) -> None:
        info = self.agent.wait_exit(self.id, timeout_s=END_S)
        causes = ENDINGS[self.how][0]
        if (
            num_system_oom_kills() > self.oom_kills
        ):  # the kernel has killed something of another test
            causes = causes | {"out_of_memory"}
        assert info.cause in causes, (self.how, self.spec, info)
        assert "SIGKILL; " not in info.message
        assert "did not die" not in info.message, info
        assert self.agent.folder(self.id).processes() == set(), self.how
        self.plane.forget(self.id)


def below(process: psutil.Process) -> list[tuple[int, Any, str]]:
    found = []
    for child in process.children(recursive=True):
        try:
            found.append((child.pid, child.status(), " ".join(child.cmdline())[:60]))
        except psutil.NoSuchProcess:
            continue
    return found


def test_every_end_of_a_job_leaves_nothing_behind_and_blames_nobody(
    request: Any, isolated: Any, plane: Any, open_folder: Path, make_spec: Any
) -> None:
    rng = random.Random(SEED)
    level_no = LEVELS.index(request.node.callspec.params["isolated"])
    us = psutil.Process(isolated.process.pid)
    counts: collections.Counter[str] = collections.Counter()
    slowest_s = 0.0
    for number in range(0, NUM_ENDINGS, 2):
        jobs = []
        for slot in (0, 1):  # side by side: what one leaves behind meets the start of the other
            how = list(ENDINGS)[(number + slot) % len(ENDINGS)]
            launchers = ENDINGS[how][1]
            # Each launcher in turn, so that a few at each level are all of them over the levels.
            turn = (number + slot) // len(ENDINGS) + level_no
            launcher = launchers[turn % len(launchers)]
            said = [how] if launcher != "shell" else ["main.py", how]
            spec = make_spec(
                f"a{number + slot}",
                code=wire.CodeSpec(kind="installed", path=str(open_folder / "code")),
                entrypoint=["main.py", *said] if launcher != "shell" else ["python", *said],
                launcher=launcher,
                slots=[slot],
                world_size=1,
                stop_grace_s=0.4 if how == "deaf" else 10.0,
            )
            jobs.append(Job(isolated, plane, replace(spec, config={"name": "x"}), how))
            counts[how] += 1
        for job in jobs:
            job.start()
            time.sleep(rng.random() * 0.3)
        for job in jobs:
            job.wait_until_up()
        began = time.monotonic()
        for job in jobs:
            time.sleep(rng.random() * 0.2)
            job.end()
        for job in jobs:
            job.check()
        slowest_s = max(slowest_s, time.monotonic() - began)

    owner = owner_of(isolated.home)
    wait_for(lambda: all(i.startswith("warm-") for i in owned(owner)), what="only what it keeps")
    zombies = [p for p in below(us) if p[1] == psutil.STATUS_ZOMBIE]
    if zombies:
        wait_for(lambda: not [p for p in below(us) if p[1] == psutil.STATUS_ZOMBIE], timeout_s=5.0)
    left = below(us)
    num_agents = 2 if isinstance(isolated, InContainer) else 0
    assert len(left) <= num_agents + 2, left  # the fork server and a warm parent
    assert not (isolated.home / "survivors").exists()
    assert [p for lease in plane.leases for p in lease["problems"] or [] if p["blocks"]] == []
    print(f"{sum(counts.values())} ended, the slowest two within {slowest_s:.1f} s: {dict(counts)}")
