"""Health checks of this node, run from time to time and reported with every heartbeat.

Only what somebody should act on is a problem. Those that `block` keep new work away until they are
gone; nothing that runs is touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from muster.wire import ClockReading, NodeProblem, SlotInfo
from muster_agent.jobs.folder import MIN_DISK_FREE_BYTES
from muster_agent.jobs.survivors import remaining
from muster_agent.node.device_health import on_slots, problems_of
from muster_agent.node.gpus import GpuMeter
from muster_agent.node.inventory import ask_smi, parse_smi
from muster_agent.node.xid import KernelLog
from muster_agent.nvml import Device, accelerators_of

CHECK_INTERVAL_S = 15.0
LOW_DISK_FREE_BYTES = 1024 * 2**20
LOW_DISK_FREE_SHARE = 0.02
"""Share of the disk below which it counts as low, if less than a gigabyte is free as well."""
LOW_MEMORY_SHARE = 0.03
MAX_CLOCK_SKEW_S = 5.0
"""Seconds of clock skew beyond which log lines and files of different nodes cannot be ordered by
time."""
MAX_PIDS_SHOWN = 5
AMD_DEVICE = Path("/dev/kfd")


def find_problems(
    folders: Iterable[Path],
    *,
    clock: ClockReading | None,
    devices: Sequence[SlotInfo],
    home: Path,
    kill_wait_s: float,
    cold_reason: str = "",
    kernel_log: KernelLog | None = None,
    gpus: GpuMeter | None = None,
    needs_devices: bool = False,
) -> list[NodeProblem]:
    """Run all checks and return the problems, blocking ones first. Waits for nvidia-smi where there is
    no NVML.

    folders: the folders of the agent and its storage.
    devices: the slots the node has offered.
    home: the agent's folder. kill_wait_s: the setting.
    cold_reason: why no worker is forked from a warm parent, as one clause; "" if there is no reason.
    kernel_log: where the driver tells of errors of its devices.
    gpus: what the devices tell of themselves; None where there is no NVML.
    needs_devices: whether the node is to offer CUDA devices.
    """
    found = [problem for path in folders for problem in check_disk(path)]
    found += check_memory() + check_clock(clock)
    found += check_processes(remaining(home), kill_wait_s=kill_wait_s)
    if cold_reason:
        message = f"workers start cold, which takes seconds longer, because {cold_reason}"
        found.append(NodeProblem(kind="workers", message=message))
    expected = [device for device in devices if device.slot_type == "cuda"]
    if expected:
        found += find_device_problems(expected, gpus, kernel_log)
    elif needs_devices:
        found.append(NodeProblem(kind="device", message=_none_found(AMD_DEVICE.exists())))
    unique = {(problem.message, problem.slot): problem for problem in found}
    return sorted(unique.values(), key=lambda problem: not problem.blocks)


def check_disk(path: Path) -> list[NodeProblem]:
    """Check whether files can still be written there."""
    try:
        usage = shutil.disk_usage(path)
        is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError as error:
        message = f"the folder {path} cannot be used: {error.strerror or error}"
        return [NodeProblem(kind="disk", message=message, blocks=True)]
    if is_read_only or not os.access(path, os.W_OK):
        message = f"nothing can be written to {path}"
        return [NodeProblem(kind="disk", message=message, blocks=True)]
    free = f"only {usage.free // 2**20:,} MiB are free at {path}"
    if usage.free < MIN_DISK_FREE_BYTES:
        message = (
            f"the disk is full: {free}; at least {MIN_DISK_FREE_BYTES // 2**20} MiB are needed"
        )
        return [NodeProblem(kind="disk", message=message, blocks=True)]
    if usage.free < LOW_DISK_FREE_BYTES and usage.free < LOW_DISK_FREE_SHARE * usage.total:
        return [NodeProblem(kind="disk", message=free)]
    return []


def check_memory() -> list[NodeProblem]:
    memory = psutil.virtual_memory()
    if memory.available >= LOW_MEMORY_SHARE * memory.total:
        return []
    message = f"only {memory.available // 2**20:,} MiB of {memory.total // 2**20:,} MiB of memory are left"
    return [NodeProblem(kind="memory", message=message)]


def check_processes(
    survivors: Mapping[str, Sequence[int]], *, kill_wait_s: float
) -> list[NodeProblem]:
    """Check whether everything of jobs that have ended is gone. survivors: the pids of what is not, by
    allocation id."""
    pids = sorted(pid for found in survivors.values() for pid in found)
    if not pids:
        return []
    who = f"process {pids[0]}" if len(pids) == 1 else f"{len(pids)} processes ({_listed(pids)})"
    message = (
        f"{who} of a job that has ended did not die of SIGKILL within {kill_wait_s:g} s and may hold "
        "devices or memory; nothing new is placed here until the kernel has let go of "
        f"{'it' if len(pids) == 1 else 'them'}"
    )
    return [NodeProblem(kind="processes", message=message, blocks=True)]


def _listed(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:MAX_PIDS_SHOWN]))
    return shown if len(pids) <= MAX_PIDS_SHOWN else f"{shown}, …"


def check_clock(reading: ClockReading | None) -> list[NodeProblem]:
    """Compare with the server's clock; return nothing before the first comparison."""
    if reading is None or abs(reading.skew_s) - reading.error_ms / 1000 <= MAX_CLOCK_SKEW_S:
        return []
    way = "ahead of" if reading.skew_s > 0 else "behind"
    message = f"its clock is {abs(reading.skew_s):.0f} s {way} the server's"
    return [NodeProblem(kind="clock", message=message)]


