"""What a search is, complete."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from muster.document.searching import Goal, Method, SamplerName, Unit

from .methods import Rule, method_of
from .population import Explore
from .rungs import Bracket

PROGRESS: dict[Unit, str] = {"samples": "progress/samples", "seconds": "progress/seconds"}
"""Unit → the metric that says how far a trial is, for those no report carries beside its values."""
CARRIERS: dict[Unit, str] = {**PROGRESS, "epochs": "epoch"}
"""PROGRESS and the metric that counts where a report does not say its epoch."""
EXACT: tuple[Unit, ...] = ("steps", "epochs")
"""Lengths that a training hits exactly; the first report of the others is a little past it."""
LOOK_AHEAD = 1
"""Trials beyond those that fit: slots that become free never wait for the searcher."""
FOLLOWED_MAX = 256
"""Trials at once of a search that goes by the room there is."""

LEARNING: tuple[SamplerName, ...] = ("tpe", "cmaes", "gp", "nsga2")
"""Samplers that model what is known."""


@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """What a search is: the state carries it, so that no later change alters a decision."""

    method: Method
    space: dict[str, Any]
    seed: int
    trials: int
    """How many it creates in all (grid: the number of points)."""
    concurrent: int | None
    """Maximum number of trials alive in parallel; None for as many as there is room for."""
    metric: str | None = None
    goal: Goal = "min"
    unit: Unit | None = None
    max_units: int | None = None
    divisor: int = 4
    brackets: tuple[Bracket, ...] = ()
    """Empty where no trial is judged before its end."""
    rule: Rule = "none"
    sampler: SamplerName = "random"
    constraints: tuple[str, ...] = ()
    """Expressions that hold for every point it draws."""
    target: float | None = None
    """The search ends when a trial reports this or better."""
    patience: int | None = None
    """The search ends when this many trials in a row have ended without a better value."""
    max_failures: int | None = None
    """The search ends when this many trials in a row have failed."""
    independent: bool = False
    """Whether its trials have nothing to do with each other, so that the first of them failing alike
    says nothing about the others."""
    max_invalid: int = 10
    """Maximum number of trials with invalid hyperparameters that are replaced by others."""
    min_trials: int = 3
    """Number of other trials that must have reached a rung before one is stopped there (method
    `median`)."""

    objectives: tuple[tuple[str, Goal], ...] = ()
    """(metric, goal) of each, where there are several; `metric` is the first of them."""
    explore: Explore | None = None
    """Settings by which a population renews itself; None for other rules."""

    @property
    def learns(self) -> bool:
        """Whether its points come from a model of what is known."""
        return self.sampler in LEARNING and not method_of(self.method).walks_grid

    @property
    def replaces(self) -> bool:
        """Whether another point may take the place of one that cannot work.

        A grid has no others, brackets and populations are counted out, and points of a program
        outside are its own business.
        """
        return method_of(self.method).is_counted_by_document and self.sampler != "external"

    @property
    def has_fixed_trials(self) -> bool:
        """Whether the number of trials follows from the document, and stays."""
        return not method_of(self.method).is_counted_by_document or len(self.brackets) > 1

    @property
    def rungs(self) -> tuple[int, ...]:
        """Units of every rung, bracket after bracket."""
        return tuple(units for bracket in self.brackets for units in bracket.rungs)

    @property
    def marks(self) -> tuple[int, ...]:
        """Units at which the searcher wants to hear of a trial, ascending."""
        return tuple(sorted(set(self.rungs)))

    def at_once(self, room: int) -> int:
        """Return the maximum number of trials alive, without those resting at a rung; at least 1.

        room: number of trials that fit into slots that are free or held by this search, ≥ 0.
        """
        if self.concurrent is not None:
            return self.concurrent
        return min(max(room, 1) + LOOK_AHEAD, FOLLOWED_MAX)

    def to_json(self) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "brackets": [[b.trials, list(b.rungs)] for b in self.brackets],
            "constraints": list(self.constraints),
            "objectives": [list(objective) for objective in self.objectives],
            "explore": None if self.explore is None else _explore_to_json(self.explore),
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> SearchSpec:
        """Return the spec behind `to_json`, and of states stored before there were brackets."""
        fields = dict(plain)
        if "rungs" in fields:
            rungs = tuple(fields.pop("rungs"))
            fields["brackets"] = [[fields["trials"], rungs]] if rungs else []
            fields["rule"] = "stopping" if rungs else "none"
        brackets = tuple(Bracket(trials=n, rungs=tuple(rungs)) for n, rungs in fields["brackets"])
        constraints = tuple(fields.get("constraints", ()))
        fields["objectives"] = tuple((name, goal) for name, goal in fields.get("objectives", ()))
        if (explore := fields.get("explore")) is not None:
            names = explore["names"]
            fields["explore"] = Explore(
                size=explore["size"],
                quantile=explore["quantile"],
                resample=explore["resample"],
                factors=tuple(explore["factors"]),
                names=None if names is None else tuple(names),
            )
        return cls(**{**fields, "brackets": brackets, "constraints": constraints})


def _explore_to_json(explore: Explore) -> dict[str, Any]:
    names = explore.names
    return {
        **dataclasses.asdict(explore),
        "factors": list(explore.factors),
        "names": None if names is None else list(names),
    }
