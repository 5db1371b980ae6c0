"""Who uses a device, and whether a job has given its memory back."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import make_spec
from muster.wire import CodeSpec, SlotInfo
from muster_agent.jobs.process import OWNER_VARIABLE
from muster_agent.node.foreign import (
    MEMORY_TOLERANCE_BYTES,
    DeviceReading,
    DeviceUsers,
    ForeignProcess,
    SlotWatch,
)
from muster_agent.nvml import Device, DeviceProcess
from support.nodes import fake_nvml
from support.nodes.fake_nvml import device

WAIT_S = 120.0
GIB = 2**30
ANN = ForeignProcess(pid=4242, user="ann", used_bytes=31 * GIB)


def reading(slot: int = 1, used: int | None = 0, **more: Any) -> DeviceReading:
    return DeviceReading(slot=slot, memory_used_bytes=used, **more)


# ---------------------------------------------------------------- the decision


def test_a_device_is_used_by_whom_and_with_how_much() -> None:
    (problem,) = SlotWatch(quarantine_after_s=60.0).look(
        [reading(foreign=(ANN,))], held=(), now=0.0
    )
    assert problem.message == "GPU 1 is used by ann (pid 4242, 31 GiB) outside Muster"
    assert (problem.kind, problem.slot, problem.blocks) == ("used", 1, True)


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        ([ForeignProcess(pid=7)], "process 7"),
        ([ForeignProcess(pid=7, used_bytes=300 * 2**20)], "process 7 (300 MiB)"),
        ([ForeignProcess(pid=7, user="bob")], "bob (pid 7)"),
        ([ANN, ForeignProcess(pid=7, user="bob")], "ann (pid 4242, 31 GiB) and bob (pid 7)"),
        (
            [ANN, ForeignProcess(pid=7), ForeignProcess(pid=8)],
            "ann (pid 4242, 31 GiB), process 7 and 1 other process",
        ),
        (
            [ANN, ForeignProcess(pid=7), ForeignProcess(pid=8), ForeignProcess(pid=9)],
            "ann (pid 4242, 31 GiB), process 7 and 2 other processes",
        ),
    ],
)
def test_what_is_not_known_is_not_told(processes: list[ForeignProcess], words: str) -> None:
    (problem,) = SlotWatch(quarantine_after_s=60.0).look(
        [reading(foreign=tuple(processes))], held=(), now=0.0
    )
    assert problem.message == f"GPU 1 is used by {words} outside Muster"


def test_a_slot_waits_for_the_memory_of_its_job_and_is_quarantined_in_the_end() -> None:
    watch = SlotWatch(quarantine_after_s=60.0)
    assert watch.look([reading(used=GIB)], held=(), now=0.0) == []
    watch.hold([1])
    assert watch.look([reading(used=40 * GIB)], held=[1], now=5.0) == []
    (waits,) = watch.look([reading(used=40 * GIB, own_pids=(77,))], held=(), now=10.0)
    assert waits.message == (
        "GPU 1 waits until the memory of its last job is free: 39 GiB are still in use, by process 77"
    )
    assert (waits.kind, waits.slot, waits.blocks) == ("device", 1, True)
    assert watch.waiting == {1}
    late = 70.0
    (held,) = watch.look([reading(used=40 * GIB, own_pids=(77,))], held=(), now=late)
    assert held.message == (
        "GPU 1 is quarantined: 60 s after its last job 39 GiB of its memory were still in use, by "
        "process 77; end what holds it, or start the agent again to accept it"
    )
    (nobody,) = watch.look([reading(used=40 * GIB)], held=(), now=late)
    assert "in use; reset the device" in nobody.message
    back = GIB + MEMORY_TOLERANCE_BYTES
    assert watch.look([reading(used=back)], held=(), now=late + 1) == []
    assert watch.waiting == set()


def test_a_job_that_is_over_before_anybody_looks_is_waited_for_too() -> None:
    watch = SlotWatch(quarantine_after_s=60.0)
    watch.look([reading(used=0)], held=(), now=0.0)
    watch.hold([1])
    assert watch.look([reading(used=9 * GIB)], held=(), now=1.0)


def test_memory_of_others_is_not_the_job_s() -> None:
    watch = SlotWatch(quarantine_after_s=60.0)
    watch.look([reading(used=0)], held=(), now=0.0)
    watch.hold([1])
    (problem,) = watch.look([reading(used=31 * GIB, foreign=(ANN,))], held=(), now=1.0)
    assert problem.kind == "used"
    # With processes whose memory the driver does not tell, nobody knows.
    watch.hold([1])
    unknown = (ForeignProcess(pid=7),)
    (problem,) = watch.look([reading(used=31 * GIB, foreign=unknown)], held=(), now=2.0)
    assert problem.kind == "used"


def test_without_a_base_line_nothing_is_waited_for() -> None:
    """The agent was started while the job ran."""
    watch = SlotWatch(quarantine_after_s=60.0)
    watch.hold([1])
    assert watch.look([reading(used=9 * GIB)], held=(), now=1.0) == []


def test_each_slot_is_watched_by_itself() -> None:
    watch = SlotWatch(quarantine_after_s=60.0)
    both = [reading(0), reading(1, foreign=(ANN,))]
    assert [p.slot for p in watch.look(both, held=(), now=0.0)] == [1]


# ---------------------------------------------------------------- whose a process is


@pytest.fixture
def orphan() -> Iterator[Callable[..., int]]:
    """Starts processes that are no descendants of this one."""
    started: list[int] = []

    def start(**environment: str) -> int:
        script = (
            "import os, sys, time\n"
            "if (pid := os.fork()):\n    print(pid, flush=True)\n    os._exit(0)\n"
            "os.setsid(); os.close(1); os.close(2); time.sleep(600)"
        )
        found = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        started.append(int(found.stdout))
        return started[-1]

    yield start
    for pid in started:
        os.kill(pid, signal.SIGKILL)


def look(processes: DeviceUsers, pids: list[int], *, held: bool = False) -> DeviceReading:
    one = Device(
        index=0,
        uuid="GPU-a",
        memory_used_bytes=5,
        processes=tuple(DeviceProcess(pid, GIB) for pid in pids),
    )
    slots = [SlotInfo(index=1, slot_type="cuda", name="", uuid="GPU-a")]
    held_slots = [1] if held else []
    (found,) = processes.readings([one], slots, held=held_slots, allocation_ids=["a1"])
    assert found.slot == 1
    return found


def test_processes_of_this_agent_are_known_by_ancestry_and_by_mark(
    orphan: Callable[..., int],
) -> None:
    processes = DeviceUsers("mark@host", list)
    with subprocess.Popen(["sleep", "600"]) as child:
        marked = orphan(**{OWNER_VARIABLE: "mark@another-name"})
        others = orphan(**{OWNER_VARIABLE: "another@host"})
        found = look(processes, [os.getpid(), child.pid, marked, others])
        assert found.own_pids == (os.getpid(), child.pid, marked)
        assert found.foreign == (
            ForeignProcess(pid=others, user=getpass.getuser(), used_bytes=GIB),
        )
        child.kill()


def test_what_is_a_process_of_this_agent_stays_one_whoever_its_parent_is(tmp_path: Path) -> None:
    processes = DeviceUsers("mark@host", list)
    script = (
        "import subprocess\n"
        "print(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid, flush=True)\n"
        "input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            assert look(processes, [pid]).own_pids == (pid,)
            parent.communicate(b"\n")
            assert look(processes, [pid]).own_pids == (pid,)
            assert look(DeviceUsers("mark@host", list), [pid]).foreign
        finally:
            os.kill(pid, signal.SIGKILL)


def test_a_process_that_cannot_be_seen_is_foreign_unless_a_job_runs_there() -> None:
    nobody = 2**22 + 7
    processes = DeviceUsers("mark@host", list)
    assert look(processes, [nobody]).foreign == (ForeignProcess(pid=nobody, used_bytes=GIB),)
    assert look(processes, [nobody], held=True).foreign == ()


def test_a_process_in_a_container_is_known_by_its_engine_which_is_asked_once(
    orphan: Callable[..., int],
) -> None:
    pids = [orphan(), orphan(), orphan()]
    ids = {pid: f"{number}" * 64 for number, pid in enumerate(pids)}
    answers: list[list[str] | None] = [None, [ids[pids[0]]]]

    def group_of(pid: int) -> str:
        return f"0::/system.slice/docker-{ids[pid]}.scope" if pid in ids else "0::/user.slice"

    processes = DeviceUsers("mark@host", lambda: answers.pop(0), group_of=group_of)
    # An engine that does not answer says of nobody that it is foreign, and of nobody that it is ours.
    silent = look(processes, pids)
    assert (silent.own_pids, silent.foreign, len(answers)) == ((), (), 1)
    found = look(processes, pids)
    assert (found.own_pids, len(answers)) == ((pids[0],), 0)
    assert [process.pid for process in found.foreign] == pids[1:]


# ---------------------------------------------------------------- a real agent


def slot_problems(plane: Any) -> list[tuple[str, int]]:
    problems = plane.leases[-1]["problems"] if plane.leases else None
    return [(p["kind"], p["slot"]) for p in problems or () if p["slot"] is not None]


def test_an_agent_tells_of_who_uses_one_of_its_two_devices(
    gpu_agent: Any, plane: Any, wait_for: Any, tmp_path: Path, orphan: Callable[..., int]
) -> None:
    pid = orphan()
    used = device("GPU-b", memory_used_bytes=32 * GIB, processes=[[pid, 31 * GIB]])
    gpu_agent([device("GPU-a"), used])
    wait_for(lambda: slot_problems(plane) == [("used", 1)], timeout_s=WAIT_S)
    (problem,) = [p for p in plane.leases[-1]["problems"] if p["kind"] == "used"]
    who = f"{getpass.getuser()} (pid {pid}, 31 GiB)"
    assert problem["message"] == f"GPU 1 is used by {who} outside Muster"

    fake_nvml.change(tmp_path, [device("GPU-a"), device("GPU-b")])
    seen = len(plane.leases)
    wait_for(lambda: slot_problems(plane) == [], timeout_s=WAIT_S)
    # The heartbeat on its way when it ended, and the next one.
    later = [[p["kind"] for p in lease["problems"] or ()] for lease in plane.leases[seen:]]
    assert sum("used" in kinds for kinds in later) <= 1


def devices_of(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "devices.json").read_text())
    return found


TRAINING = """
import json, os, pathlib, time
file = pathlib.Path(os.environ["MUSTER_TEST_NVML"])
devices = json.loads(file.read_text())
devices[0]["processes"] = [[os.getpid(), 30 << 30]]
devices[0]["memory_used_bytes"] = 30 << 30
new = file.with_suffix(".job")
new.write_text(json.dumps(devices))
new.replace(file)
until = pathlib.Path(__file__).with_name("end")
while not until.exists():
    time.sleep(0.05)
