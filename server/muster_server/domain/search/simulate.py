"""Plays a whole search against a metric function: for previews, tests and benchmarks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .events import Action, CreateTrial, Started, StopTrial, TrialEnded, Validated
from .searcher import Searcher, SearchSpec

Metric = Callable[[int, dict[str, Any], int], float]
"""(trial number, hyperparameters, units trained) → value of the search metric."""


@dataclass
class Simulation:
    units_by_trial: dict[int, int] = field(default_factory=dict)
    """Units each trial had trained when it ended."""
    per_rung: list[int] = field(default_factory=list)
    """How many trials reached each rung."""
    most_live: int = 0
    finish_reason: str = ""

    @property
    def ended_at(self) -> dict[int, int]:
        """Units → how many trials ended there."""
        return dict(sorted(Counter(self.units_by_trial.values()).items()))

    @property
    def total_units(self) -> int:
        return sum(self.units_by_trial.values())


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
    agenda: list[tuple[int, int, int]] = []  # (time, trial number, index into stops)

    def carry_out(actions: list[Action], now: int) -> set[int]:
        for action in actions:
            if isinstance(action, CreateTrial):
                hparams[action.no] = action.hparams
                heapq.heappush(agenda, (now + stops[0], action.no, 0))
        result.most_live = max(result.most_live, searcher.num_live)
        return {action.no for action in actions if isinstance(action, StopTrial)}

    carry_out(searcher.apply(Started()), 0)
    while agenda:
        now, no, at = heapq.heappop(agenda)
        units = stops[at]
        value = metric(no, hparams[no], units)
        stopped = carry_out(searcher.apply(Validated(trial_no=no, units=units, value=value)), now)
        if no in stopped or at + 1 == len(stops):
            result.units_by_trial[no] = units
            outcome = TrialEnded(trial_no=no, outcome="stopped" if no in stopped else "completed")
            carry_out(searcher.apply(outcome), now)
        else:
            heapq.heappush(agenda, (now + stops[at + 1] - units, no, at + 1))
    result.per_rung = [len(entries) for entries in searcher.rungs]
    result.finish_reason = searcher.finish_reason
    return result


def _validation_points(spec: SearchSpec, every: int | None) -> list[int]:
    assert spec.max_units is not None
    points = {*spec.rungs, spec.max_units}
    if every is not None:
        points = {*range(every, spec.max_units, every), spec.max_units}
    return sorted(points)
