"""What NVIDIA devices tell of themselves: what keeps new work away, and what does not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from muster.wire import SlotInfo
from muster_agent.node.device_health import problems_of
from muster_agent.node.gpus import GpuMeter
from muster_agent.node.health import check_devices
from muster_agent.nvml import Device
from support.training.jobs import wait_for

UP = frozenset({0, 1})


@pytest.mark.parametrize(
    ("state", "blocks", "words"),
    [
        ({}, [], ""),
        ({"is_lost": True}, [True], "it has fallen off the bus"),
        ({"has_remap_failed": True}, [True], "could not be replaced"),
        ({"active_links": frozenset({0})}, [True], "NVLink connection 1 is down"),
        ({"is_remap_pending": True}, [False], "waits to be replaced"),
        ({"throttle_reasons": 0x44}, [False], "its clocks are lowered because it is too hot"),
        ({"throttle_reasons": 0x05}, [], ""),  # idle, and at its power limit
        (
            {"ecc_volatile": 3, "ecc_aggregate": 5},
            [False],
            "3 uncorrected memory errors since the driver",
        ),
        ({"is_mig": True}, [False], "it is in MIG mode and has no instances"),
        ({"pcie_width": 8, "max_pcie_width": 16}, [False], "8 of 16 PCIe lanes"),
    ],
)
def test_what_drains_and_what_warns(state: dict[str, Any], blocks: list[bool], words: str) -> None:
    device = Device(**{"index": 1, "uuid": "GPU-b", "active_links": UP, **state})
    found = problems_of(device, links_before=UP)
    assert [p.blocks for p in found] == blocks
    assert all(p.message.startswith("GPU 1 (GPU-b): ") and words in p.message for p in found)


def test_a_connection_is_missed_once_it_has_been_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_agent.node.gpus.SAMPLE_INTERVAL_S", 0.0)
    ended = threading.Event()
    states = [
        Device(index=0, uuid="GPU-a"),
        Device(index=0, uuid="GPU-a", active_links=UP),
        Device(index=0, uuid="GPU-a", active_links=frozenset({0})),
    ]

    def examine() -> list[Device]:
        if len(states) > 1:
            return [states.pop(0)]
        monkeypatch.setattr("muster_agent.node.gpus.SAMPLE_INTERVAL_S", 3600.0)
        ended.set()
        return states

    meter = GpuMeter(examine)
    meter.devices()
    assert ended.wait(60)

    slot = SlotInfo(index=0, slot_type="cuda", name="x", uuid="GPU-a")

    def blocks() -> list[bool]:
        return [p.blocks for p in check_devices([slot], meter.devices()[0] or [], meter.links)]

    wait_for(lambda: blocks() == [True])
