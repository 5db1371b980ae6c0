"""What searches decide: published counts, and properties of any history."""

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
    Closed,
    CreateTrial,
    Event,
    Finish,
    Searcher,
    SearchSpec,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    event_from_json,
    event_to_json,
    initial_state,
    on_event,
)
from muster_server.domain.search.proposals import observations
from muster_server.domain.search.simulate import simulate
from support import search_specs

SPACE = {"lr": {"log": [1e-4, 1e-1]}, "width": {"int": [1, 8]}}


def asha(**changes: Any) -> SearchSpec:
    given: dict[str, Any] = {"space": SPACE, "trials": 9, "max_units": 9, "divisor": 3, "seed": 7}
    return search_specs.asha(**{**given, **changes})


def random_search(**changes: Any) -> SearchSpec:
    given: dict[str, Any] = {
        "method": "random",
        "space": SPACE,
        "seed": 7,
        "trials": 4,
        "concurrent": 2,
    }
    return SearchSpec(**{**given, **changes})


def created(actions: list[Action]) -> list[int]:
    return [a.no for a in actions if isinstance(a, CreateTrial)]


def stopped(actions: list[Action]) -> list[int]:
    return [a.no for a in actions if isinstance(a, StopTrial)]


# ---------------------------------------------------------------- published counts


@pytest.mark.parametrize("goal", ["min", "max"])
def test_each_trial_worse_than_the_last_leaves_one_that_goes_to_the_top(goal: Any) -> None:
    sign = 1 if goal == "min" else -1
    spec = asha(trials=10, max_units=900, max_rungs=3, concurrent=3, goal=goal)
    result = simulate(spec, lambda no, _h, _u: sign * no, every=100)
    assert result.ended_at == {100: 9, 900: 1}
    assert result.per_rung == [10, 1, 1]


@pytest.mark.parametrize("goal", ["min", "max"])
def test_each_trial_better_than_the_last_saves_nothing(goal: Any) -> None:
    sign = -1 if goal == "min" else 1
    spec = asha(trials=10, max_units=900, max_rungs=3, concurrent=1, goal=goal)
    result = simulate(spec, lambda no, _h, _u: sign * no, every=100)
    assert result.ended_at == {900: 10}


def test_early_stop_decisions_one_by_one() -> None:
    searcher = Searcher(asha(max_units=9, concurrent=3))
    searcher.apply(Started())
    assert stopped(searcher.apply(Validated(trial_no=1, units=1, value=0.5))) == []
    assert stopped(searcher.apply(Validated(trial_no=2, units=1, value=0.4))) == []
    actions = searcher.apply(Validated(trial_no=3, units=1, value=0.6))
    assert [a.reason for a in actions if isinstance(a, StopTrial)] == [
        "val/loss of 0.6 at rung 1 of 3 (1 epochs) was not among the best 1 of 3"
    ]


@pytest.mark.parametrize(
    ("n", "max_units", "divisor", "per_rung"),
    [
        (27, 27, 3, [27, 1, 1, 1]),
        (81, 81, 3, [81, 1, 1, 1, 1]),
        (64, 64, 4, [64, 1, 1, 1]),
    ],
)
def test_best_first_with_one_worker_keeps_only_the_first(
    n: int, max_units: int, divisor: int, per_rung: list[int]
) -> None:
    spec = asha(trials=n, max_units=max_units, divisor=divisor, concurrent=1)
    assert simulate(spec, lambda no, _h, _u: no).per_rung == per_rung


def test_random_order_stops_about_the_published_share() -> None:
    """n=256, R=256, divisor 4: the stopping rule spends about 3.3 % of full training."""
    shares = []
    for seed in range(10):
        rng = random.Random(seed)
        quality = [rng.random() for _ in range(257)]
        spec = asha(trials=256, max_units=256, divisor=4, concurrent=16)
        result = simulate(spec, lambda no, _h, _u, q=quality: q[no])  # type: ignore[misc]
        shares.append(result.total_units / (256 * 256))
    assert 0.02 < sum(shares) / len(shares) < 0.045


def test_random_search_makes_exactly_its_trials() -> None:
    spec = random_search(max_units=5, unit="epochs")
    result = simulate(spec, lambda _no, _h, _u: 1.0)
    assert result.ended_at == {5: 4}
    assert result.most_live == 2
    assert result.finish_reason == "all 4 trials have ended"


def test_grid_search_makes_every_point_once() -> None:
    space = {"x": {"int": [0, 10], "count": 4}, "y": {"choice": ["a", "b"]}}
    spec = SearchSpec(method="grid", space=space, seed=0, trials=8, concurrent=8)
    actions = Searcher(spec).apply(Started())
    points = [a.hparams for a in actions if isinstance(a, CreateTrial)]
    assert sorted((p["x"], p["y"]) for p in points) == [
        (x, y) for x in (0, 3, 7, 10) for y in ("a", "b")
    ]


