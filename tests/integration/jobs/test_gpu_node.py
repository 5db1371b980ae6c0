"""A node with GPUs on a real server, with a module in the place of NVML: what a user sees of devices that others
use, of memory that a job leaves behind, of MIG instances, and of a device that is lost."""

from __future__ import annotations

import getpass
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.client import Client
from support.nodes import fake_nvml
from support.nodes.fake_nvml import device
from support.stack import Stack, scripted, wait_for

GIB = 2**30
NODE = "local-1"
QUARANTINE_AFTER_S = 4
INSTANCES = [
    {
        "uuid": f"MIG-{number}",
        "name": "NVIDIA H200 MIG 1g.18gb",
        "memory_used_bytes": 1 << 20,
        "memory_total_bytes": 16 * GIB,
        "gpu_instance": 7 + number,
        "compute_instance": 0,
        "processes": [],
    }
    for number in range(2)
]
PARENT = device("GPU-b", minor=1, pci="00000000:5E:00.0", instances=INSTANCES)
LAST = device("GPU-c", minor=2, pci="00000000:86:00.0")
NUM_SLOTS = 4
"""The first device, two instances of the second, and the third."""


class GpuStack(Stack):
    """One node on the devices of a file."""

    @property
    def folder(self) -> Path:
        return self.home.with_name("nvml")

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        found = fake_nvml.variables(home.with_name("nvml"))
        return Stack.environment(home) | found | {"MUSTER_HEARTBEAT_S": "3"}

    def give(self, *processes: tuple[int, int], is_lost: bool = False) -> None:
        """Set who computes on the first device, as pairs of pid and bytes, and whether the last is lost."""
        first = device(
            "GPU-a",
            processes=processes,
            memory_used_bytes=(1 << 20) + sum(used for _, used in processes),
        )
        fake_nvml.change(self.folder, [first, PARENT, {**LAST, "is_lost": is_lost}])

    def node(self) -> dict[str, Any]:
        with self.client() as client:
            (node,) = client.nodes()
        return node

    def listed(self) -> str:
        """What `muster node list` prints, on one line."""
        done = self.cli("node", "list")
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def gpu_stack() -> Iterator[GpuStack]:
    with tempfile.TemporaryDirectory(prefix="muster-it-", ignore_cleanup_errors=True) as folder:
        agent = {"MUSTER_AGENT_QUARANTINE_AFTER_S": str(QUARANTINE_AFTER_S)}
        stack = GpuStack(
            Path(folder) / "home",
            agents=1,
            slots=NUM_SLOTS,
            environment={f"agent-{NODE}": agent},
        )
        fake_nvml.install(stack.folder, [device("GPU-a"), PARENT, LAST])
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


@pytest.fixture
def gpus(gpu_stack: GpuStack) -> GpuStack:
    """The stack with its devices well and unused."""
    gpu_stack.give()
    wait_for("all slots are free", lambda: gpu_stack.node()["num_slots_free"] == NUM_SLOTS)
    return gpu_stack


@pytest.fixture
def client(gpus: GpuStack) -> Iterator[Client]:
    with gpus.client() as client:
        yield client


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no agent has started."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def submit(client: Client, name: str, script: list[dict[str, Any]], *, slots: int = 1) -> Any:
    resources = {"slots": slots, "slot_type": "cuda"}
    return client.submit(scripted(name, script, resources=resources))


def trial_of(client: Client, experiment: Any) -> dict[str, Any]:
    (trial,) = client.trials(experiment["id"])
    return dict(client.get(f"/trials/{trial['id']}"))


