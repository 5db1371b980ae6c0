"""Devices that others use, and memory that a job has left: what keeps new work off single slots.

Processes on a device that belong to no allocation of this agent are foreign. After a job its slots take
no new work until the memory of their devices is back at what it was before.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from muster.wire import NodeProblem, SlotInfo
from muster_agent.jobs.process import OWNER_VARIABLE, Identity, identify
from muster_agent.nvml import Device, DeviceProcess, accelerators_of

MEMORY_TOLERANCE_BYTES = 2**30
"""Bytes above the base line that count as back: the driver itself takes a little now and then."""
MAX_NAMED = 2
"""Processes that are named; the others are counted."""
_NOBODYS = frozenset({"nvidia-cuda-mps-server"})
"""Names of processes of the driver itself."""


@dataclass(frozen=True, kw_only=True)
class ForeignProcess:
    """A process on a device that is no process of this agent."""

    pid: int
    user: str = ""
    """Its user; "" if it cannot be seen."""
    used_bytes: int | None = None

    def words(self) -> str:
        memory = None if self.used_bytes is None else gib(self.used_bytes)
        if self.user:
            return f"{self.user} ({', '.join([f'pid {self.pid}', *([memory] if memory else [])])})"
        return f"process {self.pid}" + (f" ({memory})" if memory else "")


@dataclass(frozen=True, kw_only=True)
class DeviceReading:
    """What the device of a slot tells now."""

    slot: int
    memory_used_bytes: int | None
    foreign: tuple[ForeignProcess, ...] = ()
    own_pids: tuple[int, ...] = ()
    """Processes of this agent's jobs."""

    @property
    def held_bytes(self) -> int | None:
        """Memory in use without that of foreign processes; None if the driver does not tell."""
        if self.memory_used_bytes is None or any(p.used_bytes is None for p in self.foreign):
            return None
        return max(0, self.memory_used_bytes - sum(p.used_bytes or 0 for p in self.foreign))


@dataclass
class _Slot:
    base_bytes: int | None = None
    """Memory in use before its job began; None if that is not known."""
    is_held: bool = False
    waiting_since: float | None = None
    """Since when the memory of its last job is waited for; None if it is not."""


@dataclass
class SlotWatch:
    """Decides from one reading to the next. Does nothing itself."""

    quarantine_after_s: float
    """Seconds after a job's end until its device counts as quarantined."""
    _slots: dict[int, _Slot] = field(default_factory=dict)

    def hold(self, slots: Iterable[int]) -> None:
        """Note that a job is about to begin on slots: what they held when last looked at is their base
        line."""
        for index in slots:
            slot = self._slots.setdefault(index, _Slot())
            slot.is_held, slot.waiting_since = True, None

    def look(
        self, readings: Iterable[DeviceReading], *, held: Collection[int], now: float
    ) -> list[NodeProblem]:
        """Return what keeps new work off slots.

        held: the slots of allocations that have not ended. now: monotonic time in seconds.
        """
        found = []
        for reading in readings:
            slot = self._slots.setdefault(reading.slot, _Slot())
            if reading.foreign:
                found.append(_used(reading))
            if (left := self._memory_left(slot, reading, held=held, now=now)) is not None:
                found.append(left)
        return found

    @property
    def claimed(self) -> frozenset[int]:
        """Slots that a job had at the last look, or whose memory is not back."""
        return self.waiting | {n for n, slot in self._slots.items() if slot.is_held}

    @property
    def waiting(self) -> frozenset[int]:
        """Slots whose last job has ended and whose memory is not back."""
        return frozenset(n for n, slot in self._slots.items() if slot.waiting_since is not None)

    def _memory_left(
        self, slot: _Slot, reading: DeviceReading, *, held: Collection[int], now: float
    ) -> NodeProblem | None:
        if reading.slot in held:
            slot.is_held, slot.waiting_since = True, None
            return None
        if slot.is_held:
            slot.is_held, slot.waiting_since = False, now
        used = reading.held_bytes
        if slot.waiting_since is None:
            slot.base_bytes = used
            return None
        if used is None or slot.base_bytes is None:
            slot.waiting_since = None
            return None
        if used <= slot.base_bytes + MEMORY_TOLERANCE_BYTES:
            slot.waiting_since = None
            return None
        is_quarantined = now - slot.waiting_since >= self.quarantine_after_s
        after_s = self.quarantine_after_s if is_quarantined else None
        return _left(reading, used - slot.base_bytes, after_s=after_s)


def _used(reading: DeviceReading) -> NodeProblem:
    who = [process.words() for process in reading.foreign[:MAX_NAMED]]
    more = len(reading.foreign) - len(who)
    if more:
        who.append("1 other process" if more == 1 else f"{more} other processes")
    message = f"GPU {reading.slot} is used by {_and(who)} outside Muster"
    return NodeProblem(kind="used", message=message, blocks=True, slot=reading.slot)


