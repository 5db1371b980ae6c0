"""Spaces: what is refused, what a draw may be, what a grid holds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.search import sampling
from muster_server.domain.search.sampling import (
    SearchParameter,
    grid_point,
    grid_size,
    parse_space,
    sample,
    trial_seed,
)


def parameters(space: dict[str, Any]) -> list[SearchParameter]:
    parsed, problems = parse_space(space)
    assert problems == []
    return parsed


def grid(space: dict[str, Any]) -> list[dict[str, Any]]:
    parsed = parameters(space)
    size = grid_size(parsed)
    assert size is not None
    return [grid_point(parsed, i) for i in range(size)]


def test_grid_of_two_counted_integers_walks_the_last_axis_fastest() -> None:
    points = grid({"a": {"int": [0, 20], "count": 3}, "b": {"int": [0, 10], "count": 3}})
    assert [(p["a"], p["b"]) for p in points] == [
        (0, 0),
        (0, 5),
        (0, 10),
        (10, 0),
        (10, 5),
        (10, 10),
        (20, 0),
        (20, 5),
        (20, 10),
    ]


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        ({"int": [0, 3], "count": 4}, [0, 1, 2, 3]),
        ({"int": [0, 3], "count": 9}, [0, 1, 2, 3]),
        ({"int": [-4, -2], "count": 3}, [-4, -3, -2]),
        ({"int": [0, 10], "count": 4}, [0, 3, 7, 10]),
        ({"int": [0, 10], "count": 1}, [5]),
        ({"int": [32, 128], "step": 32}, [32, 64, 96, 128]),
        ({"int": [0, 10], "step": 4}, [0, 4, 8]),
        ({"uniform": [0.0, 1.0], "count": 3}, [0.0, 0.5, 1.0]),
        ({"log": [0.01, 1.0], "count": 3}, [0.01, pytest.approx(0.1), 1.0]),
        ({"log": [0.01, 1.0], "count": 1}, [pytest.approx(0.1)]),
        ({"choice": ["a", "b"]}, ["a", "b"]),
        ({"const": {"log": 1}}, [{"log": 1}]),
        (0.5, [0.5]),
    ],
)
def test_grid_of_one_parameter(leaf: Any, expected: list[Any]) -> None:
    assert [p["x"] for p in grid({"x": leaf})] == expected


@pytest.mark.parametrize(
    ("counts", "expected"), [([2, 2, 2, 2], 16), ([2, 2, 3, 3, 4, 5], 720), ([4], 4)]
)
def test_grid_size_is_the_product_of_the_axes(counts: list[int], expected: int) -> None:
    space = {f"p{i}": {"nested": {"int": [0, 10], "count": c}} for i, c in enumerate(counts)}
    points = grid(space)
    assert len(points) == expected
    assert len({str(p) for p in points}) == expected


def test_a_range_without_count_has_no_grid() -> None:
    assert grid_size(parameters({"lr": {"log": [0.001, 0.1]}})) is None


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ({"log": [0, 1]}, "above 0"),
        ({"log": [-1.0, 1.0]}, "above 0"),
        ({"log": [1.0, 0.1]}, "below the upper one"),
        ({"uniform": [1.0, 1.0]}, "below the upper one"),
        ({"uniform": [0.0]}, "two bounds"),
        ({"uniform": "0..1"}, "two bounds"),
        ({"uniform": ["0", 1]}, "must be numbers"),
        ({"uniform": [0.0, math.inf]}, "finite"),
        ({"uniform": [True, 2]}, "must be numbers"),
        ({"int": [1, 2.5]}, "whole numbers"),
        ({"int": [1, 10**30]}, "within"),
        ({"int": [1, 10], "step": 0}, "step must be"),
        ({"int": [1, 10], "step": 1.5}, "step must be"),
        ({"uniform": [0.0, 1.0], "step": 1}, "unknown key 'step'"),
        ({"uniform": [0.0, 1.0], "count": 0}, "count must be"),
        ({"log": [0.1, 1.0], "uniform": [0.1, 1.0]}, "at once"),
        ({"choice": []}, "list of 1"),
        ({"choice": "abc"}, "list of 1"),
    ],
)
def test_bad_spaces_are_refused_with_their_path(leaf: dict[str, Any], message: str) -> None:
    _, problems = parse_space({"outer": {"x": leaf}})
    assert [p.path for p in problems] == ["outer.x"]
    assert message in problems[0].message


SPACE: dict[str, Any] = {
    "lr": {"log": [1e-4, 1e-1]},
    "width": {"int": [32, 256], "step": 32},
    "opt": {"name": {"choice": ["adamw", "lamb"]}, "momentum": {"uniform": [0.5, 0.99]}},
    "depth": 3,
}


@given(seed=st.integers(0, 2**63), trial_no=st.integers(1, 10**6))
def test_draws_stay_within_their_bounds(seed: int, trial_no: int) -> None:
    drawn = sample(parameters(SPACE), seed=seed, trial_no=trial_no)
    assert 1e-4 <= drawn["lr"] <= 1e-1
    assert drawn["width"] in range(32, 257, 32)
    assert drawn["opt"]["name"] in ("adamw", "lamb")
    assert 0.5 <= drawn["opt"]["momentum"] <= 0.99
    assert drawn["depth"] == 3
    assert 0 <= trial_seed(seed, trial_no) < 2**31


def test_draws_do_not_depend_on_the_order_or_company_of_parameters() -> None:
    backwards = {k: SPACE[k] for k in reversed(SPACE)}
    first = sample(parameters(SPACE), seed=7, trial_no=3)
    assert sample(parameters(backwards), seed=7, trial_no=3) == first
    alone = sample(parameters({"lr": SPACE["lr"]}), seed=7, trial_no=3)
    assert alone["lr"] == first["lr"]


FIXED: dict[str, Any] = {
    "depth": 3,
    "lr": 0.0691990222988551,
    "opt": {"momentum": 0.8329669996189839, "name": "adamw"},
    "width": 256,
}
FIXED_SEED = 40344681


def test_draws_are_fixed_for_ever() -> None:
    """Stored searches continue across versions, so these values must never change."""
    drawn = sample(parameters(SPACE), seed=7, trial_no=1)
    assert drawn == {**FIXED, "lr": pytest.approx(FIXED["lr"], rel=1e-12)}
    assert trial_seed(7, 1) == FIXED_SEED


def test_log_draws_are_even_in_the_exponent() -> None:
    values = [sample(parameters(SPACE), seed=1, trial_no=n)["lr"] for n in range(1, 2001)]
    below = sum(v < math.sqrt(1e-4 * 1e-1) for v in values)
    assert 900 < below < 1100


def test_grid_point_paths_do_not_collide_with_dotted_names() -> None:
    drawn = sample(
        parameters({"a.b": {"uniform": [0.0, 1.0]}, "a": {"b": {"uniform": [0.0, 1.0]}}}),
        seed=1,
        trial_no=1,
    )
    assert drawn["a.b"] != drawn["a"]["b"]


@pytest.mark.parametrize(
    ("leaf", "hint"),
    [
        ({"uniform": [0.2, 0.8], "step": 0.3}, "list the values: {choice: [0.2, 0.5, 0.8]}"),
        ({"uniform": [0, 1], "step": 0.4}, "list the values: {choice: [0, 0.4, 0.8]}"),
        (
            {"log": [1e-4, 1e-1], "step": 1e-4},
            "list the values: {choice: [...]}; in a grid, count says how many there are",
        ),
    ],
)
def test_a_step_between_numbers_is_refused_with_the_choice_to_write(
    leaf: dict[str, Any], hint: str
) -> None:
    _, (problem,) = sampling.parse_space({"x": leaf})
    assert "unknown key 'step'" in problem.message
    assert problem.hint == hint


def test_true_is_not_one() -> None:
    space = {"flag": {"choice": [1, True]}, "x": {"uniform": [0, 1], "when": {"flag": True}}}
    parameters, problems = sampling.parse_space(space)
    assert problems == []
    points = [sampling.sample(parameters, seed=0, trial_no=no) for no in range(20)]
    assert all(("x" in point) is (point["flag"] is True) for point in points)
    assert {type(point["flag"]) for point in points} == {int, bool}
    assert sampling.outside(parameters, {"flag": 1}) == []
