"""Plays a whole search against a metric function: for previews, tests and benchmarks."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .events import (
    Action,
    CreateTrial,
    PauseTrial,
    Rested,
    ResumeTrial,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
)
from .searcher import Searcher
from .spec import SearchSpec

Metric = Callable[[int, dict[str, Any], int], float]
"""(trial number, hyperparameters, units trained) → value of the search metric."""


@dataclass
class Simulation:
    units_by_trial: dict[int, int] = field(default_factory=dict)
    """Units each trial had trained when it ended, those before it was cloned included."""
    units_before: dict[int, int] = field(default_factory=dict)
    """Of clones: the units their parents had trained."""
    parents: dict[int, int] = field(default_factory=dict)
    """Clone → the trial it was made of."""
    per_rung: list[int] = field(default_factory=list)
    """How many trials reached each rung, bracket after bracket."""
    num_pauses: int = 0
    most_paused: int = 0
    most_live: int = 0
    finish_reason: str = ""
    length_units: int = 0
    """Until the last trial ended, where all train at the same speed."""

    @property
    def ended_at(self) -> dict[int, int]:
        """Units → how many trials ended there."""
        return dict(sorted(Counter(self.units_by_trial.values()).items()))

    @property
    def total_units(self) -> int:
        """Trained in all: what a clone takes over is not trained again."""
        return sum(self.units_by_trial.values()) - sum(self.units_before.values())


def simulate(spec: SearchSpec, metric: Metric, *, every: int | None = None) -> Simulation:
    """Run the search to its end. All trials train at the same speed and start at once.

    every: units between validations; None validates just at the rungs and at the end.
    Needs spec.max_units. Ties in time go to the lower trial number.
    """
    if spec.max_units is None:
        raise ValueError("a search without max_length cannot be simulated")
    stops = _validation_points(spec, every)
    searcher = Searcher(spec)
    result = Simulation()
    hparams: dict[int, dict[str, Any]] = {}
    reached: dict[int, int] = {}
    """Of each trial, the index into stops it was last at; -1 before the first."""
    agenda: list[tuple[int, int]] = []  # (time, trial number)
    resting: set[int] = set()

    def train(no: int, now: int) -> None:
        at = reached[no]
        heapq.heappush(agenda, (now + stops[at + 1] - (stops[at] if at >= 0 else 0), no))

    def carry_out(actions: list[Action], now: int) -> tuple[set[int], set[int]]:
        stopped: set[int] = set()
        paused: set[int] = set()
        for action in actions:
            match action:
                case CreateTrial():
                    no, parent = action.no, action.parent_no
                    hparams[no], reached[no] = action.hparams, -1
                    if parent is not None:
                        reached[no] = reached[parent]
                        result.parents[no] = parent
                        result.units_before[no] = stops[reached[no]]
                    train(no, now)
                case ResumeTrial():
                    resting.discard(action.no)
                    train(action.no, now)
                case StopTrial():
                    stopped.add(action.no)
                    at = reached[action.no]
                    result.units_by_trial[action.no] = stops[at] if at >= 0 else 0
                case PauseTrial():
                    paused.add(action.no)
        result.num_pauses += len(paused)
        result.most_live = max(result.most_live, searcher.num_live)
        result.most_paused = max(result.most_paused, searcher.num_waiting)
        if spec.rule == "population":
            for no in sorted(stopped):
                # It rested, and so trains no more that could be heard of.
                if no in resting:
                    resting.discard(no)
                    ended = TrialEnded(trial_no=no, outcome="stopped")
                    carry_out(searcher.apply(ended), now)
            for no in sorted(paused):
                resting.add(no)
                # A checkpoint for each, by its trial's number.
                carry_out(searcher.apply(Rested(trial_no=no, checkpoint_id=no)), now)
        return stopped, paused

    carry_out(searcher.apply(Started()), 0)
    while agenda:
        now, no = heapq.heappop(agenda)
        if no in result.units_by_trial:
            continue  # stopped with the search
        result.length_units = now
        reached[no] += 1
        units = stops[reached[no]]
        value = metric(no, hparams[no], units)
        heard = Validated(trial_no=no, units=units, value=value)
        stopped, paused = carry_out(searcher.apply(heard), now)
        if no in stopped or reached[no] + 1 == len(stops):
            result.units_by_trial[no] = units
            ended = TrialEnded(
                trial_no=no,
                outcome="stopped" if no in stopped else "completed",
                value=value if math.isfinite(value) else None,
            )
            carry_out(searcher.apply(ended), now)
        elif no not in paused:
            train(no, now)
    result.per_rung = [len(entries) for entries in searcher.rungs]
    result.finish_reason = searcher.finish_reason
    return result


def _validation_points(spec: SearchSpec, every: int | None) -> list[int]:
    assert spec.max_units is not None
    points = {*spec.rungs, spec.max_units}
    if every is not None:
        points = {*range(every, spec.max_units, every), spec.max_units}
    return sorted(points)