def _none_found(has_amd: bool) -> str:
    """Return why a node that is to offer CUDA devices offers none."""
    amd = "; the AMD devices of this machine are not offered" if has_amd else ""
    return (
        "MUSTER_AGENT_SLOT_TYPE is cuda, but neither NVML nor nvidia-smi tells of an NVIDIA device that "
        f"works, so that the node has no slots{amd}"
    )


def find_device_problems(
    expected: Sequence[SlotInfo], gpus: GpuMeter | None, kernel_log: KernelLog | None
) -> list[NodeProblem]:
    """Return the problems of the offered devices, by NVML or nvidia-smi and by the kernel's log."""
    devices, problem = gpus.devices() if gpus is not None else (None, "")
    if gpus is None or gpus.is_absent:
        answer = ask_smi()
        devices = parse_smi(answer)[0] if answer is not None else None
        problem = "nvidia-smi does not answer, or says that a device has failed"
    found = []
    if devices is not None:
        found += check_devices(expected, devices, gpus.links if gpus is not None else {})
    elif gpus is None or not gpus.is_waiting:
        found.append(NodeProblem(kind="device", message=problem, blocks=True))
    if kernel_log is not None:
        known = [device for device in devices or () if device.pci and device.uuid]
        slots = {device.uuid: _slots_of(device, expected) for device in known}
        is_complete = {n for found in slots.values() for n in found} >= {s.index for s in expected}
        found += kernel_log.read(
            {device.pci: device.uuid for device in known},
            slots={**{slot.uuid: [slot.index] for slot in expected}, **slots},
            others=[] if is_complete else None,
        )
    return found


def _slots_of(device: Device, offered: Sequence[SlotInfo]) -> list[int]:
    """Return the indexes of the slots that a node offers of a device."""
    uuids = {device.uuid, *(part.uuid for part in device.instances)}
    return [slot.index for slot in offered if slot.uuid in uuids]


def check_devices(
    expected: Sequence[SlotInfo],
    devices: Sequence[Device],
    links: Mapping[str, frozenset[int]],
) -> list[NodeProblem]:
    """Check whether the offered devices are present, and what all devices tell of themselves.

    links: NVLink connections that have been up, by UUID of the device.
    """
    present = {a.uuid for a in accelerators_of(devices)}
    found = [
        NodeProblem(
            kind="device",
            message=f"device {slot.index} ({slot.name}) is gone",
            blocks=True,
            slot=slot.index,
        )
        for slot in expected
        if slot.uuid not in present
    ]
    for device in devices:
        slots = _slots_of(device, expected)
        for problem in problems_of(device, links_before=links.get(device.uuid, frozenset())):
            found += on_slots(problem, slots)
    return found
