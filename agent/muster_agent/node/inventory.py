"""What this node is, has and is doing. Never imports torch."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from muster import __version__
from muster.wire import DESCRIBES, InterfaceUsage, Inventory, NodeUsage, SlotInfo
from muster_agent.environments.interpreters import Interpreter, InterpreterError, describe
from muster_agent.jobs.folder import write_atomically
from muster_agent.node.gpus import GpuMeter
from muster_agent.node.granted import granted_accelerators, granted_cpus, granted_memory_bytes
from muster_agent.nvml import Device, NvmlAbsent, accelerators_of, ask_devices
from muster_agent.settings import AgentSettings

_NUMBERS_FILE = "slots.json"
_SMI_TIMEOUT_S = 20.0
_SMI_FIELDS = "index,name,memory.total,uuid,driver_version,ecc.errors.uncorrected.volatile.total,mig.mode.current"


def take_inventory(settings: AgentSettings) -> tuple[Inventory, Sequence[Device]]:
    """Return the inventory for registration, and the devices of the machine. Asks NVML and runs the
    training interpreter."""
    found, driver_version = find_devices() if settings.slot_type != "cpu" else ([], "")
    devices = offered_devices(found, settings)
    given = os.environ if settings.is_pilot else {}
    num_cpus = granted_cpus(num_usable_cpus(), given)
    memory_bytes = granted_memory_bytes(psutil.virtual_memory().total, given)
    if devices is not None:
        slots = devices
    else:
        count = num_cpus if settings.slots is None else settings.slots
        slots = _cpu_slots(count, memory_bytes)
    try:
        interpreter = describe(settings.python, cache=settings.home / "interpreters")
    except InterpreterError:
        interpreter = Interpreter(python_version="", torch_version="", cuda_version="", packages=[])
    inventory = Inventory(
        chores=[DESCRIBES],
        hostname=socket.gethostname(),
        address=node_address(settings),
        platform=platform.platform(),
        num_cpus=num_cpus,
        memory_bytes=memory_bytes,
        disk_free_bytes=shutil.disk_usage(settings.home).free,
        slots=slots,
        python_version=interpreter.python_version,
        torch_version=interpreter.torch_version,
        cuda_version=interpreter.cuda_version,
        driver_version=driver_version,
        agent_version=__version__,
    )
    return inventory, found


def find_devices() -> tuple[Sequence[Device], str]:
    """Return the devices of this machine and the version of their driver, from NVML, and where there is
    none from nvidia-smi. Waits for either."""
    try:
        return ask_devices()
    except NvmlAbsent:
        return parse_smi(ask_smi() or "")


def devices_of(settings: AgentSettings) -> list[SlotInfo] | None:
    """Return the devices that are the slots of this node; None if its slots are CPUs."""
    return offered_devices(find_devices()[0], settings) if settings.slot_type != "cpu" else None


def offered_devices(devices: Sequence[Device], settings: AgentSettings) -> list[SlotInfo] | None:
    """Return the slots that a node with these devices offers; None if its slots are CPUs. A device
    that is lost is none, and one in MIG mode as many as it has instances."""
    if settings.slot_type == "cpu":
        return None
    accelerators = accelerators_of(devices, read_numbers(settings.home))
    if settings.is_pilot:
        accelerators = granted_accelerators(accelerators, os.environ)
    if not (accelerators if settings.is_pilot else devices) and settings.slot_type == "auto":
        return None
    return [
        SlotInfo(
            index=accelerator.index,
            slot_type="cuda",
            name=accelerator.whole.name or accelerator.device.name,
            memory_bytes=accelerator.whole.memory_total_bytes,
            uuid=accelerator.uuid,
        )
        for accelerator in accelerators
        if accelerator.uuid and not accelerator.device.is_lost
    ][: settings.slots]


def read_numbers(home: Path) -> dict[str, int]:
    """Return the indexes of the slots that this node has offered for devices, by UUID."""
    try:
        return {str(k): int(v) for k, v in json.loads((home / _NUMBERS_FILE).read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def keep_numbers(home: Path, slots: Sequence[SlotInfo]) -> dict[str, int]:
    """Note which slots the node offers now, so that each device keeps the index of its slot although
    another device is missing at the next start; return the indexes by UUID."""
    before, offered = read_numbers(home), {slot.uuid: slot.index for slot in slots if slot.uuid}
    rest = {uuid: n for uuid, n in before.items() if n not in offered.values()}
    if {**rest, **offered} != before:
        write_atomically(home / _NUMBERS_FILE, json.dumps({**rest, **offered}))
    return {**rest, **offered}


def node_address(settings: AgentSettings) -> str:
    """Return the configured address, else the local end of the route to the server."""
    if settings.address:
        return settings.address
    parts = urlsplit(settings.server_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        info = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(info[0], socket.SOCK_DGRAM) as probe:
            probe.connect(info[4])  # Sends nothing: connecting a UDP socket only selects the route.
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def interface_of(address: str) -> str:
    """Return the network interface that holds `address`; "" if none does."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(item.address.split("%")[0] == address for item in addresses):
            return name
    return ""


