"""Utilization and problems of this node's NVIDIA devices, read through NVML. Needs the package
nvidia-ml-py.

A driver in trouble may not answer for minutes, so a thread of its own asks; who wants to know reads
what it last heard, and is told when that is old.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from muster.wire import GpuUsage, ThrottleReason
from muster_agent.nvml import Accelerator, Device, Nvml, NvmlAbsent, accelerators_of

SAMPLE_INTERVAL_S = 5.0
REFRESH_TIMEOUT_S = 1.0
"""Seconds that a heartbeat waits for devices that are slow to answer."""
TOO_OLD_S = 30.0
"""Age in seconds beyond which a reading is no longer reported."""


_REASONS: tuple[tuple[ThrottleReason, int], ...] = (
    ("power_cap", 0x04),
    ("heat", 0x60),
    ("board", 0x08),
    ("power_supply", 0x80),
)
"""Reasons for lower clocks, with NVML's bits."""


class GpuMeter:
    def __init__(self, read: Callable[[], Sequence[Device]] | None = None) -> None:
        """Create the meter; `read` queries all devices and defaults to NVML."""
        self._read = read
        self.numbers: Mapping[str, int] = {}
        """Indexes of the slots that the devices are, by UUID."""
        self.links: dict[str, frozenset[int]] = {}
        """NVLink connections that have been up, by UUID."""
        self.is_absent = False
        """Whether there is no NVML here."""
        self.is_waiting = True
        """Whether the first answer may still come."""
        self._found: Sequence[Device] | None = None
        self._at = time.monotonic()
        self._problem = "they have not been asked yet"
        self._thread: threading.Thread | None = None
        self._read_now = threading.Event()
        self._num_readings = 0

    def devices(self) -> tuple[Sequence[Device] | None, str]:
        """Return the latest reading of all devices, or None and the reason. Never blocks."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask, name="muster-gpus", daemon=True)
            self._thread.start()
        age_s = time.monotonic() - self._at
        if (self._found is not None or self.is_waiting) and age_s > TOO_OLD_S:
            self.is_waiting = False
            return None, f"NVML has not answered for {age_s:.0f} s"
        return self._found, self._problem

    async def refresh(self, *, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Have the devices read now, and wait until that is done, for `timeout_s` seconds at most."""
        self.devices()
        before, deadline = self._num_readings, time.monotonic() + timeout_s
        self._read_now.set()
        while not self.is_absent and self._num_readings == before and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    def read(self) -> tuple[list[GpuUsage] | None, str]:
        """Return the latest use of all devices, or None and the reason. Never blocks."""
        found, problem = self.devices()
        return None if found is None else usage_of(found, self.numbers), problem

    def _ask(self) -> None:
        read = self._read
        if read is None:
            try:
                read = Nvml().devices
            except NvmlAbsent as error:
                # Stays so until the agent is restarted.
                self.is_absent, self.is_waiting, self._problem = True, False, str(error)
                return
        while True:
            try:
                found = read()
                for device in found:
                    before = self.links.get(device.uuid, frozenset())
                    self.links[device.uuid] = before | device.active_links
                self._found, self._problem = found, ""
            except Exception as error:
                self._found, self._problem = None, f"NVML failed: {error}"
            self._at, self.is_waiting = time.monotonic(), False
            self._num_readings += 1
            self._read_now.wait(SAMPLE_INTERVAL_S)
            self._read_now.clear()


def usage_of(devices: Sequence[Device], numbers: Mapping[str, int]) -> list[GpuUsage]:
    """Return the use of what jobs can be given, as far as it can be read: a device that is lost tells
    nothing."""
    return [
        _usage_of(accelerator)
        for accelerator in accelerators_of(devices, numbers)
        if not accelerator.device.is_lost
    ]


def _usage_of(accelerator: Accelerator) -> GpuUsage:
    """Return the use of one accelerator. An instance has no use and no power reading of its own."""
    device, whole = accelerator.device, accelerator.whole
    is_whole = accelerator.instance is None
    return GpuUsage(
        index=accelerator.index,
        name=whole.name or device.name,
        use_pct=device.use_pct if is_whole else None,
        memory_used_bytes=whole.memory_used_bytes or 0,
        memory_total_bytes=whole.memory_total_bytes,
        power_w=device.power_w if is_whole else None,
        temperature_c=device.temperature_c,
        clock_mhz=device.clock_mhz,
        max_clock_mhz=device.max_clock_mhz,
        throttle_reasons=_reasons(device),
    )


def _reasons(device: Device) -> list[ThrottleReason] | None:
    bits = device.throttle_reasons
    return None if bits is None else [reason for reason, mask in _REASONS if bits & mask]
