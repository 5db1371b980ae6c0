"""What a job may use on its node: the limits of its document, and whether it exceeds them.

Where the agent has a cgroup of its own with the controllers for memory and processes, the kernel keeps
these two. Elsewhere the shim measures, about once a second and with a bounded share of one core. Disk is
always measured; that no single file grows past it is the kernel's to keep.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster import wire
from muster.byte_sizes import byte_size, parse_size
from muster.document.codec import load
from muster.document.running import ResourcesSection
from muster_agent.clock import unix_ms
from muster_agent.isolation import beneath
from muster_agent.jobs.process import Cgroup
from muster_agent.outputs.scan import DEPTH_MAX, ENTRIES_MAX

MEASURE_EVERY_S = 0.5
DISK_EVERY_S = 2.0
SHARE_OF_A_CORE = 0.05
"""Most of one core that measuring takes: what takes long is done less often."""
NEAR = 0.8
"""Share of the disk limit at which the user is told, once."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Most that one allocation may use on its node; 0: no limit."""

    memory_bytes: int = 0
    processes: int = 0
    disk_bytes: int = 0
    is_memory_of_node: bool = False
    """Whether the limit of memory is the share of the slots and not of the document."""

    @property
    def are_any(self) -> bool:
        return bool(self.memory_bytes or self.processes or self.disk_bytes)


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """A limit that was exceeded, in words, and when that was seen."""

    words: str
    at_ms: int


def limits_of(spec: wire.AllocationSpec, *, memory_share_bytes: int) -> Limits:
    """Return the limits of an allocation.

    memory_share_bytes: its slots' share of the node's memory, for documents that declare no memory; 0
    where the node sets no limit.
    """
    resources = load(ResourcesSection, spec.config.get("resources") or {})
    return Limits(
        memory_bytes=parse_size(resources.memory) if resources.memory else memory_share_bytes,
        processes=resources.processes or 0,
        disk_bytes=parse_size(resources.disk) if resources.disk else 0,
        is_memory_of_node=not resources.memory,
    )


def memory_words(limits: Limits, used_bytes: int | None) -> str:
    """Return how the limit of memory was exceeded; `used_bytes` is None if the kernel prevented it."""
    used = byte_size(used_bytes) + " of memory" if used_bytes is not None else "all the memory"
    whose = "of its slots' share" if limits.is_memory_of_node else "declared in resources.memory"
    return f"it used {used} of the {byte_size(limits.memory_bytes)} {whose}"


def processes_words(limits: Limits, used: int | None) -> str:
    """Return how the limit of processes was exceeded; `used` is None if the kernel prevented it."""
    declared = f"the {limits.processes:,} declared in resources.processes"
    if used is None:
        return f"it tried to have more processes and threads than {declared}"
    return f"it had {used:,} processes and threads, more than {declared}"


def disk_words(limits: Limits, used_bytes: int | None) -> str:
    """Return how the limit of disk was exceeded; `used_bytes` is None if the kernel prevented it."""
    limit = byte_size(limits.disk_bytes)
    if used_bytes is None:
        return f"a file of it grew past the {limit} declared in resources.disk"
    return f"it used {byte_size(used_bytes)} of disk of the {limit} declared in resources.disk"


def disk_near_words(limits: Limits, used_bytes: int) -> str:
    """Return how near the limit of disk is, and what helps."""
    used, limit = byte_size(used_bytes), byte_size(limits.disk_bytes)
    return (
        f"its files take {used} of the {limit} declared in resources.disk. The trial ends when they "
        "take more: delete files that it does not need, or submit it again with a higher limit"
    )


