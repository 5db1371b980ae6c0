"""What this node is, has and is doing. Never imports torch."""

from __future__ import annotations

import csv
import io
import math
import os
import platform
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from muster import __version__
from muster.wire import DESCRIBES, InterfaceUsage, Inventory, NodeProblem, NodeUsage, SlotInfo
from muster_agent.environments.interpreters import Interpreter, InterpreterError, describe
from muster_agent.node.gpus import GpuMeter
from muster_agent.node.granted import granted_cpus, granted_devices, granted_memory_bytes
from muster_agent.settings import AgentSettings

_SMI_TIMEOUT_S = 20.0
_SMI_FIELDS = "index,name,memory.total,uuid,driver_version"


def take_inventory(settings: AgentSettings) -> Inventory:
    """Return the inventory for registration. Runs nvidia-smi and the training interpreter."""
    devices, driver_version = (
        parse_smi(ask_smi(_SMI_FIELDS) or "") if settings.slot_type != "cpu" else ([], "")
    )
    given = os.environ if settings.is_pilot else {}
    if settings.is_pilot:
        devices = granted_devices(devices, given)
    num_cpus = granted_cpus(num_usable_cpus(), given)
    memory_bytes = granted_memory_bytes(psutil.virtual_memory().total, given)
    if devices or settings.slot_type == "cuda":
        slots = devices if settings.slots is None else devices[: settings.slots]
    else:
        count = num_cpus if settings.slots is None else settings.slots
        slots = _cpu_slots(count, memory_bytes)
    try:
        interpreter = describe(settings.python, cache=settings.home / "interpreters")
    except InterpreterError:
        interpreter = Interpreter(python_version="", torch_version="", cuda_version="", packages=[])
    return Inventory(
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


def devices_of(settings: AgentSettings) -> list[SlotInfo] | None:
    """Return the devices that are the slots of this node; None if its slots are CPUs."""
    if settings.slot_type == "cpu":
        return None
    devices = parse_smi(ask_smi(_SMI_FIELDS) or "")[0]
    if settings.is_pilot:
        devices = granted_devices(devices, os.environ)
    if not devices and settings.slot_type == "auto":
        return None
    return devices if settings.slots is None else devices[: settings.slots]


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
        self._gpus = GpuMeter()
        self._at: float | None = None
        self._previous: dict[str, float] = {}
        psutil.cpu_percent()

    def read(self) -> NodeUsage:
        memory = psutil.virtual_memory()
        rates = self._rates()
        names = sorted(name for name in rates if name.startswith("sent "))[:MAX_INTERFACES]
        gpus, gpu_problem = self._gpus.read()
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

    def device_problems(self) -> list[NodeProblem]:
        """Return the problems that NVML tells of the devices. Never blocks."""
        return self._gpus.problems()

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


def ask_smi(fields: str) -> str | None:
    """Query nvidia-smi: one line per device with these fields, separated by commas. Return None if
    it is missing, fails or times out."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_SMI_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def parse_smi(text: str) -> tuple[list[SlotInfo], str]:
    """Return slots and driver version from nvidia-smi's CSV. Unreadable lines are skipped."""
    slots = []
    driver_version = ""
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(row) != 5 or not row[0].strip().isdigit():
            continue
        index, name, memory_mib, uuid, driver_version = (field.strip() for field in row)
        slots.append(
            SlotInfo(
                index=int(index),
                slot_type="cuda",
                name=name,
                memory_bytes=int(float(memory_mib) * 2**20) if memory_mib[:1].isdigit() else 0,
                uuid=uuid,
            )
        )
    return slots, driver_version
