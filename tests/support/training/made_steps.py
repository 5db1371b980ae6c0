"""Trainings whose time is known because it was made here: the rows that their ranks would report."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster_server.domain.insight.step_rows import Rows
from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import StepAnalysis, analyse

Own = dict[str, float]
"""Part of a step → ms that a rank adds to it before it joins the collective."""
BASE: Own = {
    "time/data_wait_ms": 1.0,
    "time/forward_ms": 20.0,
    "time/backward_ms": 36.0,
    "time/other_ms": 1.0,
    "time/other_idle_ms": 0.2,
    "comm/exposed_ms": 2.0,
}
OPTIMIZER_MS = 3.0
BESIDE = ("time/other_idle_ms", "time/validation_ms")
"""What is no part of the step, or within another one."""


@dataclass(frozen=True)
class MadeSteps:
    """Ranks that sum their gradients at the end of each step, and so end it together."""

    ranks: dict[int, Rows]
    step_ms: float
    """Mean over the ranks."""

    def analysed(self, bucket_steps: int = 1) -> StepAnalysis:
        world = ProcessGroup(name="world", ranks=tuple(sorted(self.ranks)), backend="gloo")
        return analyse(self.ranks, [world], bucket_steps=bucket_steps)


def made(
    extra: Callable[[int, int], Own],
    *,
    num_ranks: int = 2,
    steps: int = 60,
    noise: float = 0.0,
    seed: int = 1,
) -> MadeSteps:
    """extra: (step, rank) → ms that are added to parts of its step. noise: every rank's computing is
    late by chance, by this share of the step on average."""
    draw = random.Random(seed)
    ranks: dict[int, dict[str, dict[int, float]]] = {r: {} for r in range(num_ranks)}
    took: list[float] = []
    for step in range(1, steps + 1):
        own: list[Own] = []
        for rank in range(num_ranks):
            parts = dict(BASE)
            if noise:
                parts["time/backward_ms"] += draw.expovariate(1 / (noise * 63))
            for name, ms in extra(step, rank).items():
                parts[name] = parts.get(name, 0.0) + ms
                if name == "time/other_idle_ms":
                    parts["time/other_ms"] += ms
            own.append(parts)
        joined = [_until_joined(parts) for parts in own]
        for rank, parts in enumerate(own):
            if num_ranks == 1:
                del parts["comm/exposed_ms"]
            else:
                parts["comm/exposed_ms"] += max(joined) - joined[rank]
                parts["comm/world/exposed_ms"] = parts["comm/exposed_ms"]
            parts["time/optimizer_ms"] = OPTIMIZER_MS
            parts["time/step_ms"] = sum(
                ms for name, ms in parts.items() if name not in BESIDE and name.count("/") == 1
            )
            took.append(parts["time/step_ms"])
            for name, ms in parts.items():
                ranks[rank].setdefault(name, {})[step] = ms
    return MadeSteps(ranks=dict(ranks), step_ms=sum(took) / len(took))


def _until_joined(parts: Own) -> float:
    """Validation is beside the step of the rank that does it, and the others wait for its end."""
    return sum(
        ms
        for name, ms in parts.items()
        if name not in ("time/other_idle_ms", "comm/exposed_ms") and name.count("/") == 1
    )


def averaged(rows: Rows, every: int) -> Rows:
    """Return rows that are each the mean of so many steps, as where steps are fast."""
    found: dict[str, dict[int, float]] = {}
    for name, series in rows.items():
        for end in range(every, max(series) + 1, every):
            values: Sequence[float] = [series.get(s, 0.0) for s in range(end - every + 1, end + 1)]
            found.setdefault(name, {})[end] = sum(values) / every
    return found


def joined(rows: Rows, is_joined: Callable[[int], bool]) -> Rows:
    """Return rows of which some are joined with the one after, into one row of the mean of both."""
    found: dict[str, dict[int, float]] = {}
    for name, series in rows.items():
        for step, value in series.items():
            if is_joined(step) and step + 1 in series:
                continue
            before = series.get(step - 1, value) if is_joined(step - 1) else value
            found.setdefault(name, {})[step] = (before + value) / 2
    return found
