"""What a series can hold: what breaks a rule costs itself alone, and no two names become one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.series_rules import (
    STEP_MAX,
    clean_name,
    clean_values,
    is_valid_name,
    storable,
    whole_step,
)


@pytest.mark.parametrize(
    "name",
    [
        "train/loss",
        "_x",
        "val/acc@5",
        "acc>0.5",
        "timing(s)/gen",
        "@sum",
        "=1+1",
        "-x",
        "a: b",
        "损失/训练",
        "می\u200cشود",
        "a" * 200,
    ],
)
def test_a_name_keeps_its_letters(name: str) -> None:
    assert is_valid_name(name)
    assert clean_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " x", "x ", "a\nb", "a\x00b", "a\u202eb", "\ud800", "\u200d", "a" * 201]
)
def test_a_name_that_cannot_be_shown_is_told_apart_by_a_digest(name: str) -> None:
    assert not is_valid_name(name)
    assert is_valid_name(clean_name(name))
    assert clean_name(name)[-9] == "~"


@given(st.lists(st.text(), unique=True, max_size=20))
def test_two_names_never_become_one(names: list[str]) -> None:
    cleaned = [clean_name(name) for name in names]
    assert len(set(cleaned)) == len(names)
    assert all(map(is_valid_name, cleaned))


def test_a_value_that_is_no_number_costs_itself_alone() -> None:
    class Broken:
        def __float__(self) -> float:
            raise AttributeError("gone")

    values, problems = clean_values(
        {"loss": 0.5, "space": 10**400, "text": "x", "list": [1, 2], "broken": Broken(), 7: 1}
    )
    assert values == {"loss": 0.5, "7": 1.0}
    assert problems == [
        "metric 'space' is too large to be a number and is left out",
        "metric 'text' is not one number and is left out",
        "metric 'list' is not one number and is left out",
        "metric 'broken' is not one number and is left out",
    ]


@pytest.mark.parametrize("step", [-1, 2**53, 10**2000, "x", math.nan, math.inf, None])
def test_a_step_that_cannot_be_stored_is_named(step: object) -> None:
    found, problem = whole_step(step)
    assert found is None
    assert problem.startswith("step ")


def test_points_that_cannot_be_stored_are_left_out_and_the_first_is_named() -> None:
    steps = [-1, 0, 1, 2, 3, 4, True, 6, STEP_MAX + 1, STEP_MAX]
    values = [1.0, 0.5, 10**400, "NaN", None, math.inf, 1.0, 6, 1.0, 1.0]
    found = storable(steps, [1] * len(steps), values)
    assert found == (
        [0, 2, 6, STEP_MAX],
        [1] * 4,
        [0.5, "NaN", 6, 1.0],
        f"step -1 lies outside 0 to {STEP_MAX}",
    )