def test_single_makes_one_trial_and_finishes_with_it() -> None:
    spec = SearchSpec(method="single", space={"lr": 0.1}, seed=0, trials=1, concurrent=1)
    searcher = Searcher(spec)
    assert created(searcher.apply(Started())) == [1]
    assert searcher.apply(TrialEnded(trial_no=1, outcome="failed")) == [
        Finish(reason="all 1 trials have ended")
    ]


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_stopped_even_when_it_comes_first(value: float) -> None:
    searcher = Searcher(asha())
    searcher.apply(Started())
    actions = searcher.apply(Validated(trial_no=1, units=1, value=value))
    assert stopped(actions) == [1]
    # It counts in the rung: of two, one may go on, and that is the finite one.
    assert stopped(searcher.apply(Validated(trial_no=2, units=1, value=1e9))) == []


def test_a_failed_trial_ranks_last_in_the_rung_it_was_on_the_way_to() -> None:
    searcher = Searcher(asha(concurrent=9))
    searcher.apply(Started())
    for no in (1, 2, 3, 4):
        searcher.apply(TrialEnded(trial_no=no, outcome="failed"))
    assert [e.value for e in searcher.rungs[0]] == [None] * 4
    assert stopped(searcher.apply(Validated(trial_no=5, units=1, value=0.5))) == []
    # Six entries, two may go on.
    assert stopped(searcher.apply(Validated(trial_no=6, units=1, value=0.6))) == []


def test_a_canceled_trial_says_nothing_about_its_rung() -> None:
    searcher = Searcher(asha())
    searcher.apply(Started())
    searcher.apply(TrialEnded(trial_no=1, outcome="canceled"))
    assert searcher.rungs[0] == []


def test_a_report_that_jumps_over_rungs_enters_each_of_them() -> None:
    searcher = Searcher(asha())
    searcher.apply(Started())
    searcher.apply(Validated(trial_no=1, units=9, value=0.5))
    assert [len(r) for r in searcher.rungs] == [1, 1, 1]


def test_fractions_of_an_epoch_do_not_reach_a_rung_but_rounding_does() -> None:
    searcher = Searcher(asha())
    searcher.apply(Started())
    searcher.apply(Validated(trial_no=1, units=0.99, value=0.5))
    assert searcher.rungs[0] == []
    searcher.apply(Validated(trial_no=1, units=0.99999999, value=0.5))
    assert len(searcher.rungs[0]) == 1


def test_a_trial_that_trains_past_max_length_is_stopped() -> None:
    searcher = Searcher(random_search(max_units=10, unit="steps"))
    searcher.apply(Started())
    assert searcher.apply(Validated(trial_no=1, units=10, value=0.5)) == []
    (action,) = searcher.apply(Validated(trial_no=1, units=11, value=0.5))
    assert action == StopTrial(no=1, reason="trained past the search's max_length of 10 steps")


def test_a_closed_search_creates_nothing_more() -> None:
    searcher = Searcher(random_search())
    searcher.apply(Started())
    assert searcher.close("stopped by ada") == [Finish(reason="stopped by ada")]
    assert searcher.apply(TrialEnded(trial_no=1, outcome="canceled")) == []
    assert searcher.close("again") == []


def test_preview_shows_the_trials_that_will_be_created() -> None:
    searcher = Searcher(random_search(concurrent=4))
    planned = searcher.preview(10)
    actions = searcher.apply(Started())
    assert planned == [a.hparams for a in actions if isinstance(a, CreateTrial)]


def test_cutoff_tells_what_the_next_trial_must_reach() -> None:
    searcher = Searcher(asha(goal="max", concurrent=9))
    searcher.apply(Started())
    assert searcher.cutoff(0) is None
    for no, value in enumerate([0.5, 0.7, 0.6], start=1):
        searcher.apply(Validated(trial_no=no, units=1, value=value))
    assert searcher.cutoff(0) == 0.7
    assert stopped(searcher.apply(Validated(trial_no=4, units=1, value=0.69))) == [4]
    assert stopped(searcher.apply(Validated(trial_no=5, units=1, value=0.71))) == []
    assert searcher.cutoff(2) is None


# ---------------------------------------------------------------- any history

histories = st.lists(
    st.tuples(
        st.sampled_from(["validate", "validate", "validate", "end", "repeat"]),
        st.integers(0, 10**6),
        st.one_of(st.floats(-10, 10), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0])),
    ),
    max_size=120,
)
specs = st.builds(
    asha,
    trials=st.integers(1, 20),
    max_units=st.integers(1, 81),
    divisor=st.integers(2, 4),
    max_rungs=st.integers(1, 5),
    concurrent=st.integers(1, 6),
    goal=st.sampled_from(["min", "max"]),
    seed=st.integers(0, 2**31),
)
OUTCOMES = ("completed", "stopped", "failed", "canceled")


