"""Real agents on a fake library of NVIDIA's: what they offer and say of their devices, by UUID."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from muster_agent import nvml
from muster_agent.isolation.device_files import device_files
from muster_agent.node.inventory import read_numbers
from support.nodes import fake_nvml
from support.nodes.fake_nvml import device

WAIT_S = 60.0
TWO = [device("GPU-a", minor=1), device("GPU-b", minor=0, pci="00000000:5E:00.0")]
PARTS = [
    {
        "uuid": f"MIG-{n}",
        "name": "NVIDIA H200 MIG 1g.18gb",
        "memory_used_bytes": n << 20,
        "memory_total_bytes": 16 << 30,
        "gpu_instance": 7 + n,
        "compute_instance": 0,
        "processes": [],
    }
    for n in range(2)
]


def offered(plane: Any, wait_for: Any) -> list[tuple[int, str]]:
    wait_for(lambda: plane.registrations, timeout_s=WAIT_S)
    inventory = plane.registrations[-1]["inventory"]
    return [(slot["index"], slot["uuid"]) for slot in inventory["slots"]]


def test_an_agent_offers_devices_and_tells_their_use(
    gpu_agent: Any, plane: Any, wait_for: Any
) -> None:
    gpu_agent(TWO)
    assert offered(plane, wait_for) == [(0, "GPU-a"), (1, "GPU-b")]
    inventory = plane.registrations[-1]["inventory"]
    assert inventory["driver_version"] == "580.65.06"
    assert inventory["slots"][0]["memory_bytes"] == 141 << 30
    gpus = wait_for(
        lambda: plane.leases and (plane.leases[-1]["usage"] or {}).get("gpus"), timeout_s=WAIT_S
    )
    assert [(g["index"], g["power_w"], g["memory_used_bytes"]) for g in gpus] == [
        (0, 76.5, 1 << 20),
        (1, 76.5, 1 << 20),
    ]


def test_instances_are_offered_and_their_device_is_not(
    gpu_agent: Any, plane: Any, wait_for: Any
) -> None:
    gpu_agent([device("GPU-a", instances=PARTS), TWO[1]])
    assert offered(plane, wait_for) == [(0, "MIG-0"), (1, "MIG-1"), (2, "GPU-b")]
    names = [slot["name"] for slot in plane.registrations[-1]["inventory"]["slots"]]
    assert names == ["NVIDIA H200 MIG 1g.18gb"] * 2 + ["NVIDIA H200"]
    gpus = wait_for(
        lambda: plane.leases and (plane.leases[-1]["usage"] or {}).get("gpus"), timeout_s=WAIT_S
    )
    assert [(g["index"], g["power_w"], g["memory_used_bytes"] >> 20) for g in gpus] == [
        (0, None, 0),
        (1, None, 1),
        (2, 76.5, 1),
    ]


def test_a_device_that_falls_off_while_the_agent_runs(
    gpu_agent: Any, plane: Any, wait_for: Any, tmp_path: Path
) -> None:
    gpu_agent(TWO)
    offered(plane, wait_for)
    wait_for(lambda: plane.leases and plane.leases[-1]["problems"] is not None, timeout_s=WAIT_S)
    fake_nvml.change(tmp_path, [TWO[0], {**TWO[1], "is_lost": True}])

    def lost() -> list[dict[str, Any]]:
        problems = plane.leases[-1]["problems"] or []
        return [p for p in problems if "fallen off the bus" in p["message"]]

    (problem,) = wait_for(lost, timeout_s=WAIT_S)
    assert problem["blocks"]
    assert problem["message"].startswith("GPU 1 (GPU-b): ")
    assert problem["slot"] == 1


def test_a_slot_keeps_its_index_while_those_of_devices_move(
    gpu_agent: Any, plane: Any, wait_for: Any, tmp_path: Path
) -> None:
    gpu_agent(TWO)
    assert offered(plane, wait_for) == [(0, "GPU-a"), (1, "GPU-b")]
    gpu_agent([TWO[1], device("GPU-c")])  # GPU-a is gone, so that GPU-b has the index 0
    assert offered(plane, wait_for) == [(1, "GPU-b"), (2, "GPU-c")]
    gpus = wait_for(
        lambda: plane.leases and (plane.leases[-1]["usage"] or {}).get("gpus"), timeout_s=WAIT_S
    )
    assert [g["index"] for g in gpus] == [1, 2]
    assert read_numbers(tmp_path / "agent") == {"GPU-a": 0, "GPU-b": 1, "GPU-c": 2}


@pytest.mark.parametrize(
    ("first", "then", "launcher", "visible"),
    [
        ([device("GPU-a", instances=PARTS)], None, "plain", "MIG-1"),
        (TWO, [TWO[1], device("GPU-c")], "plain", "GPU-b"),
        (TWO, [TWO[1], device("GPU-c")], "shell", "0"),  # launchers read numbers
    ],
)
def test_a_job_gets_the_device_of_its_slot(
    gpu_agent: Any,
    plane: Any,
    wait_for: Any,
    make_spec: Any,
    code: Any,
    first: list[dict[str, Any]],
    then: list[dict[str, Any]] | None,
    launcher: str,
    visible: str,
) -> None:
    agent = gpu_agent(first)
    offered(plane, wait_for)
    if then is not None:
        gpu_agent(then)
        offered(plane, wait_for)
    script = "import os\nprint('visible', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"
    entrypoint = ["python", "main.py"] if launcher == "shell" else ["main.py"]
    plane.want(
        make_spec(
            code=code(script),
            entrypoint=entrypoint,
            launcher=launcher,
            slots=[1],
            world_size=1,
            slot_type="cuda",
        )
    )
    agent.wait_exit("a1", timeout_s=100.0)
    assert f"visible {visible}\n".encode() in b"".join(plane.of("a1").logs.values())


def test_lowered_clocks_travel_with_their_reasons(
    gpu_agent: Any, plane: Any, wait_for: Any, tmp_path: Path
) -> None:
    gpu_agent([device("GPU-a"), {"uuid": "GPU-poor"}])

    def clocks() -> list[Any]:
        gpus = (plane.leases and (plane.leases[-1]["usage"] or {}).get("gpus")) or []
        return [(g["clock_mhz"], g["max_clock_mhz"], g["throttle_reasons"]) for g in gpus]

    wait_for(lambda: clocks() == [(1980.0, 1980.0, []), (None, None, None)], timeout_s=WAIT_S)
    hot = device("GPU-a", clock_mhz=1200, throttle_reasons=0x40 | 0x04 | 0x01)
    fake_nvml.change(tmp_path, [hot])
    wait_for(lambda: clocks() == [(1200.0, 1980.0, ["power_cap", "heat"])], timeout_s=WAIT_S)
    wait_for(
        lambda: any("because it is too hot" in p["message"] for p in plane.leases[-1]["problems"]),
        timeout_s=WAIT_S,
    )
    assert not any(p["blocks"] for p in plane.leases[-1]["problems"] if "hot" in p["message"])


def test_without_nvml_a_node_that_is_to_offer_devices_says_why_it_has_no_slots(
    agent: Any, plane: Any, wait_for: Any, tmp_path: Path
) -> None:
    agent.kill()
    agent.environment |= fake_nvml.install(tmp_path, [])
    agent.environment |= {"MUSTER_AGENT_SLOT_TYPE": "cuda", "PATH": "/usr/bin:/bin"}
    (tmp_path / "devices.json").unlink()  # as without a driver
    plane.registrations.clear()
    plane.leases.clear()
    agent.start()
    assert offered(plane, wait_for) == []

    def problems() -> list[str]:
        found = plane.leases[-1]["problems"] or [] if plane.leases else []
        return [p["message"] for p in found if p["kind"] == "device"]

    (problem,) = wait_for(problems, timeout_s=WAIT_S)
    assert problem.startswith(
        "MUSTER_AGENT_SLOT_TYPE is cuda, but neither NVML nor nvidia-smi tells of"
    )
    usage = wait_for(
        lambda: (
            plane.leases[-1]["usage"]
            if "no NVIDIA" in plane.leases[-1]["usage"]["gpu_problem"]
            else None
        ),
        timeout_s=WAIT_S,
    )
    assert usage["gpus"] is None
    assert usage["gpu_problem"] == "there is no NVIDIA driver: Driver Not Loaded"


def in_this_process(
    monkeypatch: pytest.MonkeyPatch, folder: Path, devices: list[dict[str, Any]]
) -> None:
    for name, value in fake_nvml.install(folder, devices).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml)
    monkeypatch.setattr(nvml, "_known", {})


def test_all_devices_are_read_also_beside_one_that_is_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    poor = {"uuid": "GPU-c"}
    healthy = device("GPU-a", remaps=[0, 1, 1, 0], links=[0, 1], processes=[[7, 9], [8, None]])
    in_this_process(monkeypatch, tmp_path, [healthy, TWO[1], poor])
    library = nvml.Nvml()
    assert [d.uuid for d in library.devices()] == ["GPU-a", "GPU-b", "GPU-c"]
    fake_nvml.change(tmp_path, [healthy, {**TWO[1], "is_lost": True}, poor])
    first, lost, last = library.devices()
    assert (first.is_remap_pending, first.has_remap_failed, first.pcie_width) == (True, False, 16)
    assert first.active_links == {0, 1}
    assert first.processes == ((7, 9), (8, None))
    assert (lost.uuid, lost.is_lost, lost.temperature_c) == ("GPU-b", True, None)
    assert (last.is_lost, last.is_remap_pending, last.processes) == (False, None, None)
    nvml._known.clear()
    _, unknown, _ = nvml.Nvml().devices()
    assert (unknown.uuid, unknown.is_lost) == ("", True)


def test_an_instance_is_found_for_its_device_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_this_process(monkeypatch, tmp_path, [device("GPU-a", instances=PARTS)])
    (tmp_path / "nvidiactl").touch()
    with pytest.raises(OSError, match="does not tell which device file belongs to MIG-1"):
        device_files(["MIG-1"], dev=tmp_path, driver=tmp_path)
    with pytest.raises(OSError, match="MIG-9 is a part of: there is no such instance"):
        device_files(["MIG-9"], dev=tmp_path, driver=tmp_path)


def test_without_a_driver_nvml_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_this_process(monkeypatch, tmp_path, [])
    assert nvml.ask_devices() == ([], "580.65.06")
    (tmp_path / "devices.json").unlink()
    with pytest.raises(nvml.NvmlAbsent, match="there is no NVIDIA driver: Driver Not Loaded"):
        nvml.ask_devices()
