"""Plays a whole search against a metric function: for previews, tests and benchmarks."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
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
    """Number of units that the parents of clones had trained, by clone."""
    parents: dict[int, int] = field(default_factory=dict)
    """Clone → the trial it was made of."""
    per_rung: list[int] = field(default_factory=list)
    """How many trials reached each rung, bracket after bracket."""
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
    return _Playback(spec, metric, _validation_points(spec, every)).run()


class _Playback:
    """A search that is played: its searcher, and its trials on one clock that counts units."""

    def __init__(self, spec: SearchSpec, metric: Metric, stops: Sequence[int]) -> None:
        self.metric = metric
        self.stops = stops
        self.pauses_at_rungs = spec.rule == "population"
        self.searcher = Searcher(spec)
        self.result = Simulation()
        self.hparams: dict[int, dict[str, Any]] = {}
        self.reached: dict[int, int] = {}
        """Index into `stops` where each trial was last; -1 before the first."""
        self.agenda: list[tuple[int, int]] = []
        """(time, trial number) of the next validations, as a heap."""
        self.paused: set[int] = set()

    def run(self) -> Simulation:
        searcher, result = self.searcher, self.result
        self.carry_out(searcher.apply(Started()), 0)
        while self.agenda:
            now, no = heapq.heappop(self.agenda)
            if no not in result.units_by_trial:  # otherwise stopped with the search
                result.length_units = now
                self.validate(no, now)
        result.per_rung = [len(entries) for entries in searcher.rungs]
        result.finish_reason = searcher.finish_reason
        return result

    def validate(self, no: int, now: int) -> None:
        """Report the next value of a trial, and let it train on unless the searcher stops it."""
        self.reached[no] += 1
        units = self.stops[self.reached[no]]
        value = self.metric(no, self.hparams[no], units)
        validated = Validated(trial_no=no, units=units, value=value)
        stopped, paused = self.carry_out(self.searcher.apply(validated), now)
        if no in stopped or self.reached[no] + 1 == len(self.stops):
            self.result.units_by_trial[no] = units
            ended = TrialEnded(
                trial_no=no,
                outcome="stopped" if no in stopped else "completed",
                value=value if math.isfinite(value) else None,
            )
            self.carry_out(self.searcher.apply(ended), now)
        elif no not in paused:
            self.train(no, now)

    def train(self, no: int, now: int) -> None:
        at = self.reached[no]
        trained = self.stops[at] if at >= 0 else 0
        heapq.heappush(self.agenda, (now + self.stops[at + 1] - trained, no))

    def carry_out(self, actions: list[Action], now: int) -> tuple[set[int], set[int]]:
        """Do what the searcher wants. Returns the trials that were stopped, and those paused."""
        stopped: set[int] = set()
        paused: set[int] = set()
        for action in actions:
            match action:
                case CreateTrial():
                    self.create(action)
                    self.train(action.no, now)
                case ResumeTrial():
                    self.paused.discard(action.no)
                    self.train(action.no, now)
                case StopTrial():
                    stopped.add(action.no)
                    at = self.reached[action.no]
                    self.result.units_by_trial[action.no] = self.stops[at] if at >= 0 else 0
                case PauseTrial():
                    paused.add(action.no)
        result, searcher = self.result, self.searcher
        result.most_live = max(result.most_live, searcher.num_live)
        result.most_paused = max(result.most_paused, searcher.num_waiting)
        if self.pauses_at_rungs:
            self.settle(stopped, paused, now)
        return stopped, paused

    def create(self, action: CreateTrial) -> None:
        no, parent = action.no, action.parent_no
        self.hparams[no], self.reached[no] = action.hparams, -1
        if parent is not None:
            self.reached[no] = self.reached[parent]
            self.result.parents[no] = parent
            self.result.units_before[no] = self.stops[self.reached[no]]

    def settle(self, stopped: set[int], paused: set[int], now: int) -> None:
        """Tell the searcher of trials that end or rest at a rung of a population."""
        for no in sorted(stopped):
            if no in self.paused:
                # A paused trial no longer trains, so no validation would report its end.
                self.paused.discard(no)
                ended = TrialEnded(trial_no=no, outcome="stopped")
                self.carry_out(self.searcher.apply(ended), now)
        for no in sorted(paused):
            self.paused.add(no)
            # One checkpoint per trial, with the trial's number as its ID.
            self.carry_out(self.searcher.apply(Rested(trial_no=no, checkpoint_id=no)), now)


def _validation_points(spec: SearchSpec, every: int | None) -> list[int]:
    assert spec.max_units is not None
    points = {*spec.rungs, spec.max_units}
    if every is not None:
        points = {*range(every, spec.max_units, every), spec.max_units}
    return sorted(points)
