"""What stops trials early: the methods of Muster.

All get the same trials in the same order, `WORKERS` at a time at the same speed, and hear of every unit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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


Play = Callable[[int, int, Reach], None]
"""(length, trials that the budget could begin, reach)"""


def _searcher(rule: Rule) -> Play:
    return partial(muster, rule)


RULES: dict[str, Play] = {
    "Muster random": _searcher("none"),
    "Muster ASHA, stopping": _searcher("stopping"),
    "Muster ASHA, promotion": _searcher("promotion"),
    "Muster Hyperband": _searcher("synchronous"),
    "Muster median": _searcher("median"),
}
