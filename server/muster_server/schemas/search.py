"""Results of a search, for charts over all of its trials."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output, WireFloat


class ParameterOut(Output):
    name: str
    """Dotted path of the parameter."""
    kind: Literal["number", "choice"]
    log: bool
    """Whether values are drawn evenly in the logarithm."""
    choices: list[str]
    """Choices as text, in the document's order; empty for numbers."""


class ObjectiveOut(Output):
    metric: str
    goal: str
    values: list[WireFloat | None]
    """Last value in each trial; null if the trial has not reported it."""


class SearchResultsOut(Output):
    """Results as columns over all trials, in order of trial number."""

    metric_name: str | None
    metric_goal: str | None
    parameters: list[ParameterOut]
    """Searched parameters; constants are left out."""
    id: list[int]
    no: list[int]
    state: list[str]
    metric: list[WireFloat | None]
    """Best value so far."""
    step: list[int]
    epoch: list[float | None]
    """Length trained so far; null if no epoch was reported."""
    started_at: list[dt.datetime | None]
    ended_at: list[dt.datetime | None]
    parent_no: list[int | None]
    """Number of the trial that it is a clone of."""
    generation: list[int]
    """Number of rungs its ancestors had passed when it was cloned; 0 if it is not a clone."""
    objectives: list[ObjectiveOut]
    """Objectives; empty if there is only one metric."""
    front: list[int]
    """Indices, ascending, of the trials that no other trial beats in all objectives. Only trials
    that ended well take part."""
    values: list[list[float | str | None]]
    """Value of each parameter in each trial; null if the trial does not have the parameter."""


class ImportanceOut(Output):
    num_trials: int
    """Number of trials behind the result."""
    min_trials: int
    shares: dict[str, float] | None
    """Importances, largest first, summing to 1; null if there are too few trials or nothing
    varies."""