def pids_of(stack: Stack, trial_id: int) -> list[int]:
    """The workers of a trial. Other stacks on this machine have trials of the same number."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except (psutil.Error, OSError):
            continue
        is_here = any(str(stack.home) in value for value in environment.values())
        if (
            is_here
            and environment.get("MUSTER_TRIAL_ID") == str(trial_id)
            and "RANK" in environment
        ):
            found.append(process.pid)
    return found


def why_closed(stack: GpuStack, slot: int) -> str:
    """Why nothing new is placed on a slot."""
    return str(stack.node()["slots"][slot]["problem"])


def test_a_gpu_that_somebody_uses_is_given_out_when_it_is_free_again(
    gpus: GpuStack, client: Client, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    gpus.give((stranger.pid, 31 * GIB))
    who = f"used by {getpass.getuser()} (pid {stranger.pid}, 31 GiB) outside Muster"
    wait_for("it is told", lambda: why_closed(gpus, 0) == f"GPU 0 is {who}")
    assert gpus.node()["num_slots_free"] == NUM_SLOTS - 1
    assert f"GPU 0 is {who}" in gpus.listed()

    # What needs one device gets the next one, an instance of another.
    one = submit(client, "elsewhere", [{"print_env": ["CUDA_VISIBLE_DEVICES"]}])
    assert client.wait(one["id"], timeout_s=120)["state"] == "COMPLETED"
    lines = [line["text"] for line in client.log_lines(trial_of(client, one)["id"])]
    assert "CUDA_VISIBLE_DEVICES=MIG-0" in lines

    # What needs all of them waits, and says for whom.
    end = tmp_path / "end"
    all_slots = submit(
        client, "all", [{"wait_for_file": str(end), "timeout_s": 500}], slots=NUM_SLOTS
    )
    wait_for(
        "the reason names who uses it",
        lambda: f"GPU 0 of {NODE} is {who}" in trial_of(client, all_slots)["pending_reason"],
    )
    gpus.give()
    wait_for("it runs", lambda: trial_of(client, all_slots)["state"] == "RUNNING")

    # Its own processes are no strangers; one that comes is named, and the trial goes on.
    trial_id = trial_of(client, all_slots)["id"]
    own = [(pid, 5 * GIB) for pid in wait_for("its workers", lambda: pids_of(gpus, trial_id))]
    gpus.give(*own, (stranger.pid, 31 * GIB))
    named = f"GPU 0 of {NODE} is {who}"
    performance = f"/trials/{trial_id}/performance"
    wait_for("it is named", lambda: client.get(performance)["foreign"] == [named])
    events = client.get(f"/trials/{trial_id}/events")["items"]
    assert [e["message"] for e in events if e["type"] == "attempt.device_shared"] == [f"{named}."]
    assert trial_of(client, all_slots)["state"] == "RUNNING"

    gpus.give(*own)
    wait_for("it is gone", lambda: why_closed(gpus, 0) == "")
    end.touch()
    assert client.wait(all_slots["id"], timeout_s=120)["state"] == "COMPLETED"
    gpus.give()
    wait_for("all slots are free", lambda: gpus.node()["num_slots_free"] == NUM_SLOTS)
    assert client.get(performance)["foreign"] == [named], "who has used it stays with the trial"


def test_a_gpu_whose_memory_stays_in_use_is_quarantined_until_it_is_free(
    gpus: GpuStack, client: Client, stranger: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    end = tmp_path / "end"
    job = submit(client, "leaves", [{"wait_for_file": str(end), "timeout_s": 500}])
    wait_for("it runs", lambda: trial_of(client, job)["state"] == "RUNNING")
    trial_id = trial_of(client, job)["id"]
    # While it is started, what forks it has its variables, too.
    (pid,) = wait_for(
        "its worker alone", lambda: len(pids := pids_of(gpus, trial_id)) == 1 and pids
    )
    gpus.give((pid, 30 * GIB))
    end.touch()
    assert client.wait(job["id"], timeout_s=120)["state"] == "COMPLETED"
    said = wait_for(
        "the quarantine",
        lambda: why if "quarantined" in (why := why_closed(gpus, 0)) else None,
    )
    assert said == (
        f"GPU 0 is quarantined: {QUARANTINE_AFTER_S} s after its last job 30 GiB of its memory were still "
        "in use; reset the device, or start the agent again to accept it"
    )
    assert gpus.node()["health"] == "degraded"
    assert said in gpus.listed()
    next_job = submit(client, "next", [{"print_env": ["CUDA_VISIBLE_DEVICES"]}], slots=NUM_SLOTS)
    wait_for(
        "it waits for the memory",
        lambda: "GPU 0 of local-1 is quarantined" in trial_of(client, next_job)["pending_reason"],
    )
    gpus.give()
    assert client.wait(next_job["id"], timeout_s=120)["state"] == "COMPLETED"
    assert gpus.node()["health"] == "ok"


def test_instances_are_slots_and_a_lost_gpu_closes_its_own_alone(
    gpus: GpuStack, client: Client
) -> None:
    names = [slot["name"] for slot in gpus.node()["slots"]]
    assert names == ["NVIDIA H200", *(part["name"] for part in INSTANCES), "NVIDIA H200"]
    gpus.give(is_lost=True)
    lost = wait_for("the loss", lambda: why_closed(gpus, 3) or None)
    assert lost == (
        "GPU 2 (GPU-c): it has fallen off the bus: check its power and seat, and reboot the machine"
    )
    node = gpus.node()
    assert (node["health"], node["health_reason"]) == ("degraded", lost)
    assert [slot["problem"] for slot in node["slots"]] == ["", "", "", lost]
    assert lost in gpus.listed()
    one = submit(client, "beside", [{"print_env": ["CUDA_VISIBLE_DEVICES"]}], slots=3)
    assert client.wait(one["id"], timeout_s=120)["state"] == "COMPLETED"
