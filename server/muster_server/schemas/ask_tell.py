"""Searches driven from outside: ask for trials, tell their results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Input, Output, SafeStr, WireFloat

Decision = Literal["continue", "pause", "stop", "over"]


class PointOut(Output):
    """A point that was enqueued, and the trial that tries it."""

    point: str
    trial_id: int | None
    """ID of the trial; null while the point waits for room."""
    trial_no: int | None
    state: str | None
    metric: WireFloat | None
    """Best value so far."""
    reason: str


class AskIn(Input):
    count: Annotated[int, Field(ge=1, le=100)] = 1
    """Maximum number of trials to return."""
    by: Annotated[SafeStr, Field(max_length=200)] = ""
    """Name of whoever runs the trials, for people to read."""


class AskedTrial(Output):
    """A trial to run outside Muster."""

    trial_id: int
    no: int
    hparams: dict[str, Any]
    seed: int
    units: float
    """Length told so far; above 0 for a trial that continues after a pause."""
    max_units: int | None
    """Full training length; null if the search has none and you decide."""
    unit: str | None
    marks: list[int]
    """Lengths at which the trial may be stopped or paused: tell the metric at least there."""


class AskOut(Output):
    trials: list[AskedTrial]
    is_over: bool
    """Whether no further trial will come, however often you ask."""
    reason: str
    """Why there are no trials; empty if there are some."""


class TellIn(Input):
    """State of a trial that runs outside Muster."""

    no: Annotated[int, Field(ge=1, lt=2**31)]
    """The trial's number in its experiment."""
    metrics: Annotated[
        dict[
            Annotated[SafeStr, Field(min_length=1, max_length=200)],
            float | Literal["NaN", "Infinity", "-Infinity"],
        ],
        Field(max_length=1_000),
    ] = {}
    """Values now, by name."""
    units: Annotated[float, Field(ge=0, le=2**53)] | None = None
    """Length trained so far, in the unit of `search.max_length`. Required with `values` if the
    search has that setting."""
    state: Literal["running", "completed", "failed", "invalid"] = "running"
    """State of the trial; `invalid` means that its hyperparameters cannot work."""
    reason: Annotated[SafeStr, Field(max_length=2_000)] = ""
    """Reason for a failure, in a sentence."""


class TellOut(Output):
    """What to do with the trial now."""

    decision: Decision
    """continue; pause: keep a checkpoint, it may be handed out again; stop: it is behind, or was
    stopped; over: it had ended before, and nothing changed."""
    reason: str
    state: str
    hint: str = ""
    """Hint if the trial was never told the search metric: the metric's name and the most similar
    name that was told. Empty otherwise."""
