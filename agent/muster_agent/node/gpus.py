"""Utilization of this node's NVIDIA devices, read through NVML. Needs the package nvidia-ml-py.

A driver in trouble may not answer for minutes, so a thread of its own asks; who wants to know reads
what it last heard, and is told when that is old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from muster.wire import GpuUsage, NodeProblem
from muster_agent.node.device_health import DeviceState, problems_of, read_states

SAMPLE_INTERVAL_S = 5.0
TOO_OLD_S = 30.0
"""Age in seconds beyond which a reading is no longer reported."""


class GpuMeter:
    def __init__(
        self,
        read: Callable[[], list[GpuUsage]] | None = None,
        examine: Callable[[], list[DeviceState]] | None = None,
    ) -> None:
        """Create the meter; `read` and `examine` query all devices and default to NVML."""
        self._read = read
        self._examine = examine
        self._links: dict[str, frozenset[int]] = {}
        """NVLink connections that have been up, by UUID."""
        self._problems: list[NodeProblem] = []
        self._found: list[GpuUsage] | None = None
        self._at = time.monotonic()
        self._problem = "they have not been asked yet"
        self._thread: threading.Thread | None = None

    def read(self) -> tuple[list[GpuUsage] | None, str]:
        """Return the latest reading of all devices, or None and the reason. Never blocks."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask, name="muster-gpus", daemon=True)
            self._thread.start()
        age_s = time.monotonic() - self._at
        if self._found is not None and age_s > TOO_OLD_S:
            return None, f"NVML has not answered for {age_s:.0f} s"
        return self._found, self._problem

    def problems(self) -> list[NodeProblem]:
        """Return the problems of the devices as of the latest reading. Never blocks."""
        return self._problems

    def _ask(self) -> None:
        read, examine = self._read, self._examine
        if read is None:
            nvml, self._problem = _open_nvml()
            if nvml is None:
                return  # A missing package stays missing until the agent is restarted.
            read, examine = (lambda: read_all(nvml)), (lambda: read_states(nvml))
        while True:
            try:
                # First: of a device that is lost nothing else can be read.
                self._problems = self._judge(examine() if examine is not None else [])
                self._found, self._problem = read(), ""
            except Exception as error:
                self._found, self._problem = None, f"NVML failed: {error}"
            self._at = time.monotonic()
            time.sleep(SAMPLE_INTERVAL_S)

    def _judge(self, states: list[DeviceState]) -> list[NodeProblem]:
        found = []
        for state in states:
            before = self._links.get(state.uuid, frozenset())
            found += problems_of(state, links_before=before)
            self._links[state.uuid] = before | state.active_links
        return found


def _open_nvml() -> tuple[Any, str]:
    """Return the initialized module pynvml, or None and the reason."""
    try:
        import pynvml
    except ImportError:
        return None, "nvidia-ml-py is not installed for the agent"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, f"there is no NVIDIA driver: {error}"
    return pynvml, ""


def read_all(nvml: Any) -> list[GpuUsage]:
    """Query all devices; `nvml` is the initialized module pynvml."""
    return [_read_one(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]


def _read_one(nvml: Any, index: int) -> GpuUsage:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)

    def ask(call: Callable[..., Any], *more: Any) -> float | None:
        """Query one value; None if the device does not know it: a MIG part has no power reading of
        its own."""
        try:
            return float(call(device, *more))
        except nvml.NVMLError:
            return None

    try:
        use_pct: float | None = float(nvml.nvmlDeviceGetUtilizationRates(device).gpu)
    except nvml.NVMLError:
        use_pct = None
    power_mw = ask(nvml.nvmlDeviceGetPowerUsage)
    name = nvml.nvmlDeviceGetName(device)
    return GpuUsage(
        index=index,
        name=name if isinstance(name, str) else name.decode(errors="replace"),
        use_pct=use_pct,
        memory_used_bytes=int(memory.used),
        memory_total_bytes=int(memory.total),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
    )
