"""How an experiment ends whose budget is used up."""

from __future__ import annotations

import pytest

from muster_server.domain.lifecycle import ExperimentView
from muster_server.domain.lifecycle.experiments import decide_experiment
from muster_server.domain.states import Termination

WHY = "its budget of 1 slot-hours is used up: 1.2 slot-hours spent"


def view(state, *, planned=4, **num_by_state):
    return ExperimentView(
        id=1, state=state, exhausted_reason=WHY, search_finished=True,
        num_planned=planned, num_by_state=num_by_state,
    )  # fmt: skip


@pytest.mark.parametrize("state", ["QUEUED", "RUNNING", "PAUSED"])
def test_it_is_stopping_while_something_of_it_runs(state):
    (action,) = decide_experiment(view(state, RUNNING=1, COMPLETED=2))
    assert (action.after, action.reason, action.termination) == ("STOPPING", WHY, None)


@pytest.mark.parametrize("trials", [{"CANCELED": 1}, {"COMPLETED": 2, "CANCELED": 1}, {}])
def test_it_ends_canceled_with_the_sentence_of_its_budget(trials):
    action = decide_experiment(view("STOPPING", **trials))[-1]
    assert (action.after, action.reason) == ("CANCELED", WHY)
    assert action.termination is Termination.BUDGET_EXHAUSTED


def test_a_search_that_was_cut_short_is_not_completed_by_its_trials():
    (action,) = decide_experiment(view("STOPPING", COMPLETED=3))
    assert action.after == "CANCELED"


def test_what_had_finished_by_itself_is_completed():
    (action,) = decide_experiment(view("STOPPING", COMPLETED=3, STOPPED_EARLY=1))
    assert (action.after, action.termination) == ("COMPLETED", None)


def test_nothing_follows_for_what_has_ended():
    assert decide_experiment(view("CANCELED", CANCELED=1)) == ()
