"""Progress of this worker, read by the reporting thread while the training thread may hang.

What is kept here costs a count per collective. Nothing waits: a worker that hangs while it holds a
lock of ours is still reported, with what was known before.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

MAX_GROUPS = 24
"""Number of process groups reported per worker; further ones are left out."""


class GroupName(NamedTuple):
    """What a process group is called."""

    label: str
    """Name in metrics: the same on every rank that is in one of its kind."""
    name: str
    """Name of the group itself."""
    kind: str


def name_group(
    description: str, torch_name: str, ranks: Sequence[int], world_size: int
) -> GroupName:
    """Return what a process group is called.

    description, torch_name: as torch has them. ranks: global ranks of its members."""
    if description == "default_pg":
        return GroupName("world", "world", "world")
    label = description if description not in ("", "undefined") else f"group-{torch_name}"
    if not description.startswith("mesh_"):
        return GroupName(label, label, "custom")
    # Each slice of the mesh has a group of this name; figures of them are compared.
    name = f"{label}@{ranks[0]}" if 0 < len(ranks) < world_size else label
    return GroupName(label, name, description.removeprefix("mesh_"))


class Completable(Protocol):
    def is_completed(self) -> bool: ...


class _Over:
    def is_completed(self) -> bool:
        return True


_OVER = _Over()


class GroupCount:
    """Collectives of one process group on this rank, in the order in which every member calls
    them. Messages between two ranks are not among them: members do not call those alike."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = ""
        """Kind of the last one enqueued."""
        self.num_enqueued = 0
        self._pending: deque[Completable] = deque()
        self._lock = threading.Lock()

    def begin(self, kind: str, work: Completable) -> None:
        """Note that `work` was enqueued. It is held, with its tensors, until `ended` or the next
        look after its end."""
        pending = self._pending
        with self._lock:
            while pending and pending[0].is_completed():
                pending.popleft()
            self.num_enqueued += 1
            self.kind = kind
            pending.append(work)

    def ended(self, work: Completable) -> None:
        """Release `work` after a wait: while its tensors are held, the next ones need memory of
        their own."""
        pending = self._pending
        with self._lock:
            if pending and pending[0] is work:
                pending.popleft()
                return
            for i, other in enumerate(pending):
                if other is work:
                    pending[i] = _OVER
                    return

    def look(self) -> dict[str, Any]:
        """Return a `wire.GroupProgress`. Collectives are taken to end in order."""
        if self._lock.acquire(blocking=False):
            try:
                while self._pending and self._pending[0].is_completed():
                    self._pending.popleft()
            finally:
                self._lock.release()
        return {
            "group": self.name,
            "kind": self.kind,
            "num_enqueued": self.num_enqueued,
            "num_completed": self.num_enqueued - len(self._pending),
        }


class Phased(Protocol):
    """A StepTimer."""

    def where(self) -> tuple[str, int]:
        """Return the phase the training thread is in, and since when in perf_counter nanoseconds."""

    def flush_stale(self) -> None:
        """Report the current row if no step has ended for a while."""


class CollectiveWait(NamedTuple):
    """A wait for a message of one rank: only that rank can end it."""

    kind: str
    rank: int


class ProgressWatch:
    """Observable state of this process. Written by the training thread."""

    def __init__(self) -> None:
        self._groups: list[GroupCount] = []
        self._timer: weakref.ref[Phased] | None = None
        self._wait: CollectiveWait | None = None
        self.num_reports = 0
        """Number of times that something was logged."""
        self.step: int | None = None
        """Last step that was logged or has ended."""
        self._unix_less_perf_ns = time.time_ns() - time.perf_counter_ns()

    def add_group(self, name: str) -> GroupCount:
        count = GroupCount(name)
        if len(self._groups) < MAX_GROUPS:
            self._groups.append(count)
        return count

    def set_timer(self, timer: Phased) -> None:
        """Set the StepTimer whose phases are shown: the last one created."""
        self._timer = weakref.ref(timer)

    @property
    def timer(self) -> Phased | None:
        """Return the StepTimer that was created last, if it still exists."""
        return self._timer() if self._timer is not None else None

    @contextlib.contextmanager
    def waiting(self, kind: str, rank: int) -> Iterator[None]:
        """Mark the block as waiting for a message from or to this global rank."""
        before, self._wait = self._wait, CollectiveWait(kind, rank)
        try:
            yield
        finally:
            self._wait = before

    def look(self) -> dict[str, Any]:
        """Return the fields of a `wire.WorkerProgress` that the worker itself knows."""
        timer = self.timer
        phase, since = timer.where() if timer is not None else ("", 0)
        wait = self._wait
        return {
            "num_reports": self.num_reports,
            "step": self.step,
            "phase": phase,
            "phase_since_ms": (since + self._unix_less_perf_ns) // 1_000_000 if phase else None,
            "groups": [group.look() for group in self._groups],
            "waits_for": wait.rank if wait is not None else None,
            "waits_kind": wait.kind if wait is not None else "",
        }


watch = ProgressWatch()
"""The process's one watch."""
