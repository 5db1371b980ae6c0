"""The median rule, samplers, conditional and constrained spaces, and how a search ends early."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from muster_server.domain.search import (
    Bracket,
    CreateTrial,
    Enqueued,
    Finish,
    Limited,
    Searcher,
    SearchSpec,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
)
from muster_server.domain.search.constraints import Constraint
from muster_server.domain.search.model_based import propose
from muster_server.domain.search.proposals import Observations, SearchHistory, observations
from muster_server.domain.search.sampling import grid_indices, grid_point, parse_space, sample
from muster_server.domain.search.simulate import simulate
from support import search_specs

SPACE = {"x": {"uniform": [-5, 5]}, "y": {"uniform": [-5, 5]}}


def plain(**changes: Any) -> SearchSpec:
    given: dict[str, Any] = {
        "method": "random",
        "space": SPACE,
        "seed": 7,
        "trials": 6,
        "concurrent": 2,
        "metric": "val/loss",
    }
    return SearchSpec(**{**given, **changes})


def median(**changes: Any) -> SearchSpec:
    bracket = Bracket(trials=6, rungs=(1, 2, 3, 4))
    return plain(
        method="median", rule="median", brackets=(bracket,), max_units=4, concurrent=6, **changes
    )


def stored(searcher: Searcher) -> Searcher:
    return Searcher.from_state(json.loads(json.dumps(searcher.state(), allow_nan=False)))


# ---------------------------------------------------------------- median


def test_a_trial_whose_best_is_worse_than_the_median_of_running_means_is_stopped() -> None:
    searcher = Searcher(median())
    searcher.apply(Started())
    for no, (first, second) in {1: (1.0, 0.0), 2: (2.0, 2.0), 3: (9.0, 1.0)}.items():
        assert searcher.apply(Validated(trial_no=no, units=1, value=first)) == []
        assert searcher.apply(Validated(trial_no=no, units=2, value=second)) == []
        searcher = stored(searcher)
    # Running means at 2: 0.5, 2.0, 5.0. Trial 4 has been at 2.0 once: not worse than the median.
    searcher.apply(Validated(trial_no=4, units=1, value=2.0))
    assert searcher.apply(Validated(trial_no=4, units=2, value=8.0)) == []
    # Now 0.5, 2.0, 5.0, 5.0: the median is 3.5.
    assert searcher.cutoff(1) == 3.5
    searcher.apply(Validated(trial_no=5, units=1, value=3.6 - 2.0))
    searcher.apply(Validated(trial_no=6, units=1, value=1.5))
    (stop,) = searcher.apply(Validated(trial_no=5, units=2, value=math.nan))
    assert isinstance(stop, StopTrial)
    assert stop.reason == "val/loss was NaN at rung 2 of 4 (2 None)"


def test_nobody_is_stopped_by_a_median_of_fewer_than_three() -> None:
    searcher = Searcher(median())
    searcher.apply(Started())
    for no, value in enumerate([0.1, 0.2, 50.0], start=1):
        assert searcher.apply(Validated(trial_no=no, units=1, value=value)) == []
    (stop,) = searcher.apply(Validated(trial_no=4, units=1, value=60.0))
    assert isinstance(stop, StopTrial)


# ---------------------------------------------------------------- samplers


@pytest.mark.parametrize("sampler", ["sobol", "halton"])
def test_a_sequence_fills_the_space_more_evenly_than_draws_and_is_seeded(sampler: Any) -> None:
    spec = plain(sampler=sampler, trials=64, concurrent=64)
    points = Searcher(spec).preview(64)
    assert points == Searcher(spec).preview(64)
    assert points != Searcher(plain(sampler=sampler, trials=64, concurrent=64, seed=8)).preview(64)

    def filled(found: list[dict[str, Any]]) -> int:
        return len({(math.floor(p["x"] / 1.25), math.floor(p["y"] / 1.25)) for p in found})

    drawn = Searcher(plain(trials=64, concurrent=64)).preview(64)
    # Of 64 cells independent draws hit 63 % on average.
    assert filled(points) > filled(drawn) + 5


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_a_model_learns_and_draws_the_same_after_every_restart(sampler: Any) -> None:
    spec = plain(sampler=sampler, trials=50, concurrent=4)

    def play(restart: bool) -> list[tuple[int, float]]:
        searcher = Searcher(spec)
        todo = [a for a in searcher.apply(Started()) if isinstance(a, CreateTrial)]
        seen: list[tuple[int, float]] = []
        while todo:
            action = todo.pop(0)
            point = action.hparams
            value = (point["x"] - 2) ** 2 + (point["y"] + 1) ** 2
            seen.append((action.no, value))
            ended = TrialEnded(trial_no=action.no, outcome="completed", value=value)
            todo += [a for a in searcher.apply(ended) if isinstance(a, CreateTrial)]
            if restart and action.no % 10 == 0:
                searcher = stored(searcher)
        return seen

    values = play(restart=False)
    assert play(restart=True) == values
    early = sorted(v for _, v in values[:15])[7]
    late = sorted(v for _, v in values[-15:])[7]
    assert late < early


def test_a_model_sees_what_is_under_way_and_draws_no_point_twice() -> None:
    searcher = Searcher(plain(sampler="tpe", trials=40, concurrent=40))
    made = [a.hparams for a in searcher.apply(Started()) if isinstance(a, CreateTrial)]
    assert len({(p["x"], p["y"]) for p in made}) == 40


def test_a_model_copes_with_spaces_that_branch_and_values_that_are_lists() -> None:
    space = {
        "optimizer": {"choice": ["sgd", "adam"]},
        "momentum": {"uniform": [0.5, 0.99], "when": {"optimizer": "sgd"}},
        "sizes": {"choice": [[8, 8], [16]]},
        "depth": {"int": [1, 64], "log": True},
        "fixed": 3,
    }
    searcher = Searcher(plain(space=space, sampler="tpe", trials=30, concurrent=3))
    todo = [a for a in searcher.apply(Started()) if isinstance(a, CreateTrial)]
    while todo:
        action = todo.pop(0)
        assert ("momentum" in action.hparams) == (action.hparams["optimizer"] == "sgd")
        assert action.hparams["sizes"] in ([8, 8], [16])
        assert isinstance(action.hparams["depth"], int)
        assert action.hparams["fixed"] == 3
        value = None if action.no % 7 == 0 else float(action.hparams["depth"])
        outcome: Any = "failed" if value is None else "completed"
        event = TrialEnded(trial_no=action.no, outcome=outcome, value=value)
        todo += [a for a in searcher.apply(event) if isinstance(a, CreateTrial)]
    assert searcher.is_finished


def test_what_was_found_first_counts_as_well() -> None:
    parameters, _ = parse_space(SPACE)

    def told(first: float) -> list[dict[str, Any]]:
        scores = [first, *(float(i) for i in range(2, 21))]
        points = [{"x": i / 2 - 5, "y": i / 2 - 5} for i in range(20)]
        known = tuple((p, (s,)) for p, s in zip(points, scores, strict=True))
        learned = Observations(known=known, pending=())
        return [propose(plain(sampler="tpe"), parameters, learned, no=no) for no in range(21, 31)]

    assert told(first=1.0) != told(first=100.0)


def test_a_model_is_fitted_to_one_rung_and_failures_are_its_worst() -> None:
    spec = search_specs.asha(space=SPACE, trials=27, max_units=9, divisor=3, sampler="tpe")
    history = SearchHistory()
    for no in range(1, 8):
        history.add(no, {"x": no, "y": 0})
    for no in range(1, 6):
        history.report(no, 1, float(no))
    history.report(1, 3, 0.5)
    history.end(6, None, "failed")
    seen = observations(history, spec, 2)
    assert [(p["x"], s) for p, (s,) in seen.known] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 5),
        (6, 5),
    ]
    assert [p["x"] for p in seen.pending] == [7]
    for no in (2, 3, 4):
        history.report(no, 3, float(-no))
    # Four of two parameters + 2: enough for the higher rung.
    assert [s for _, (s,) in observations(history, spec, 2).known] == [0.5, -2, -3, -4, 0.5]


def test_a_model_feeds_the_rungs_of_asha() -> None:
    spec = search_specs.asha(
        space=SPACE,
        trials=40,
        max_units=9,
        divisor=3,
        rule="promotion",
        sampler="tpe",
        concurrent=4,
    )
    played = simulate(spec, lambda _no, h, units: (h["x"] - 2) ** 2 + h["y"] ** 2 + 1 / units)
    assert played.per_rung[0] == 40
    assert played.per_rung[2] >= 4


# ---------------------------------------------------------------- spaces


def test_a_parameter_is_there_only_when_its_condition_is_met() -> None:
    parameters, problems = parse_space(
        {
            "optimizer": {"choice": ["sgd", "adam"]},
            "sgd": {"momentum": {"uniform": [0, 1], "when": {"optimizer": "sgd"}}},
            "nesterov": {"choice": [True, False], "when": {"optimizer": ["sgd"]}},
            "beta": {"const": 0.9, "when": {"optimizer": "adam"}},
        }
    )
    assert problems == []
    kinds = set()
    for no in range(1, 30):
        point = sample(parameters, seed=0, trial_no=no)
        kinds.add((point["optimizer"], "sgd" in point, "nesterov" in point, "beta" in point))
    assert kinds == {("sgd", True, True, False), ("adam", False, False, True)}


def test_a_grid_walks_each_branch_once() -> None:
    parameters, _ = parse_space(
        {
            "optimizer": {"choice": ["sgd", "adam"]},
            "momentum": {"uniform": [0, 1], "count": 3, "when": {"optimizer": "sgd"}},
        }
    )
    points = [grid_point(parameters, i) for i in grid_indices(parameters, [])]
    assert len(points) == 4
    assert {"optimizer": "adam"} in points
    kept = grid_indices(parameters, [Constraint("momentum > 0.1")])
    assert len(kept) == 3


@pytest.mark.parametrize(
    ("space", "path", "message"),
    [
        ({"a": {"uniform": [0, 1], "when": {"b": 1}}}, "a.when", "b is no hyperparameter"),
        (
            {"a": {"const": 1, "when": {"b": "z"}}, "b": {"choice": ["x", "y"]}},
            "a.when",
            "b never is 'z'",
        ),
        (
            {"a": {"const": 1, "when": {"b": 1}}, "b": {"const": 1, "when": {"a": 1}}},
            "a.when",
            "depends on itself",
        ),
        ({"a": {"int": [0, 9], "log": True}}, "a", "at least 1"),
        ({"a": {"uniform": [0, 1], "when": {}}}, "a", "needs a hyperparameter"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(space: Any, path: str, message: str) -> None:
    _, problems = parse_space(space)
    assert problems[0].path == path
    assert message in problems[0].message


def test_a_whole_number_on_a_logarithmic_axis_prefers_none_of_its_decades() -> None:
    (parameter,), _ = parse_space({"a": {"int": [1, 999], "log": True}})
    drawn = [parameter.draw(i / 3000) for i in range(3000)]
    assert min(drawn) == 1
    assert 990 < max(drawn) <= 999
    for lo in (1, 10, 100):
        assert 0.3 < sum(lo <= d < lo * 10 for d in drawn) / 3000 < 0.37


def test_constraints_hold_for_every_point_and_one_that_cannot_ends_the_search() -> None:
    spec = plain(constraints=("x + y < 1", "x > 0 or y > 0"), trials=40, concurrent=40)
    for point in Searcher(spec).preview(40):
        assert point["x"] + point["y"] < 1
        assert point["x"] > 0 or point["y"] > 0
    actions = Searcher(plain(constraints=("x > 6",))).apply(Started())
    assert actions == [Finish(reason="no point was found that fulfils the constraints")]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("batch * 2 <= 64", True),
        ("batch * 2 <= 63", False),
        ("not (batch == 32)", False),
        ("name in ['a', 'b']", True),
        ("name + 1 > 0", False),
        ("batch / 0 > 1", False),
        ("optimizer.lr < 1", True),
        ("absent > 3", True),
        ("1 < batch < 100", True),
        ("-batch < 0", True),
        ("batch == -32", False),
    ],
)
def test_constraints(text: str, holds: bool) -> None:
    point = {"batch": 32, "name": "a", "optimizer": {"lr": 0.5}}
    assert Constraint(text).holds(point) is holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 < 2",
        "f(x)",
        "x[0]",
        "__import__('os').system('x')",
        "[x for x in y]",
        "x if y else z",
    ],
)
def test_expressions_that_are_code_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|allowed|hyperparameter"):
        Constraint(text)


# ---------------------------------------------------------------- how a search ends, and changes


def test_a_target_ends_the_search_and_what_runs() -> None:
    searcher = Searcher(plain(target=0.1))
    searcher.apply(Started())
    assert searcher.apply(Validated(trial_no=1, units=0, value=0.2)) == []
    actions = searcher.apply(Validated(trial_no=2, units=0, value=0.1))
    assert [type(a).__name__ for a in actions] == ["StopTrial", "StopTrial", "Finish"]
    assert actions[-1] == Finish(reason="trial 2 reached the target: val/loss of 0.1")


def test_trials_that_bring_nothing_new_end_the_search() -> None:
    searcher = Searcher(plain(patience=3, concurrent=1, trials=20))
    searcher.apply(Started())
    actions: list[Any] = []
    for no, value in enumerate([0.5, 0.6, 0.4, 0.4, 0.7, 0.8], start=1):
        actions = searcher.apply(TrialEnded(trial_no=no, outcome="completed", value=value))
        searcher = stored(searcher)
    assert actions == [Finish(reason="3 trials in a row ended without a better val/loss")]


def test_failures_in_a_row_end_the_search_and_a_report_between_them_does_not() -> None:
    searcher = Searcher(plain(max_failures=2, concurrent=2, trials=20))
    searcher.apply(Started())
    searcher.apply(TrialEnded(trial_no=1, outcome="failed"))
    searcher.apply(Validated(trial_no=2, units=0, value=1.0))
    searcher.apply(TrialEnded(trial_no=3, outcome="failed"))
    actions = searcher.apply(TrialEnded(trial_no=2, outcome="failed"))
    assert isinstance(actions[-1], Finish)
    assert actions[-1].reason == "2 trials failed one after the other"


def test_points_of_a_user_go_first_and_beyond_the_plan_they_are_more() -> None:
    searcher = Searcher(plain(trials=3, concurrent=1))
    searcher.apply(Started())
    assert searcher.apply(Enqueued(hparams={"x": 0, "y": 1})) == []
    searcher = stored(searcher)
    (second,) = searcher.apply(TrialEnded(trial_no=1, outcome="completed"))
    assert isinstance(second, CreateTrial)
    assert second.hparams == {"x": 0, "y": 1}
    assert second.reason == "trial 2 of 3, enqueued by a user"
    searcher.apply(TrialEnded(trial_no=2, outcome="completed"))
    searcher.apply(Enqueued(hparams={"x": 2, "y": 2}))
    (fourth,) = searcher.apply(TrialEnded(trial_no=3, outcome="completed"))
    assert isinstance(fourth, CreateTrial)
    assert fourth.reason == "trial 4 of 4, enqueued by a user"


def test_limits_change_while_a_search_runs_but_not_below_what_there_is() -> None:
    searcher = Searcher(plain(trials=6, concurrent=1))
    searcher.apply(Started())
    made = searcher.apply(Limited(concurrent=3))
    assert [a.no for a in made if isinstance(a, CreateTrial)] == [2, 3]
    assert searcher.apply(Limited(trials=2)) == []
    assert searcher.spec.trials == 3
    searcher.apply(Limited(trials=4))
    assert searcher.num_created == 3
