"""Sums over the steps of one row, and the metrics made of them. Pure but for reading memory."""

from __future__ import annotations

from dataclasses import dataclass

from muster.measure import memory
from muster.measure.collectives import Segment
from muster.measure.comm_use import CommUse
from muster.sdk.env import RankInfo
from muster.series_rules import clean_name

PHASES = (
    "data_wait", "host_to_device", "forward", "backward", "optimizer", "no_grad", "checkpoint",
    "other",
)  # fmt: skip
MAX_KINDS = 24
"""Number of pairs of process group and kind that are reported separately; further ones are summed
up under the group `more`."""
MORE = "more"
_MS = 1e-6
_TERA = 1e12


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Known facts about the training. Metrics that need a fact that is None are left out."""

    flops_per_sample: float | None = None
    """Operations of forward and backward of one sample, excluding recomputation."""
    tokens_per_sample: int | None = None
    peak_flops: float | None = None
    """Peak operations per second of one device."""
    stage: int | None = None
    """Pipeline stage of this worker."""


class StepSums:
    """Sums over steps: integers and a few dicts only, because this runs in every step."""

    def __init__(self) -> None:
        self._num_steps = 0
        self._wall_ns = self._cost_ns = 0
        self._samples: int | None = None
        self._samples_of_all: int | None = None
        self._paused_ns: int | None = None

        # Of those steps whose parts are known.
        self._num_parts = 0
        self._step_ns = 0
        self._parts = dict.fromkeys(PHASES, 0)
        self._other_idle: int | None = None
        self._exposed = self._total = self._num_bytes = self._count = self._bubble = 0
        self._interference = self._num_interference = 0
        self._groups: dict[str, int] = {}
        self._kinds: dict[tuple[str, str], list[int]] = {}
        self.num_windows = 0
        """Number of those that a window of the profiler has seen."""

    def add_step(
        self,
        step_ns: int,
        cost_ns: int,
        samples: int | None,
        samples_of_all: int | None,
        paused_ns: int | None = None,
    ) -> None:
        """Add a step. paused_ns: time of pauses since the step before; None if there was never one."""
        self._num_steps += 1
        self._wall_ns += step_ns
        self._cost_ns += cost_ns
        if samples is not None:
            self._samples = (self._samples or 0) + samples
        if samples_of_all is not None:
            self._samples_of_all = (self._samples_of_all or 0) + samples_of_all
        if paused_ns is not None:
            self._paused_ns = (self._paused_ns or 0) + paused_ns

    def add_parts(
        self,
        step_ns: int,
        segments: list[Segment],
        use: CommUse | None,
        other_cpu_ns: int | None = None,
        *,
        in_window: bool = False,
    ) -> None:
        """Add the parts of a step. other_cpu_ns: CPU time of the training thread in the phase
        "other"; None if unknown, as where the segments are a device's."""
        self.num_windows += in_window
        self._num_parts += 1
        self._step_ns += step_ns
        parts = self._parts
        other_before = parts["other"]
        for phase, start, end in segments:
            parts[phase] = parts.get(phase, 0) + end - start
        if use is not None:
            self._add_comm(use)
        if other_cpu_ns is not None:
            idle = max(parts["other"] - other_before - other_cpu_ns, 0)
            self._other_idle = (self._other_idle or 0) + idle

    def _add_comm(self, use: CommUse) -> None:
        for taken in (use.exposed_by_phase, use.bubble_by_phase):
            for phase, ns in taken.items():
                self._parts[phase] -= ns
        self._exposed += use.exposed
        self._bubble += use.bubble
        self._total += use.total
        self._num_bytes += use.num_bytes
        self._count += use.count
        if use.interference is not None:
            self._interference += use.interference
            self._num_interference += 1
        for group, ns in use.exposed_by_group.items():
            self._groups[group] = self._groups.get(group, 0) + ns
        for (group, kind), of_kind in use.kinds.items():
            key = (group, kind)
            if key not in self._kinds and len(self._kinds) >= MAX_KINDS:
                key = (MORE, kind)
            sums = self._kinds.setdefault(key, [0, 0, 0])
            sums[0] += of_kind.count
            sums[1] += of_kind.num_bytes
            sums[2] += of_kind.time

    def values(self, *, with_comm: bool, info: RankInfo, facts: Facts) -> dict[str, float]:
        """Return the row's metrics: means per step. Parts are left out if no step's are known; if
        some are, time/step_ms is the mean of those, so that the parts always sum to it."""
        if not self._num_steps:
            return {}
        values = {
            "time/instrumentation_pct": 100.0 * self._cost_ns / self._wall_ns,
            **memory.values(),
            **self._throughput(info, facts),
        }
        if self._paused_ns is not None:
            values["time/validation_ms"] = self._paused_ns * _MS / self._num_steps
        if facts.stage is not None:
            values["pipeline/stage"] = float(facts.stage)
        if self.num_windows:
            values["comm/timeline_steps"] = float(self.num_windows)
        elif with_comm and info.world_size > 1:
            values["comm/recorded_pct"] = 100.0 * self._num_parts / self._num_steps
        if not self._num_parts:
            values["time/step_ms"] = self._wall_ns * _MS / self._num_steps
            return values
        scale = _MS / self._num_parts
        values["time/step_ms"] = self._step_ns * scale
        values.update({f"time/{name}_ms": ns * scale for name, ns in self._parts.items()})
        if self._other_idle is not None:
            values["time/other_idle_ms"] = self._other_idle * scale
        if with_comm:
            values.update(self._comm(scale))
            # A timeline does not tell whether a message is late or on its way.
            if facts.stage is not None and not self.num_windows:
                values["pipeline/bubble_ms"] = self._bubble * scale
        return values

    def _throughput(self, info: RankInfo, facts: Facts) -> dict[str, float]:
        values: dict[str, float] = {}
        seconds = self._wall_ns * 1e-9
        if self._samples is not None:
            values["throughput/samples_per_s_rank"] = self._samples / seconds
        if self._samples_of_all is None or info.rank != 0:
            return values
        rate = values["throughput/samples_per_s"] = self._samples_of_all / seconds
        if facts.tokens_per_sample is not None:
            values["throughput/tokens_per_s"] = rate * facts.tokens_per_sample
        if facts.flops_per_sample is not None:
            achieved = rate * facts.flops_per_sample / info.world_size
            values["throughput/model_tflops_per_device"] = achieved / _TERA
            if facts.peak_flops is not None:
                values["throughput/mfu"] = achieved / facts.peak_flops
        return values

    def _comm(self, scale: float) -> dict[str, float]:
        num = self._num_parts
        values = {
            "comm/exposed_ms": self._exposed * scale,
            "comm/overlapped_ms": (self._total - self._exposed) * scale,
            "comm/total_ms": self._total * scale,
            "comm/bytes": self._num_bytes / num,
            "comm/count": self._count / num,
            "comm/overhead_ratio": self._exposed / self._step_ns,
        }
        if self._num_interference:
            values["comm/interference_ms"] = self._interference * _MS / self._num_interference
        for group, ns in self._groups.items():
            values[f"comm/{part_of_name(group)}/exposed_ms"] = ns * scale
        for (group, kind), (count, num_bytes, ns) in self._kinds.items():
            prefix = f"comm/{part_of_name(group)}/{kind}"
            values[f"{prefix}/count"] = count / num
            if num_bytes or not self.num_windows:  # a profiler may not say them
                values[f"{prefix}/bytes"] = num_bytes / num
            values[f"{prefix}/time_ms"] = ns * scale
        return values


def part_of_name(group: str) -> str:
    """Return a process group's name as one part of a metric's name."""
    return clean_name(group.replace("/", "_"))[:64]
