"""What is said of GPUs: nothing rather than zeros, and never by waiting for a driver."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path

from muster_agent.node import gpus
from muster_agent.node.gpus import GpuMeter
from muster_agent.node.inventory import UsageMeter
from muster_agent.nvml import Device
from support.training.jobs import wait_for

GPU = Device(index=0, uuid="GPU-a", memory_used_bytes=1, memory_total_bytes=2, use_pct=50.0)


def test_a_driver_that_stops_to_answer_holds_up_nobody(monkeypatch) -> None:
    monkeypatch.setattr(gpus, "SAMPLE_INTERVAL_S", 0.0)
    hangs, asked_again = threading.Event(), threading.Event()
    answers = [[GPU]]

    def ask() -> list[Device]:
        if answers:
            return answers.pop()
        asked_again.set()
        hangs.wait()
        raise OSError("the device has fallen off the bus")

    meter = GpuMeter(ask)
    meter.read()
    assert asked_again.wait(60)
    assert meter.devices() == ([GPU], "")
    monkeypatch.setattr(gpus, "TOO_OLD_S", -1.0)
    found, problem = meter.read()
    assert found is None
    assert problem.startswith("NVML has not answered for ")
    monkeypatch.setattr(gpus, "SAMPLE_INTERVAL_S", 3600.0)
    hangs.set()
    wait_for(lambda: meter.read() == (None, "NVML failed: the device has fallen off the bus"))


def test_what_a_node_cannot_say_of_gpus_is_said(tmp_path: Path) -> None:
    meter = UsageMeter(tmp_path)
    wait_for(lambda: meter.read().gpu_problem != "they have not been asked yet")
    usage = meter.read()
    if importlib.util.find_spec("pynvml") is None:
        assert usage.gpus is None
        assert usage.gpu_problem == "nvidia-ml-py is not installed for the agent"
    else:
        assert (usage.gpus is None) == bool(usage.gpu_problem)


def test_rates_are_those_since_the_last_look(tmp_path: Path) -> None:
    meter = UsageMeter(tmp_path)
    assert meter.read().disk_written_bytes_per_s == 0.0
    usage = meter.read()
    assert usage.disk_read_bytes_per_s >= 0
    assert [i.name for i in usage.interfaces] == sorted(i.name for i in usage.interfaces)
    assert all(i.sent_bytes_per_s >= 0 and i.received_bytes_per_s >= 0 for i in usage.interfaces)