def play(spec: SearchSpec, history: list[tuple[str, int, float]]) -> list[Event]:
    """Turn random numbers into events that mostly make sense, a few of them said twice."""
    events: list[Event] = [Started()]
    reached: dict[int, float] = {}
    for kind, number, value in history:
        no = number % spec.trials + 1
        if kind == "repeat":
            events.append(events[number % len(events)])
        elif kind == "end":
            events.append(TrialEnded(trial_no=no, outcome=OUTCOMES[number % 4]))  # type: ignore[arg-type]
        else:
            reached[no] = reached.get(no, 0) + 1 + number % 7
            events.append(Validated(trial_no=no, units=reached[no], value=value))
    return events


@settings(max_examples=150)
@given(spec=specs, history=histories)
def test_any_history_keeps_the_limits_and_survives_json_at_every_point(
    spec: SearchSpec, history: list[tuple[str, int, float]]
) -> None:
    in_memory = Searcher(spec)
    state = initial_state(spec)
    live: set[int] = set()
    told_to_stop: set[int] = set()
    all_created: list[int] = []
    for event in play(spec, history):
        if isinstance(event, TrialEnded):
            live.discard(event.trial_no)
        state = json.loads(json.dumps(state, allow_nan=False, sort_keys=True))
        before = json.dumps(state)
        after, actions = on_event(state, event_from_json(event_to_json(event)))
        assert json.dumps(state) == before, "the state given in was changed"
        assert actions == in_memory.apply(event)
        state = after
        live.update(created(actions))
        all_created.extend(created(actions))
        assert len(live) <= spec.concurrent
        assert all_created == list(range(1, len(all_created) + 1))
        assert len(all_created) <= spec.trials
        for no in stopped(actions):
            assert no in live
            assert no not in told_to_stop
            told_to_stop.add(no)
        # The same event at once again decides nothing.
        again, nothing = on_event(state, event)
        assert nothing == []
        assert again == state
    for rung in in_memory.rungs:
        numbers = [entry.trial_no for entry in rung]
        assert len(numbers) == len(set(numbers))


@settings(max_examples=60)
@given(spec=specs, quality=st.lists(st.floats(0, 1), min_size=20, max_size=20))
def test_any_search_ends_with_every_trial_and_never_stops_the_leader(
    spec: SearchSpec, quality: list[float]
) -> None:
    sign = 1 if spec.goal == "min" else -1
    result = simulate(spec, lambda no, _h, _u: sign * quality[no - 1])
    assert sorted(result.units_by_trial) == list(range(1, spec.trials + 1))
    assert result.most_live <= spec.concurrent
    best = min(range(1, spec.trials + 1), key=lambda no: (quality[no - 1], no))
    assert result.units_by_trial[best] == spec.max_units


def test_a_large_search_is_quick() -> None:
    """10,000 trials, each judged at its rungs: a guard against anything quadratic."""
    rng = random.Random(1)
    quality = [rng.random() for _ in range(10_001)]
    spec = asha(trials=10_000, max_units=81, concurrent=64)
    result = simulate(spec, lambda no, _h, _u: quality[no])
    assert len(result.units_by_trial) == 10_000


# ---------------------------------------------------------------- hyperparameters that cannot work


def invalid(no: int) -> TrialEnded:
    return TrialEnded(trial_no=no, outcome="invalid")


def test_who_cannot_work_is_replaced_up_to_a_cap_and_stands_on_no_rung() -> None:
    searcher = Searcher(asha(trials=6, concurrent=3, max_rungs=2))
    searcher.spec = SearchSpec.from_json({**searcher.spec.to_json(), "max_invalid": 2})
    assert created(searcher.apply(Started())) == [1, 2, 3]
    for no in (1, 2, 3):
        assert created(searcher.apply(invalid(no))) == [no + 3]
        searcher = Searcher.from_state(json.loads(json.dumps(searcher.state())))
    # Two of three were replaced; nobody has failed, and no rung knows of them.
    assert searcher.spec.trials == 8
    assert searcher.rungs == [[], []]
    actions = [a for no in (4, 5, 6, 7, 8) for a in searcher.apply(invalid(no))]
    assert created(actions) == [7, 8]
    assert searcher.is_finished


def test_who_cannot_work_is_the_worst_for_a_model_and_no_failure() -> None:
    searcher = Searcher(random_search(sampler="tpe", max_failures=1, patience=2))
    searcher.apply(Started())
    searcher.apply(invalid(1))
    searcher.apply(invalid(2))
    assert not searcher.is_finished
    searcher.apply(TrialEnded(trial_no=3, outcome="completed", value=0.5))
    known = observations(searcher.history, searcher.spec, 2).known
    assert [score for _, (score,) in known] == [0.5, 0.5, 0.5]


def test_nobody_is_replaced_in_a_grid_or_after_the_search_was_closed() -> None:
    grid = Searcher(random_search(method="grid", space={"width": {"int": [1, 3]}}, trials=3))
    grid.apply(Started())
    for no in (1, 2, 3):
        grid.apply(invalid(no))
    assert (grid.num_created, grid.is_finished) == (3, True)
    closed = Searcher(random_search())
    closed.apply(Started())
    closed.apply(Closed())
    closed.apply(invalid(1))
    closed.apply(invalid(2))
    assert (closed.num_created, closed.is_finished) == (2, True)
