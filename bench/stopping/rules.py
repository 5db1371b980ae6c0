"""What stops trials early: Muster's methods and Optuna's pruners.

All get the same trials in the same order, `WORKERS` at a time at the same speed, and hear of every unit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import optuna

from muster_server.domain.search import SearchSpec
from muster_server.domain.search.methods import Rule
from muster_server.domain.search.rungs import Bracket, asha_brackets, hyperband_brackets
from muster_server.domain.search.simulate import simulate

WORKERS = 4
DIVISOR = 3
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
    made = {
        "sha": lambda: optuna.pruners.SuccessiveHalvingPruner(
            min_resource=1, reduction_factor=DIVISOR
        ),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(
            min_resource=1, max_resource=length, reduction_factor=DIVISOR
        ),
        "median": lambda: optuna.pruners.MedianPruner(),
    }
    return OptunaPruner(made[kind](), length)


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
}
