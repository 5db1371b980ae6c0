"""What NVIDIA devices tell of themselves: what keeps new work away, and what does not."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from muster_agent.node.device_health import DeviceState, problems_of, read_states
from muster_agent.node.gpus import GpuMeter
from support.jobs import wait_for

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
        ({"pcie_width": 8, "max_pcie_width": 16}, [False], "8 of 16 PCIe lanes"),
    ],
)
def test_what_drains_and_what_warns(state: dict[str, Any], blocks: list[bool], words: str) -> None:
    device = DeviceState(**{"index": 1, "uuid": "GPU-b", "active_links": UP, **state})
    found = problems_of(device, links_before=UP)
    assert [p.blocks for p in found] == blocks
    assert all(p.message.startswith("GPU 1 (GPU-b): ") and words in p.message for p in found)


class FakeError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def fake_nvml() -> Any:
    """Return a module in the place of pynvml with a healthy device, one that is lost and one that
    supports nothing."""
    lost, unsupported = FakeError(15), FakeError(3)

    def of_healthy(value: Any) -> Any:
        def ask(device: int, *_: Any) -> Any:
            if device:
                raise (lost if device == 1 else unsupported)
            return value

        return ask

    return SimpleNamespace(
        NVMLError=FakeError,
        NVML_ERROR_GPU_IS_LOST=15,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda device: f"GPU-{device}",
        nvmlDeviceGetRemappedRows=of_healthy([0, 1, 1, 0]),
        nvmlDeviceGetCurrentClocksThrottleReasons=of_healthy(0),
        nvmlDeviceGetCurrPcieLinkWidth=of_healthy(16),
        nvmlDeviceGetMaxPcieLinkWidth=of_healthy(16),
        nvmlDeviceGetNvLinkState=lambda device, link: int(link < 2),
    )


def test_all_devices_are_read_also_beside_one_that_is_lost() -> None:
    healthy, lost, poor = read_states(fake_nvml())
    assert (healthy.uuid, healthy.is_remap_pending, healthy.pcie_width) == ("GPU-0", True, 16)
    assert healthy.active_links == UP
    assert (lost.uuid, lost.is_lost) == ("GPU-1", True)
    assert (poor.is_lost, poor.is_remap_pending, poor.pcie_width) == (False, None, None)


def test_a_connection_is_missed_once_it_has_been_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_agent.node.gpus.SAMPLE_INTERVAL_S", 0.0)
    ended = threading.Event()
    states = [
        DeviceState(index=0, uuid="GPU-a"),
        DeviceState(index=0, uuid="GPU-a", active_links=UP),
        DeviceState(index=0, uuid="GPU-a", active_links=frozenset({0})),
    ]

    def examine() -> list[DeviceState]:
        if len(states) > 1:
            return [states.pop(0)]
        monkeypatch.setattr("muster_agent.node.gpus.SAMPLE_INTERVAL_S", 3600.0)
        ended.set()
        return states

    meter = GpuMeter(list, examine)
    meter.read()
    assert ended.wait(60)
    wait_for(lambda: [p.blocks for p in meter.problems()] == [True])
