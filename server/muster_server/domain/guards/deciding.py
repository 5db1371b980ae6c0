"""What the guards of one trial see in the values that have come since they looked last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.document.guards import GuardSection

from .judging import Firing, GuardState, GuardValue, judge, judge_silence


@dataclass(frozen=True, kw_only=True)
class TrialGuards:
    """A trial with guards, and what is new for each of them."""

    trial_id: int
    attempt_no: int
    """The current attempt."""
    version: int
    """Version of the stored states."""
    guards: tuple[GuardSection, ...]
    states: tuple[GuardState, ...]
    points: tuple[Sequence[GuardValue], ...]
    """New values by guard, in order."""
    step: int
    """Last step that was reported."""
    quiet_s: float | None
    """Seconds since the attempt made its last step; None if it does not run, or is not heard."""
    is_starting: bool = False
    """It has made no step yet."""


@dataclass(frozen=True, kw_only=True)
class GuardDecision:
    """What to store and to do for a trial. It holds for the attempt and the version of `of` only."""

    of: TrialGuards
    states: tuple[GuardState, ...]
    firings: tuple[tuple[int, Firing], ...]
    """(index of the guard, why), in the order in which they happened."""

    @property
    def reason(self) -> str:
        said = (f"guard {no + 1}: {firing.reason.english}" for no, firing in self.firings)
        return "; ".join(said) or "its values are normal"


def decide(trial: TrialGuards) -> GuardDecision | None:
    """Return what follows for a trial; None if there is nothing new."""
    states: list[GuardState] = []
    firings: list[tuple[int, Firing]] = []
    for no, (guard, before, points) in enumerate(
        zip(trial.guards, trial.states, trial.points, strict=True)
    ):
        state, found = judge(guard, before, points)
        if guard.no_step_for_min is not None and trial.quiet_s is not None:
            state, firing = judge_silence(
                guard,
                before,
                attempt_no=trial.attempt_no,
                step=trial.step,
                quiet_s=trial.quiet_s,
                is_starting=trial.is_starting,
            )
            found = [firing] if firing is not None else []
        states.append(state)
        firings += [(no, firing) for firing in found]
    if tuple(states) == trial.states:
        return None
    firings.sort(key=lambda one: (one[1].attempt_no, one[1].step, one[0]))
    return GuardDecision(of=trial, states=tuple(states), firings=tuple(firings))
