"""What follows for an experiment from its trials and its searcher."""

from __future__ import annotations

from ..states import EXPERIMENT_TRANSITIONS, TERMINAL_EXPERIMENT, TERMINAL_TRIAL, Termination
from .actions import Action, SetExperiment, require_legal
from .views import ExperimentView


def decide_experiment(experiment: ExperimentView) -> tuple[Action, ...]:
    state = experiment.state
    if state in TERMINAL_EXPERIMENT:
        return ()
    num = experiment.num_by_state
    num_trials = sum(num.values())
    num_open = sum(n for s, n in num.items() if s not in TERMINAL_TRIAL)
    num_well = num.get("COMPLETED", 0) + num.get("STOPPED_EARLY", 0)
    num_paused = num.get("PAUSED", 0)
    over = experiment.search_finished and num_open == 0
    actions: list[Action] = []

    def go(after: str, reason: str, termination: Termination | None = None) -> None:
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
        if state != "STOPPING":
            go("STOPPING", experiment.exhausted_reason)
        # Nothing was lost to the budget if everything there was to do is done.
        if num_open == 0 and num_well == num_trials > 0 and num_trials == experiment.num_planned:
            go("COMPLETED", "it had finished by itself before its budget was used up")
        elif num_open == 0:
            go("CANCELED", experiment.exhausted_reason, Termination.BUDGET_EXHAUSTED)
        return tuple(actions)
    if experiment.desired in ("stop", "kill") and state != "STOPPING":
        go("STOPPING", "stop requested")
    if state == "PAUSED" and over:
        go("STOPPING", "all its trials were stopped")
    elif state == "PAUSED" and experiment.desired == "run":
        go("QUEUED", "resumed by a user")
    if state == "STOPPING":
        if num_open == 0 and over and num_well == num_trials > 0:
            go("COMPLETED", "it had finished by itself before the stop took effect")
        elif num_open == 0:
            go("CANCELED", "stopped; nothing of it runs any more")
        return tuple(actions)
    if state == "QUEUED":
        if num_trials == 0 and experiment.search_finished:
            go("FAILED", "the searcher could not create a single trial")
        elif num_trials > num.get("QUEUED", 0) + num_paused:
            go("RUNNING", "its first trial started")
    if state == "RUNNING" and over:
        if num_well and experiment.unjudged:
            go("FAILED", experiment.unjudged)
        elif num_well:
            go("COMPLETED", "every trial has ended")
        elif num.get("FAILED", 0):
            why = experiment.unjudged or experiment.failure
            go("FAILED", why or "no trial ended well and no restart is left")
        else:
            go("STOPPING", "all its trials were stopped")
            go("CANCELED", "all its trials were stopped")
    # Only what is left open counts: a search goes on with trials that do not exist yet.
    if state in ("QUEUED", "RUNNING") and experiment.desired == "pause" and num_paused == num_open:
        go("PAUSED", "paused by a user; nothing of it runs")
    return tuple(actions)
