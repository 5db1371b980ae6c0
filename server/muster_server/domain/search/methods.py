"""The methods of search: how each is called, what it needs, how many trials it makes, and where it
compares them.

Everything that depends on the method of a search asks here; nothing else compares names of methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from muster.document.searching import Method, SearchSection
from muster_server.domain.localized_text import LocalizedText

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

    title: LocalizedText
    """What pages and lists call it."""
    summary: LocalizedText
    """What it does, in one sentence."""
    settings: tuple[str, ...] = ()
    """Settings of the search section that are for it and have no effect without it."""
    is_search: bool = True
    """Whether it is a search at all, and not one trial."""
    walks_grid: bool = False
    """Whether it takes the points of the grid in their order, each once."""
    num_trials: Callable[[SearchSection, Parameters], int | None]
    """Number of trials it makes; None where the document must say it and does not."""
    is_counted_by_document: bool = False
    """Whether `search.trials` says how many there are, so that more can be asked for, points can be
    enqueued, and another one can take the place of one that cannot work. The number of the others follows
    from their other settings."""
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
    def draws(self) -> bool:
        """Whether a sampler draws its points."""
        return self.is_search and not self.walks_grid

    @property
    def compares(self) -> bool:
        """Whether it stops trials before their end."""
        return self.brackets is not None

    @property
    def has_rungs(self) -> bool:
        """Whether it compares at rungs that follow from the largest length, which then stays."""
        return self.compares and not self.has_interval

    @property
    def may_grow(self) -> bool:
        """Whether more trials can be asked for of a search that has ended."""
        return self.is_counted_by_document and not self.compares

    @property
    def needs(self) -> tuple[str, ...]:
        """Settings of the search section without which it is refused."""
        needed = {
            "metric": self.compares,
            "max_length": self.compares,
            "trials": self.is_counted_by_document,
            "population": self.explore is not None,
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)


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
    "single": SearchMethod(
        title=LocalizedText("Single trial", "单个试验"),
        summary=LocalizedText("One trial, without a search.", "只有一个试验，不进行搜索。"),
        num_trials=lambda search, parameters: 1,
        is_search=False,
    ),
    "grid": SearchMethod(
        title=LocalizedText("Grid", "网格搜索"),
        summary=LocalizedText(
            "Every combination of the values once, to its end.", "每种取值组合训练一次，直到结束。"
        ),
        num_trials=_of_grid,
        walks_grid=True,
    ),
    "random": SearchMethod(
        title=LocalizedText("Random", "随机搜索"),
        summary=LocalizedText(
            "Drawn points, each trained to its end.", "抽取若干点，每个试验都训练到结束。"
        ),
        num_trials=_by_document,
        is_counted_by_document=True,
    ),
    "asha": SearchMethod(
        title=LocalizedText("ASHA", "ASHA 搜索"),
        summary=LocalizedText(
            "Trials that are behind when they reach a rung stop, or wait there.",
            "到达梯级时落后的试验会停止，或在该处等待。",
        ),
        settings=("variant", "brackets", "divisor", "rungs"),
        num_trials=_by_document,
        is_counted_by_document=True,
        brackets=_asha,
        rule=lambda search: search.variant,
    ),
    "hyperband": SearchMethod(
        title=LocalizedText("Hyperband", "Hyperband 搜索"),
        summary=LocalizedText(
            "Several brackets of successive halving, in which all trials wait for each other.",
            "多组逐次减半，同组的试验互相等待。",
        ),
        settings=("divisor",),
        num_trials=_of_hyperband,
        may_close=False,
        brackets=_hyperband,
        rule=lambda search: "synchronous",
    ),
    "median": SearchMethod(
        title=LocalizedText("Median stopping", "中位数停止"),
        summary=LocalizedText(
            "Trials worse than the median of the others stop.", "差于其他试验中位数的试验会停止。"
        ),
        settings=("interval",),
        num_trials=_by_document,
        is_counted_by_document=True,
        brackets=_at_intervals,
        rule=lambda search: "median",
        has_interval=True,
    ),
    "pbt": SearchMethod(
        title=LocalizedText("PBT", "种群训练"),
        summary=LocalizedText(
            "A population of which the worst are replaced by changed clones of the best.",
            "种群中最差的试验会被最佳试验的变异副本取代。",
        ),
        settings=("interval", "population", "quantile", "resample", "factors", "explore"),
        num_trials=_of_population,
        may_close=False,
        brackets=_at_intervals,
        rule=lambda search: "population",
        has_interval=True,
        explore=_explore,
    ),
}
"""Every method, by its name in documents."""


def names_of(is_one: Callable[[SearchMethod], bool]) -> list[Method]:
    """Return the names of the methods that fulfil a condition, in the order of documents."""
    return [name for name, method in METHODS.items() if is_one(method)]
