"""XID errors of NVIDIA devices: what each asks for, and how they are read from the kernel log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.launch.deep_check import passed_line
from muster_agent.node import xid

UUID = "GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7"


def record(text: str, *, sequence: int = 1, at_s: float = 100.0, priority: int = 4) -> str:
    return f"{priority},{sequence},{int(at_s * 1e6)},-;{text}\n"


def error(number: int, words: str = "pid=4242, name=python", *, pci: str = "0000:3b:00") -> str:
    return f"NVRM: Xid (PCI:{pci}): {number}, {words}"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.write_text(record(f"NVRM: GPU at PCI:0000:3b:00: {UUID}", sequence=0))
    return path


def add(log: Path, *records: str) -> None:
    with log.open("a") as file:
        file.writelines(records)


@pytest.mark.parametrize(
    ("number", "words", "action"),
    [
        (13, "Graphics SM Warp Exception on (GPC 7)", "application"),
        (31, "pid=4242, name=python, Ch 00000008", "application"),
        (45, "pid=4242, Ch 00000008", "application"),
        (63, "Row Remapper: New row marked for remapping", "warn"),
        (92, "High single-bit ECC error rate", "warn"),
        (94, "pid=4242, Contained: SM", "warn"),
        (149, "NETIR_LINK_EVT Nonfatal XC0 i0 Link 08", "warn"),
        (999, "something new", "warn"),
        (74, "NVLink: fatal error detected on link 2", "drain"),
        (79, "pid=0, GPU has fallen off the bus.", "drain"),
        (48, "DBE (double bit error)", "reset"),
        (64, "Row remapper failure", "reset"),
        (95, "pid=4242, Uncontained: LTC", "reset"),
        (119, "pid=4242, Timeout after 6s of waiting for RPC response from GPU0 GSP!", "reset"),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08", "reset"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "reset"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "drain"),
    ],
)
def test_each_xid_asks_for_its_action_and_a_warning_keeps_no_work_away(
    log: Path, number: int, words: str, action: str
) -> None:
    add(log, record(error(number, words)))
    [problem] = xid.KernelLog(log).read(now_s=101)
    assert xid.action_of(number, words) == action
    assert problem.blocks == (action in ("drain", "reset"))
    assert problem.kind == "device"
    assert f"GPU {UUID} at PCI 0000:3b:00: XID {number}, " in problem.message
    advice = {
        "application": "the device is fine",
        "warn": "jobs go on",
        "drain": "reboot the machine",
        "reset": "nvidia-smi --gpu-reset",
    }
    assert advice[action] in problem.message


def test_the_table_covers_what_nvidia_publishes() -> None:
    assert len(xid.XIDS) >= 47
    assert {entry.action for entry in xid.XIDS.values()} == {
        "application",
        "warn",
        "drain",
        "reset",
    }
    common = {
        13,
        31,
        32,
        43,
        45,
        46,
        48,
        54,
        61,
        62,
        63,
        64,
        74,
        79,
        92,
        94,
        95,
        119,
        120,
        140,
        143,
    }
    assert common <= xid.XIDS.keys()


def test_only_new_messages_are_read_and_what_keeps_work_away_stays(log: Path) -> None:
    kernel = xid.KernelLog(log)
    add(log, record(error(79, pci="0000:5e:00"), sequence=2), record("usb 1-1: new device\n"))
    [problem] = kernel.read({"00000000:5E:00.0": "GPU-2"}, now_s=101)
    assert "GPU GPU-2 at PCI 0000:5e:00" in problem.message
    log.write_bytes(log.read_bytes())  # nothing new
    assert kernel.read(now_s=1e6) == [problem]
    add(log, record(error(63), sequence=3, at_s=1e6))
    assert [p.blocks for p in kernel.read(now_s=1e6)] == [True, False]
    assert [p.blocks for p in kernel.read(now_s=1e6 + xid.WARNING_S + 1)] == [True]
    kernel.forget("0000:5e:00")
    assert kernel.read(now_s=2e6) == []
    kernel.close()


def test_a_device_that_passes_a_deep_check_is_open_again(log: Path) -> None:
    kernel = xid.KernelLog(log)
    add(log, record(error(79)), record(error(74, pci="0000:5e:00")))
    add(log, record(passed_line(0, 0x3B, 0).rstrip(), priority=12))
    assert ["0000:5e:00" in p.message for p in kernel.read(now_s=101)] == [True]


@pytest.mark.parametrize(
    ("words", "is_over"),
    [
        (
            error(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
            True,
        ),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06", True),
        (error(154, "... to 0x0 (None)", pci="0000:5e:00"), False),
    ],
)
def test_a_device_that_was_reset_is_fine_again(log: Path, words: str, is_over: bool) -> None:
    add(log, record(error(119), sequence=2))
    kernel = xid.KernelLog(log)
    assert [p.blocks for p in kernel.read(now_s=101)] == [True]
    add(log, record(words, sequence=3))
    assert kernel.read(now_s=102) == [] if is_over else kernel.read(now_s=102) != []


def test_a_message_that_a_program_wrote_and_a_damaged_one_do_not_count(log: Path) -> None:
    by_a_program = record(error(79), priority=12)
    add(log, by_a_program, "rubbish\n", record("NVRM: Xid (PCI:zz): 79, x"), " SUBSYSTEM=pci\n")
    assert xid.KernelLog(log).read(now_s=101) == []


def test_a_line_is_read_when_it_is_whole(log: Path) -> None:
    kernel = xid.KernelLog(log)
    whole = record(error(79))
    add(log, whole[:20])
    assert kernel.read(now_s=101) == []
    add(log, whole[20:])
    assert len(kernel.read(now_s=101)) == 1


def test_a_flood_is_bounded_and_forgets_what_blocks_last(log: Path) -> None:
    kernel = xid.KernelLog(log)
    add(log, record(error(79)))
    add(log, *(record(error(31, pci=f"{n:04x}:01:00"), sequence=n) for n in range(2, 9_000)))
    num_readings = 0
    while len(found := kernel.read(now_s=101)) and num_readings < 5:
        num_readings += 1
    assert len(found) == xid.MAX_KEPT
    assert [p.blocks for p in found].count(True) == 1


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    kernel = xid.KernelLog(tmp_path / "absent")
    assert kernel.read() == []
    assert kernel.problem == f"{tmp_path / 'absent'} cannot be read: No such file or directory"


@pytest.mark.skipif(
    not os.access("/dev/kmsg", os.R_OK), reason="the kernel log cannot be read here"
)
def test_the_kernel_log_of_this_machine_is_read_without_waiting() -> None:
    kernel = xid.KernelLog()
    kernel.read()
    assert kernel.problem in ("", f"{xid.KERNEL_LOG} cannot be read: Operation not permitted")
    kernel.close()
