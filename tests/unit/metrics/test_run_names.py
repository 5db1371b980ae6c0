"""Several runs in one job: no series is a mixture of two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.run_names import RUNS_MAX, ProcessNames, RunNames


def test_steps_that_begin_again_are_another_run() -> None:
    names = RunNames()
    shown = []
    for _ in range(3):
        shown += [names.name("", "loss", step) for step in range(0, 30, 10)]
        shown.append(names.name("", "val/loss", 20))
        shown.append(names.name("", "score", 30))
    assert shown == [
        *["loss"] * 3, "val/loss", "score",
        *["run-2/loss"] * 3, "run-2/val/loss", "run-2/score",
        *["run-3/loss"] * 3, "run-3/val/loss", "run-3/score",
    ]  # fmt: skip
    assert names.name("", "mean_score", 31) == "mean_score", "what no other run has keeps its name"


def test_a_count_of_batches_that_begins_again_leaves_other_names_alone() -> None:
    names = RunNames()
    for epoch in range(3):
        for batch in range(4):
            names.name("", "batch_time", batch)
            assert names.name("", "loss", 4 * epoch + batch) == "loss"
    assert names.name("", "batch_time", 4) == "run-3/batch_time"


@pytest.mark.parametrize("steps", [[0, 0, 0], [5, 3, 4, 5], [10, 20, 15, 30], [0, 1, 1, 2]])
def test_late_and_repeated_steps_are_no_other_run(steps: list[int]) -> None:
    names = RunNames()
    assert {names.name("", "loss", step) for step in steps} == {"loss"}


def test_runs_with_keys_are_told_apart_and_resumed() -> None:
    names = RunNames()
    assert names.name("a", "loss", 0) == "loss"
    assert names.name("b", "loss", 5) == "run-2/loss"
    assert names.name("b", "only", 5) == "only"
    assert names.name("a", "loss", 1) == "loss", "the run has gone on"
    assert names.name("a", "only", 1) == "run-1/only"


def test_a_run_that_says_it_goes_back_is_the_same_run() -> None:
    names = RunNames()
    for step in range(10):
        names.name("", "loss", step)
    names.goes_back("", 0)
    assert [names.name("", "loss", step) for step in range(3)] == ["loss"] * 3


def test_the_number_of_runs_is_bounded() -> None:
    names = RunNames()
    shown = {names.name("", "loss", step) for _ in range(2 * RUNS_MAX) for step in (0, 1)}
    assert len(shown) == RUNS_MAX


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 5))))
def test_a_series_has_the_values_of_one_run_alone(values: list[tuple[str, str, int]]) -> None:
    names = RunNames()
    owners: dict[str, str] = {}
    for run, name, step in values:
        shown = names.name(run, name, step)
        assert shown.endswith(name)
        assert owners.setdefault(shown, run) == run


def test_processes_of_one_rank_are_told_apart_where_they_begin_anew() -> None:
    names = ProcessNames()
    assert names.name(1, "loss", [0, 1]) == "loss"
    assert names.name(1, "run-2/loss", [0]) == "run-2/loss"
    assert names.name(2, "loss", [0]) == "run-3/loss"
    assert names.name(2, "loss", [9]) == "run-3/loss"
    assert names.name(2, "acc", [0]) == "acc"
    assert names.name(3, "loss", [50, 51]) == "loss", "it goes on where another has stopped"
    assert names.name(4, "loss", [0]) == "run-4/loss"


def test_a_run_of_one_step_is_told_apart_where_another_writer_begins() -> None:
    names = RunNames()
    shown = []
    for _ in range(3):
        shown.append(names.name("", "accuracy", 0))
        names.is_reopened("")
    assert shown == ["accuracy", "run-2/accuracy", "run-3/accuracy"]
    goes_on = RunNames()
    assert goes_on.name("", "loss", 0) == "loss"
    goes_on.is_reopened("")
    assert {goes_on.name("", "loss", step) for step in (1, 1, 2)} == {"loss"}
