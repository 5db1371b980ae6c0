"""Problems of NVIDIA devices by their own counters, read through NVML: what drains and what warns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.wire import NodeProblem

MAX_LINKS = 18
"""Largest number of NVLink connections of a device."""
_THROTTLING = {
    0x08: "the board asks it to (power or heat)",
    0x20: "it is too hot (software limit)",
    0x40: "it is too hot",
    0x80: "the power supply asks it to",
}
"""Reasons of NVML for lower clocks that somebody should act on, by bit. Running at its power limit
(0x04) and idling are normal."""


@dataclass(frozen=True, kw_only=True)
class DeviceState:
    """What a device tells of itself; None is what it does not report."""

    index: int
    uuid: str = ""
    is_lost: bool = False
    """Whether the driver has lost it: it fell off the bus."""
    is_remap_pending: bool | None = None
    has_remap_failed: bool | None = None
    throttle_reasons: int | None = None
    pcie_width: int | None = None
    max_pcie_width: int | None = None
    active_links: frozenset[int] = frozenset()
    """NVLink connections that are up."""


def read_states(nvml: Any) -> list[DeviceState]:
    """Query all devices; `nvml` is the initialized module pynvml. Raises its errors only if no device
    can be counted."""
    return [_read_state(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]


def _read_state(nvml: Any, index: int) -> DeviceState:
    is_lost = False

    def ask(name: str, *arguments: Any) -> Any:
        nonlocal is_lost
        call: Callable[..., Any] | None = getattr(nvml, name, None)
        if call is None or is_lost:
            return None
        try:
            return call(*arguments)
        except nvml.NVMLError as error:
            is_lost = getattr(error, "value", None) == nvml.NVML_ERROR_GPU_IS_LOST
            return None

    device = ask("nvmlDeviceGetHandleByIndex", index)
    if device is None:
        return DeviceState(index=index, is_lost=is_lost)
    uuid = ask("nvmlDeviceGetUUID", device) or ""
    remaps = ask("nvmlDeviceGetRemappedRows", device)
    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", device)
    width = ask("nvmlDeviceGetCurrPcieLinkWidth", device)
    widest = ask("nvmlDeviceGetMaxPcieLinkWidth", device)
    links = {link for link in range(MAX_LINKS) if ask("nvmlDeviceGetNvLinkState", device, link)}
    return DeviceState(
        index=index,
        uuid=uuid if isinstance(uuid, str) else uuid.decode(errors="replace"),
        is_lost=is_lost,
        is_remap_pending=None if remaps is None else bool(remaps[2]),
        has_remap_failed=None if remaps is None else bool(remaps[3]),
        throttle_reasons=reasons,
        pcie_width=width,
        max_pcie_width=widest,
        active_links=frozenset(links),
    )


def problems_of(state: DeviceState, *, links_before: frozenset[int]) -> list[NodeProblem]:
    """Return the problems of a device.

    links_before: NVLink connections that were up at some time: others may lead nowhere.
    """
    device = f"GPU {state.index} ({state.uuid})" if state.uuid else f"GPU {state.index}"

    def problem(words: str, *, blocks: bool = False) -> NodeProblem:
        return NodeProblem(kind="device", message=f"{device}: {words}", blocks=blocks)

    if state.is_lost:
        words = "it has fallen off the bus: check its power and seat, and reboot the machine"
        return [problem(words, blocks=True)]
    found = []
    if state.has_remap_failed:
        words = "a faulty memory row could not be replaced: have the device exchanged"
        found.append(problem(words, blocks=True))
    if down := links_before - state.active_links:
        listed = ", ".join(map(str, sorted(down)))
        words = f"NVLink connection {listed} is down: reset the device once its jobs have ended"
        found.append(problem(words, blocks=True))
    if state.is_remap_pending:
        words = (
            "a faulty memory row waits to be replaced: reset the device once its jobs have ended"
        )
        found.append(problem(words))
    for bit, why in _THROTTLING.items():
        if (state.throttle_reasons or 0) & bit:
            found.append(problem(f"its clocks are lowered because {why}"))
    if state.pcie_width and state.max_pcie_width and state.pcie_width < state.max_pcie_width:
        words = (
            f"it is connected by {state.pcie_width} of {state.max_pcie_width} PCIe lanes: check its "
            "seat and the riser"
        )
        found.append(problem(words))
    return found
