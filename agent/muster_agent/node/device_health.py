"""Problems of NVIDIA devices by their own counters, read through NVML: what drains and what warns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from muster.wire import NodeProblem
from muster_agent.nvml import Device

_THROTTLING = {
    0x08: "the board asks it to (power or heat)",
    0x20: "it is too hot (software limit)",
    0x40: "it is too hot",
    0x80: "the power supply asks it to",
}
"""Reasons of NVML for lower clocks that somebody should act on, by bit. Running at its power limit
(0x04) and idling are normal."""


def on_slots(problem: NodeProblem, slots: Sequence[int] | None) -> list[NodeProblem]:
    """Return a problem of a device once for each of its slots, so that it keeps new work off them alone.

    slots: indexes of the slots that the node offers of the device; None if it is not known which device
        it is, and then nothing is placed on the node.
    """
    if slots is None:
        return [problem]
    if not slots:  # Nothing could be placed on it anyway.
        return [dataclasses.replace(problem, blocks=False)]
    return [dataclasses.replace(problem, slot=slot) for slot in slots]


def problems_of(state: Device, *, links_before: frozenset[int]) -> list[NodeProblem]:
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
    if state.ecc_volatile:
        life = f" ({state.ecc_aggregate} in its life)" if state.ecc_aggregate is not None else ""
        words = f"{state.ecc_volatile} uncorrected memory errors since the driver was loaded{life}"
        found.append(problem(words))
    if state.is_mig and not state.instances:
        words = (
            "it is in MIG mode and has no instances, or the package nvidia-ml-py is missing, so that "
            "nothing can run on it: create some and start the agent again"
        )
        found.append(problem(words))
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
