"""A search that goes on after its end."""

from __future__ import annotations

import dataclasses
import json

import pytest

from muster_server.domain.search import (
    ContinueTrial,
    CreateTrial,
    Finish,
    Searcher,
    SearchSpec,
    Started,
    TrialEnded,
    Validated,
)
from support import search_specs

SPACE = {"lr": {"log": [1e-4, 1e-1]}}
RANDOM = SearchSpec(method="random", space=SPACE, seed=0, trials=4, concurrent=2)


def kinds(actions):
    return [(type(a).__name__, getattr(a, "no", None)) for a in actions]


def again(searcher):
    """After a journey through the database."""
    return Searcher.from_state(json.loads(json.dumps(searcher.state())))


def test_a_closed_search_goes_on_with_what_was_stopped_and_what_was_never_created():
    searcher = Searcher(RANDOM)
    searcher.apply(Started())
    searcher.apply(TrialEnded(trial_no=1, outcome="completed"))
    searcher.close("stopped by ada")
    searcher = again(searcher)
    assert searcher.unfinished == {2, 3}
    assert kinds(searcher.reopen(RANDOM, [2, 3])) == [("ContinueTrial", 2), ("ContinueTrial", 3)]
    assert not searcher.is_finished
    (created,) = searcher.apply(TrialEnded(trial_no=2, outcome="completed"))
    assert isinstance(created, CreateTrial)
    assert created.no == 4
    searcher.apply(TrialEnded(trial_no=3, outcome="completed"))
    (finish,) = searcher.apply(TrialEnded(trial_no=4, outcome="completed"))
    assert isinstance(finish, Finish)


def test_no_more_go_on_at_once_than_may_run_and_the_rest_survives_a_restart():
    searcher = Searcher(dataclasses.replace(RANDOM, trials=5, concurrent=5))
    searcher.apply(Started())
    for no in range(1, 6):
        searcher.apply(TrialEnded(trial_no=no, outcome="failed"))
    narrow = dataclasses.replace(RANDOM, trials=5, concurrent=2)
    assert kinds(searcher.reopen(narrow, [5, 1, 3])) == [("ContinueTrial", 1), ("ContinueTrial", 3)]
    searcher = again(searcher)
    (third,) = searcher.apply(TrialEnded(trial_no=1, outcome="completed"))
    assert isinstance(third, ContinueTrial)
    assert third.no == 5
    assert searcher.apply(TrialEnded(trial_no=3, outcome="completed")) == []
    (finish,) = searcher.apply(TrialEnded(trial_no=5, outcome="completed"))
    assert isinstance(finish, Finish)


def test_a_trial_goes_on_at_the_rung_after_the_last_it_reached():
    spec = search_specs.asha(space=SPACE, trials=3, max_units=9, divisor=3, concurrent=3)
    assert spec.rungs == (3, 9)
    searcher = Searcher(spec)
    searcher.apply(Started())
    for no in (1, 2, 3):
        searcher.apply(Validated(trial_no=no, units=3, value=float(no)))
    searcher.close("stopped by ada")
    searcher = again(searcher)
    searcher.reopen(spec, [1])
    searcher.apply(Validated(trial_no=1, units=3, value=0.5))
    assert [(e.trial_no, e.value) for e in searcher.rungs[0]] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    searcher.apply(Validated(trial_no=1, units=9, value=0.4))
    assert [e.trial_no for e in searcher.rungs[1]] == [1], "a rung counts a trial once"


def test_a_state_from_before_is_read():
    searcher = Searcher(RANDOM)
    searcher.apply(Started())
    state = searcher.state()
    del state["again"]
    assert Searcher.from_state(state).state() == searcher.state()


@pytest.mark.parametrize("trials", [4, 6])
def test_more_trials_may_be_given(trials):
    searcher = Searcher(RANDOM)
    searcher.apply(Started())
    for no in range(1, 5):
        searcher.apply(TrialEnded(trial_no=no, outcome="completed"))
    assert searcher.is_finished
    actions = searcher.reopen(dataclasses.replace(RANDOM, trials=trials), [])
    created = [a.no for a in actions if isinstance(a, CreateTrial)]
    assert created == list(range(5, trials + 1))
