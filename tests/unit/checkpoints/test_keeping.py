"""Which checkpoints are kept: every row of the table that the documentation promises."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.checkpoints.keeping import (
    NEWEST_IN_USE,
    CheckpointView,
    KeepPolicy,
    judge,
)

TWO_TRIALS = [
    CheckpointView(id=number, trial_id=trial, step=number, attempt_no=1, value=value)
    for trial, number, value in [
        (1, 1, None), (1, 2, None), (1, 3, 0.6), (1, 4, 0.5), (1, 5, 0.4),
        (2, 6, None), (2, 7, 0.2), (2, 8, 0.3), (2, 9, None), (2, 10, None),
    ]
]  # fmt: skip


def kept(checkpoints, *, last=0, best=0, experiment_best=0, maximise=False):
    keep = KeepPolicy(last=last, best=best, experiment_best=experiment_best)
    return {v.checkpoint.id for v in judge(checkpoints, keep, maximise=maximise) if v.is_kept}


@pytest.mark.parametrize(
    ("experiment_best", "best", "last", "expected"),
    [
        (0, 0, 0, set()),
        (2, 0, 0, {8, 7}),
        (5, 0, 0, {8, 7, 5, 4, 3}),
        (9, 0, 0, {8, 7, 5, 4, 3}),
        (0, 1, 0, {7, 5}),
        (0, 3, 0, {8, 7, 5, 4, 3}),
        (0, 9, 0, {8, 7, 5, 4, 3}),
        (0, 0, 1, {10, 5}),
        (0, 0, 3, {10, 9, 8, 5, 4, 3}),
        (2, 1, 0, {8, 7, 5}),
        (2, 0, 1, {10, 8, 7, 5}),
        (0, 1, 1, {10, 7, 5}),
        (2, 1, 1, {10, 8, 7, 5}),
    ],
)
def test_two_trials(experiment_best, best, last, expected):
    found = kept(TWO_TRIALS, last=last, best=best, experiment_best=experiment_best)
    assert found == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.9, {8, 9, 10}), (1.1, {1, 2, 3, 9, 10})])
def test_a_metric_that_improves_or_worsens_all_the_time(factor, expected):
    checkpoints = [
        CheckpointView(id=n, trial_id=1, step=n, attempt_no=1, value=factor**n)
        for n in range(1, 11)
    ]
    assert kept(checkpoints, experiment_best=3, best=1, last=2) == expected
    assert kept(checkpoints, experiment_best=3, best=1, last=2, maximise=True) == (
        {1, 2, 3, 9, 10} if factor < 1 else {8, 9, 10}
    )


def test_what_somebody_may_go_on_from_stays_whatever_the_policy():
    running = [
        CheckpointView(id=n, trial_id=1, step=n, attempt_no=1, trial_ended=False)
        for n in range(1, 6)
    ]
    assert kept(running) == {4, 5}
    needed = [
        CheckpointView(id=n, trial_id=1, step=n, attempt_no=1, is_needed=n == 2)
        for n in range(1, 6)
    ]
    assert kept(needed) == {2}


def test_nan_is_never_among_the_best_and_infinity_is_the_last_of_them():
    values = [math.nan, math.inf, 0.5, math.nan]
    checkpoints = [
        CheckpointView(id=n, trial_id=1, step=n, attempt_no=1, value=v)
        for n, v in enumerate(values)
    ]
    assert kept(checkpoints, best=1) == {2}
    assert kept(checkpoints, best=4) == {1, 2}


def test_a_step_saved_again_counts_once_and_its_files_are_those_of_the_later_attempt():
    first = CheckpointView(id=1, trial_id=1, step=10, attempt_no=1, value=0.1)
    again = CheckpointView(id=2, trial_id=1, step=10, attempt_no=2, value=0.2)
    older, newer = judge([again, first], KeepPolicy(last=1, best=1))
    assert (older.checkpoint.id, older.is_kept, older.is_replaced) == (1, False, True)
    assert (newer.checkpoint.id, newer.is_kept, newer.is_replaced) == (2, True, False)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 9), st.none() | st.floats(width=32)),
        max_size=20,
    ),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
)
def test_keeping_more_never_drops_what_less_kept(rows, last, best, experiment_best, ended):
    checkpoints = [
        CheckpointView(
            id=i, trial_id=trial, step=step, attempt_no=i + 1, value=value, trial_ended=ended
        )
        for i, (trial, step, value) in enumerate(rows)
    ]
    less = kept(checkpoints, last=last, best=best, experiment_best=experiment_best)
    more = kept(checkpoints, last=last + 1, best=best + 1, experiment_best=experiment_best + 1)
    assert less <= more
    if not ended:
        for trial in {c.trial_id for c in checkpoints}:
            steps = sorted({c.step for c in checkpoints if c.trial_id == trial})
            living = {c.step for c in checkpoints if c.trial_id == trial and c.id in less}
            assert living >= set(steps[-NEWEST_IN_USE:])


@given(st.sets(st.integers(1, 10)), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
def test_what_is_pinned_stays_and_changes_nothing_else(pins, last, best, experiment_best):
    numbers = {"last": last, "best": best, "experiment_best": experiment_best}
    pinned = [replace(c, is_pinned=c.id in pins) for c in TWO_TRIALS]
    assert kept(pinned, **numbers) == kept(TWO_TRIALS, **numbers) | pins


def test_a_pinned_step_that_is_saved_again_stays_pinned():
    first = CheckpointView(id=1, trial_id=1, step=5, attempt_no=1, is_pinned=True)
    again = CheckpointView(id=2, trial_id=1, step=5, attempt_no=2)
    verdicts = judge([first, again], KeepPolicy(last=0, best=0))
    assert [(v.checkpoint.id, v.is_kept, v.reason) for v in verdicts] == [
        (1, True, "pinned"),
        (2, True, "pinned"),
    ]


def test_what_a_guard_has_gone_back_from_is_older_than_all_that_attempts_may_start_from():
    before = [
        CheckpointView(id=1, trial_id=1, step=10, attempt_no=1, trial_ended=False),
        CheckpointView(id=2, trial_id=1, step=20, attempt_no=1, trial_ended=False),
    ]
    abandoned = [
        CheckpointView(
            id=no, trial_id=1, step=no * 10, attempt_no=1, trial_ended=False, is_abandoned=True
        )
        for no in (3, 4)
    ]
    assert kept([*before, *abandoned]) == {1, 2}
    again = CheckpointView(id=5, trial_id=1, step=30, attempt_no=2, trial_ended=False)
    assert kept([*before, *abandoned, again]) == {2, 5}
