"""The NVIDIA devices of this machine, as NVML tells of them. The only user of the module pynvml.

A driver in trouble may not answer for minutes: who must not wait reads what `gpus.GpuMeter` last heard,
or asks through `ask_devices`.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MISSING = "nvidia-ml-py is not installed for the agent"
TIMEOUT_S = 20.0
MAX_LINKS = 36
"""Largest number of NVLink connections of a device."""


class NvmlAbsent(Exception):
    """There is no NVML here: the package or the driver is missing, or it does not answer."""


class DeviceProcess(NamedTuple):
    """A process that computes on a device."""

    pid: int
    used_bytes: int | None
    """Device memory it uses; None if the driver does not tell."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A MIG instance: a part of a device that works as a device of its own."""

    uuid: str
    name: str
    gpu_instance: int
    compute_instance: int
    memory_used_bytes: int | None = None
    memory_total_bytes: int = 0
    processes: tuple[DeviceProcess, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Device:
    """What a device tells of itself; None is what it does not report."""

    index: int
    """Its number by PCI address, the one of nvidia-smi. It moves when a device before it is gone."""
    uuid: str = ""
    """Its name for good; "" of one that was lost before it was first read."""
    name: str = ""
    minor: int | None = None
    """Number of its device file."""
    pci: str = ""
    is_lost: bool = False
    """Whether the driver has lost it: it fell off the bus."""
    is_mig: bool = False
    """Whether it is in MIG mode: programs run on its instances, and none on the device itself."""
    instances: tuple[Instance, ...] = ()
    memory_used_bytes: int | None = None
    memory_total_bytes: int = 0
    use_pct: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None
    """Present clock of its multiprocessors."""
    max_clock_mhz: float | None = None
    throttle_reasons: int | None = None
    """Why its clocks are lowered: a set of NVML's bits."""
    ecc_volatile: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    ecc_aggregate: int | None = None
    """Uncorrected memory errors of its life."""
    is_remap_pending: bool | None = None
    has_remap_failed: bool | None = None
    pcie_width: int | None = None
    max_pcie_width: int | None = None
    active_links: frozenset[int] = frozenset()
    """NVLink connections that are up."""
    processes: tuple[DeviceProcess, ...] | None = None
    """Processes of all users that compute on it; in a container, those of the container."""


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """What a job can be given: a whole device, or an instance of one in MIG mode."""

    index: int
    """Its number on this machine, the index of its slot. It stays, whatever happens to other devices."""
    device: Device
    instance: Instance | None
    """The instance; None for the whole device."""

    @property
    def whole(self) -> Device | Instance:
        return self.instance or self.device

    @property
    def uuid(self) -> str:
        return self.whole.uuid


def accelerators_of(
    devices: Iterable[Device], numbers: Mapping[str, int] | None = None
) -> list[Accelerator]:
    """Return the accelerators that these devices are, in their order. A device in MIG mode is none
    itself.

    numbers: those that accelerators have had so far, by UUID. They keep them; a new one gets the number
        of its place, or the next that none of the others has.
    """
    parts = [
        (device, instance)
        for device in devices
        for instance in (device.instances if device.is_mig else (None,))
    ]
    uuids = [(instance or device).uuid for device, instance in parts]
    kept = {uuid: (numbers or {})[uuid] for uuid in uuids if uuid in (numbers or {})}
    taken, found = set(kept.values()), []
    for place, (device, instance) in enumerate(parts):
        index = kept.get(uuids[place])
        if index is None:
            index = next(n for n in itertools.count(place) if n not in taken)
            taken.add(index)
        found.append(Accelerator(index=index, device=device, instance=instance))
    return found


_known: dict[int, Device] = {}
"""Devices by index, as they were when this process last read them: of one that is lost nobody tells the
name any more."""


class Nvml:
    """An open NVML. Its calls may block."""

    def __init__(self) -> None:
        """Load the driver's library. Raises NvmlAbsent."""
        try:
            import pynvml
        except ImportError:
            raise NvmlAbsent(MISSING) from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlAbsent(f"there is no NVIDIA driver: {error}") from error

    def driver_version(self) -> str:
        """Return the version of the driver; "" if it is not told."""
        return _text(self._ask("nvmlSystemGetDriverVersion"))

    def devices(self) -> list[Device]:
        """Read all devices. Raises NvmlAbsent only if they cannot be counted."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise NvmlAbsent(f"NVML failed: {error}") from error
        return [self._device(index) for index in range(count)]

    def close(self) -> None:
        """Release the library."""
        self._ask("nvmlShutdown")

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Return the answer of one function; None if the library or the device does not support it.
        Raises _Lost."""
        nvml = self._nvml
        call = getattr(nvml, name, None)
        if call is None:
            return None
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) == nvml.NVML_ERROR_GPU_IS_LOST:
                raise _Lost from None
            return None

    def _device(self, index: int) -> Device:
        try:
            found = self._read(index)
        except _Lost:
            known = _known.get(index, Device(index=index))
            return Device(
                index=index,
                uuid=known.uuid,
                name=known.name,
                minor=known.minor,
                pci=known.pci,
                memory_total_bytes=known.memory_total_bytes,
                is_mig=known.is_mig,
                instances=tuple(
                    dataclasses.replace(part, memory_used_bytes=None, processes=None)
                    for part in known.instances
                ),
                is_lost=True,
            )
        if found.uuid:
            _known[index] = found
        return found

    def _read(self, index: int) -> Device:
        """Read one device. Raises _Lost."""
        nvml, ask = self._nvml, self._ask
        device = ask("nvmlDeviceGetHandleByIndex", index)
        if device is None:
            return Device(index=index)
        pci, memory = ask("nvmlDeviceGetPciInfo", device), ask("nvmlDeviceGetMemoryInfo", device)
        mig, use = ask("nvmlDeviceGetMigMode", device), ask("nvmlDeviceGetUtilizationRates", device)
        remaps = ask("nvmlDeviceGetRemappedRows", device)
        power_mw = ask("nvmlDeviceGetPowerUsage", device)
        is_mig = bool(mig and mig[0])
        links = {link for link in range(MAX_LINKS) if ask("nvmlDeviceGetNvLinkState", device, link)}
        return Device(
            index=index,
            uuid=_text(ask("nvmlDeviceGetUUID", device)),
            name=_text(ask("nvmlDeviceGetName", device)),
            minor=ask("nvmlDeviceGetMinorNumber", device),
            pci=_text(pci.busId) if pci is not None else "",
            is_mig=is_mig,
            instances=tuple(self._instances(device)) if is_mig else (),
            memory_used_bytes=int(memory.used) if memory is not None else None,
            memory_total_bytes=int(memory.total) if memory is not None else 0,
            use_pct=float(use.gpu) if use is not None else None,
            power_w=power_mw / 1000 if power_mw is not None else None,
            temperature_c=_number(
                ask("nvmlDeviceGetTemperature", device, nvml.NVML_TEMPERATURE_GPU)
            ),
            clock_mhz=_number(ask("nvmlDeviceGetClockInfo", device, nvml.NVML_CLOCK_SM)),
            max_clock_mhz=_number(ask("nvmlDeviceGetMaxClockInfo", device, nvml.NVML_CLOCK_SM)),
            throttle_reasons=self._throttle_reasons(device),
            ecc_volatile=self._uncorrected(device, nvml.NVML_VOLATILE_ECC),
            ecc_aggregate=self._uncorrected(device, nvml.NVML_AGGREGATE_ECC),
            is_remap_pending=bool(remaps[2]) if remaps is not None else None,
            has_remap_failed=bool(remaps[3]) if remaps is not None else None,
            pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", device),
            max_pcie_width=ask("nvmlDeviceGetMaxPcieLinkWidth", device),
            active_links=frozenset(links),
            processes=self._processes(device),
        )

    def _throttle_reasons(self, device: Any) -> int | None:
        found = self._ask("nvmlDeviceGetCurrentClocksEventReasons", device)
        if found is None:  # Drivers before 535 know the former name alone.
            found = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", device)
        return None if found is None else int(found)

    def _uncorrected(self, device: Any, counter: int) -> int | None:
        errors = self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        count = self._ask("nvmlDeviceGetTotalEccErrors", device, errors, counter)
        return None if count is None else int(count)

    def _instances(self, device: Any) -> Iterable[Instance]:
        for number in range(self._ask("nvmlDeviceGetMaxMigDeviceCount", device) or 0):
            part = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", device, number)
            if part is None:
                continue  # A number without an instance.
            memory = self._ask("nvmlDeviceGetMemoryInfo", part)
            yield Instance(
                uuid=_text(self._ask("nvmlDeviceGetUUID", part)),
                name=_text(self._ask("nvmlDeviceGetName", part)),
                gpu_instance=int(self._ask("nvmlDeviceGetGpuInstanceId", part) or 0),
                compute_instance=int(self._ask("nvmlDeviceGetComputeInstanceId", part) or 0),
                memory_used_bytes=int(memory.used) if memory is not None else None,
                memory_total_bytes=int(memory.total) if memory is not None else 0,
                processes=self._processes(part),
            )

    def _processes(self, device: Any) -> tuple[DeviceProcess, ...] | None:
        """Return the processes that compute there, once each; None if the driver does not tell."""
        answer = self._ask("nvmlDeviceGetComputeRunningProcesses", device)
        if answer is None:
            return None
        through_mps = self._ask("nvmlDeviceGetMPSComputeRunningProcesses", device) or ()
        found: dict[int, DeviceProcess] = {}
        for one in (*answer, *through_mps):
            used = None if one.usedGpuMemory is None else int(one.usedGpuMemory)
            found.setdefault(int(one.pid), DeviceProcess(int(one.pid), used))
        return tuple(found.values())


class _Lost(Exception):
    """The driver has lost the device."""


def ask_devices(timeout_s: float = TIMEOUT_S) -> tuple[Sequence[Device], str]:
    """Open NVML and return the devices and the version of the driver, after `timeout_s` at the latest.
    Raises NvmlAbsent."""
    found: list[tuple[Sequence[Device], str]] = []
    failed: list[NvmlAbsent] = []

    def ask() -> None:
        try:
            nvml = Nvml()
            try:
                found.append((nvml.devices(), nvml.driver_version()))
            finally:
                nvml.close()
        except NvmlAbsent as error:
            failed.append(error)

    thread = threading.Thread(target=ask, name="muster-nvml", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if found:
        return found[0]
    raise failed[0] if failed else NvmlAbsent(f"NVML has not answered for {timeout_s:g} s")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str:
    """Return a text of the library: older versions of the package give bytes."""
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
