"""Collectives of whole steps, from torch's flight recorder: how many and how large, no times. Pure.

The recorder says when each collective was called, and the step timer when each step ran, both by this
process's clock. So every collective belongs to a step, whenever the recorder is read.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster.measure.intervals import Interval
from muster.measure.recorder import RecordedCollective
from muster.measure.step_sums import MAX_KINDS, MORE, part_of_name

MAX_STEPS = 10_000
"""Number of steps that wait for a look at the recorder; further ones take the place of the oldest."""
MAX_WAITING = 20_000
"""Number of collectives that wait for the end of their step; further ones are of steps left out."""


class StepSpan(NamedTuple):
    """When a step ran."""

    step: int
    spans: tuple[Interval, ...]
    """Unix time in ns, in order; more than one where the step was paused."""


class StepCounts:
    """Counts the collectives of the steps that are over."""

    def __init__(self) -> None:
        self._steps: deque[StepSpan] = deque(maxlen=MAX_STEPS)
        self._waiting: list[RecordedCollective] = []
        self._lost_before = 0
        """Unix time in ns before which not all collectives are known."""

    def add_step(self, step: StepSpan) -> None:
        """Add a step that is over. From any thread."""
        self._steps.append(step)

    def add(self, entries: Iterable[RecordedCollective], *, lost_before: int = 0) -> None:
        """Add what was read of one backend's ring, each collective once.

        lost_before: unix time in ns before which the ring has lost some; 0: it has lost none."""
        self._waiting.extend(entries)
        self._lost_before = max(self._lost_before, lost_before)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.sort(key=lambda entry: entry.created_ns)
            dropped = len(self._waiting) - MAX_WAITING
            self._lost_before = max(self._lost_before, self._waiting[dropped].created_ns)
            del self._waiting[:dropped]

    def take(
        self, labels: Mapping[str, str], *, until_ns: int
    ) -> tuple[int, dict[str, float]] | None:
        """Return the last of the steps that were over when the rings were read, and the means per
        step of all of them as metrics; None if there are none.

        labels: torch's name of a process group → its name in metrics; others are not counted.
        until_ns: unix time in ns up to which all rings have been read.
        """
        steps = []
        while self._steps and self._steps[0].spans[-1][1] <= until_ns:
            steps.append(self._steps.popleft())
        if not steps:
            return None
        ended = steps[-1].spans[-1][1]
        entries = [entry for entry in self._waiting if entry.created_ns < ended]
        self._waiting = [entry for entry in self._waiting if entry.created_ns >= ended]
        steps = [step for step in steps if step.spans[0][0] >= self._lost_before]
        if not steps:
            return None
        spans = list(itertools.chain.from_iterable(step.spans for step in steps))
        starts = [start for start, _ in spans]
        kinds: dict[tuple[str, str], list[int]] = {}
        for entry in entries:
            at = bisect_right(starts, entry.created_ns) - 1
            label = labels.get(entry.group)
            if label is None or at < 0 or entry.created_ns >= spans[at][1]:
                continue
            key = (label, entry.kind)
            if key not in kinds and len(kinds) >= MAX_KINDS:
                key = (MORE, entry.kind)
            sums = kinds.setdefault(key, [0, 0])
            sums[0] += 1
            sums[1] += entry.num_bytes
        values = {"comm/recorder_steps": float(len(steps))}
        for (label, kind), (count, num_bytes) in kinds.items():
            prefix = f"comm/{part_of_name(label)}/{kind}"
            values[f"{prefix}/count"] = count / len(steps)
            values[f"{prefix}/bytes"] = num_bytes / len(steps)
        return steps[-1].step, values