"""


@pytest.mark.parametrize("comes_back", [True, False])
def test_the_end_of_a_job_is_told_after_its_memory_is_free_or_with_its_slot_held_back(
    gpu_agent: Any,
    plane: Any,
    wait_for: Any,
    tmp_path: Path,
    orphan: Callable[..., int],
    comes_back: bool,
) -> None:
    code = tmp_path / "job"
    code.mkdir()
    (code / "main.py").write_text(TRAINING)
    agent = gpu_agent([device("GPU-a"), device("GPU-b")])
    wait_for(lambda: plane.leases, timeout_s=WAIT_S)
    spec = make_spec(
        slots=[0],
        world_size=1,
        slot_type="cuda",
        code=CodeSpec(kind="installed", path=str(code)),
        environment={fake_nvml.FILE_VARIABLE: agent.environment[fake_nvml.FILE_VARIABLE]},
    )
    plane.want(spec)

    def memory() -> int:
        return int(devices_of(tmp_path)[0]["memory_used_bytes"])

    wait_for(lambda: memory() == 30 * GIB, timeout_s=WAIT_S)
    seen = len(plane.leases)
    wait_for(lambda: len(plane.leases) > seen + 1, timeout_s=WAIT_S)
    assert slot_problems(plane) == [], "its own process is no foreign one"

    # Somebody else comes while it runs.
    pid = orphan()
    devices = devices_of(tmp_path)
    devices[0]["processes"].append([pid, GIB])
    devices[0]["memory_used_bytes"] += GIB
    fake_nvml.change(tmp_path, devices)
    wait_for(lambda: slot_problems(plane) == [("used", 0)], timeout_s=WAIT_S)
    devices[0]["processes"].pop()
    devices[0]["memory_used_bytes"] -= GIB
    fake_nvml.change(tmp_path, devices)
    wait_for(lambda: slot_problems(plane) == [], timeout_s=WAIT_S)

    job = devices[0]["processes"][0][0]
    (code / "end").touch()
    wait_for(lambda: not psutil.pid_exists(job), timeout_s=WAIT_S)
    if comes_back:
        fake_nvml.change(tmp_path, [device("GPU-a"), device("GPU-b")])
    held = plane.held["a1"]
    wait_for(lambda: "EXITED" in held.states(), timeout_s=WAIT_S)
    assert slot_problems(plane) == ([] if comes_back else [("device", 0)]), (
        "the server knows before it hears of the end"
    )
    fake_nvml.change(tmp_path, [device("GPU-a"), device("GPU-b")])
    wait_for(lambda: slot_problems(plane) == [], timeout_s=WAIT_S)
