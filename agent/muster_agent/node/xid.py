"""XID errors: what NVIDIA's driver writes to the kernel log when a device, or a program on it, fails.

The numbers, and what to do about each, follow NVIDIA's catalog
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); those of devices before Ampere
follow its older list of XID errors. `XIDS` and `read_line` are pure; `KernelLog` reads the log.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from muster.wire import NodeProblem
from muster_agent.node.device_health import on_slots

Action = Literal["application", "warn", "drain", "reset"]
"""What an XID asks for. `application`: the program on the device is at fault, or was ended by an
error that is told by another XID; the device is fine. `warn`: worth knowing, jobs go on. `drain`: no
new work until somebody has repaired or rebooted the machine. `reset`: no new work until the device
has been reset."""

KERNEL_LOG = Path("/dev/kmsg")
APPLICATION_S = 600.0
"""Seconds for which an error of a program is shown."""
WARNING_S = 3600.0
"""Seconds for which a warning is shown."""
MAX_RECORDS = 4_096
"""Largest number of records taken in one reading; the rest is taken by the next one."""
MAX_KEPT = 64
"""Largest number of errors that are remembered: one for each device and XID, the latest."""
_RECORD_BYTES = 8_192
"""Room for one record: the kernel refuses to give part of one."""


class Xid(NamedTuple):
    meaning: str
    action: Action


def _table(action: Action, meanings: Mapping[int, str]) -> dict[int, Xid]:
    return {number: Xid(meaning, action) for number, meaning in meanings.items()}


_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_DECODERS = (68, 83, 84, 88, 89, 96, 97, 98)
_JPEG_DECODERS = (82, *range(99, 106))

XIDS: dict[int, Xid] = {
    **_table(
        "application",
        {
            8: "a channel of the program made no progress",
            11: "a program sent an invalid stream of commands",
            13: "a kernel raised an exception, such as an address out of range",
            25: "a program sent an illegal stream of commands",
            31: "a kernel accessed memory that is not mapped",
            32: "a program sent a corrupt stream of commands",
            43: "the program's channel was reset after an error of its own",
            45: "the program's channels were removed, because it was ended or another error came first",
            60: "exception of the security or video processor",
            69: "a program used a class of the compute engine wrongly",
            80: "commands arrived corrupted at the device",
            86: "exception of the optical flow engine",
            139: "exception of the second optical flow engine",
            **dict.fromkeys(_COPY_ENGINES, "exception of a copy engine"),
            **dict.fromkeys(_DECODERS, "exception of a video decoder"),
            **dict.fromkeys(_JPEG_DECODERS, "exception of a JPEG decoder"),
        },
    ),
    **_table(
        "warn",
        {
            14: "message for tests of the driver",
            37: "the driver's firmware met a method that it does not know",
            38: "the driver's firmware was late",
            44: "fault while the compute engine switched contexts",
            63: "a faulty memory row was retired; a reset of the device puts a spare in its place",
            66: "the driver accessed a register illegally",
            67: "the driver accessed the device illegally",
            78: "a virtual GPU could not be started",
            92: "many corrected memory errors",
            93: "the device's settings memory is worn beyond its limit",
            94: "a memory error was contained: only the program that met it was ended",
            106: "test message of the management bus",
            107: "silent test message of the management bus",
            108: "a peer's NVLink address was not translated",
            121: "error on the link between processor and device, so far corrected",
            137: "an access over NVLink was refused, often because the peer's memory was gone",
            141: "error of CUDA's fast path",
            142: "exception of a video encoder",
            152: "address error of the deep learning accelerator",
            153: "the deep learning accelerator was late",
            154: "the driver changed what it recommends to recover the device",
            157: "a faulty part of the device could not be retired",
            159: "error on the coherent link to the processor",
            160: "a faulty memory channel was retired",
            161: "a faulty memory channel could not be retired",
            162: "power smoothing is on again",
            163: "power smoothing was switched off",
            164: "the power smoothing circuit is near the end of its life",
            165: "the power smoothing circuit is at the end of its life",
            166: "NVLink carried traffic before its encryption was set up",
            168: "the device gives up some memory because of errors",
            170: "an NVLink interrupt came in confidential mode",
            171: "details of an uncorrected error in device memory, beside XID 48",
            172: "details of an uncorrected error in on-chip memory, beside XID 48",
        },
    ),
    **_table(
        "drain",
        {
            54: "the auxiliary power of the board is not connected",
            74: "error of an NVLink connection",
            79: "the device has fallen off the bus",
            151: "the keys of confidential computing could not be changed",
            167: "the device did not answer over PCIe",
        },
    ),
    **_table(
        "reset",
        {
            46: "the device stopped processing",
            48: "uncorrected (double bit) error in device memory",
            61: "the power controller of the device hit a breakpoint",
            62: "the power controller of the device halted",
            64: "a faulty memory row could not be retired",
            95: "a memory error was not contained: any program on the device may have wrong data",
            109: "the device did not switch contexts in time",
            110: "security fault",
            119: "the GPU system processor did not answer the driver",
            120: "error of the GPU system processor",
            136: "an NVLink connection could not be trained",
            140: "uncorrected memory error",
            143: "the device could not be initialized",
            144: "NVLink error (SAW)",
            145: "NVLink error (RLW)",
            146: "NVLink error (TLW)",
            147: "NVLink error (TREX)",
            148: "NVLink error (control)",
            149: "NVLink error (network interface)",
            150: "NVLink error (MSE)",
            155: "NVLink error that software reported",
            156: "a faulty part of the device was retired",
            158: "the device did not answer in time",
            169: "the security processor of the device halted",
        },
    ),
}
"""Every XID that NVIDIA documents as in use, by number."""
_UNKNOWN = Xid("not in Muster's table, see NVIDIA's catalog of XID errors", "warn")
_ADVICE: dict[Action, str] = {
    "application": "the program that used the device is at fault, see its log; the device is fine",
    "warn": "jobs go on; have the device looked at if this comes again",
    "drain": "nothing new is placed here: check its power, cables and seat, and reboot the machine; "
    "`muster node check --deep` there, as root, opens it again",
    "reset": "nothing new is placed here: reset it with `nvidia-smi --gpu-reset` once its jobs have "
    "ended, then run `muster node check --deep` there as root, or reboot the machine",
}
_OF_LINKS = range(144, 151)
_RECOVERY_ACTION = 154

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:,\s*(.*))?")
_UUID = re.compile(r"NVRM: GPU at (?:PCI:)?([0-9a-fA-F:.]+): (GPU-[0-9a-fA-F-]+)")
_PID = re.compile(r"pid='?(\d+)")
_PASSED = re.compile(r"^muster: GPU at PCI:([0-9a-f:]+) passed its check")
"""What muster.launch.deep_check writes to the log, which only root may."""
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
_RECOVERED = re.compile(r"to 0x0 \(None\)")


class Line(NamedTuple):
    """One line of the kernel log that is about a device, or about all of them."""

    sequence: int
    at_s: float
    """Seconds since boot, without suspended time."""
    pci: str
    """Address as `short_pci` writes it; "" when the driver was loaded, which resets all devices."""
    number: int | None
    """The XID; None for the line that tells the device's UUID."""
    text: str
    """What the driver says of the XID, or the UUID."""


