"""A search that is driven from outside: points in, trials out, results back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Input, Output, SafeStr, WireFloat

Decision = Literal["continue", "pause", "stop", "over"]


class PointOut(Output):
    """A point that somebody enqueued, and the trial that tries it."""

    point: str
    trial_id: int | None
    """Null: it waits for room."""
    trial_no: int | None
    state: str | None
    metric: WireFloat | None
    """Best value so far."""
    reason: str


class AskIn(Input):
    count: Annotated[int, Field(ge=1, le=100)] = 1
    """Trials to hand out at most."""
    by: Annotated[SafeStr, Field(max_length=200)] = ""
    """Who will run them, for people to read."""


class AskedTrial(Output):
    """A trial to be run outside."""

    trial_id: int
    no: int
    hparams: dict[str, Any]
    seed: int
    units: float
    """Told of so far: above 0 for one that goes on from where it was paused."""
    max_units: int | None
    """Full training length; null: whatever you think is enough."""
    unit: str | None
    marks: list[int]
    """Lengths at which it may be stopped or paused: tell the metric there at least."""


class AskOut(Output):
    trials: list[AskedTrial]
    is_over: bool
    """No further trial will come, however often you ask."""
    reason: str
    """Why there are none, where there are none."""


class TellIn(Input):
    """What a trial that runs outside has come to."""

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
    """Trained so far, in the unit of `search.max_length`. Needed with values where there is one."""
    state: Literal["running", "completed", "failed", "invalid"] = "running"
    """invalid: its hyperparameters cannot work."""
    reason: Annotated[SafeStr, Field(max_length=2_000)] = ""
    """Of a failure, in a sentence."""


class TellOut(Output):
    """What to do now."""

    decision: Decision
    """continue; pause: keep a checkpoint, it may be handed out again; stop: it is behind, or was
    stopped; over: it had ended before, and nothing changed."""
    reason: str
    state: str
    hint: str = ""
    """Where the trial has not been told a value of what the search compares by: its name, and the
    nearest one that was told. "" otherwise."""
