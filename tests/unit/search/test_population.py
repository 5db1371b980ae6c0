"""Population based training: counts, lineage, perturbation, and any history with crashes in it."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.search import (
    Action,
    CreateTrial,
    PauseTrial,
    Rested,
    ResumeTrial,
    Searcher,
    SearchSpec,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    sampling,
)
from muster_server.domain.search.constraints import Constraint
from muster_server.domain.search.population import Explore, copied, perturb
from muster_server.domain.search.simulate import simulate
from support import search_specs

SPACE = {"lr": {"log": [1e-4, 1e-1]}}


def pbt(size: int = 4, **changes: Any) -> SearchSpec:
    given: dict[str, Any] = {"space": SPACE, "max_units": 4, "interval": 2, "seed": 7}
    return search_specs.pbt(**{**given, "explore": Explore(size=size), **changes})


def played_to_rung(spec: SearchSpec, values: list[float]) -> Searcher:
    """Every member has reported at the first rung; none rests yet."""
    searcher = Searcher(spec)
    searcher.apply(Started())
    for no, value in enumerate(values, start=1):
        searcher.apply(Validated(trial_no=no, units=2, value=value))
    return searcher


def rest(searcher: Searcher, *nos: int) -> list[Action]:
    return [a for no in nos for a in searcher.apply(Rested(trial_no=no, checkpoint_id=100 + no))]


# ---------------------------------------------------------------- counts


@pytest.mark.parametrize(
    ("members", "quarter", "fifth"),
    [(1, 0, 0), (2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 2, 1), (8, 2, 2), (10, 3, 2), (16, 4, 4)],
)
def test_a_share_of_the_members_is_rounded_up_and_never_more_than_half(
    members: int, quarter: int, fifth: int
) -> None:
    assert Explore(size=8, quantile=0.25).num_replaced(members) == quarter
    assert Explore(size=8, quantile=0.2).num_replaced(members) == fifth


@pytest.mark.parametrize("concurrent", [8, 3, 1])
def test_eight_members_of_ten_generations_make_eighteen_clones_however_many_run_at_once(
    concurrent: int,
) -> None:
    spec = pbt(8, max_units=100, interval=10, concurrent=concurrent)
    played = simulate(spec, lambda _no, h, _u: abs(h["lr"] - 0.01))
    assert len(played.parents) == 18
    assert spec.trials == 26
    assert played.per_rung == [8] * 10
    # What a clone takes over is not trained again.
    assert played.total_units == 800
    assert played.most_live == concurrent
    everybody_at_once = simulate(
        pbt(8, max_units=100, interval=10), lambda _no, h, _u: abs(h["lr"] - 0.01)
    )
    assert played.parents == everybody_at_once.parents


# ---------------------------------------------------------------- exploit


def test_the_worst_is_stopped_and_a_clone_of_the_best_takes_its_place() -> None:
    searcher = played_to_rung(pbt(), [0.3, 0.1, 0.4, 0.2])
    assert rest(searcher, 1, 2, 3) == []
    (stop, clone, *resumed) = rest(searcher, 4)
    assert isinstance(stop, StopTrial)
    assert stop.no == 3
    assert "among the worst 1 of 4: a clone of trial 2" in stop.reason
    assert isinstance(clone, CreateTrial)
    assert (clone.no, clone.parent_no, clone.checkpoint_id, clone.generation) == (5, 2, 102, 1)
    assert clone.max_units == 4
    # Those who stay go on from their own checkpoints, the best first.
    assert [(type(a), getattr(a, "no", 0)) for a in resumed] == [
        (ResumeTrial, 2),
        (ResumeTrial, 4),
        (ResumeTrial, 1),
    ]


def test_nobody_is_cloned_who_has_no_checkpoint() -> None:
    searcher = played_to_rung(pbt(), [0.3, 0.1, 0.4, 0.2])
    rest(searcher, 1, 3, 4)
    actions = searcher.apply(Rested(trial_no=2, checkpoint_id=None))
    assert {type(a) for a in actions} == {ResumeTrial}
    assert len(actions) == 4


def test_the_place_of_a_member_that_failed_is_taken_and_that_of_a_canceled_one_is_not() -> None:
    searcher = Searcher(pbt())
    searcher.apply(Started())
    for no in (1, 2, 3):
        searcher.apply(Validated(trial_no=no, units=2, value=no / 10))
    rest(searcher, 1, 2, 3)
    actions = searcher.apply(TrialEnded(trial_no=4, outcome="failed"))
    assert [a.parent_no for a in actions if isinstance(a, CreateTrial)] == [1]
    assert not any(isinstance(a, StopTrial) for a in actions)

    canceled = Searcher(pbt())
    canceled.apply(Started())
    for no in (1, 2, 3):
        canceled.apply(Validated(trial_no=no, units=2, value=no / 10))
    rest(canceled, 1, 2, 3)
    actions = canceled.apply(TrialEnded(trial_no=4, outcome="canceled"))
    # Three are left, of which the worst is replaced.
    assert [a.no for a in actions if isinstance(a, StopTrial)] == [3]
    assert [a.parent_no for a in actions if isinstance(a, CreateTrial)] == [1]


def test_a_member_whose_value_is_not_finite_is_stopped_and_replaced() -> None:
    searcher = played_to_rung(pbt(), [0.3, 0.1, math.nan, 0.2])
    rest(searcher, 1, 2, 4)
    actions = searcher.apply(TrialEnded(trial_no=3, outcome="stopped"))
    (clone,) = [a for a in actions if isinstance(a, CreateTrial)]
    assert (clone.no, clone.parent_no) == (5, 2)


def test_a_rest_that_no_rung_asked_for_changes_nothing() -> None:
    searcher = Searcher(pbt())
    searcher.apply(Started())
    before = searcher.state()
    assert searcher.apply(Rested(trial_no=1, checkpoint_id=9)) == []
    assert searcher.state() == before


# ---------------------------------------------------------------- explore


def test_what_is_perturbed_stays_in_the_space_and_what_is_not_to_change_stays() -> None:
    space = {
        "lr": {"log": [1e-4, 1e-1]},
        "layers": {"int": [2, 14], "step": 4},
        "batch": {"choice": [64, 16, 32]},
        "optimizer": {"choice": ["sgd", "adam"]},
        "momentum": {"uniform": [0.5, 0.99], "when": {"optimizer": "sgd"}},
        "width": {"int": [8, 64]},
        "data": "digits",
    }
    parameters, _ = sampling.parse_space(space)
    names = ("lr", "layers", "batch", "optimizer", "momentum")
    explore = Explore(size=4, names=names, resample=0.1)
    limit = [Constraint("batch * layers <= 320")]
    seen: dict[str, set[Any]] = {}
    for no in range(1, 400):
        parent = {"lr": 0.09, "layers": 6, "batch": 32, "optimizer": "adam", "width": 20}
        point = perturb(explore, parameters, limit, {**parent, "data": "digits"}, seed=1, no=no)
        for name, value in point.items():
            seen.setdefault(name, set()).add(value)
        assert ("momentum" in point) == (point["optimizer"] == "sgd")
        assert point["batch"] * point["layers"] <= 320
    assert max(seen["lr"]) == 0.1
    assert min(seen["lr"]) >= 1e-4
    assert seen["layers"] <= {2, 6, 10, 14}
    assert {2, 10} <= seen["layers"], "a factor too small for a step moves by one step"
    assert {16, 64} <= seen["batch"], "numbers move to a neighbour"
    assert seen["optimizer"] == {"adam", "sgd"}, "words change by being drawn anew alone"
    assert min(seen["momentum"]) >= 0.5
    assert (seen["width"], seen["data"]) == ({20}, {"digits"})


def test_a_clone_keeps_its_parents_point_when_no_other_one_is_allowed() -> None:
    parameters, _ = sampling.parse_space({"lr": {"uniform": [0.0, 1.0]}})
    only = [Constraint("lr == 0.5")]
    found = perturb(Explore(size=2), parameters, only, {"lr": 0.5}, seed=1, no=3)
    assert found == {"lr": 0.5}


# ---------------------------------------------------------------- any history


def history(spec: SearchSpec, seed: int, *, crashes: bool) -> tuple[list[str], Searcher]:
    """What is decided when members report, rest, fail and are canceled in a random order.

    crashes: the state goes through JSON after every event, and every event is said twice.
    """
    rng = random.Random(seed)
    searcher = Searcher(spec)
    log: list[str] = []
    at: dict[int, int] = {}
    running: set[int] = set()
    pausing: set[int] = set()
    resting: set[int] = set()
    ending: list[int] = []

    def hear(event: Any) -> None:
        nonlocal searcher
        actions = searcher.apply(event)
        if crashes:
            searcher = Searcher.from_state(json.loads(json.dumps(searcher.state())))
            assert searcher.apply(event) == [], "said twice, it counts once"
            searcher = Searcher.from_state(json.loads(json.dumps(searcher.state())))
        for action in actions:
            log.append(repr(action))
            match action:
                case CreateTrial():
                    assert action.no == len(at) + 1
                    at[action.no] = 0
                    if action.parent_no is not None:
                        # It rests until its clone exists, so what that starts from is still there.
                        assert action.parent_no in resting
                        assert action.checkpoint_id == action.parent_no * 100 + at[action.parent_no]
                        at[action.no] = at[action.parent_no]
                    running.add(action.no)
                case PauseTrial():
                    running.remove(action.no)
                    pausing.add(action.no)
                case ResumeTrial():
                    resting.remove(action.no)
                    running.add(action.no)
                case StopTrial():
                    running.discard(action.no)
                    resting.discard(action.no)
                    ending.append(action.no)
        assert len(running) <= spec.concurrent

    hear(Started())
    for _ in range(2_000):
        if searcher.is_finished:
            break
        if ending and rng.random() < 0.7:
            hear(TrialEnded(trial_no=ending.pop(), outcome="stopped"))
            continue
        if not running and not pausing:
            assert ending, "somebody has to move"
            continue
        no = rng.choice(sorted(running | pausing))
        fate = rng.random()
        if no in pausing:
            pausing.remove(no)
            resting.add(no)
            hear(Rested(trial_no=no, checkpoint_id=no * 100 + at[no]))
        elif fate < 0.05:
            running.remove(no)
            hear(TrialEnded(trial_no=no, outcome=rng.choice(["failed", "canceled"])))
        elif at[no] == spec.max_units:
            running.remove(no)
            hear(TrialEnded(trial_no=no, outcome="completed", value=0.5))
        else:
            at[no] += 1
            value = math.nan if fate < 0.1 else round(rng.random(), 1)
            hear(Validated(trial_no=no, units=at[no], value=value))
    return log, searcher


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 9),
    interval=st.integers(1, 3),
    concurrent=st.integers(1, 6),
)
def test_any_history_ends_within_its_trials_and_a_crash_anywhere_changes_no_decision(
    seed: int, size: int, interval: int, concurrent: int
) -> None:
    spec = pbt(size, max_units=4, interval=interval, concurrent=concurrent)
    log, searcher = history(spec, seed, crashes=True)
    assert searcher.is_finished
    assert searcher.num_created <= spec.trials
    assert history(spec, seed, crashes=False)[0] == log


def test_what_shapes_the_model_is_copied_with_what_its_presence_depends_on() -> None:
    parameters, problems = sampling.parse_space(
        {
            "lr": {"log": [1e-4, 1e-1]},
            "depth": {"int": [1, 4], "structural": True},
            "norm": {"choice": ["batch", "group"]},
            "groups": {"choice": [2, 4], "structural": True, "when": {"norm": "group"}},
            "width": {"choice": [8, 16]},
            "heads": {"const": 2, "structural": True},
        }
    )
    assert problems == []
    assert copied(parameters) == {"depth", "groups", "norm"}
    assert copied(parameters, {"width"}) == {"depth", "groups", "norm", "width"}
    _, (problem,) = sampling.parse_space({"lr": {"log": [0.1, 1], "structural": "yes"}})
    assert problem.message == "structural must be true or false"
