"""A library in the place of pynvml that reads its devices from a file, which a test changes while a
real agent runs. `install` puts it on the path of a process.

The file is a JSON list of devices. A device has a `uuid`; it does not support what is not given:
`name`, `minor`, `pci`, `memory_used_bytes`, `memory_total_bytes`, `use_pct`, `power_w`, `temperature_c`,
`clock_mhz`, `max_clock_mhz`, `throttle_reasons`, `ecc_volatile`, `ecc_aggregate`, `remaps` (four numbers),
`pcie_width`, `max_pcie_width`, `links` (those that are up), `processes` (pairs of pid and bytes or null),
`is_lost`, and `instances` of a device in MIG mode: devices with `gpu_instance` and `compute_instance`.
The names of the functions, and what they raise and return, are those of nvidia-ml-py 13.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FILE_VARIABLE = "MUSTER_TEST_NVML"

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM = 1
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_VOLATILE_ECC = 0
NVML_AGGREGATE_ECC = 1
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_GPU_IS_LOST = 15
MAX_INSTANCES = 7


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return {3: "Not Supported", 9: "Driver Not Loaded", 15: "GPU is lost"}.get(
            self.value, f"error {self.value}"
        )


# ---------------------------------------------------------------- for tests


def install(folder: Path, devices: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write the library and its devices to `folder`; return the variables of a process that is to find
    it."""
    (folder / "nvml").mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "nvml" / "pynvml.py")
    change(folder, devices)
    return variables(folder)


def variables(folder: Path) -> dict[str, str]:
    """Return the variables of a process that is to find the library and its devices in `folder`."""
    return {
        "PYTHONPATH": f"{folder / 'nvml'}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"),
        FILE_VARIABLE: str(folder / "devices.json"),
    }


def change(folder: Path, devices: Sequence[Mapping[str, Any]]) -> None:
    """Replace the devices, at once for who reads them."""
    new = folder / "devices.new"
    new.write_text(json.dumps(list(devices)))
    new.replace(folder / "devices.json")


def device(uuid: str, **more: Any) -> dict[str, Any]:
    """Return a healthy device; `more` changes and adds to it."""
    found: dict[str, Any] = {
        "uuid": uuid,
        "name": "NVIDIA H200",
        "minor": 0,
        "pci": "00000000:3B:00.0",
        "memory_used_bytes": 1 << 20,
        "memory_total_bytes": 141 << 30,
        "use_pct": 3,
        "power_w": 76.5,
        "temperature_c": 31,
        "clock_mhz": 1980,
        "max_clock_mhz": 1980,
        "throttle_reasons": 0,
        "ecc_volatile": 0,
        "ecc_aggregate": 0,
        "remaps": [0, 0, 0, 0],
        "pcie_width": 16,
        "max_pcie_width": 16,
        "links": [],
        "processes": [],
    }
    return {**found, **more}


# ---------------------------------------------------------------- the library


def _devices() -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(Path(os.environ[FILE_VARIABLE]).read_text())
    except (KeyError, OSError):
        raise NVMLError(NVML_ERROR_DRIVER_NOT_LOADED) from None
    return found


def _find(uuid: str) -> dict[str, Any]:
    for one in _devices():
        for part in (one, *one.get("instances", ())):
            if part["uuid"] == uuid:
                if one.get("is_lost"):
                    raise NVMLError(NVML_ERROR_GPU_IS_LOST)
                found: dict[str, Any] = part
                return found
    raise NVMLError(NVML_ERROR_NOT_FOUND)


def _of(uuid: str, key: str) -> Any:
    found = _find(uuid).get(key)
    if found is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return found


def nvmlInit() -> None:
    _devices()


def nvmlShutdown() -> None:
    pass


def nvmlSystemGetDriverVersion() -> str:
    return "580.65.06"


def nvmlDeviceGetCount() -> int:
    return len(_devices())


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    uuid: str = _devices()[index]["uuid"]
    _find(uuid)
    return uuid


def nvmlDeviceGetUUID(handle: str) -> str:
    _find(handle)
    return handle


def nvmlDeviceGetName(handle: str) -> str:
    return str(_of(handle, "name"))


def nvmlDeviceGetMinorNumber(handle: str) -> int:
    return int(_of(handle, "minor"))


def nvmlDeviceGetPciInfo(handle: str) -> Any:
    return SimpleNamespace(busId=_of(handle, "pci"))


def nvmlDeviceGetMemoryInfo(handle: str) -> Any:
    return SimpleNamespace(
        used=_of(handle, "memory_used_bytes"), total=_of(handle, "memory_total_bytes")
    )


def nvmlDeviceGetUtilizationRates(handle: str) -> Any:
    return SimpleNamespace(gpu=_of(handle, "use_pct"))


def nvmlDeviceGetPowerUsage(handle: str) -> int:
    return int(_of(handle, "power_w") * 1000)


def nvmlDeviceGetTemperature(handle: str, sensor: int) -> int:
    assert sensor == NVML_TEMPERATURE_GPU
    return int(_of(handle, "temperature_c"))


def nvmlDeviceGetClockInfo(handle: str, kind: int) -> int:
    assert kind == NVML_CLOCK_SM
    return int(_of(handle, "clock_mhz"))


def nvmlDeviceGetMaxClockInfo(handle: str, kind: int) -> int:
    assert kind == NVML_CLOCK_SM
    return int(_of(handle, "max_clock_mhz"))


def nvmlDeviceGetCurrentClocksEventReasons(handle: str) -> int:
    return int(_of(handle, "throttle_reasons"))


def nvmlDeviceGetTotalEccErrors(handle: str, kind: int, counter: int) -> int:
    assert kind == NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return int(_of(handle, "ecc_volatile" if counter == NVML_VOLATILE_ECC else "ecc_aggregate"))


def nvmlDeviceGetRemappedRows(handle: str) -> tuple[int, ...]:
    return tuple(_of(handle, "remaps"))


def nvmlDeviceGetCurrPcieLinkWidth(handle: str) -> int:
    return int(_of(handle, "pcie_width"))


def nvmlDeviceGetMaxPcieLinkWidth(handle: str) -> int:
    return int(_of(handle, "max_pcie_width"))


def nvmlDeviceGetNvLinkState(handle: str, link: int) -> int:
    return int(link in _of(handle, "links"))


def nvmlDeviceGetComputeRunningProcesses(handle: str) -> list[Any]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in _of(handle, "processes")]


def nvmlDeviceGetMigMode(handle: str) -> list[int]:
    enabled = int(_of(handle, "instances") is not None)
    return [enabled, enabled]


def nvmlDeviceGetMaxMigDeviceCount(handle: str) -> int:
    return MAX_INSTANCES if _of(handle, "instances") is not None else 0


def nvmlDeviceGetMigDeviceHandleByIndex(handle: str, index: int) -> str:
    parts = _of(handle, "instances")
    if index >= len(parts):
        raise NVMLError(NVML_ERROR_NOT_FOUND)
    return str(parts[index]["uuid"])


def nvmlDeviceGetGpuInstanceId(handle: str) -> int:
    return int(_of(handle, "gpu_instance"))


def nvmlDeviceGetComputeInstanceId(handle: str) -> int:
    return int(_of(handle, "compute_instance"))
