"""Settings, inventory and the small parts that touch the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from muster_agent.cli import Words, main
from muster_agent.clock import boot_clock
from muster_agent.environments.interpreters import InterpreterError, describe
from muster_agent.jobs.folder import AllocationFolder
from muster_agent.jobs.process import identify, is_alive
from muster_agent.node.inventory import (
    UsageMeter,
    interface_of,
    offered_devices,
    parse_smi,
    take_inventory,
)
from muster_agent.settings import AgentSettings
from muster_agent.shim.processes.ports import lease_port
from muster_agent.shim.reporting.reports import valid_metrics


def test_nvidia_smi_lines_become_slots() -> None:
    text = (
        "0, NVIDIA H200, 143771, GPU-aa, 570.86.15, 2, Disabled\n"
        "1, NVIDIA H200, [N/A], GPU-bb, 570.86.15, [N/A], [N/A]\n"
        "2, NVIDIA H200, 143771, GPU-cc, 570.86.15, 0, Enabled\n"
        "No devices were found\n"
    )
    devices, driver = parse_smi(text)
    assert [d.ecc_volatile for d in devices] == [2, None, 0]
    settings = AgentSettings(server_url="http://127.0.0.1:1")  # type: ignore[call-arg]
    slots = offered_devices(devices, settings)
    assert slots is not None
    assert driver == "570.86.15"
    assert [(s.index, s.name, s.uuid) for s in slots] == [
        (0, "NVIDIA H200", "GPU-aa"),
        (1, "NVIDIA H200", "GPU-bb"),
    ]
    assert (slots[0].memory_bytes, slots[1].memory_bytes) == (143771 * 2**20, 0)


def test_inventory_of_this_machine(tmp_path: Path) -> None:
    settings = AgentSettings(
        server_url="http://127.0.0.1:1", home=tmp_path, slots=3, slot_type="cpu"
    )  # type: ignore[call-arg]
    inventory, _ = take_inventory(settings)
    assert [s.index for s in inventory.slots] == [0, 1, 2]
    assert inventory.address == "127.0.0.1"
    assert inventory.python_version == ".".join(map(str, sys.version_info[:3]))
    usage = UsageMeter(tmp_path).read()
    assert 0 <= usage.cpu_pct <= 100
    assert 0 < usage.memory_used_bytes < usage.memory_total_bytes


def test_interface_of_loopback() -> None:
    assert interface_of("127.0.0.1").startswith("lo")
    assert interface_of("203.0.113.9") == ""


def test_interpreter_facts_are_remembered(tmp_path: Path) -> None:
    first = describe(sys.executable, cache=tmp_path)
    assert f"torch=={first.torch_version}" in first.packages
    (fact,) = tmp_path.glob("*.json")
    fact.write_text(fact.read_text().replace(first.torch_version, "9.9"))
    assert describe(sys.executable, cache=tmp_path).torch_version == "9.9"


def test_interpreter_that_is_none(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(InterpreterError, match="does not run: broken"):
        describe(str(fake), cache=tmp_path)


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_AGENT_SERVER_URL", "http://h:1/")
    monkeypatch.setenv("MUSTER_AGENT_LABELS", "zone=a, rack=3")
    monkeypatch.setenv("MUSTER_AGENT_WARM_IMPORTS", "sklearn.datasets, pandas,")
    monkeypatch.setenv("MUSTER_AGENT_JOIN_TOKEN", "mst_join_secret")
    settings = AgentSettings()  # type: ignore[call-arg]
    assert settings.server_url == "http://h:1"
    assert settings.labels == {"zone": "a", "rack": "3"}
    assert settings.warm_imports == ("sklearn.datasets", "pandas")
    assert settings.read_join_token() == "mst_join_secret"
    assert "secret" not in repr(settings)
    assert "secret" not in settings.model_dump_json()


def test_wrong_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_AGENT_SERVER_URL", raising=False)
    monkeypatch.setenv("MUSTER_AGENT_WARM_IMPORTS", "pandas;scipy")
    assert main(["run", "--labels", "novalue"]) == 2
    said = capsys.readouterr().err
    assert "MUSTER_AGENT_WARM_IMPORTS" in said
    assert "'pandas;scipy' is none" in said
    assert "MUSTER_AGENT_SERVER_URL: Field required" in said
    assert "MUSTER_AGENT_LABELS" in said
    assert "key=value" in said


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "-x", "a" * 65, "a\n"])
def test_allocation_id_must_be_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not an allocation id"):
        AllocationFolder(tmp_path, name)


def test_two_leases_never_hold_the_same_port(tmp_path: Path) -> None:
    leases = [lease_port("127.0.0.1", folder=tmp_path) for _ in range(20)]
    assert len({lease.port for lease in leases}) == 20
    assert all(21_000 <= lease.port <= 21_999 for lease in leases)
    for lease in leases:
        lease.release()


def test_identity_tells_a_process_from_a_later_one_of_the_same_pid() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(type(me)(me.pid, me.start_ticks + 1))
    assert identify(2**22 + 1) is None
    assert boot_clock() > 0


@pytest.mark.parametrize(
    "series",
    [
        {"name": "", "steps": [], "times_ms": [], "values": []},
        {"name": "x", "steps": [1], "times_ms": [1], "values": []},
        {"name": "x", "steps": [1.5], "times_ms": [1], "values": [1]},
        {"name": "x", "steps": [True], "times_ms": [1], "values": [1]},
        {"name": "x", "steps": [2**63], "times_ms": [1], "values": [1]},
        {"name": "x", "steps": [1], "times_ms": [1], "values": [None]},
        {"name": "x", "steps": [1], "times_ms": [1], "values": [float("inf")]},
        {"name": "x", "steps": [1], "times_ms": [1], "values": ["nan"]},
        {"name": "x", "steps": "1", "times_ms": [1], "values": [1]},
        "x",
    ],
)
def test_what_the_server_would_refuse_costs_itself_alone(series: Any) -> None:
    good = {"name": "loss", "steps": [1], "times_ms": [2], "values": [0.5]}
    metrics, problems = valid_metrics({"series": [series, good]})
    assert metrics["series"] == [good]
    assert len(problems) == 1


def test_valid_metrics_keep_known_fields_only() -> None:
    point = {"name": "x", "steps": [1], "times_ms": [2], "values": ["-Infinity"], "extra": 1}
    given = {"series": [point], "step": 1, "epoch": 2, "unknown": 3}
    assert valid_metrics(given) == (
        {
            "type": "metrics",
            "local_rank": 0,
            "rank": 0,
            "series": [{"name": "x", "steps": [1], "times_ms": [2], "values": ["-Infinity"]}],
            "step": 1,
            "epoch": 2.0,
            "num_steps_planned": None,
        },
        {},
    )


def test_words_for_a_full_disk_are_lost_without_harm() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115 (closing it is part of the test)
    print("no room for this", file=Words(full), flush=True)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space left"):
        full.close()