def _left(reading: DeviceReading, left_bytes: int, *, after_s: float | None) -> NodeProblem:
    """Return the problem of memory that a job has left. after_s: seconds after which its device was
    quarantined; None while it is not."""
    holders = [f"process {pid}" for pid in reading.own_pids[:MAX_NAMED]]
    by = f", by {_and(holders)}" if holders else ""
    if after_s is None:
        state = "waits until the memory of its last job is free"
        message = f"GPU {reading.slot} {state}: {gib(left_bytes)} are still in use{by}"
    else:
        whom = "end what holds it" if holders else "reset the device"
        message = (
            f"GPU {reading.slot} is quarantined: {after_s:g} s after its last job "
            f"{gib(left_bytes)} of its memory were still in use{by}; {whom}, or start the agent again "
            "to accept it"
        )
    return NodeProblem(kind="device", message=message, blocks=True, slot=reading.slot)


def gib(num_bytes: int) -> str:
    """Return an amount of device memory in words."""
    if num_bytes >= 10 * 2**30:
        return f"{num_bytes / 2**30:.0f} GiB"
    if num_bytes >= 2**30:
        return f"{num_bytes / 2**30:.1f} GiB"
    return f"{num_bytes / 2**20:.0f} MiB"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# ---------------------------------------------------------------- whose a process is


class DeviceUsers:
    """Tells processes of this agent from others, by ancestry, mark, cgroup and container."""

    def __init__(
        self,
        owner: str,
        containers: Callable[[], Collection[str] | None],
        *,
        group_of: Callable[[int], str] | None = None,
    ) -> None:
        """Create it; `owner` is the agent's mark, and `containers` returns the ids of its containers, or
        None if the engine does not say: then nothing is said of a process in a container either.
        `group_of` returns the control groups of a process, by default those in /proc."""
        self._group_of = group_of or cgroup_of
        self._mark = owner.partition("@")[0]
        self._containers = containers
        self._known: dict[Identity, bool] = {}
        """Whether a process is ours: what once was stays so, whoever its parent is later."""

    def readings(
        self,
        devices: Iterable[Device],
        slots: Iterable[SlotInfo],
        *,
        held: Collection[int],
        allocation_ids: Collection[str],
    ) -> list[DeviceReading]:
        """Return what the devices of these slots tell, in the order of the slots.

        held: slots whose jobs run or have left memory. There, a process that this agent cannot see
        counts as its own: a job in a container has other pids.
        """
        by_uuid = {found.uuid: found for found in accelerators_of(devices)}
        seen: dict[Identity, bool | None] = {}
        containers = functools.cache(self._containers)  # asked once, and only if it matters
        readings = []
        for slot in slots:
            found = by_uuid.get(slot.uuid)
            if found is None or found.device.is_lost:
                continue
            foreign, own = [], []
            for process in found.whole.processes or ():
                identity = identify(process.pid)
                if identity is None:
                    if slot.index not in held and not Path(f"/proc/{process.pid}").exists():
                        foreign.append(
                            ForeignProcess(pid=process.pid, used_bytes=process.used_bytes)
                        )
                    continue
                is_ours = self._known.get(identity)
                if is_ours is None:
                    is_ours = self._is_ours(process.pid, allocation_ids, containers)
                seen[identity] = is_ours
                if is_ours:
                    own.append(process.pid)
                elif is_ours is not None and (one := _foreign(process)) is not None:
                    foreign.append(one)
            readings.append(
                DeviceReading(
                    slot=slot.index,
                    memory_used_bytes=found.whole.memory_used_bytes,
                    foreign=tuple(foreign),
                    own_pids=tuple(own),
                )
            )
        self._known = {identity: True for identity, is_ours in seen.items() if is_ours}
        return readings

    def _is_ours(
        self,
        pid: int,
        allocation_ids: Collection[str],
        containers: Callable[[], Collection[str] | None],
    ) -> bool | None:
        """Return whether a process is one of this agent; None if that cannot be told now."""
        try:
            process = psutil.Process(pid)
            if pid == os.getpid() or any(p.pid == os.getpid() for p in process.parents()):
                return True
            if self._is_marked(process) or any(self._is_marked(p) for p in process.parents()):
                return True
        except psutil.Error:
            pass
        group = self._group_of(pid)
        if any(f"/muster-{allocation_id}" in group for allocation_id in allocation_ids):
            return True
        if all(len(part) < 64 for part in _words(group)):
            return False  # It does not look like a process of a container.
        known = containers()
        return None if known is None else any(container in group for container in known)

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(OWNER_VARIABLE, "").partition("@")[0] == self._mark
        except (psutil.Error, OSError):
            return False  # It belongs to another user.


def _foreign(process: DeviceProcess) -> ForeignProcess | None:
    try:
        found = psutil.Process(process.pid)
        if found.name() in _NOBODYS:
            return None
        user = found.username()
    except psutil.Error:
        user = ""
    return ForeignProcess(pid=process.pid, user=user, used_bytes=process.used_bytes)


def cgroup_of(pid: int) -> str:
    """Return the control groups of a process as /proc tells them; "" if it has gone."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def _words(group: str) -> list[str]:
    return group.replace("/", " ").replace("-", " ").replace(".", " ").split()
