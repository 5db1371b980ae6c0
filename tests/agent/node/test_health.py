"""What an agent finds wrong with its node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.wire import ClockReading, SlotInfo
from muster_agent.node import health
from muster_agent.node.gpus import GpuMeter
from muster_agent.node.health import (
    check_clock,
    check_devices,
    check_disk,
    find_device_problems,
    find_problems,
)
from muster_agent.node.xid import KernelLog
from muster_agent.nvml import Device, Instance
from support.training.jobs import wait_for as wait_for_it

DEVICES = [
    SlotInfo(index=0, slot_type="cuda", name="NVIDIA H200", uuid="GPU-a"),
    SlotInfo(index=1, slot_type="cuda", name="NVIDIA H200", uuid="GPU-b"),
]


def test_a_disk_that_is_nearly_full_keeps_new_work_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_disk(tmp_path) == []
    monkeypatch.setattr(health, "MIN_DISK_FREE_BYTES", 2**60)
    (problem,) = check_disk(tmp_path)
    assert (problem.kind, problem.blocks) == ("disk", True)
    assert problem.message.startswith("the disk is full: only ")
    assert f"MiB are free at {tmp_path}" in problem.message


def test_one_that_fills_up_is_told_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOW_DISK_FREE_BYTES", 2**60)
    monkeypatch.setattr(health, "LOW_DISK_FREE_SHARE", 1.1)
    (problem,) = check_disk(tmp_path)
    assert (problem.kind, problem.blocks) == ("disk", False)


def test_a_folder_that_is_gone_or_read_only(tmp_path: Path) -> None:
    (gone,) = check_disk(tmp_path / "gone")
    assert gone.blocks
    assert gone.message == f"the folder {tmp_path}/gone cannot be used: No such file or directory"
    (read_only,) = check_disk(Path("/proc/self"))  # nobody can write there
    assert read_only.blocks


@pytest.mark.parametrize(
    ("skew_s", "error_ms", "message"),
    [
        (0.2, 1.0, None),
        (-4.9, 1.0, None),
        (6.0, 2000.0, None),  # it may be less
        (90.0, 1.0, "its clock is 90 s ahead of the server's"),
        (-3600.0, 1.0, "its clock is 3600 s behind the server's"),
    ],
)
def test_a_clock_that_is_off(skew_s: float, error_ms: float, message: str | None) -> None:
    found = check_clock(ClockReading(offset_ms=0.0, error_ms=error_ms, skew_s=skew_s))
    assert [p.message for p in found] == ([message] if message else [])
    assert check_clock(None) == []


def test_an_offered_device_that_is_not_there_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_devices(DEVICES, [Device(index=0, uuid="GPU-a")], {})
    assert [(p.message, p.blocks, p.slot) for p in found] == [
        ("device 1 (NVIDIA H200) is gone", True, 1)
    ]
    assert (
        check_devices(DEVICES, [Device(index=1, uuid="GPU-a"), Device(index=0, uuid="GPU-b")], {})
        == []
    )
    monkeypatch.setattr(health, "ask_smi", lambda: None)
    (problem,) = find_device_problems(DEVICES, None, None)
    assert problem.blocks
    assert problem.message == "nvidia-smi does not answer, or says that a device has failed"


def test_what_blocks_comes_first_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = ClockReading(offset_ms=0.0, error_ms=1.0, skew_s=60.0)
    monkeypatch.setattr(health, "MIN_DISK_FREE_BYTES", 2**60)
    found = find_problems(
        [tmp_path, tmp_path], clock=off, devices=[], home=tmp_path, kill_wait_s=180.0
    )
    kinds = [p.kind for p in found if p.kind != "memory"]
    assert kinds == ["disk", "clock"]


def test_an_agent_tells_with_its_heartbeats(agent: Any, plane: Any, wait_for: Any) -> None:
    wait_for(lambda: plane.leases and plane.leases[-1]["problems"] is not None)
    assert "clock" not in {p["kind"] for p in plane.leases[-1]["problems"]}


def test_an_agent_compares_its_clock_with_the_servers(
    agent: Any, plane: Any, wait_for: Any
) -> None:
    plane.clock_ahead_s = 120.0

    def said() -> set[str]:
        return {p["message"] for p in plane.leases[-1]["problems"] or []} if plane.leases else set()

    wait_for(lambda: any("behind the server's" in message for message in said()), timeout_s=60)


def test_an_agent_says_once_why_it_starts_workers_cold(
    agent: Any, plane: Any, wait_for: Any
) -> None:
    agent.kill()
    agent.environment["PYTHONPATH"] = "/opt/libs:src"
    agent.start()

    def problem() -> dict[str, Any] | None:
        found = plane.leases[-1]["problems"] or [] if plane.leases else []
        return next((p for p in found if p["kind"] == "workers"), None)

    assert wait_for(problem) == {
        "kind": "workers",
        "message": "workers start cold, which takes seconds longer, because PYTHONPATH of the agent has "
        "the relative entry 'src' (use absolute paths)",
        "blocks": False,
        "slot": None,
    }
    (line,) = [line for line in agent.words().splitlines() if "workers start cold" in line]
    assert "warning" in line


def test_no_warm_workers_no_reason(agent: Any, plane: Any, wait_for: Any) -> None:
    agent.kill()
    agent.environment |= {"PYTHONPATH": "src", "MUSTER_AGENT_WARM_WORKERS": "none"}
    plane.leases.clear()
    agent.start()
    wait_for(lambda: plane.leases and plane.leases[-1]["problems"] is not None)
    assert "workers" not in {p["kind"] for p in plane.leases[-1]["problems"]}


def test_errors_of_devices_in_the_kernel_log_keep_new_work_away(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "4,1,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus.\n"
    )
    found = find_problems(
        [], clock=None, devices=DEVICES, home=tmp_path, kill_wait_s=180.0, kernel_log=KernelLog(log)
    )
    (problem,) = [p for p in found if "XID 79" in p.message]
    assert problem.blocks
    assert found[0].blocks


def test_problems_of_a_device_concern_its_slots_alone(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "4,1,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus.\n"
        "4,2,5000000,-;NVRM: Xid (PCI:0000:77:00): 79, pid=0, GPU has fallen off the bus.\n"
    )
    parts = tuple(
        Instance(uuid=f"MIG-{n}", name="1g", gpu_instance=n, compute_instance=0) for n in range(2)
    )
    known = [
        Device(index=0, uuid="GPU-a", pci="00000000:3B:00.0", is_mig=True, instances=parts),
        Device(index=1, uuid="GPU-b", pci="00000000:5E:00.0", is_lost=True),
        Device(index=2, is_lost=True),  # and offered by nobody
    ]
    slots = [
        SlotInfo(index=n, slot_type="cuda", name="x", uuid=uuid)
        for n, uuid in enumerate(("MIG-0", "MIG-1", "GPU-b"))
    ]
    meter = GpuMeter(lambda: known)
    wait_for_it(lambda: meter.devices()[0] is not None)
    found = find_device_problems(slots, meter, KernelLog(log))
    of_log = [(p.slot, p.blocks) for p in found if "XID 79" in p.message]
    assert of_log == [(0, True), (1, True), (None, False)]
    of_nvml = [(p.slot, p.blocks) for p in found if "it has fallen off" in p.message]
    assert of_nvml == [(2, True), (None, False)]
    (others,) = {
        p.slot for p in find_device_problems(slots, None, KernelLog(log)) if "XID" in p.message
    }
    assert others is None