def short_pci(address: str) -> str:
    """Return a PCI address as the driver logs it: `0000:3b:00` for `00000000:3B:00.0`."""
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest.partition('.')[0]}"


def action_of(number: int, text: str = "") -> Action:
    """Return what an XID asks for. Of some it depends on the driver's words, `text`."""
    words = text.lower()
    if number in _OF_LINKS and re.search(r"\bnon-?fatal\b", words):
        return "warn"
    if number == _RECOVERY_ACTION:
        wanted = words.rpartition(" to ")[2]
        if "reboot" in wanted:
            return "drain"
        return "reset" if "reset" in wanted or "drain" in wanted else "warn"
    return XIDS.get(number, _UNKNOWN).action


def problem_of(line: Line, uuid: str) -> NodeProblem:
    """Return the problem that an XID is. uuid: of its device; "" if unknown."""
    assert line.number is not None
    action = action_of(line.number, line.text)
    device = f"GPU {uuid} at PCI {line.pci}" if uuid else f"the GPU at PCI {line.pci}"
    blocks = action in ("drain", "reset")
    pid = _PID.search(line.text)
    whose = f" (pid {pid[1]})" if pid and int(pid[1]) else ""
    meaning = XIDS.get(line.number, _UNKNOWN).meaning
    message = f"{device}: XID {line.number}, {meaning}{whose}; {_ADVICE[action]}"
    return NodeProblem(kind="device", message=message, blocks=blocks)


