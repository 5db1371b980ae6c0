"""What stops trials early: Muster's methods, Optuna's pruners, and a model of learning curves.

All get the same trials in the same order, `WORKERS` at a time at the same speed, and hear of every unit.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import numpy as np
import optuna
from curve_model import Array, CurveModel

from muster_server.domain.search import SearchSpec
from muster_server.domain.search.methods import Rule
from muster_server.domain.search.rungs import Bracket, asha_brackets, hyperband_brackets
from muster_server.domain.search.simulate import simulate

WORKERS = 4
DIVISOR = 3
STOPPED_BELOW = 0.05
"""Probability of ending as the best below which a trial is stopped."""
FIRST = 4
"""Trials that are begun before any is chosen by the model."""
REFIT = 1.15
"""Growth of the number of reports after which the model is fitted again."""
Reach = Callable[[int, int], float]
"""(trial from 0, unit) → the value that it reports there; raises `Spent` where the budget ends."""


class Spent(Exception):
    """The budget is used up."""


class StopsTrials(Protocol):
    def choose(self) -> int:
        """Return the trial that trains next: a new one, or one that was paused."""
        ...

    def goes_on(self, trial: int, unit: int, value: float) -> bool: ...


def drive(rule: StopsTrials, length: int, reach: Reach) -> None:
    agenda: list[tuple[int, int]] = []
    units: dict[int, int] = {}

    def begin(now: int) -> None:
        heapq.heappush(agenda, (now + 1, rule.choose()))

    for _ in range(WORKERS):
        begin(0)
    while True:
        now, trial = heapq.heappop(agenda)
        unit = units[trial] = units.get(trial, 0) + 1
        if rule.goes_on(trial, unit, reach(trial, unit)) and unit < length:
            heapq.heappush(agenda, (now + 1, trial))
        else:
            begin(now)


# ---------------------------------------------------------------- Muster


def muster(rule: Rule, length: int, trials: int, reach: Reach) -> None:
    """Play the searcher that ships; brackets that end are begun anew with the trials after them."""
    if rule == "synchronous":
        brackets = hyperband_brackets(length, divisor=DIVISOR)
    elif rule == "median":
        marks = (*range(max(length // 10, 1), length, max(length // 10, 1)), length)
        brackets = (Bracket(trials=trials, rungs=marks),)
    elif rule == "none":
        brackets = ()
    else:
        brackets = asha_brackets(length, divisor=DIVISOR, max_rungs=16, trials=trials)
    count = sum(b.trials for b in brackets) if rule == "synchronous" else trials
    spec = SearchSpec(
        method={"synchronous": "hyperband", "median": "median", "none": "random"}.get(rule, "asha"),  # type: ignore[arg-type]
        space={"x": {"uniform": [0.0, 1.0]}}, seed=0, trials=count, concurrent=WORKERS,
        metric="value", unit="epochs", max_units=length, divisor=DIVISOR, brackets=brackets, rule=rule,
    )  # fmt: skip
    first = 0
    while True:
        simulate(spec, lambda no, _point, unit, first=first: reach(first + no - 1, unit), every=1)  # type: ignore[misc]
        first += count


# ---------------------------------------------------------------- Optuna


class OptunaPruner:
    def __init__(self, pruner: optuna.pruners.BasePruner, length: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # The name of a study decides on the brackets of Hyperband.
        sampler = optuna.samplers.RandomSampler(seed=0)
        self.study = optuna.create_study(study_name="curves", sampler=sampler, pruner=pruner)
        self.length, self.trials = length, list[optuna.Trial]()

    def choose(self) -> int:
        self.trials.append(self.study.ask())
        return len(self.trials) - 1

    def goes_on(self, trial: int, unit: int, value: float) -> bool:
        known = self.trials[trial]
        known.report(min(value, 1e30), unit)
        if unit == self.length:
            self.study.tell(known, min(value, 1e30))
        elif known.should_prune():
            self.study.tell(known, state=optuna.trial.TrialState.PRUNED)
            return False
        return True


def _pruner(kind: Literal["sha", "hyperband", "median"], length: int) -> OptunaPruner:
    made: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
        "sha": lambda: optuna.pruners.SuccessiveHalvingPruner(
            min_resource=1, reduction_factor=DIVISOR
        ),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(
            min_resource=1, max_resource=length, reduction_factor=DIVISOR
        ),
        "median": lambda: optuna.pruners.MedianPruner(),
    }
    return OptunaPruner(made[kind](), length)


# ---------------------------------------------------------------- learning curves


class CurveRule:
    """Stops a trial (`is_chooser` False) whose probability of ending as the best is small, or pauses
    all at rungs and continues the one with the greatest expected improvement per remaining unit, or
    begins a new one."""

    def __init__(self, length: int, *, is_chooser: bool) -> None:
        self.length, self.is_chooser = length, is_chooser
        self.curves = np.full((64, length), math.nan)
        self.count = self.reports = self.fitted_at = 0
        self.best = self.incumbent = math.inf
        self.paused: dict[int, int] = {}
        self.rungs = {length // DIVISOR**k for k in range(1, 8)}
        self.model: CurveModel | None = None

    def choose(self) -> int:
        if self.is_chooser and self.paused and self._fit() is not None:
            trials = sorted(self.paused)
            left = self.length - np.array([self.paused[t] for t in trials])
            gains = self._improvement(*self._fit().ends(self.curves[trials])) / left  # type: ignore[union-attr]
            at = int(np.argmax(gains))
            if gains[at] >= self._improvement(*self._fit().new_ends())[0] / self.length:  # type: ignore[union-attr]
                del self.paused[trials[at]]
                return trials[at]
        self.count += 1
        return self.count - 1

    def goes_on(self, trial: int, unit: int, value: float) -> bool:
        if trial >= len(self.curves):
            self.curves = np.vstack([self.curves, np.full_like(self.curves, math.nan)])
        self.curves[trial, unit - 1] = value if not math.isnan(value) else math.inf
        self.reports += 1
        self.best = min(self.best, value)
        if unit == self.length or not math.isfinite(value):
            return unit == self.length
        if self.is_chooser:
            if unit in self.rungs:
                self.paused[trial] = unit
            return unit not in self.rungs
        model = self._fit()
        if model is None or value <= self.best:
            return True
        weights, means, spreads = model.ends(self.curves[trial : trial + 1])
        u = (max(self.incumbent, self.best) - means) / spreads
        return float((weights * _normal(u)).sum()) >= STOPPED_BELOW

    def _fit(self) -> CurveModel | None:
        known = self.curves[: self.count]
        known = known[~np.isnan(known[:, 0])]
        if len(known) < FIRST or not np.isfinite(known[:, 0]).any():
            return None
        if self.model is None or self.reports >= self.fitted_at * REFIT:
            self.model, self.fitted_at = CurveModel(known), self.reports
            units = (~np.isnan(known)).sum(axis=1)
            weights, means, _ = self.model.ends(known[units >= units.max() / 2])
            self.incumbent = float((weights * means).sum(axis=1).min())
        return self.model

    def _improvement(self, weights: Array, means: Array, spreads: Array) -> Array:
        u = (self.incumbent - means) / spreads
        density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        return np.asarray((weights * spreads * (u * _normal(u) + density)).sum(axis=1))


def _normal(u: Array) -> Array:
    """The normal distribution function to 1e-7 (Abramowitz and Stegun 7.1.26)."""
    a = np.abs(u) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * a)
    series: Array = np.full_like(t, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + factor
    return np.asarray(0.5 * (1 + np.sign(u) * (1 - series * t * np.exp(-a * a))))


Play = Callable[[int, int, Reach], None]
"""(length, trials that the budget could begin, reach)"""


def _driven(make: Callable[[int], StopsTrials]) -> Play:
    return lambda length, _trials, reach: drive(make(length), length, reach)


def _searcher(rule: Rule) -> Play:
    return partial(muster, rule)


RULES: dict[str, Play] = {
    "Muster random": _searcher("none"),
    "Muster ASHA, stopping": _searcher("stopping"),
    "Muster ASHA, promotion": _searcher("promotion"),
    "Muster Hyperband": _searcher("synchronous"),
    "Muster median": _searcher("median"),
    "Optuna SuccessiveHalving": _driven(partial(_pruner, "sha")),
    "Optuna Hyperband": _driven(partial(_pruner, "hyperband")),
    "Optuna Median": _driven(partial(_pruner, "median")),
    "Curves, stopping": _driven(partial(CurveRule, is_chooser=False)),
    "Curves, freeze-thaw": _driven(partial(CurveRule, is_chooser=True)),
}
