"""What runs in our name without anybody to supervise it, and what merely looks like it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.jobs import history
from muster_agent.jobs.folder import AllocationFolder
from muster_agent.jobs.history import AllocationHistory
from muster_agent.jobs.orphans import end_orphans
from muster_agent.jobs.process import (
    OWNER_VARIABLE,
    SHIM_VARIABLE,
    TOKEN_VARIABLE,
    identify,
    owned,
    owner_of,
)

Code = Callable[[str], wire.CodeSpec]
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def start() -> Iterator[Callable[..., psutil.Process]]:
    started = []

    def make(**marks: str) -> psutil.Process:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        process = subprocess.Popen(SLEEP, env={**environment, **marks}, start_new_session=True)
        started.append(process)
        return psutil.Process(process.pid)

    yield make
    for process in started:
        process.kill()
        process.wait()


def is_running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_only_what_carries_our_mark_and_is_not_kept_is_ended(
    tmp_path: Path, start: Any, wait_for: Any
) -> None:
    ours, other = owner_of(tmp_path / "one"), owner_of(tmp_path / "two")
    assert ours != other
    kept = start(**{TOKEN_VARIABLE: "kept", OWNER_VARIABLE: ours})
    orphan = start(**{TOKEN_VARIABLE: "gone", OWNER_VARIABLE: ours})
    shim = start(**{SHIM_VARIABLE: "gone", OWNER_VARIABLE: ours})
    spared = [
        start(**{TOKEN_VARIABLE: "gone", OWNER_VARIABLE: other}),  # of another agent here
        start(**{TOKEN_VARIABLE: "gone"}),  # somebody set our variable himself
        start(**{OWNER_VARIABLE: ours}),
        # The same home and user, in a container that shares our process ids.
        start(**{TOKEN_VARIABLE: "gone", OWNER_VARIABLE: ours.split("@")[0] + "@elsewhere"}),
    ]
    wait_for(lambda: len(owned(ours)) == 2)
    asked = []

    def is_kept(allocation_id: str) -> bool:
        asked.append(allocation_id)
        return allocation_id == "kept"

    assert end_orphans(ours, is_kept) == (["gone"], 0)
    assert set(asked) == {"kept", "gone"}
    assert not is_running(orphan)
    assert not is_running(shim)
    assert is_running(kept)
    assert all(is_running(process) for process in spared)
    assert end_orphans(ours, is_kept) == ([], 0)


def test_an_agent_whose_home_was_wiped_ends_what_it_ran_before_it_says_hello(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(code=code("import time; time.sleep(600)")))
    agent.wait_state("a1", "RUNNING")
    folder = agent.folder("a1")
    shim = folder.read_state()
    assert shim is not None
    assert len(folder.processes()) == 2
    agent.kill()
    shutil.rmtree(agent.home)
    assert len(folder.processes()) == 2
    plane.assignments.clear()
    num_registrations = len(plane.registrations)
    agent.start()
    wait_for(lambda: len(plane.registrations) > num_registrations)
    assert folder.processes() == set()
    assert identify(shim.pid) is None or identify(shim.pid).start_ticks != shim.start_ticks  # type: ignore[union-attr]
    assert "orphans_ended" in agent.words()


def test_a_neighbour_with_the_same_allocation_is_never_touched(
    agent: Any, neighbour: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    """Two checkouts of one machine: whatever one agent sweeps, it sweeps in its own folder only."""
    spec = make_spec(code=code("import time; time.sleep(600)"))
    for each in (agent, neighbour):
        each.plane.want(spec)
        each.wait_state("a1", "RUNNING")
    spared = neighbour.folder("a1").processes()
    neighbours_shim = neighbour.folder("a1").read_state()
    assert len(spared) == 2
    ours = agent.folder("a1").processes()
    assert len(ours) == 2
    assert not ours & spared

    def is_untouched() -> bool:
        shim = identify(neighbours_shim.pid)
        return (
            neighbour.folder("a1").processes() == spared
            and shim is not None
            and shim.start_ticks == neighbours_shim.start_ticks
            and "EXITED" not in neighbour.plane.of("a1").states()
        )

    # A killed shim is swept up after.
    os.kill(agent.folder("a1").read_state().pid, signal.SIGKILL)
    assert agent.wait_exit("a1").cause == "shim_lost"
    assert agent.folder("a1").processes() == set()
    assert is_untouched()
    # What is forgotten is killed.
    agent.plane.want(make_spec("a2", code=spec.code))
    agent.wait_state("a2", "RUNNING")
    agent.plane.forget("a1")
    agent.plane.forget("a2")
    wait_for(lambda: not agent.folder("a2").path.exists())
    assert is_untouched()
    # A home that was wiped leaves orphans.
    agent.plane.want(make_spec("a3", code=spec.code))
    agent.wait_state("a3", "RUNNING")
    folder = agent.folder("a3")
    agent.kill()
    shutil.rmtree(agent.home)
    agent.plane.forget("a3")
    agent.start()
    wait_for(lambda: folder.processes() == set())
    assert is_untouched()


def test_a_process_that_got_the_shims_pid_is_not_taken_for_it(
    agent: Any, plane: Any, make_spec: Any, code: Code, start: Any
) -> None:
    plane.want(make_spec(code=code("import time; time.sleep(600)")))
    agent.wait_state("a1", "RUNNING")
    agent.kill()
    folder: AllocationFolder = agent.folder("a1")
    state = folder.read_state()
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    innocent = start()
    raw = json.loads((folder.path / "shim.json").read_text())
    (folder.path / "shim.json").write_text(json.dumps(raw | {"pid": innocent.pid}))
    agent.start()
    assert agent.wait_exit("a1").cause == "shim_lost"
    assert folder.processes() == set()
    assert is_running(innocent)


def test_what_ran_here_is_never_started_again(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    """A server whose database is one from before asks for it once more."""
    spec = make_spec(code=code("open('ran', 'a').write('x')"), slots=[0], world_size=1)
    plane.want(spec)
    agent.wait_exit("a1")
    plane.forget("a1")
    wait_for(lambda: not agent.folder("a1").path.exists())
    with plane.lock:
        plane.held.clear()
        num_registrations = len(plane.registrations)
    plane.want(spec)
    info = agent.wait_exit("a1")
    assert (info.cause, info.message) == ("shim_lost", "it ran on this node before")
    assert len(plane.registrations) == num_registrations + 1  # it asked what the server knows
    assert (Path(spec.code.path) / "ran").read_text() == "x"


def test_a_disk_that_was_set_back_is_told_by_the_number_of_its_records(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(code=code("import time; time.sleep(600)")))
    agent.wait_state("a1", "RUNNING")
    agent.kill()
    records = agent.folder("a1").records
    for segment in records.glob("*.jsonl"):  # the disk of yesterday
        lines = segment.read_bytes().splitlines(keepends=True)
        segment.write_bytes(b"".join(lines[:2]))
    agent.start()
    wait_for(lambda: plane.registrations[-1]["running"])
    assert plane.registrations[-1]["running"][0]["num_records"] == 2


def test_the_history_survives_and_stays_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_KEPT", 3)
    first = AllocationHistory(tmp_path / "history")
    for number in range(8):
        first.add(f"a{number}")
        first.add(f"a{number}")
    assert "a0" in first
    second = AllocationHistory(tmp_path / "history")
    assert [f"a{n}" in second for n in range(8)] == [False] * 5 + [True] * 3
    assert (tmp_path / "history").read_text() == "a5\na6\na7\n"


def test_what_an_agent_adopts_by_accident_is_collected(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    """It is a sub-reaper while it forks a shim; what is orphaned in that moment becomes its child."""
    spec = make_spec(code=code("import time; time.sleep(600)"), slots=[0], world_size=1)
    plane.want(spec)
    agent.wait_state("a1", "RUNNING")
    us = psutil.Process(agent.process.pid)
    shim = psutil.Process(agent.folder("a1").read_state().pid)
    worker = next(p for p in shim.children(recursive=True) if "main.py" in p.cmdline())
    forking = next(p for p in us.children() if "muster-forkserver" in p.cmdline())
    forking.suspend()
    plane.want(make_spec("a2", code=spec.code, slots=[1], world_size=1))
    wait_for(lambda: agent.folder("a2").has_options())  # it asks for the fork next, and waits
    time.sleep(0.3)
    shim.kill()
    wait_for(lambda: worker.ppid() == us.pid)
    forking.resume()
    worker.kill()
    agent.wait_state("a2", "RUNNING")
    assert agent.wait_exit("a1").cause == "shim_lost"

    def zombies() -> list[psutil.Process]:
        return [p for p in us.children() if p.status() == psutil.STATUS_ZOMBIE]

    wait_for(lambda: not zombies(), timeout_s=5.0)
