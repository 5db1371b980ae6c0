"""Results of a search, for charts over all of its trials."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output, WireFloat


class ParameterOut(Output):
    name: str
    """Dotted path."""
    kind: Literal["number", "choice"]
    log: bool
    """Drawn evenly in the logarithm."""
    choices: list[str]
    """As text, in the document's order; empty for numbers."""


class ObjectiveOut(Output):
    metric: str
    goal: str
    values: list[WireFloat | None]
    """Last value in each trial; null: not reported."""


class SearchResultsOut(Output):
    """Columns over all trials, in order of trial number."""

    metric_name: str | None
    metric_goal: str | None
    parameters: list[ParameterOut]
    """The searched ones; constants are left out."""
    id: list[int]
    no: list[int]
    state: list[str]
    metric: list[WireFloat | None]
    """Best value so far."""
    step: list[int]
    epoch: list[float | None]
    """Trained so far; null where no epoch was reported."""
    started_at: list[dt.datetime | None]
    ended_at: list[dt.datetime | None]
    parent_no: list[int | None]
    """The trial it is a clone of, by number."""
    generation: list[int]
    """How many rungs its ancestors had passed when it was cloned; 0: it is no clone."""
    objectives: list[ObjectiveOut]
    """Empty where there is one metric."""
    front: list[int]
    """Indices of the trials that no other one beats in all objectives, ascending. Trials that have
    ended well take part."""
    values: list[list[float | str | None]]
    """Per parameter, its value in each trial; null where it is not there."""


class ImportanceOut(Output):
    num_trials: int
    """Trials with a value it was computed from."""
    min_trials: int
    shares: dict[str, float] | None
    """Most important first, summing to 1; null: too few trials, or nothing differs."""
