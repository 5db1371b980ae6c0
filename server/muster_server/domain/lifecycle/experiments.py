"""What follows for an experiment from its trials and its searcher."""

from __future__ import annotations

from collections.abc import Iterator

from ..states import (
    EXPERIMENT_TRANSITIONS,
    TERMINAL_EXPERIMENT,
    TERMINAL_TRIAL,
    ExperimentState,
    Termination,
    TrialState,
)
from .actions import Action, SetExperiment, require_legal
from .views import ExperimentView


def decide_experiment(experiment: ExperimentView) -> tuple[Action, ...]:
    state = experiment.state
    if state in TERMINAL_EXPERIMENT:
        return ()
    num = experiment.num_by_state
    num_trials = sum(num.values())
    num_open = sum(n for s, n in num.items() if s not in TERMINAL_TRIAL)
    num_well = num.get(TrialState.COMPLETED, 0) + num.get(TrialState.STOPPED_EARLY, 0)
    num_paused = num.get(TrialState.PAUSED, 0)
    over = experiment.search_finished and num_open == 0
    actions: list[Action] = []

    def go(after: ExperimentState, reason: str, termination: Termination | None = None) -> None:
        nonlocal state
        require_legal(EXPERIMENT_TRANSITIONS, state, after, f"experiment {experiment.id}")
        actions.append(
            SetExperiment(
                experiment_id=experiment.id,
                before=state,
                after=after,
                reason=reason,
                termination=termination,
            )
        )
        state = after

    if experiment.exhausted_reason:
        if state != ExperimentState.STOPPING:
            go(ExperimentState.STOPPING, experiment.exhausted_reason)
        # The budget cost nothing if all the work is done.
        if num_open == 0 and num_well == num_trials > 0 and num_trials == experiment.num_planned:
            go(ExperimentState.COMPLETED, "it had finished by itself before its budget was used up")
        elif num_open == 0:
            go(ExperimentState.CANCELED, experiment.exhausted_reason, Termination.BUDGET_EXHAUSTED)
        return tuple(actions)
    if experiment.desired in ("stop", "kill") and state != ExperimentState.STOPPING:
        go(ExperimentState.STOPPING, experiment.stop_reason or "stop requested")
    if state == ExperimentState.PAUSED and over:
        go(ExperimentState.STOPPING, "all its trials were stopped")
    elif state == ExperimentState.PAUSED and experiment.desired == "run":
        go(ExperimentState.QUEUED, "resumed by a user")
    if state == ExperimentState.STOPPING:
        if num_open == 0 and over and num_well == num_trials > 0:
            go(ExperimentState.COMPLETED, "it had finished by itself before the stop took effect")
        elif num_open == 0:
            why = experiment.stop_reason or "stopped; nothing of it runs any more"
            go(ExperimentState.CANCELED, why)
        return tuple(actions)
    if state == ExperimentState.QUEUED:
        if num_trials == 0 and experiment.search_finished:
            go(ExperimentState.FAILED, "the searcher could not create a single trial")
        elif num_trials > num.get(TrialState.QUEUED, 0) + num_paused:
            go(ExperimentState.RUNNING, "its first trial started")
    if state == ExperimentState.RUNNING and over:
        for step in _ends(experiment, num_trials=num_trials, num_well=num_well):
            go(*step)
    # Only open trials count: a search goes on with trials that do not exist yet.
    if (
        state in (ExperimentState.QUEUED, ExperimentState.RUNNING)
        and experiment.desired == "pause"
        and num_paused == num_open
    ):
        go(ExperimentState.PAUSED, "paused by a user; nothing of it runs")
    return tuple(actions)


def _ends(
    experiment: ExperimentView, *, num_trials: int, num_well: int
) -> Iterator[tuple[ExperimentState, str, Termination | None]]:
    """Yield the states in which a running experiment ends whose trials have all ended."""
    has_failed = experiment.num_by_state.get(TrialState.FAILED, 0) > 0
    num_elements = max(experiment.num_planned or 0, num_trials)
    if experiment.is_array and num_well < num_elements:
        why = f"{num_well} of {num_elements} elements of the array ended well"
        if has_failed:
            yield ExperimentState.FAILED, f"{why}; {experiment.failure}", None
        else:
            yield ExperimentState.STOPPING, why, None
            yield ExperimentState.CANCELED, why, None
    elif num_well and experiment.unjudged:
        yield ExperimentState.FAILED, experiment.unjudged, None
    elif num_well:
        yield ExperimentState.COMPLETED, experiment.doubt or "every trial has ended", None
    elif has_failed:
        why = experiment.unjudged or experiment.failure
        yield ExperimentState.FAILED, why or "no trial ended well and no restart is left", None
    else:
        why = experiment.time_limit or "all its trials were stopped"
        yield ExperimentState.STOPPING, why, None
        termination = Termination.TIME_LIMIT if experiment.time_limit else None
        yield ExperimentState.CANCELED, why, termination