class LimitWatch:
    """Looks whether one allocation keeps its limits. Measures in a thread, one at a time."""

    def __init__(
        self,
        limits: Limits,
        *,
        cgroup: Cgroup | None,
        roots: Callable[[], set[int]],
        folders: Callable[[], Iterable[Path]],
    ) -> None:
        """Create the watch, and let the kernel keep what it can.

        roots: pids of which all descendants are the job's. folders: those that `disk` is about.
        """
        self.limits = limits
        self.exceeded: Exceeded | None = None
        self.near = ""
        """How near the limit of disk is, in words, once its files have taken most of it."""
        self._cgroup = cgroup
        self._roots = roots
        self._folders = folders
        self._is_kept_by_kernel = (
            cgroup is not None
            and bool(limits.memory_bytes or limits.processes)
            and cgroup.limit(memory_bytes=limits.memory_bytes, processes=limits.processes)
        )
        self._task: asyncio.Task[str] | None = None
        self._measure_at = 0.0
        self._disk_at = 0.0

    @property
    def prefix(self) -> list[str]:
        """Return what a command is started with, so that no file of it or of what it starts grows
        past the disk limit, and none leaves a core dump. Bounding it afterwards would leave it
        time to write; see `bound` where util-linux is missing."""
        program = shutil.which("prlimit") if self.limits.disk_bytes else None
        if program is None:
            return []
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        return [program, f"--fsize={self._file_bytes(hard)}", "--core=0", "--"]

    def bound(self, pid: int) -> None:
        """Bound a process that was not started with `prefix`, and all that it starts from now on."""
        if not self.limits.disk_bytes:
            return
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            bound = self._file_bytes(hard)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (bound, bound))
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))

    def _file_bytes(self, hard: int) -> int:
        disk_bytes = self.limits.disk_bytes
        return disk_bytes if hard == resource.RLIM_INFINITY else min(disk_bytes, hard)

    def look(self) -> Exceeded | None:
        """Return the limit that was exceeded, once one was. Never blocks."""
        if self.exceeded is not None or not self.limits.are_any:
            return self.exceeded
        if self._task is not None:
            if not self._task.done():
                return None
            words, self._task = self._task.result(), None
            if words:
                self.exceeded = Exceeded(words=words, at_ms=unix_ms())
        elif time.monotonic() >= self._measure_at:
            self._task = asyncio.create_task(asyncio.to_thread(self.measure))
        return self.exceeded

    def close(self) -> Exceeded | None:
        """Return the limit that was exceeded, with what the kernel has counted at the end."""
        if self.exceeded is None and (words := self._of_kernel()):
            self.exceeded = Exceeded(words=words, at_ms=unix_ms())
        return self.exceeded

    def measure(self) -> str:
        """Measure once; return which limit is exceeded, in words, or ""."""
        began = time.monotonic()
        words = self._of_kernel() if self._is_kept_by_kernel else self._of_processes()
        self._measure_at = _next(began, MEASURE_EVERY_S)
        if not words and self.limits.disk_bytes and time.monotonic() >= self._disk_at:
            began = time.monotonic()
            used = disk_use_bytes(self._folders())
            self._disk_at = _next(began, DISK_EVERY_S)
            words = disk_words(self.limits, used) if used > self.limits.disk_bytes else ""
            if not words and not self.near and used >= NEAR * self.limits.disk_bytes:
                self.near = disk_near_words(self.limits, used)
        return words

    def _of_kernel(self) -> str:
        if not self._is_kept_by_kernel or self._cgroup is None:
            return ""
        if self.limits.memory_bytes and self._cgroup.num_oom_kills():
            return memory_words(self.limits, None)
        if self.limits.processes and self._cgroup.num_forks_refused():
            return processes_words(self.limits, None)
        return ""

    def _of_processes(self) -> str:
        limits = self.limits
        if not (limits.memory_bytes or limits.processes):
            return ""
        members = tree(self._roots(), all_processes())
        num_threads = sum(usage.num_threads for usage in members.values())
        if limits.processes and num_threads > limits.processes:
            return processes_words(limits, num_threads)
        if limits.memory_bytes and sum(u.rss_bytes for u in members.values()) > limits.memory_bytes:
            # Pages that several workers share are counted once, which takes longer to read.
            used = sum(_pss_bytes(pid, usage.rss_bytes) for pid, usage in members.items())
            if used > limits.memory_bytes:
                return memory_words(limits, used)
        return ""


@dataclass(frozen=True)
class ProcessUse:
    """What one process uses."""

    parent: int
    num_threads: int
    rss_bytes: int


def all_processes() -> dict[int, ProcessUse]:
    """Return what every process of this machine uses, by pid."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (twice as fast as a Path for each)
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 (as above)
                line = file.read()
        except OSError:
            continue  # It is gone.
        # The command in parentheses may itself contain spaces and parentheses.
        fields = line[line.rindex(b")") + 2 :].split()
        found[int(name)] = ProcessUse(
            int(fields[1]), int(fields[17]), int(fields[21]) * _PAGE_BYTES
        )
    return found


def tree(roots: Iterable[int], processes: Mapping[int, ProcessUse]) -> dict[int, ProcessUse]:
    """Return the processes below `roots`, without these. Pure."""
    children: dict[int, list[int]] = {}
    for pid, usage in processes.items():
        children.setdefault(usage.parent, []).append(pid)
    found: dict[int, ProcessUse] = {}
    left = list(roots)
    while left:
        for pid in children.get(left.pop(), ()):
            if pid not in found:
                found[pid] = processes[pid]
                left.append(pid)
    return found


def _pss_bytes(pid: int, rss_bytes: int) -> int:
    """Return a process's share of the memory it uses; all of it where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return rss_bytes


def disk_use_bytes(folders: Iterable[Path]) -> int:
    """Return the blocks that the files in folders take on the disk: a sparse file no more than it
    has, a file with several names once. No more than ENTRIES_MAX entries are looked at."""
    used = 0
    seen: set[tuple[int, int]] = set()
    left = ENTRIES_MAX
    for folder in folders:
        try:
            root = beneath.open_root(folder)
        except OSError:
            continue
        try:
            for path, folders_in, files, fd in os.fwalk(".", dir_fd=root, follow_symlinks=False):
                if path.count("/") >= DEPTH_MAX:
                    folders_in.clear()
                for name in files:
                    left -= 1
                    with contextlib.suppress(OSError):
                        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                        place = (found.st_dev, found.st_ino)
                        if not stat.S_ISREG(found.st_mode) or place in seen:
                            continue
                        if found.st_nlink > 1:
                            seen.add(place)
                        # Some file systems reserve more blocks than a file has content.
                        whole = -(-found.st_size // _PAGE_BYTES) * _PAGE_BYTES
                        used += min(found.st_blocks * _BLOCK_BYTES, whole)
                if left < 0:
                    return used
        except OSError:
            pass  # The job has changed it meanwhile; the next look sees more.
        finally:
            os.close(root)
    return used


def _next(began: float, every_s: float) -> float:
    now = time.monotonic()
    return now + max(every_s, (now - began) / SHARE_OF_A_CORE)
