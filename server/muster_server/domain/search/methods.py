"""The methods of search: what each needs, how many trials it makes, and where it compares them.

Everything that depends on the method of a search asks here; nothing else compares names of methods but to
tell one trial from a search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from muster.document.searching import Method, SearchSection

from . import sampling
from .constraints import Constraint
from .population import Explore
from .rungs import Bracket, asha_brackets, hyperband_brackets

Rule = Literal["none", "stopping", "promotion", "synchronous", "median", "population"]
"""What follows when a trial reaches a rung."""
WAITING: tuple[Rule, ...] = ("promotion", "synchronous")
"""Rules under which a trial may wait at its rung until it is sent on, and anybody may send it on."""

Parameters = list[sampling.SearchParameter]


@dataclass(frozen=True, kw_only=True)
class SearchMethod:
    """What a method is. The functions take a search section that has been checked."""

    num_trials: Callable[[SearchSection, Parameters], int | None]
    """Number of trials it makes; None where the document must say it and does not."""
    is_counted_by_document: bool = False
    """Whether `search.trials` says how many there are, so that more can be asked for, points can be
    enqueued, and another one can take the place of one that cannot work. The number of the others follows
    from their other settings."""
    draws: bool = True
    """Whether a sampler draws its points."""
    may_close: bool = True
    """Whether it may end with fewer trials than it makes."""
    brackets: Callable[[SearchSection], tuple[Bracket, ...]] | None = None
    """Lengths at which trials are compared, and some of them stopped; None where all train to their end.
    What compares needs a metric and the largest length."""
    rule: Callable[[SearchSection], Rule] = lambda search: "none"
    """What follows when a trial reaches one of these lengths."""
    has_interval: bool = False
    """Whether it compares at regular lengths, by `search.interval`."""
    explore: Callable[[SearchSection], Explore] | None = None
    """Settings by which it clones trials; None where it makes no clones."""

    @property
    def compares(self) -> bool:
        """Whether it stops trials before their end."""
        return self.brackets is not None


def method_of(name: Method) -> SearchMethod:
    return METHODS[name]


def full_length(search: SearchSection) -> int:
    """Return the training length of a search that compares by it."""
    full = search.max_length.units if search.max_length is not None else None
    assert full is not None, f"checked: {search.method} needs max_length"
    return full


def interval_or_default(search: SearchSection) -> int:
    """Return the distance of comparisons at regular lengths: by default there are ten of them."""
    return search.every or max(full_length(search) // 10, 1)


def _by_document(search: SearchSection, parameters: Parameters) -> int | None:
    return search.trials


def _of_grid(search: SearchSection, parameters: Parameters) -> int | None:
    return sampling.grid_size(parameters, [Constraint(text) for text in search.constraints])


def _asha(search: SearchSection) -> tuple[Bracket, ...]:
    assert search.trials is not None, "checked"
    return asha_brackets(
        full_length(search),
        divisor=search.divisor,
        max_rungs=search.rungs,
        trials=search.trials,
        breadth=search.brackets,
    )


def _hyperband(search: SearchSection) -> tuple[Bracket, ...]:
    return hyperband_brackets(full_length(search), divisor=search.divisor)


def _of_hyperband(search: SearchSection, parameters: Parameters) -> int:
    return sum(bracket.trials for bracket in _hyperband(search))


def _at_intervals(search: SearchSection) -> tuple[Bracket, ...]:
    assert search.trials is not None, "checked, or filled in"
    return (Bracket(trials=search.trials, rungs=_marks(search)),)


def _marks(search: SearchSection) -> tuple[int, ...]:
    full, interval = full_length(search), interval_or_default(search)
    return (*range(interval, full, interval), full)


def _explore(search: SearchSection) -> Explore:
    assert search.population is not None, "checked: a population has a size"
    return Explore(
        size=search.population,
        quantile=search.quantile,
        resample=search.resample,
        factors=search.factors,
        names=search.explore,
    )


def _of_population(search: SearchSection, parameters: Parameters) -> int:
    return _explore(search).num_trials(len(_marks(search)))


METHODS: dict[Method, SearchMethod] = {
    "single": SearchMethod(num_trials=lambda search, parameters: 1, draws=False),
    "grid": SearchMethod(num_trials=_of_grid, draws=False),
    "random": SearchMethod(num_trials=_by_document, is_counted_by_document=True),
    "asha": SearchMethod(
        num_trials=_by_document,
        is_counted_by_document=True,
        brackets=_asha,
        rule=lambda search: search.variant,
    ),
    "hyperband": SearchMethod(
        num_trials=_of_hyperband,
        may_close=False,
        brackets=_hyperband,
        rule=lambda search: "synchronous",
    ),
    "median": SearchMethod(
        num_trials=_by_document,
        is_counted_by_document=True,
        brackets=_at_intervals,
        rule=lambda search: "median",
        has_interval=True,
    ),
    "pbt": SearchMethod(
        num_trials=_of_population,
        may_close=False,
        brackets=_at_intervals,
        rule=lambda search: "population",
        has_interval=True,
        explore=_explore,
    ),
}
"""Every method, by its name in documents."""
COUNTED_BY_DOCUMENT = tuple(
    name for name, method in METHODS.items() if method.is_counted_by_document
)