def read_line(record: str) -> Line | None:
    """Return what a record of /dev/kmsg tells of a device; None if it tells nothing.

    A record is `priority,sequence,microseconds,flags;text`. Of the driver's, only the kernel's own
    count: a program that may write to the log gets another facility.
    """
    head, separator, text = record.partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not all(f.isdigit() for f in fields[:3]):
        return None
    sequence, at_s = int(fields[1]), int(fields[2]) / 1e6
    if int(fields[0]) >> 3:
        passed = _PASSED.search(text)
        recovered = "to 0x0 (None)"
        return Line(sequence, at_s, passed[1], _RECOVERY_ACTION, recovered) if passed else None
    if found := _XID.search(text):
        with contextlib.suppress(ValueError):
            pci = short_pci(found[1])
            return Line(sequence, at_s, pci, int(found[2]), found[3] or "")
    elif found := _UUID.search(text):
        with contextlib.suppress(ValueError):
            return Line(sequence, at_s, short_pci(found[1]), None, found[2])
    elif _LOADED.search(text):
        return Line(sequence, at_s, "", None, "")
    return None


def _clock_s() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class KernelLog:
    """The XID errors of this boot that still matter. Not thread-safe.

    The first reading takes what the kernel has kept since boot: a device that fell off the bus before
    the agent started is still gone. Each later one takes only what is new.
    """

    def __init__(self, path: Path = KERNEL_LOG) -> None:
        self._path = path
        self._fd: int | None = None
        self._rest = b""
        self._uuids: dict[str, str] = {}
        self._kept: dict[tuple[str, int], Line] = {}
        self.problem = ""
        """Why the log cannot be read, as a clause; "" if it can."""

    def read(
        self,
        uuids: Mapping[str, str] | None = None,
        *,
        slots: Mapping[str, Sequence[int]] | None = None,
        others: Sequence[int] | None = None,
        now_s: float | None = None,
    ) -> list[NodeProblem]:
        """Return the errors that matter now, the oldest first. Never waits.

        uuids: UUIDs of the devices by PCI address, as far as they are known. slots: indexes of the slots that
            each of them is, by UUID. others: what other devices are; None if that is not known, and then
            their errors concern the whole node. now_s: seconds since
            boot, without suspended time.
        """
        self._uuids |= {short_pci(pci): uuid for pci, uuid in (uuids or {}).items()}
        for record in self._records():
            line = read_line(record)
            if line is not None:
                self._note(line)
        now_s = _clock_s() if now_s is None else now_s
        self._kept = {key: line for key, line in self._kept.items() if not _is_over(line, now_s)}
        found = []
        for line in self._kept.values():
            uuid = self._uuids.get(line.pci, "")
            found += on_slots(problem_of(line, uuid), (slots or {}).get(uuid, others))
        return found

    def forget(self, pci: str) -> None:
        """Forget the errors of a device that works again."""
        self._kept = {key: line for key, line in self._kept.items() if key[0] != short_pci(pci)}

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _note(self, line: Line) -> None:
        if not line.pci:
            self._kept.clear()
        elif line.number is None:
            self._uuids[line.pci] = line.text
        elif line.number == _RECOVERY_ACTION and _RECOVERED.search(line.text):
            self.forget(line.pci)
        else:
            self._kept.pop((line.pci, line.number), None)
            self._kept[line.pci, line.number] = line
            while len(self._kept) > MAX_KEPT:
                del self._kept[self._least()]

    def _least(self) -> tuple[str, int]:
        """Return what to forget first: what keeps nothing away, and of those the oldest."""
        return min(
            self._kept,
            key=lambda k: (_blocks(self._kept[k]), self._kept[k].sequence),
        )

    def _records(self) -> list[str]:
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                self.problem = f"{self._path} cannot be read: {error.strerror}"
                return []
            self.problem = ""
        found: list[str] = []
        while len(found) < MAX_RECORDS:
            try:
                data = os.read(self._fd, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # The oldest records were overwritten; the next read goes on after them.
            except OSError as error:
                self.problem = f"{self._path} cannot be read: {error.strerror}"
                self.close()
                break
            if not data:
                break
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._rest = self._rest[-_RECORD_BYTES:]
            found += [line.decode(errors="replace") for line in lines]
        return found


def _blocks(line: Line) -> bool:
    assert line.number is not None
    return action_of(line.number, line.text) in ("drain", "reset")


def _is_over(line: Line, now_s: float) -> bool:
    """Return whether an error needs to be shown no longer. One that keeps work away stays until the
    device is reset, the driver is loaded anew or the machine is rebooted."""
    if _blocks(line):
        return False
    assert line.number is not None
    is_own = action_of(line.number, line.text) == "application"
    return now_s - line.at_s > (APPLICATION_S if is_own else WARNING_S)
