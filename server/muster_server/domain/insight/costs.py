"""What a training spends its steps on, bucket by bucket: parts of which each is paid once. Pure.

In each bucket the ranks that the others waited for are left out. Their step shows why they are late,
which the others pay as waiting: counted as well, it would be paid twice. So no rank's wait is averaged
with that of one which nobody waits for, and waiting is never communication.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from .estimates import IntervalEstimate, block_means, mean_of
from .step_rows import RankRows
from .waiting import RankWaits

CostKind = Literal[
    "waiting",
    "communication",
    "bubble",
    "data",
    "checkpoint",
    "outside",
    "outside_idle",
    "outside_busy",
    "without_gradients",
    "validation",
    "optimizer",
    "computation",
]
KINDS: tuple[CostKind, ...] = get_args(CostKind)
_PARTS: Mapping[CostKind, tuple[str, ...]] = {
    "bubble": ("pipeline/bubble_ms",),
    "data": ("time/data_wait_ms", "time/host_to_device_ms"),
    "checkpoint": ("time/checkpoint_ms",),
    "without_gradients": ("time/no_grad_ms",),
    "validation": ("time/validation_ms",),
    "optimizer": ("time/optimizer_ms",),
    "computation": ("time/forward_ms", "time/backward_ms"),
}


@dataclass(frozen=True, kw_only=True)
class StepCosts:
    """Milliseconds per step, in each bucket that all ranks have measured."""

    buckets: tuple[Mapping[CostKind, float], ...]
    weights: tuple[float, ...]
    """Number of steps of each bucket."""

    def mean(self, kind: CostKind) -> float:
        """Return the mean per step; 0 without any bucket."""
        if not self.buckets:
            return 0.0
        return statistics.fmean((b[kind] for b in self.buckets), self.weights)

    def difference(self, kind: CostKind, other: CostKind) -> IntervalEstimate | None:
        """Return how much more `kind` takes than `other`, as a mean over blocks of consecutive
        buckets; None with fewer than two."""
        return mean_of(block_means((b[kind] - b[other] for b in self.buckets), self.weights))


def costs_of(measured: Mapping[int, RankRows], waits: Sequence[RankWaits]) -> StepCosts:
    """Return the costs of every bucket that all ranks have measured; where there is none, as of ranks
    that end their rows at different steps, of those that any has."""
    if not measured:
        return StepCosts(buckets=(), weights=())
    having = [set(rows.weights) for rows in measured.values()]
    buckets = sorted(set.intersection(*having) or set.union(*having))
    accounts = {rank: _Account(rank, rows, waits) for rank, rows in measured.items()}
    left_out = {rank: of.left_out for of in waits for rank in of.ranks}
    found: list[Mapping[CostKind, float]] = []
    weights = []
    for bucket in buckets:
        present = [rank for rank, rows in measured.items() if bucket in rows.weights]
        ranks = [r for r in present if r not in left_out.get(r, {}).get(bucket, ())] or present
        of_ranks = [accounts[rank].of(bucket) for rank in ranks]
        found.append({kind: statistics.fmean(a[kind] for a in of_ranks) for kind in KINDS})
        weights.append(statistics.fmean(measured[rank].weights[bucket] for rank in present))
    return StepCosts(buckets=tuple(found), weights=tuple(weights))


class _Account:
    """What one rank spends its steps on."""

    def __init__(self, rank: int, rows: RankRows, waits: Sequence[RankWaits]) -> None:
        self._parts = {
            kind: [rows.buckets(part) for part in parts] for kind, parts in _PARTS.items()
        }
        self._exposed = rows.buckets("comm/exposed_ms")
        self._other = rows.buckets("time/other_ms")
        self._idle = rows.buckets("time/other_idle_ms")
        self._waited = {
            bucket: ms[rank] for of in waits if rank in of.ranks for bucket, ms in of.ms.items()
        }

    def of(self, bucket: int) -> dict[CostKind, float]:
        found = {
            kind: sum(series.get(bucket, 0.0) for series in parts)
            for kind, parts in self._parts.items()
        }
        exposed, other = self._exposed.get(bucket, 0.0), self._other.get(bucket, 0.0)
        waiting = min(self._waited.get(bucket, 0.0), exposed)
        idle = self._idle.get(bucket)
        return found | {
            "waiting": waiting,
            "communication": exposed - waiting,
            "outside": other if idle is None else 0.0,
            "outside_idle": 0.0 if idle is None else min(idle, other),
            "outside_busy": 0.0 if idle is None else max(other - idle, 0.0),
        }
