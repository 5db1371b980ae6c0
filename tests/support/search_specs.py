"""Specs of searches that judge trials at rungs, for tests and benchmarks of the searcher alone."""

from __future__ import annotations

from typing import Any, Literal

from muster.document.searching import Goal, SamplerName, Unit
from muster_server.domain.search.population import Explore
from muster_server.domain.search.rungs import Bracket, Breadth, asha_brackets, hyperband_brackets
from muster_server.domain.search.spec import SearchSpec


def asha(
    *,
    space: dict[str, Any],
    trials: int,
    max_units: int,
    unit: Unit = "epochs",
    seed: int = 0,
    concurrent: int | None = 16,
    metric: str = "val/loss",
    goal: Goal = "min",
    divisor: int = 4,
    max_rungs: int = 5,
    rule: Literal["stopping", "promotion"] = "stopping",
    breadth: Breadth = "aggressive",
    sampler: SamplerName = "random",
) -> SearchSpec:
    return SearchSpec(
        method="asha",
        space=space,
        seed=seed,
        trials=trials,
        concurrent=concurrent,
        metric=metric,
        goal=goal,
        unit=unit,
        max_units=max_units,
        divisor=divisor,
        brackets=asha_brackets(
            max_units, divisor=divisor, max_rungs=max_rungs, trials=trials, breadth=breadth
        ),
        rule=rule,
        sampler=sampler,
    )


def hyperband(
    *,
    space: dict[str, Any],
    max_units: int,
    unit: Unit = "epochs",
    seed: int = 0,
    concurrent: int | None = 16,
    metric: str = "val/loss",
    goal: Goal = "min",
    divisor: int = 3,
    sampler: SamplerName = "random",
) -> SearchSpec:
    brackets = hyperband_brackets(max_units, divisor=divisor)
    return SearchSpec(
        method="hyperband",
        space=space,
        seed=seed,
        trials=sum(bracket.trials for bracket in brackets),
        concurrent=concurrent,
        metric=metric,
        goal=goal,
        unit=unit,
        max_units=max_units,
        divisor=divisor,
        brackets=brackets,
        rule="synchronous",
        sampler=sampler,
    )


def pbt(
    *,
    space: dict[str, Any],
    explore: Explore,
    max_units: int,
    interval: int,
    unit: Unit = "epochs",
    seed: int = 0,
    concurrent: int | None = 16,
    metric: str = "val/loss",
    goal: Goal = "min",
    sampler: SamplerName = "random",
    constraints: tuple[str, ...] = (),
) -> SearchSpec:
    """A population judged every `interval` units."""
    rungs = (*range(interval, max_units, interval), max_units)
    trials = explore.num_trials(len(rungs))
    return SearchSpec(
        method="pbt",
        space=space,
        seed=seed,
        trials=trials,
        concurrent=concurrent,
        metric=metric,
        goal=goal,
        unit=unit,
        max_units=max_units,
        brackets=(Bracket(trials=trials, rungs=rungs),),
        rule="population",
        sampler=sampler,
        constraints=constraints,
        explore=explore,
    )
