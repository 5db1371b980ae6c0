"""The device files of some NVIDIA devices of this machine, and of no others.

The number of a device file is the device's minor number, which is neither its index in nvidia-smi nor
its place on the bus: the driver tells it in /proc/driver/nvidia.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from muster_agent.nvml import NvmlAbsent, ask_devices

DEV = Path("/dev")
DRIVER = Path("/proc/driver/nvidia")
OF_THE_DRIVER = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Files that every program on a device opens. They lead to a device only with its own file."""
OF_NETWORKS = ("infiniband", "gdrdrv")
OF_AMD = ("kfd", "dri")
"""Given whole, and only where there is no NVIDIA driver."""
MODPROBE_TIMEOUT_S = 30.0

_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)")


class MigPart(NamedTuple):
    parent: str
    """UUID of the device that the instance is a part of."""
    gpu_instance: int
    compute_instance: int


class _Device(NamedTuple):
    minor: int
    pci: str


def device_files(
    uuids: Iterable[str],
    *,
    dev: Path = DEV,
    driver: Path = DRIVER,
    ask_mig: Callable[[str], MigPart] | None = None,
) -> tuple[str, ...]:
    """Return the device files that a job on these devices needs.

    uuids: of whole devices or MIG instances. ask_mig: asks the driver which part of which device a MIG
        instance is, NVML by default. Raises OSError if the file of a device is not known: all files
        together would be too much, and none too little.
    """
    found = [dev / name for name in OF_NETWORKS]
    if not (dev / "nvidiactl").exists():
        return _existing([*found, *(dev / name for name in OF_AMD)])
    found += [dev / name for name in OF_THE_DRIVER]
    known = _devices(driver)
    for uuid in uuids:
        part = (ask_mig or _mig_part)(uuid) if uuid.startswith("MIG-") else None
        device = known.get(part.parent if part else uuid)
        if device is None:
            raise OSError(f"{driver} does not tell which device file belongs to {uuid}")
        found.append(dev / f"nvidia{device.minor}")
        if part is not None:
            found += _capabilities(part, device.minor, dev=dev, driver=driver)
        elif (render := dev / "dri" / "by-path" / f"pci-{device.pci}-render").exists():
            found.append(render.resolve())
    return _existing(found)


def load_unified_memory() -> None:
    """Have the driver make its files for unified memory, which it does when a first program asks for
    them, with rights that no job in a sandbox has."""
    if (DEV / "nvidiactl").exists() and not (DEV / "nvidia-uvm").exists():
        program = shutil.which("nvidia-modprobe", path="/usr/bin:/usr/sbin:/bin:/sbin")
        if program is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [program, "-c0", "-u"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=MODPROBE_TIMEOUT_S,
                    check=False,
                )


def _devices(driver: Path) -> dict[str, _Device]:
    """Return the devices that the driver has, by UUID."""
    found = {}
    for file in driver.glob("gpus/*/information"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            facts = _facts(file)
            found[facts["GPU UUID"]] = _Device(int(facts["Device Minor"]), file.parent.name)
    return found


def _capabilities(part: MigPart, minor: int, *, dev: Path, driver: Path) -> list[Path]:
    """Return the files that open a MIG instance. Raises OSError."""
    instance = driver / f"capabilities/gpu{minor}/mig/gi{part.gpu_instance}"
    files = (instance / "access", instance / f"ci{part.compute_instance}" / "access")
    try:
        return [dev / f"nvidia-caps/nvidia-cap{_facts(file)['DeviceFileMinor']}" for file in files]
    except KeyError as error:
        raise OSError(f"{instance} does not tell the device file of the instance") from error


def _facts(file: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in file.read_text().splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _mig_part(uuid: str) -> MigPart:
    if old := _OLD_MIG.fullmatch(uuid):
        return MigPart(old[1], int(old[2]), int(old[3]))
    try:
        devices, _ = ask_devices()
    except NvmlAbsent as error:
        raise OSError(f"NVML does not tell which device {uuid} is a part of: {error}") from error
    for device in devices:
        for part in device.instances:
            if part.uuid == uuid:
                return MigPart(device.uuid, part.gpu_instance, part.compute_instance)
    raise OSError(f"NVML does not tell which device {uuid} is a part of: there is no such instance")


def _existing(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(path) for path in paths if path.exists()))
