"""Rung lengths and cuts against published tables."""

from __future__ import annotations

import math

import pytest

from muster_server.domain.search.rungs import Ladder, floor_log, quota, rung_units, score

MANY = 10**9


@pytest.mark.parametrize(
    ("max_rungs", "max_units", "divisor", "expected"),
    [
        (3, 9, 3, [1, 3, 9]),
        (4, 10, 2, [1, 2, 5, 10]),
        (1, 9, 3, [9]),
        (3, 900, 3, [100, 300, 900]),
        (5, 1000, 4, [3, 15, 62, 250, 1000]),
        (5, 1, 4, [1]),
    ],
)
def test_rungs_lie_at_powers_of_the_divisor_below_max_length(
    max_rungs: int, max_units: int, divisor: int, expected: list[int]
) -> None:
    assert rung_units(max_units, divisor=divisor, max_rungs=max_rungs, trials=MANY) == expected


@pytest.mark.parametrize(
    ("value", "base", "expected"),
    [(243, 3, 5), (1000, 10, 3), (59049, 3, 10), (10**6, 10, 6), (1, 2, 0), (2, 3, 0), (242, 3, 4)],
)
def test_floor_log_is_exact_where_floating_point_is_one_too_low(
    value: int, base: int, expected: int
) -> None:
    assert floor_log(value, base) == expected


@pytest.mark.parametrize(("trials", "expected"), [(1, 1), (3, 1), (4, 2), (16, 3), (64, 4)])
def test_few_trials_get_few_rungs(trials: int, expected: int) -> None:
    assert len(rung_units(10_000, divisor=4, max_rungs=5, trials=trials)) == expected


@pytest.mark.parametrize(("n", "divisor", "expected"), [(1, 3, 1), (2, 3, 1), (6, 3, 2), (8, 4, 2)])
def test_quota_is_a_divisor_th_and_at_least_one(n: int, divisor: int, expected: int) -> None:
    assert quota(n, divisor) == expected


def test_values_that_are_not_finite_rank_last_for_both_goals() -> None:
    for goal in ("min", "max"):
        for value in (math.nan, math.inf, -math.inf, None):
            assert score(value, goal) == math.inf


def test_ladder_breaks_ties_by_trial_number() -> None:
    ladder = Ladder()
    assert ladder.add(0.5, 7) == 0
    assert ladder.add(0.5, 9) == 1
    assert ladder.add(0.5, 3) == 0
    assert ladder.add(math.inf, 1) == 3
    assert ladder.add(math.inf, 0) == 3


def test_cutoff_is_what_the_next_arrival_must_reach() -> None:
    ladder = Ladder()
    assert ladder.next_cutoff_score(3) is None
    for no, value in enumerate([0.1, 0.2, 0.3, 0.4, 0.5], start=1):
        ladder.add(value, no)
    # With six entries two may go on, so the newcomer must not be worse than the present second.
    assert ladder.next_cutoff_score(3) == 0.2
