"""Process groups of this process that the measured group does not cover, as torch's flight recorder
has them: those over NCCL, over several backends, or over gloo where it is not measured."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from muster.measure.progress import name_group
from muster.measure.recorder import MAX_GROUPS, Recorder
from muster.measure.step_counts import StepCounts, StepSpan


class UncoveredGroups:
    """Progress of the process groups that are not measured, such as NCCL's, and what they send in each
    step, from the rings."""

    def __init__(
        self,
        *,
        world_size: int,
        report: Callable[..., None],
        warn: Callable[[str], object],
        log: Callable[[int, dict[str, float]], None],
    ) -> None:
        """Create the view; `report` is `Run.report_group`, and `log` takes metrics of a step."""
        self._world_size = world_size
        self._report = report
        self._warn = warn
        self._log = log
        self._recorders: dict[str, Recorder] | None = None
        self._reported: set[str] = set()
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        """Every group that has been seen, by torch's name: those that are gone have sent something."""
        self._steps = StepCounts()

    def notice(self) -> dict[str, _Group]:
        """Return the groups that there are now, by torch's name. From any thread."""
        found = _uncovered()
        self._groups.update(list(found.items())[: max(MAX_GROUPS - len(self._groups), 0)])
        return found

    @property
    def is_any(self) -> bool:
        """Whether there has been such a group."""
        return bool(self._groups)

    def add_step(self, step: StepSpan) -> None:
        """Have the collectives of a step counted. From any thread."""
        self._steps.add_step(step)

    def look(self) -> list[dict[str, Any]]:
        """Return a `wire.GroupProgress` of each. Called about once a second, by one thread, and
        costs nothing where all groups are measured. Raises what reading raises."""
        groups = self.notice()
        if not groups:
            return []
        with self._lock:
            found = self._progress(groups)
            self._count()
        return found

    def read_last(self) -> None:
        """Count what the last steps have sent. Raises what reading raises."""
        with self._lock:
            if self._groups:
                for recorder in self._open().values():
                    recorder.read()
                self._count()

    def _open(self) -> dict[str, Recorder]:
        if self._recorders is None:
            self._recorders = {name: Recorder(dump) for name, dump in rings().items()}
            if not self._recorders:
                self._warn(
                    "torch's flight recorder is off (TORCH_FR_BUFFER_SIZE=0) or this torch has none: "
                    "if the training hangs, Muster cannot tell in which collective"
                )
        return self._recorders

    def _count(self) -> None:
        """Report what was sent in the steps that have been read."""
        until_ns = min((r.read_until_ns for r in self._open().values()), default=0)
        labels: dict[str, str] = {}
        for recorder in self._open().values():
            new, lost_before = recorder.take_new()
            self._steps.add(new, lost_before=lost_before)
        for name, group in self._groups.items():
            named = name_group(group.description, name, group.ranks, self._world_size)
            labels[name] = named.label
        counted = self._steps.take(labels, until_ns=until_ns)
        if counted is not None:
            self._log(*counted)

    def _progress(self, groups: Mapping[str, _Group]) -> list[dict[str, Any]]:
        found = []
        for backend, recorder in self._open().items():
            for standing in recorder.look():
                group = groups.get(standing.group)
                if group is not None:
                    name = self._name(group, backend)
                    found.append(
                        {
                            "group": name,
                            "kind": standing.kind,
                            "num_enqueued": standing.num_enqueued,
                            "num_completed": standing.num_completed,
                            "source": standing.source,
                        }
                    )
        return found

    def _name(self, group: _Group, backend: str) -> str:
        """Return what the group is called, and report it when it is first seen."""
        named = name_group(group.description, group.torch_name, group.ranks, self._world_size)
        name = named.name
        if backend == "gloo" and "nccl" in group.backends:
            name += " (gloo)"  # the other half of a mixed group counts by itself
        if name not in self._reported and name != "world":
            self._report(name, group.ranks, named.kind, backend=backend)
        self._reported.add(name)
        return name


class _Group(NamedTuple):
    torch_name: str
    description: str
    ranks: list[int]
    backends: str
    """Such as "cpu:gloo,cuda:nccl"."""


def _uncovered() -> dict[str, _Group]:
    """Return the process groups of this process that are not measured, by torch's name."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    if world is None:
        return {}
    measured = getattr(sys.modules.get("muster.measure.measured_group"), "MeasuredGroup", ())
    found = {}
    for group, torch_name in list(world.pg_names.items()):
        description = str(getattr(group, "group_desc", "") or "")
        ranks = sorted(world.pg_group_ranks.get(group, ()))
        # Those of Muster itself count where they are used.
        if ranks and not isinstance(group, measured) and not description.startswith("muster_"):
            backends = str(world.pg_backend_config.get(group, ""))
            found[torch_name] = _Group(torch_name, description, ranks, backends)
    return found


def rings() -> dict[str, Callable[..., bytes]]:
    """Return the functions of torch that dump a ring, by backend; empty if it has none. Imports
    torch."""
    import torch.distributed as dist

    if not dist.is_available() or is_off(os.environ):
        return {}
    c10d: Any = __import__("torch._C._distributed_c10d", fromlist=["_"])
    names = {"nccl": "_dump_nccl_trace", "gloo": "_dump_fr_trace"}
    found = {backend: getattr(c10d, name, None) for backend, name in names.items()}
    return {backend: dump for backend, dump in found.items() if dump is not None}


def is_off(environ: Mapping[str, str]) -> bool:
    """Return whether the environment gives the recorder a ring of 0 entries."""
    given = environ.get("TORCH_FR_BUFFER_SIZE") or environ.get("TORCH_NCCL_TRACE_BUFFER_SIZE") or ""
    return re.fullmatch(r"\s*-?0+\s*", given) is not None
