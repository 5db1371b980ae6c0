"""What guards would have done."""

from __future__ import annotations

from pydantic import Field

from .base import Input, Output, SafeStr, WireFloat


class TryGuardsIn(Input):
    guards: SafeStr | None = Field(default=None, max_length=262_144)
    """Guards as YAML or JSON: a list, or a document with `guards`. By default those of the trial."""


class GuardFiringOut(Output):
    attempt_no: int
    step: int
    value: WireFloat
    limit: WireFloat | None
    """What the value was compared with; null for values that are not finite."""
    before_step: int | None
    """A rollback would have gone to a checkpoint below this step; null if none was certain to be from
    before the trouble."""
    text: str


class GuardTrialOut(Output):
    guard: int
    """Number of the guard, from 1 on."""
    explanation: str
    """What the guard does, in one sentence."""
    text: str
    """What it would have done."""
    num_values: int
    """Number of values that were read."""
    is_cut: bool
    """Whether the trial has more values than were read."""
    firings: list[GuardFiringOut]
    """Where it would have acted, at most 20."""


class TryGuardsOut(Output):
    items: list[GuardTrialOut]