MAX_INTERFACES = 16
"""Largest number of interfaces reported per node: one with many containers has hundreds."""


class UsageMeter:
    """Use of the node since the previous call; the first call reports rates of zero."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self.gpus = GpuMeter()
        self._at: float | None = None
        self._previous: dict[str, float] = {}
        psutil.cpu_percent()

    def read(self) -> NodeUsage:
        memory = psutil.virtual_memory()
        rates = self._rates()
        names = sorted(name for name in rates if name.startswith("sent "))[:MAX_INTERFACES]
        gpus, gpu_problem = self.gpus.read()
        return NodeUsage(
            cpu_pct=min(100.0, max(0.0, psutil.cpu_percent())),
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            disk_free_bytes=shutil.disk_usage(self._disk).free,
            net_sent_bytes_per_s=rates.get("sent", 0.0),
            net_received_bytes_per_s=rates.get("received", 0.0),
            load_1m=os.getloadavg()[0],
            disk_read_bytes_per_s=rates.get("read", 0.0),
            disk_written_bytes_per_s=rates.get("written", 0.0),
            interfaces=[
                InterfaceUsage(
                    name=name.removeprefix("sent "),
                    sent_bytes_per_s=rates[name],
                    received_bytes_per_s=rates[name.replace("sent", "received", 1)],
                )
                for name in names
            ],
            gpus=gpus,
            gpu_problem=gpu_problem,
        )

    def _rates(self) -> dict[str, float]:
        """Return bytes per second since the previous call, per counter."""
        counts: dict[str, float] = {}
        total = psutil.net_io_counters()
        if total is not None:
            counts |= {"sent": total.bytes_sent, "received": total.bytes_recv}
        for name, one in psutil.net_io_counters(pernic=True).items():
            counts |= {f"sent {name}": one.bytes_sent, f"received {name}": one.bytes_recv}
        disks = psutil.disk_io_counters()
        if disks is not None:
            counts |= {"read": disks.read_bytes, "written": disks.write_bytes}
        now, before, at = time.monotonic(), self._previous, self._at
        self._previous, self._at = counts, now
        elapsed_s = max(now - at, 1e-3) if at is not None else math.inf
        return {
            name: max(0.0, count - before.get(name, count)) / elapsed_s
            for name, count in counts.items()
        }


def num_usable_cpus() -> int:
    """Return the number of CPUs this process may run on: fewer than the machine has, under taskset
    or Slurm."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_slots(count: int, total_bytes: int) -> list[SlotInfo]:
    memory_bytes = total_bytes // max(count, 1)
    name = _cpu_model()
    return [
        SlotInfo(index=i, slot_type="cpu", name=name, memory_bytes=memory_bytes)
        for i in range(count)
    ]


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def ask_smi() -> str | None:
    """Query nvidia-smi: one line per device, for `parse_smi`. Return None if it is missing, fails or
    times out."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_SMI_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def parse_smi(text: str) -> tuple[list[Device], str]:
    """Return devices and driver version from nvidia-smi's CSV. Unreadable lines are skipped. The
    instances of a device in MIG mode are not told."""
    devices = []
    driver_version = ""
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(row) != 7 or not row[0].strip().isdigit():
            continue
        index, name, memory_mib, uuid, driver_version, errors, mig = (x.strip() for x in row)
        devices.append(
            Device(
                index=int(index),
                name=name,
                memory_total_bytes=int(float(memory_mib) * 2**20)
                if memory_mib[:1].isdigit()
                else 0,
                uuid=uuid,
                ecc_volatile=int(errors) if errors.isdigit() else None,
                is_mig=mig == "Enabled",
            )
        )
    return devices, driver_version
