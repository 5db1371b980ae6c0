"""Experiments that start only after others have ended (`after` of the document), or not while their owner's account is
deactivated. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..messages import AnyMessage, Message
from ..states import TERMINAL_EXPERIMENT, ExperimentState

NUM_NAMED = 3
"""Experiments that a reason names; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class Dependency:
    """An experiment that another one waits for."""

    experiment_id: int
    when: Literal["success", "any"]
    state: ExperimentState | None
    """State of the experiment; None if it was deleted."""

    @property
    def is_met(self) -> bool:
        if self.when == "any":
            return self.state is None or self.state in TERMINAL_EXPERIMENT
        return self.state == ExperimentState.COMPLETED

    @property
    def is_lost(self) -> bool:
        """Whether it can never be met."""
        has_ended = self.state is None or self.state in TERMINAL_EXPERIMENT
        return has_ended and not self.is_met


@dataclass(frozen=True, kw_only=True)
class DependentExperiment:
    """An experiment that waits for others, or for its owner's account."""

    id: int
    dependencies: tuple[Dependency, ...] = ()
    deactivated_owner: str = ""
    """User name of its owner if it waits for that account alone."""
    told: frozenset[str] = frozenset()
    """Reasons in English that its waiting trials show."""


@dataclass(frozen=True, kw_only=True)
class ReleaseDependent:
    """All it waited for has happened."""

    experiment_id: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class CancelDependent:
    """What it waits for cannot happen any more."""

    experiment_id: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class TellDependent:
    """Its trials do not show what they wait for now."""

    experiment_id: int
    reason: Message


DependencyDecision = ReleaseDependent | CancelDependent | TellDependent


def decide_dependencies(waiting: Sequence[DependentExperiment]) -> list[DependencyDecision]:
    """Return what follows for each experiment from the states of those it waits for."""
    decisions: list[DependencyDecision] = []
    for experiment in waiting:
        if experiment.deactivated_owner:
            why = owner_deactivated(experiment.deactivated_owner)
            if experiment.told - {why.english}:
                decisions.append(TellDependent(experiment_id=experiment.id, reason=why))
            continue
        lost = why_never(experiment.dependencies)
        if lost is not None:
            decisions.append(CancelDependent(experiment_id=experiment.id, reason=lost))
            continue
        unmet = [d for d in experiment.dependencies if not d.is_met]
        if not unmet:
            numbers = [str(d.experiment_id) for d in experiment.dependencies]
            reason = f"what it waited for has ended: experiment {', '.join(numbers)}"
            decisions.append(ReleaseDependent(experiment_id=experiment.id, reason=reason))
            continue
        why = waiting_for(unmet)
        if experiment.told - {why.english}:
            decisions.append(TellDependent(experiment_id=experiment.id, reason=why))
    return decisions


def why_never(dependencies: Sequence[Dependency]) -> str | None:
    """Return why an experiment can never start, as a clause; None if it may."""
    for dependency in dependencies:
        if dependency.is_lost:
            state = "was deleted" if dependency.state is None else f"is {dependency.state}"
            return (
                f"experiment {dependency.experiment_id}, which must be COMPLETED first (`after`), "
                f"{state}"
            )
    return None


def owner_deactivated(owner: str) -> Message:
    """Return why trials wait whose owner has left: nobody would look at them, or answer for what they use."""
    reason = Message("pending.owner_deactivated", owner=owner)
    return Message("all.advised", reason=reason, advice=Message("help.owner_deactivated"))


def waiting_for(unmet: Sequence[Dependency]) -> Message:
    """Return why trials wait whose experiment starts after others."""
    named: list[AnyMessage] = [
        Message(
            "pending.after_success" if d.when == "success" else "pending.after_any",
            experiment=d.experiment_id,
            state=str(d.state),
        )
        for d in unmet[:NUM_NAMED]
    ]
    if len(unmet) > NUM_NAMED:
        named.append(Message("pending.more_experiments", num=len(unmet) - NUM_NAMED))
    reason = Message("pending.after", experiments=named)
    return Message("all.advised", reason=reason, advice=Message("help.by_itself"))
