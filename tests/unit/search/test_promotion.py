"""Promotion, brackets and Hyperband: published counts, and properties of any history."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.search import (
    Action,
    CreateTrial,
    Finish,
    PauseTrial,
    Promoted,
    ResumeTrial,
    Searcher,
    SearchSpec,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
)
from muster_server.domain.search.rungs import asha_brackets, bracket_trials, hyperband_brackets
from muster_server.domain.search.simulate import simulate
from support import search_specs

SPACE = {"lr": {"log": [1e-4, 1e-1]}}


def promotion(**changes: Any) -> SearchSpec:
    given: dict[str, Any] = {"space": SPACE, "trials": 9, "max_units": 9, "divisor": 3, "seed": 7}
    return search_specs.asha(**{**given, "rule": "promotion", **changes})


def said(actions: list[Action]) -> list[tuple[str, int | None]]:
    return [(type(a).__name__, getattr(a, "no", None)) for a in actions]


def report(searcher: Searcher, no: int, units: float, value: float) -> list[Action]:
    return searcher.apply(Validated(trial_no=no, units=units, value=value))


# ---------------------------------------------------------------- published counts


@pytest.mark.parametrize(
    ("n", "top", "divisor", "per_rung", "units"),
    [
        (27, 27, 3, [27, 9, 3, 1], 81),
        (81, 81, 3, [81, 27, 9, 3, 1], 297),
        (64, 64, 4, [64, 16, 4, 1], 208),
        (256, 256, 4, [256, 64, 16, 4, 1], 1024),
        (16, 16, 2, [16, 8, 4, 2, 1], 48),
    ],
)
def test_trials_that_get_worse_fill_the_rungs_as_successive_halving_does(
    n: int, top: int, divisor: int, per_rung: list[int], units: int
) -> None:
    spec = promotion(trials=n, max_units=top, divisor=divisor, concurrent=8)
    played = simulate(spec, lambda no, _h, _u: no)
    assert (played.per_rung, played.total_units) == (per_rung, units)


@pytest.mark.parametrize(
    ("n", "divisor", "per_rung", "units"),
    [(81, 3, [81, 79, 77, 75, 73], 5993), (64, 4, [64, 61, 58, 55], 3583)],
)
def test_trials_that_get_better_are_promoted_but_for_the_first_few(
    n: int, divisor: int, per_rung: list[int], units: int
) -> None:
    spec = promotion(trials=n, max_units=n, divisor=divisor, concurrent=1)
    played = simulate(spec, lambda no, _h, _u: -no)
    assert (played.per_rung, played.total_units) == (per_rung, units)


def test_random_order_takes_the_published_amount_of_training() -> None:
    """n=81, R=81, divisor 3, 16 at once: 385 units on average over 200 orders, sd about 78."""
    units = []
    for seed in range(25):
        rng = random.Random(seed)
        quality = [rng.random() for _ in range(82)]
        spec = promotion(trials=81, max_units=81, concurrent=16)
        units.append(simulate(spec, lambda no, _h, _u, q=quality: q[no]).total_units)  # type: ignore[misc]
    assert 330 < sum(units) / len(units) < 440


@pytest.mark.parametrize(
    ("top", "divisor", "num", "resumed"),
    [(81, 3, 143, 1581), (27, 3, 49, 357), (16, 2, 43, 278), (256, 4, 378, 5232)],
)
def test_hyperband_runs_the_trials_of_its_pseudo_code(
    top: int, divisor: int, num: int, resumed: int
) -> None:
    rng = random.Random(top)
    quality = [rng.random() for _ in range(num + 1)]
    spec = search_specs.hyperband(space=SPACE, max_units=top, divisor=divisor, concurrent=7)
    assert spec.trials == num
    played = simulate(spec, lambda no, _h, _u: quality[no])
    assert played.total_units == resumed
    assert played.most_live <= 7
    if top == 81:
        assert played.per_rung == [81, 27, 9, 3, 1, 34, 11, 3, 1, 15, 5, 1, 8, 2, 5]


def test_hyperband_has_a_bracket_for_every_power_even_where_logarithms_round_down() -> None:
    assert len(hyperband_brackets(243, divisor=3)) == 6
    assert sum(b.trials for b in hyperband_brackets(243, divisor=3)) == 415
    assert len(hyperband_brackets(1000, divisor=10)) == 4


@pytest.mark.parametrize(
    ("trials", "divisor", "rungs", "expected"),
    [
        (20, 3, [3, 2, 1], [12, 5, 3]),
        (50, 3, [4, 3], [35, 15]),
        (50, 4, [3, 2], [37, 13]),
        (100, 4, [4, 3, 2], [70, 22, 8]),
    ],
)
def test_brackets_share_the_trials(
    trials: int, divisor: int, rungs: list[int], expected: list[int]
) -> None:
    assert bracket_trials(trials, divisor=divisor, rungs=rungs) == expected


@pytest.mark.parametrize(
    ("breadth", "trials", "top", "brackets", "ended", "units"),
    [
        ("standard", 16, 16, [(3, 12), (2, 4)], {1: 9, 4: 5, 16: 2}, 61),
        ("standard", 64, 64, [(4, 45), (3, 14), (2, 5)], {1: 34, 4: 20, 16: 7, 64: 3}, 418),
        ("aggressive", 64, 64, [(4, 64)], {1: 48, 4: 12, 16: 3, 64: 1}, 208),
        (
            "conservative",
            64,
            64,
            [(4, 43), (3, 14), (2, 5), (1, 2)],
            {1: 33, 4: 19, 16: 7, 64: 5},
            541,
        ),
        (
            "standard",
            500,
            1000,
            [(5, 354), (4, 110), (3, 36)],
            {3: 266, 15: 149, 62: 65, 250: 16, 1000: 4},
            15_063,
        ),
    ],
)
def test_a_preview_adds_up_to_the_expected_totals(
    breadth: Any,
    trials: int,
    top: int,
    brackets: list[tuple[int, int]],
    ended: dict[int, int],
    units: int,
) -> None:
    found = asha_brackets(top, divisor=4, max_rungs=5, trials=trials, breadth=breadth)
    assert [(len(b.rungs), b.trials) for b in found] == brackets
    spec = promotion(trials=trials, max_units=top, divisor=4, breadth=breadth, concurrent=trials)
    played = simulate(spec, lambda no, _h, _u: no)
    assert played.ended_at == ended
    assert played.total_units == units


# ---------------------------------------------------------------- rules


def test_a_trial_waits_at_its_rung_and_is_sent_on_when_it_is_among_the_best_third() -> None:
    searcher = Searcher(promotion(concurrent=1, max_units=9))
    assert said(searcher.apply(Started())) == [("CreateTrial", 1)]
    actions = report(searcher, 1, 1, 0.5)
    assert said(actions) == [("PauseTrial", 1), ("CreateTrial", 2)]
    pause = actions[0]
    assert isinstance(pause, PauseTrial)
    assert pause.reason == "waits at rung 1 of 3 (1 epochs) to go on or not"
    assert said(report(searcher, 2, 1, 0.4)) == [("PauseTrial", 2), ("CreateTrial", 3)]
    actions = report(searcher, 3, 1, 0.6)
    assert said(actions) == [("PauseTrial", 3), ("ResumeTrial", 2)]
    resume = actions[1]
    assert isinstance(resume, ResumeTrial)
    assert resume.reason == "among the best 1 of 3 at rung 1 of 3 (1 epochs)"
    assert [(e.trial_no, e.goes_on) for e in searcher.rungs[0]] == [(1, None), (2, True), (3, None)]
    assert searcher.cutoff(0) == 0.4


def test_one_that_may_go_on_at_once_is_not_paused() -> None:
    searcher = Searcher(promotion(concurrent=1))
    searcher.apply(Started())
    report(searcher, 1, 1, 0.5)
    report(searcher, 2, 1, 0.4)
    assert report(searcher, 3, 1, 0.1) == []
    assert searcher.waiting == {1, 2}


def test_finishing_goes_before_starting() -> None:
    searcher = Searcher(promotion(concurrent=2, trials=27, max_units=27))
    searcher.apply(Started())
    for no in range(1, 7):
        report(searcher, no, 1, no / 10)
    made = [no for kind, no in said(report(searcher, 7, 1, 0.9)) if kind == "CreateTrial"]
    assert searcher.num_created - len(made) <= 8, "the best third of six was sent on first"


def test_what_a_pausing_trial_still_reports_counts_when_it_is_sent_on() -> None:
    searcher = Searcher(promotion(concurrent=1))
    searcher.apply(Started())
    report(searcher, 1, 1, 0.5)
    assert report(searcher, 1, 3, 0.2) == [], "it has trained on until it heard of the pause"
    searcher = Searcher.from_state(json.loads(json.dumps(searcher.state())))
    report(searcher, 2, 1, 0.6)
    actions = report(searcher, 3, 1, 0.7)
    # It is on the second rung already, so it waits there and the slot goes to the next trial.
    assert said(actions) == [("PauseTrial", 3), ("CreateTrial", 4)]
    assert [(e.trial_no, e.value) for e in searcher.rungs[1]] == [(1, 0.2)]


def test_a_small_search_still_trains_its_best_trial_to_the_end() -> None:
    spec = promotion(trials=4, max_units=9, max_rungs=3, divisor=2, concurrent=2)
    played = simulate(spec, lambda no, _h, _u: no)
    assert played.per_rung == [4, 2, 1]
    spec = promotion(trials=12, max_units=16, divisor=4, max_rungs=2, concurrent=12)
    assert simulate(spec, lambda no, _h, _u: no).per_rung == [12, 3]


def test_whom_a_user_sends_on_goes_as_soon_as_there_is_room_and_before_all_others() -> None:
    searcher = Searcher(promotion(concurrent=1))
    searcher.apply(Started())
    for no, value in ((1, 0.5), (2, 0.1)):
        report(searcher, no, 1, value)
    assert searcher.num_live == 1
    assert searcher.apply(Promoted(trial_no=1)) == [], "there is no room yet"
    assert searcher.apply(Promoted(trial_no=1)) == [], "said twice, it counts once"
    assert searcher.apply(Promoted(trial_no=9)) == []
    searcher = Searcher.from_state(json.loads(json.dumps(searcher.state())))
    # Trial 2 is the best of three, and still comes after it.
    assert said(report(searcher, 3, 1, 0.7)) == [("PauseTrial", 3), ("ResumeTrial", 1)]
    assert searcher.num_live == 1


def test_whom_a_user_sends_on_goes_on_beside_the_best_of_a_synchronous_rung() -> None:
    searcher = Searcher(search_specs.hyperband(space=SPACE, max_units=9, divisor=3, concurrent=100))
    searcher.apply(Started())
    members = [no for no, live in searcher.live.items() if live.end == 3]
    last = members[-1]
    for no in members[:-1]:
        report(searcher, no, 1, no / 100)
    worst = members[-2]
    assert said(searcher.apply(Promoted(trial_no=worst))) == [("ResumeTrial", worst)]
    actions = report(searcher, last, 1, 1.0)
    went_on = {a.no for a in actions if isinstance(a, ResumeTrial)}
    stopped = {a.no for a in actions if isinstance(a, StopTrial)}
    assert went_on == set(members[:3])
    assert went_on | stopped | {worst} == set(members)


def test_those_who_wait_to_no_avail_are_stopped_when_the_search_ends() -> None:
    spec = promotion(trials=3, max_units=3, concurrent=1)
    searcher = Searcher(spec)
    searcher.apply(Started())
    for no in (1, 2, 3):
        report(searcher, no, 1, float(no))
    report(searcher, 1, 3, 0.1)
    actions = searcher.apply(TrialEnded(trial_no=1, outcome="completed", value=0.1))
    assert said(actions) == [("StopTrial", 2), ("StopTrial", 3), ("Finish", None)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_stopped_and_never_promoted(value: float) -> None:
    searcher = Searcher(promotion(concurrent=1))
    searcher.apply(Started())
    assert said(report(searcher, 1, 1, value)) == [("StopTrial", 1)]


def test_hyperband_waits_for_everybody_then_stops_the_rest() -> None:
    spec = search_specs.hyperband(space=SPACE, max_units=3, divisor=3, concurrent=5)
    assert [(b.trials, b.rungs) for b in spec.brackets] == [(3, (1, 3)), (2, (3,))]
    searcher = Searcher(spec)
    searcher.apply(Started())
    first = [no for no in range(1, 6) if searcher.standings.bracket_of(no) is not None]
    assert first == [1, 2, 3, 4, 5]
    members = [no for no, live in searcher.live.items() if live.end == 2]
    assert len(members) == 3
    assert said(report(searcher, members[0], 1, 0.1)) == [("PauseTrial", members[0])]
    assert said(report(searcher, members[1], 1, 0.2)) == [("PauseTrial", members[1])]
    last = said(report(searcher, members[2], 1, 0.3))
    assert last == [
        ("StopTrial", members[1]),
        ("StopTrial", members[2]),
        ("ResumeTrial", members[0]),
    ]


def test_hyperband_is_not_held_up_by_one_that_fails_or_is_canceled() -> None:
    spec = search_specs.hyperband(space=SPACE, max_units=3, divisor=3, concurrent=5)
    searcher = Searcher(spec)
    searcher.apply(Started())
    members = [no for no, live in searcher.live.items() if live.end == 2]
    searcher.apply(TrialEnded(trial_no=members[0], outcome="failed"))
    report(searcher, members[1], 1, 0.2)
    # The third is canceled: of the two entries left the best one goes on.
    actions = said(searcher.apply(TrialEnded(trial_no=members[2], outcome="canceled")))
    assert actions == [("ResumeTrial", members[1])]


# ---------------------------------------------------------------- any history

specs = st.one_of(
    st.builds(
        promotion,
        trials=st.integers(1, 24),
        max_units=st.integers(1, 27),
        divisor=st.integers(2, 4),
        concurrent=st.integers(1, 6),
        breadth=st.sampled_from(["aggressive", "standard", "conservative"]),
        goal=st.sampled_from(["min", "max"]),
    ),
    st.builds(
        search_specs.hyperband,
        space=st.just(SPACE),
        max_units=st.integers(1, 9),
        divisor=st.integers(2, 3),
        concurrent=st.integers(1, 6),
        goal=st.sampled_from(["min", "max"]),
    ),
)


@settings(max_examples=40)
@given(spec=specs, rng=st.randoms(use_true_random=False))
def test_any_history_ends_with_every_trial_settled_and_nobody_promoted_twice(
    spec: SearchSpec, rng: random.Random
) -> None:
    """Trials run, fail, are canceled and report not-a-number in any order and every event twice."""
    searcher = Searcher(spec)
    at: dict[int, float] = {}
    running: set[int] = set()
    paused: set[int] = set()
    over: set[int] = set()
    sent_on: Counter[tuple[int, int]] = Counter()

    def carry_out(actions: list[Action]) -> None:
        for action in actions:
            match action:
                case CreateTrial():
                    running.add(action.no)
                    at[action.no] = 0
                case PauseTrial():
                    assert action.no in running
                    running.discard(action.no)
                    paused.add(action.no)
                case ResumeTrial():
                    assert action.no in paused
                    paused.discard(action.no)
                    running.add(action.no)
                case StopTrial():
                    assert action.no in running | paused
                    running.discard(action.no)
                    paused.discard(action.no)
                    over.add(action.no)
                    ending.append(action.no)
        assert len(running) <= spec.concurrent

    def hear(event: Any) -> None:
        nonlocal searcher
        carry_out(searcher.apply(event))
        assert searcher.apply(event) == [], "said twice, it counts once"
        searcher = Searcher.from_state(json.loads(json.dumps(searcher.state(), allow_nan=False)))

    ending: list[int] = []
    carry_out(searcher.apply(Started()))
    for _ in range(3000):
        if ending:
            hear(TrialEnded(trial_no=ending.pop(), outcome="stopped"))
            continue
        if not running:
            break
        no = rng.choice(sorted(running))
        fate = rng.random()
        if paused and fate > 0.97:
            hear(Promoted(trial_no=rng.choice(sorted(paused))))
        elif fate < 0.04:
            running.discard(no)
            over.add(no)
            hear(TrialEnded(trial_no=no, outcome=rng.choice(["failed", "canceled"])))
        elif at[no] >= (spec.max_units or 0):
            running.discard(no)
            over.add(no)
            hear(TrialEnded(trial_no=no, outcome="completed", value=0.5))
        else:
            at[no] += 1
            value = math.nan if fate < 0.08 else round(rng.random(), 1)
            hear(Validated(trial_no=no, units=at[no], value=value))
    assert searcher.is_finished
    assert len(over) == searcher.num_created == spec.trials
    for rung, entries in enumerate(searcher.rungs):
        numbers = [entry.trial_no for entry in entries]
        assert len(numbers) == len(set(numbers))
        for entry in entries:
            sent_on[(rung, entry.trial_no)] += entry.goes_on is True
        is_last = searcher.standings.is_last(rung)
        if not is_last and spec.rule == "promotion":
            assert sum(e.goes_on is True for e in entries) >= min(
                len(entries) // spec.divisor - sum(e.value is None for e in entries),
                0,
            )
    assert max(sent_on.values(), default=0) <= 1


@settings(max_examples=25)
@given(
    order=st.permutations(range(1, 10)),
    values=st.lists(st.floats(0, 1), min_size=9, max_size=9),
)
def test_hyperband_decides_the_same_in_whatever_order_reports_arrive(
    order: list[int], values: list[float]
) -> None:
    spec = search_specs.hyperband(space=SPACE, max_units=9, divisor=3, concurrent=100)

    def outcome(numbers: list[int]) -> set[int]:
        searcher = Searcher(spec)
        searcher.apply(Started())
        members = [no for no, live in searcher.live.items() if live.end == 3]
        assert len(members) == 9
        resumed: set[int] = set()
        for i in numbers:
            no = members[i - 1]
            actions = report(searcher, no, 1, values[i - 1])
            resumed |= {a.no for a in actions if isinstance(a, ResumeTrial)}
            if not any(isinstance(a, PauseTrial | StopTrial) and a.no == no for a in actions):
                resumed.add(no)
        return resumed

    assert outcome(order) == outcome(sorted(order))
    assert len(outcome(order)) == 3


def test_the_same_seed_makes_the_same_decisions() -> None:
    def play() -> list[str]:
        searcher = Searcher(promotion(concurrent=3, trials=12))
        log: list[str] = []
        todo = searcher.apply(Started())
        at: dict[int, int] = {}
        while todo:
            action = todo.pop(0)
            log.append(repr(action))
            if isinstance(action, CreateTrial | ResumeTrial):
                at[action.no] = 1 if isinstance(action, CreateTrial) else at[action.no] * 3
                todo += report(searcher, action.no, at[action.no], (action.no * 7 % 5) / 5)
            if isinstance(action, Finish):
                break
        return log

    assert play() == play()
